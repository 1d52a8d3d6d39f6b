//! `leaf`: a folder in the format of LEAF (Caldas et al., 2018): `train/*.json` and `test/*.json`,
//! plain or gzipped. Users are the clients; LEAF's split gives training and validation examples.
//!
//! A file has `users`, `num_samples` and `user_data`, in which every user has rows of
//! numbers `x` and labels `y`. The numbers are used as they are: in LEAF's FEMNIST 1 is
//! white paper and 0 is ink. Where all of them are n/255, as there, they are kept as bytes.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::classes::{MAX_CLASSES, MAX_NUMBERED, excess};
use super::{
    Common, Examples, Features, InMemory, Normalization, Scaling, Schema, Source, SourceFile,
    SourceKind, Targets, Task, assign, folder,
};
use crate::error::{Error, Result, at};
use crate::settings::{Kind, Section, Setting, Whole, at_least};

/// The number of classes without examples that is accepted, beside twice the number of labels that
/// occur.
const MAX_UNUSED_CLASSES: usize = 100;

/// The largest size of a decompressed file: a shard of LEAF has some hundred megabytes.
const MAX_DECOMPRESSED: u64 = 2 << 30;

/// Represents a LEAF folder.
#[derive(Clone, Debug, PartialEq)]
pub struct Leaf {
    /// The folder with `train` and `test`.
    pub dir: PathBuf,
    /// The number of classes; by default one more than the largest training label.
    pub classes: Option<usize>,
    /// The most classes.
    pub max_classes: usize,
    /// Minimum number of examples; seed and held-out shares are not used.
    pub common: Common,
}

/// Represents one user of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// Numbers per row.
    pub width: usize,
    /// The rows, one after the other.
    pub x: Vec<f32>,
    /// Their labels.
    pub y: Vec<u32>,
}

#[derive(Deserialize)]
struct File {
    users: Vec<String>,
    num_samples: Vec<u64>,
    user_data: Users,
}

/// `user_data`, in which a duplicate name is an error.
struct Users(HashMap<String, UserData>);

impl<'de> Deserialize<'de> for Users {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Users;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a table of users")
            }

            fn visit_map<M: MapAccess<'de>>(
                self,
                mut map: M,
            ) -> std::result::Result<Users, M::Error> {
                let mut users = HashMap::new();
                while let Some((name, data)) = map.next_entry::<String, UserData>()? {
                    if users.contains_key(&name) {
                        let twice = format!("the user '{name}' occurs twice in user_data");
                        return Err(M::Error::custom(twice));
                    }
                    users.insert(name, data);
                }
                Ok(Users(users))
            }
        }
        from.deserialize_map(Each)
    }
}

#[derive(Deserialize)]
struct UserData {
    x: Vec<Vec<f32>>,
    y: Vec<f64>,
}

/// Parses a file, plain or gzipped, and checks its consistency.
pub fn parse(bytes: &[u8]) -> std::result::Result<Vec<User>, String> {
    let unpacked;
    let bytes = if folder::is_gzip(bytes) {
        unpacked = folder::inflate(bytes, MAX_DECOMPRESSED)?;
        &unpacked[..]
    } else {
        bytes
    };
    let mut file: File = serde_json::from_slice(bytes).map_err(|e| {
        format!("is not a LEAF file with rows of numbers and whole numbers as labels: {e}")
    })?;
    if file.users.len() != file.num_samples.len() || file.users.len() != file.user_data.0.len() {
        return Err(format!(
            "has {} users, {} entries in num_samples and {} in user_data",
            file.users.len(),
            file.num_samples.len(),
            file.user_data.0.len()
        ));
    }
    let mut users = Vec::with_capacity(file.users.len());
    for (name, samples) in file.users.into_iter().zip(file.num_samples) {
        if name.trim().is_empty() {
            return Err(format!("user {} has no name: '{name}'", users.len()));
        }
        let data = file.user_data.0.remove(&name).ok_or_else(|| {
            format!("the user '{name}' is missing in user_data or occurs twice in users")
        })?;
        users.push(checked(name, samples, data)?);
    }
    Ok(users)
}

fn checked(name: String, samples: u64, data: UserData) -> std::result::Result<User, String> {
    let (rows, labels) = (data.x.len(), data.y.len());
    if rows as u64 != samples || labels as u64 != samples {
        return Err(format!(
            "user '{name}': num_samples says {samples}, there are {rows} rows in x and {labels} \
             labels in y"
        ));
    }
    let width = data.x.first().map_or(0, Vec::len);
    for (k, row) in data.x.iter().enumerate() {
        if row.len() != width || width == 0 {
            return Err(format!(
                "user '{name}', row {k} has {} numbers, the first has {width}",
                row.len()
            ));
        }
        if let Some(x) = row.iter().find(|x| !x.is_finite()) {
            return Err(format!(
                "user '{name}', row {k} contains {x}; remove the row or replace \
                                the value"
            ));
        }
    }
    let label = |(k, y): (usize, &f64)| {
        let whole = y.fract() == 0.0 && (0.0..MAX_NUMBERED as f64).contains(y);
        whole.then_some(*y as u32).ok_or_else(|| {
            format!(
                "user '{name}', label {k} is {y}; allowed are whole numbers from 0 to {}",
                MAX_NUMBERED - 1
            )
        })
    };
    let y = data
        .y
        .iter()
        .enumerate()
        .map(label)
        .collect::<std::result::Result<_, _>>()?;
    Ok(User {
        width,
        x: data.x.concat(),
        y,
        name,
    })
}

pub(super) const CLASSES: Setting<Whole> =
    Setting::optional("classes", at_least(2).to(MAX_NUMBERED))
        .help("how many classes there are")
        .usually("the largest label + 1")
        .example("10")
        .seldom();

pub(super) const KIND: SourceKind = Kind {
    name: "leaf",
    about: "a folder as LEAF writes it: its users are the clients",
    settings: &[&folder::DIR, &CLASSES, &MAX_CLASSES],
    examples: &["{ kind = 'leaf', dir = 'somewhere', classes = 62 }"],
    value: |s, common| Source::Leaf(Leaf::read(s, common)),
};

impl Leaf {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let classes = s.optional(&CLASSES);
        Self {
            dir: folder::read_dir(s, "leaf"),
            classes: classes.map(|c| c as usize),
            max_classes: s.get(&MAX_CLASSES) as usize,
            common,
        }
    }

    /// Loads all files of both parts.
    pub fn load(&self) -> Result<InMemory> {
        let mut pool = ExamplePool::default();
        for (part, is_validation) in [("train", false), ("test", true)] {
            for path in json_files(&self.dir.join(part))? {
                let (bytes, file) = folder::read(&path)?;
                let users = parse(&bytes).map_err(|e| Error::in_file(&path, e))?;
                drop(bytes);
                pool.files.push(file);
                for user in users {
                    pool.add(user, is_validation)
                        .map_err(|e| Error::in_file(&path, e))?;
                }
            }
        }
        let classes = self.classes(&pool)?;
        let mut assigned = assign::by_owner(pool.owners, Some(&pool.is_validation), &self.common)?;
        if pool.width == 784 {
            let note = "pixels are used unchanged: 1 is white paper, 0 is ink";
            assigned.notes.push(note.into());
        }
        let schema = Schema {
            task: Task::Classification {
                classes: (0..classes).map(|c| c.to_string()).collect(),
            },
            features: (0..pool.width).map(|j| format!("x{j}")).collect(),
            // FEMNIST's rows are images.
            shape: match pool.width {
                784 => vec![1, 28, 28],
                width => vec![width],
            },
            normalization: Normalization::None,
        };
        let features = match pool.values {
            Values::Bytes(bytes) => {
                let channels = vec![(1.0 / 255.0, 0.0)];
                Features::Bytes(bytes, Arc::new(Scaling { channels }))
            }
            Values::Floats(floats) => Features::Floats(floats),
        };
        let all = Examples::new(pool.width, features, Targets::Classes(pool.labels));
        Ok(assigned.gather(&all, schema, pool.files))
    }

    fn classes(&self, pool: &ExamplePool) -> Result<usize> {
        let occurring = pool.labels.iter().collect::<HashSet<_>>().len();
        let rows = || pool.labels.iter().zip(&pool.is_validation);
        let largest = rows()
            .filter(|(_, is_validation)| !**is_validation)
            .map(|(label, _)| *label)
            .max();
        let classes = self
            .classes
            .unwrap_or_else(|| largest.map_or(0, |label| label as usize + 1));
        if let Some((label, _)) = rows().find(|(label, _)| **label as usize >= classes) {
            return Err(Error::data(format!(
                "{}: found the label {label}, allowed is 0 to {} ({})",
                self.dir.display(),
                classes.saturating_sub(1),
                match self.classes {
                    Some(_) => "by data.classes",
                    None =>
                        "the largest label of the training files; data.classes sets the number of \
                         classes",
                }
            )));
        }
        // A single wrong label would add that many outputs to the model.
        if self.classes.is_none() && classes > 2 * occurring + MAX_UNUSED_CLASSES {
            return Err(Error::data(format!(
                "{}: the largest label is {}, but only {occurring} labels occur; if that is \
                 right, set data.classes = {classes}",
                self.dir.display(),
                classes - 1
            )));
        }
        match excess(classes, self.max_classes) {
            Some(excess) => Err(Error::in_file(&self.dir, excess)),
            None => Ok(classes.max(2)),
        }
    }
}

/// Returns the `.json` and `.json.gz` files of a folder, sorted by name.
fn json_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    if !dir.is_dir() {
        return Err(Error::in_file(
            dir,
            "does not exist; data.dir must name a LEAF folder, which has the folders train and \
             test",
        ));
    }
    for entry in std::fs::read_dir(dir).map_err(at(dir, "read"))? {
        let path = entry.map_err(at(dir, "read"))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".json") || name.ends_with(".json.gz") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::in_file(dir, "contains no .json or .json.gz file"));
    }
    files.sort();
    Ok(files)
}

/// Holds numbers, as bytes while all of them are n/255.
enum Values {
    Bytes(Vec<u8>),
    Floats(Vec<f32>),
}

impl Default for Values {
    fn default() -> Self {
        Values::Bytes(Vec::new())
    }
}

impl Values {
    fn push(&mut self, x: f32) {
        if let Values::Bytes(bytes) = self {
            let byte = (x * 255.0).round();
            // LEAF wrote n/255 with 16 digits, so it differs by rounding only.
            if (0.0..=255.0).contains(&byte) && (byte / 255.0 - x).abs() < 1e-6 {
                bytes.push(byte as u8);
                return;
            }
            let floats = bytes.iter().map(|b| f32::from(*b) / 255.0).collect();
            *self = Values::Floats(floats);
        }
        if let Values::Floats(floats) = self {
            floats.push(x);
        }
    }
}

/// Collects the examples of all files.
#[derive(Default)]
struct ExamplePool {
    width: usize,
    values: Values,
    labels: Vec<u32>,
    is_validation: Vec<bool>,
    owners: Vec<(String, Vec<u32>)>,
    index: HashMap<String, usize>,
    seen: [HashSet<String>; 2],
    files: Vec<SourceFile>,
}

impl ExamplePool {
    fn add(&mut self, user: User, is_validation: bool) -> std::result::Result<(), String> {
        if !self.seen[usize::from(is_validation)].insert(user.name.clone()) {
            return Err(format!("the user '{}' is also in another file", user.name));
        }
        if user.y.is_empty() {
            return Ok(());
        }
        if self.labels.is_empty() {
            self.width = user.width;
        }
        if user.width != self.width {
            return Err(format!(
                "the rows of user '{}' have {} numbers, those before have {}",
                user.name, user.width, self.width
            ));
        }
        let start = self.labels.len();
        if u32::try_from(start + user.y.len()).is_err() {
            return Err(format!(
                "more than {} examples cannot be numbered",
                u32::MAX
            ));
        }
        user.x.iter().for_each(|x| self.values.push(*x));
        self.labels.extend_from_slice(&user.y);
        self.is_validation.resize(self.labels.len(), is_validation);
        let client = *self.index.entry(user.name.clone()).or_insert_with(|| {
            self.owners.push((user.name, Vec::new()));
            self.owners.len() - 1
        });
        self.owners[client]
            .1
            .extend(start as u32..self.labels.len() as u32);
        Ok(())
    }
}
