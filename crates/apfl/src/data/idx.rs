//! `idx`: a user's own images, in MNIST's format.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::assign::{self, AssignedRows};
use super::images::{Images, assemble, read_column, read_labels};
use super::leaf::{CLASSES, MOST_CLASSES};
use super::partition::{PARTITION, Partition};
use super::{Common, InMemory, Scaling, Source, SourceFile, SourceKind, folder};
use crate::error::Result;
use crate::settings::{Custom, Inner, Kind, Section, Setting, Text};

mod array;

pub use array::{Array, Element};

/// A user's own images.
#[derive(Clone, Debug, PartialEq)]
pub struct Idx {
    /// The images.
    pub images: PathBuf,
    /// Their labels.
    pub labels: PathBuf,
    /// Who owns which image.
    pub owners: Owners,
    /// The images that are validated with, where they are in files of their own.
    pub held: Option<HeldFiles>,
    /// How many classes there are; by default one more than the largest label.
    pub classes: Option<usize>,
    /// Seed, held-out share and least number of examples.
    pub common: Common,
}

/// Images that are only validated with.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldFiles {
    /// The images.
    pub images: PathBuf,
    /// Their labels.
    pub labels: PathBuf,
    /// Who owns which, where a file says so of the training images too; else the images of a
    /// class go to the clients as its training images did.
    pub owners: Option<PathBuf>,
}

/// How images fall on clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Owners {
    /// A file that has the client's number for every image.
    File(PathBuf),
    /// By a partition.
    AssignedRows(Partition),
}

const MISSING: &str = "missing: an IDX file, plain or gzipped";
const IMAGES: Setting<Text> = Setting::text("images", || None)
    .help("an IDX file; it must be given")
    .required(MISSING)
    .example("\"images-idx3-ubyte.gz\"");
const LABELS: Setting<Text> = Setting::text("labels", || None)
    .help("an IDX file with a class for every image; it must be given")
    .required(MISSING)
    .example("\"labels-idx1-ubyte.gz\"");
const OWNERS: Setting<Text> = Setting::custom(
    "clients",
    Custom {
        name: "text or whole number",
        allowed: "a file, or 1 to 10000000",
        default: || None,
        parse: |found| found.as_str().map(str::to_owned),
        write: |file| file.clone().into(),
    },
)
.help("an IDX file with the owner of every image; or a number, and a partition")
.usually("`100`, by the partition")
.example("\"owners-idx1-int.gz\"");
const DEALT: Setting<Inner> = PARTITION.with("clients = 100");
const VALID_IMAGES: Setting<Text> = Setting::text("valid_images", || None)
    .help("what is validated with, in files of its own; validation and test are not used then")
    .example("\"…\"")
    .seldom();
const VALID_LABELS: Setting<Text> = Setting::text("valid_labels", || None)
    .help("their classes")
    .with("valid_images = \"…\"")
    .example("\"…\"")
    .seldom();
const VALID_CLIENTS: Setting<Text> = Setting::text("valid_clients", || None)
    .help("their owners, where clients is a file")
    .with("valid_images = \"…\"")
    .example("\"…\"")
    .seldom();

pub(super) const KIND: SourceKind = Kind {
    name: "idx",
    about: "your own images, as IDX files, plain or gzipped",
    settings: &[
        &IMAGES,
        &LABELS,
        &OWNERS,
        &DEALT,
        &VALID_IMAGES,
        &VALID_LABELS,
        &VALID_CLIENTS,
        &CLASSES,
    ],
    examples: &[
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 'c' }",
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 5, partition = 'shards' }",
        "{ kind = 'idx', images = 'i', labels = 'l', clients = 5, valid_images = 'v', valid_labels = 'w' }",
    ],
    value: |s, common| Source::Idx(Idx::read(s, common)),
};

impl Idx {
    /// Reads `[data]`. `clients` is a file, or how many clients the images are dealt to.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let held = HeldFiles::read(s);
        Self {
            images: folder::read_path(s, &IMAGES),
            labels: folder::read_path(s, &LABELS),
            held,
            classes: s.optional(&CLASSES).map(|classes| classes as usize),
            owners: if s.is_text("clients") {
                Owners::File(folder::read_path(s, &OWNERS))
            } else {
                Owners::AssignedRows(Partition::read(s, "stripe"))
            },
            common,
        }
    }

    /// Reads the files. Pixels become x/255, minus the training mean, over the training
    /// deviation, one number each.
    pub fn load(&self) -> Result<InMemory> {
        let (mut images, file) = Images::read(&self.images)?;
        let mut files = vec![file];
        let most = self.classes.unwrap_or(MOST_CLASSES as usize);
        let trained = images.len();
        let (mut labels, file) = read_labels(&self.labels, trained, most)?;
        files.push(file);
        if let Some(held) = &self.held {
            files.extend(held.append(&mut images, &mut labels, most)?);
        }
        let classes = self.class_count(&labels)?;
        let held: Vec<bool> = (0..images.len()).map(|row| row >= trained).collect();
        let held_files = self.held.as_ref();
        let held = held_files.map(|_| &held[..]);
        let mut assigned = match &self.owners {
            Owners::AssignedRows(partition) => match held {
                None => assign::by_partition(partition, &labels, classes, &self.common)?,
                Some(held) => {
                    assign::by_partition_and_held(partition, &labels, classes, held, &self.common)?
                }
            },
            Owners::File(path) => {
                let (mut owners, file) = read_column(path, trained)?;
                files.push(file);
                if let Some(path) = held_files.and_then(|held| held.owners.as_ref()) {
                    let (more, file) = read_column(path, images.len() - trained)?;
                    owners.extend(more);
                    files.push(file);
                }
                let owners = assign::grouped(&owners, |id| id.to_string());
                assign::by_owner(owners, held, &self.common)?
            }
        };
        let scaling = training_scaling(&images, &assigned)
            .ok_or_else(|| folder::wrong(&self.images, "every training pixel is the same"))?;
        self.check_classes(&labels, classes, &mut assigned)?;
        let names = (0..classes).map(|c| c.to_string()).collect();
        Ok(assemble(images, labels, names, scaling, assigned, files))
    }

    fn class_count(&self, labels: &[u32]) -> Result<usize> {
        let wrong = |what: String| Err(folder::wrong(&self.labels, what));
        if let Some(classes) = self.classes {
            return Ok(classes);
        }
        let classes = labels.iter().max().map_or(0, |most| *most as usize + 1);
        let different: BTreeSet<&u32> = labels.iter().collect();
        match classes {
            ..2 => wrong("every label is 0: there is nothing to learn".into()),
            // One damaged byte would make a thousand classes.
            _ if 2 * different.len() < classes => wrong(format!(
                "its labels go up to {} but only {} of them occur; data.classes says how many \
                 classes there are",
                classes - 1,
                different.len()
            )),
            _ => Ok(classes),
        }
    }

    /// A class that nobody trains on cannot be validated; one that does not occur is said.
    fn check_classes(
        &self,
        labels: &[u32],
        classes: usize,
        assigned: &mut AssignedRows,
    ) -> Result<()> {
        let mut trained = vec![false; classes];
        for row in assigned.parts.iter().flat_map(|part| &part.train) {
            trained[labels[*row as usize] as usize] = true;
        }
        for part in &assigned.parts {
            let label = |row: &u32| labels[*row as usize];
            if let Some(label) = part.valid.iter().map(label).find(|l| !trained[*l as usize]) {
                return Err(folder::wrong(
                    &self.labels,
                    format!(
                        "the label {label} is among the validation examples of client '{}' but \
                         in nobody's training examples{}",
                        part.name,
                        match &self.held {
                            None => "; another data.seed may hold out others",
                            Some(_) => " (data.valid_labels)",
                        }
                    ),
                ));
            }
        }
        let missing = trained.iter().filter(|trained| !**trained).count();
        if missing > 0 {
            let note = format!("{missing} of {classes} classes have no training example");
            assigned.notes.push(note);
        }
        Ok(())
    }
}

impl HeldFiles {
    fn read(s: &mut Section<'_>) -> Option<Self> {
        let keys = ["valid_images", "valid_labels", "valid_clients"];
        s.knows(&keys);
        if !keys.iter().any(|key| s.has(key)) {
            return None;
        }
        for key in ["valid_images", "valid_labels"] {
            if !s.has(key) {
                s.problem(key, "missing: images to validate with are two IDX files");
            }
        }
        let named = s.is_text("clients");
        if named && !s.has("valid_clients") {
            let what = "missing: data.clients is a file, so these images need one too";
            s.problem("valid_clients", what);
        }
        if !named && s.has("valid_clients") {
            let what = "data.clients is no file: these images are dealt as the others are";
            s.problem("valid_clients", what);
        }
        Some(Self {
            images: folder::read_path(s, &VALID_IMAGES),
            labels: folder::read_path(s, &VALID_LABELS),
            owners: (s.has("valid_clients")).then(|| folder::read_path(s, &VALID_CLIENTS)),
        })
    }

    /// Puts these images and labels behind the training ones.
    fn append(
        &self,
        images: &mut Images,
        labels: &mut Vec<u32>,
        classes: usize,
    ) -> Result<[SourceFile; 2]> {
        let (held, first) = Images::read(&self.images)?;
        if held.shape != images.shape {
            return Err(folder::wrong(
                &self.images,
                format!(
                    "its images have the shape {:?}, those to train on {:?}",
                    held.shape, images.shape
                ),
            ));
        }
        let (more, second) = read_labels(&self.labels, held.len(), classes)?;
        images.bytes.extend(held.bytes);
        labels.extend(more);
        Ok([first, second])
    }
}

/// (x/255 − mean)/deviation over all pixels of all training examples.
fn training_scaling(images: &Images, assigned: &AssignedRows) -> Option<Scaling> {
    let width = images.width();
    let mut counts = [0u64; 256];
    for row in assigned.parts.iter().flat_map(|part| &part.train) {
        let image = &images.bytes[*row as usize * width..][..width];
        image
            .iter()
            .for_each(|pixel| counts[usize::from(*pixel)] += 1);
    }
    let total: u64 = counts.iter().sum();
    let expected = |f: &dyn Fn(f64) -> f64| {
        let values = counts.iter().enumerate();
        let sum: f64 = values
            .map(|(x, count)| *count as f64 * f(x as f64 / 255.0))
            .sum();
        sum / total as f64
    };
    let mean = expected(&|x| x);
    let deviation = expected(&|x| (x - mean).powi(2)).sqrt();
    (deviation > 0.0).then(|| Scaling::normalized(&[(mean, deviation)]))
}
