//! A user's own table: one row an example, with a client, a label and numbers.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::partition::{Dealing, Partition, digest_of_labels, hold_out};
use super::rows::{Cell, Rows, open};
use super::scales::{scale_warning, standardize};
use super::{
    Common, Examples, Features, InMemory, Normalization, Schema, Shard, SourceFile, Targets, Task,
};
use crate::digest::sha256_of_file;
use crate::error::{Error, Result};
use crate::settings::Section;

/// Where the table lies and how to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The file.
    pub path: PathBuf,
    /// The column that names the client; empty: there is none.
    pub client: String,
    /// The column to be predicted.
    pub label: String,
    /// The column that says `train` or `valid`, where there is one.
    pub split: String,
    /// Whether `split` was asked for by name, so that its absence is an error.
    pub split_required: bool,
    /// Whether the label is a number to be predicted.
    pub regression: bool,
    /// Whether features are shifted and scaled to mean 0 and deviation 1.
    pub standardize: bool,
    /// How a table without client column is dealt to clients.
    pub partition: Option<Partition>,
    /// Seed, held-out share and least number of examples.
    pub common: Common,
}

impl Table {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let path = s.optional_text("path").unwrap_or_else(|| {
            s.problem(
                "path",
                "missing: the CSV or Parquet file to read, such as \"my.csv\"",
            );
            String::new()
        });
        let path = std::path::absolute(&path).unwrap_or_else(|_| path.clone().into());
        s.resolve("path", path.display().to_string());
        let split_required = s.has("split");
        let client = s.text("client", "client");
        let partition = client.is_empty().then(|| Partition::read(s, "iid"));
        let regression = s.choice(
            "task",
            "classification",
            &[("classification", false), ("regression", true)],
        );
        match &partition {
            Some(Partition::Iid { .. } | Partition::File(_)) | None => {}
            Some(by_class) => {
                let kind = by_class.kind();
                if regression {
                    s.problem(
                        "partition.kind",
                        format!("found \"{kind}\", but regression has no classes: iid or file"),
                    );
                }
            }
        }
        Self {
            path,
            client,
            partition,
            label: s.text("label", "label"),
            split: match split_required {
                true => s.text("split", "split"),
                false => "split".into(),
            },
            split_required,
            regression,
            standardize: s.boolean("standardize", false),
            common,
        }
    }

    fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::Data(format!("{}: {message}", self.path.display()))
    }

    /// Reads the file, splits every client's rows and checks all of it.
    pub fn load(&self) -> Result<InMemory> {
        let mut rows = open(&self.path)?;
        let file = SourceFile {
            path: self.path.display().to_string(),
            sha256: sha256_of_file(&self.path)?,
        };
        self.take(&mut *rows, vec![file])
    }

    /// The data set that those rows make.
    pub fn take(&self, rows: &mut dyn Rows, mut files: Vec<SourceFile>) -> Result<InMemory> {
        let columns = self.columns(rows.header())?;
        let mut records = self.records(rows, &columns)?;
        if records.numbers.is_empty() {
            return Err(self.error("there is a header but not one row"));
        }
        let mut notes = Vec::new();
        let dealing = match &self.partition {
            None => None,
            Some(partition) => Some(self.deal(partition, &mut records)?),
        };
        if let Some(dealing) = &dealing {
            notes.extend(dealing.notes.iter().cloned());
            files.extend(dealing.file.clone());
        }
        let (parts, left_out) = self.parts(&records)?;
        let task = self.task(&records, &parts)?;
        let targets = self.targets(&records, &task, &parts)?;
        if left_out > 0 {
            notes.push(format!(
                "{left_out} of {} clients have fewer than {} examples and are left out",
                records.clients.len(),
                self.common.min_examples
            ));
        }

        let width = columns.features.len();
        let train: Vec<u32> = parts.iter().flat_map(|part| part.train.clone()).collect();
        // In f64 until here: 1.7·10¹² and a second do not fit an f32 together.
        let normalization = match self.standardize {
            true => standardize(&mut records.features, width, &train),
            false => {
                let names: Vec<&str> = columns.features.iter().map(|(_, name)| &**name).collect();
                notes.extend(scale_warning(&records.features, &names, &train));
                Normalization::None
            }
        };
        let x = records.features.iter().map(|x| *x as f32).collect();
        let all = Examples::new(width, Features::Floats(x), targets);
        let shard = |part: &Part| {
            Arc::new(Shard {
                name: records.clients[part.client].clone(),
                train: all.gathered(&part.train),
                valid: all.gathered(&part.valid),
            })
        };
        Ok(InMemory {
            shards: parts.iter().map(shard).collect(),
            schema: Schema {
                task,
                shape: vec![width],
                features: columns.features.into_iter().map(|(_, name)| name).collect(),
                normalization,
            },
            files,
            notes,
            dealing,
        })
    }

    fn columns(&self, header: &[String]) -> Result<Columns> {
        if header.is_empty() || header.iter().all(String::is_empty) {
            return Err(self.error("the file is empty; its first line must name the columns"));
        }
        let mut seen = HashMap::new();
        for (k, name) in header.iter().enumerate() {
            // pandas writes a data frame's index so: a number that would give the order away.
            if name.is_empty() || name.starts_with("__index_level_") {
                return Err(self.error(format!(
                    "column {} is {}; name it, or take it out (pandas leaves its index out with \
                     index=False)",
                    k + 1,
                    match name.as_str() {
                        "" => "without a name".into(),
                        name => format!("'{name}', a data frame's index"),
                    }
                )));
            }
            if let Some(before) = seen.insert(name.as_str(), k) {
                return Err(self.error(format!(
                    "columns {} and {} are both named '{name}'",
                    before + 1,
                    k + 1
                )));
            }
        }
        let need = |key: &str, name: &str, way_out: &str| {
            seen.get(name).copied().ok_or_else(|| {
                let separator = |c: &char| *c == ';' || *c == '\t';
                let found = header[0].chars().find(separator);
                if let Some(c) = found.filter(|_| header.len() == 1) {
                    return self.error(format!(
                        "the columns seem to be separated by {c:?}; save the file with commas \
                         (and points in numbers)"
                    ));
                }
                self.error(format!(
                    "there is no column '{name}' (data.{key}); the columns are {}{way_out}",
                    listed(header)
                ))
            })
        };
        let client = match self.client.as_str() {
            "" => None,
            name => Some(need(
                "client",
                name,
                "; data.client = \"\" deals the rows to data.clients clients",
            )?),
        };
        let label = need("label", &self.label, "")?;
        if client == Some(label) {
            return Err(self.error(format!(
                "column '{}' is both the client and the label (data.client, data.label)",
                self.label
            )));
        }
        let split = match self.split_required {
            true if self.split.is_empty() => None,
            true => Some(need("split", &self.split, "")?),
            false => seen.get(self.split.as_str()).copied(),
        };
        let special = [client, Some(label), split];
        let features: Vec<_> = header
            .iter()
            .enumerate()
            .filter(|(k, _)| !special.contains(&Some(*k)))
            .map(|(k, name)| (k, name.clone()))
            .collect();
        if features.is_empty() {
            return Err(self.error("no column is left for features"));
        }
        Ok(Columns {
            client,
            label,
            split,
            features,
        })
    }

    fn records(&self, rows: &mut dyn Rows, columns: &Columns) -> Result<Records> {
        let mut records = Records {
            unit: rows.unit(),
            ..Records::default()
        };
        let mut index: HashMap<String, usize> = HashMap::new();
        while rows.advance().map_err(|e| self.error(e))? {
            let at = || format!("{} {}", rows.unit(), rows.number());
            let text = |k: usize| -> Result<String> {
                let cell = rows.cell(k);
                let text = cell.text().and_then(|text| match text.len() {
                    ..=LONGEST_NAME => Ok(text.into_owned()),
                    n => Err(format!("has {n} bytes, at most {LONGEST_NAME} are allowed")),
                });
                text.map_err(|what| {
                    self.error(format!("{}, column '{}': {what}", at(), rows.header()[k]))
                })
            };
            let client = match columns.client {
                None => 0,
                Some(k) => {
                    let name = text(k)?;
                    if name.is_empty() {
                        return Err(self.error(format!("{}: the client is empty", at())));
                    }
                    let next = records.clients.len();
                    let client = *index.entry(name.clone()).or_insert(next);
                    if client == next {
                        records.clients.push(name);
                    }
                    client
                }
            };
            let held = match columns.split.map(text).transpose()?.as_deref() {
                None => None,
                Some("train") => Some(false),
                Some("valid") => Some(true),
                Some(other) => {
                    return Err(self.error(format!(
                        "{}, column '{}': found '{other}', allowed is train or valid",
                        at(),
                        self.split
                    )));
                }
            };
            let label = text(columns.label)?;
            if label.is_empty() {
                return Err(self.error(format!("{}: the label is empty", at())));
            }
            for (k, name) in &columns.features {
                let number = rows.cell(*k).number();
                records.features.push(
                    number.map_err(|found| {
                        self.error(format!("{}, column '{name}': {found}", at()))
                    })?,
                );
            }
            records.numbers.push(rows.number());
            records.client.push(Some(client));
            records.held.push(held);
            records.labels.push(label);
            if u32::try_from(records.numbers.len()).is_err() {
                return Err(self.error(format!("has more than {} rows", u32::MAX)));
            }
        }
        Ok(records)
    }

    /// Deals the rows of a table without client column.
    fn deal(&self, partition: &Partition, records: &mut Records) -> Result<Dealing> {
        let (labels, classes) = match self.regression {
            true => (vec![0; records.labels.len()], 1),
            false => {
                let classes = in_order(records.labels.iter().map(String::as_str));
                let index = index_of(&classes);
                let labels = records.labels.iter().map(|label| index[label.as_str()]);
                (labels.collect(), classes.len())
            }
        };
        let dealing = partition
            .deal(
                &labels,
                classes,
                digest_of_labels(&records.labels),
                self.common.seed,
            )
            .map_err(|e| self.error(e))?;
        records.client.fill(None);
        for (client, (name, rows)) in dealing.clients.iter().enumerate() {
            records.clients.push(name.clone());
            for row in rows {
                records.client[*row as usize] = Some(client);
            }
        }
        Ok(dealing)
    }

    /// Every client's training and validation rows, and how many clients are too small.
    fn parts(&self, records: &Records) -> Result<(Vec<Part>, usize)> {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); records.clients.len()];
        for (row, client) in records.client.iter().enumerate() {
            if let Some(client) = client {
                rows[*client].push(row as u32);
            }
        }
        let mut parts = Vec::new();
        let mut left_out = 0;
        let split_given = records.held.iter().any(Option::is_some);
        for (client, rows) in rows.into_iter().enumerate() {
            if rows.len() < self.common.min_examples {
                left_out += 1;
                continue;
            }
            let (train, valid) = if split_given {
                rows.iter()
                    .partition(|row| records.held[**row as usize] == Some(false))
            } else {
                let share = self.common.validation;
                let (train, valid) = hold_out(rows.len(), share, self.common.seed, client as u64);
                let pick = |k: Vec<u32>| k.iter().map(|k| rows[*k as usize]).collect();
                (pick(train), pick(valid))
            };
            for (kind, part) in [("training", &train), ("validation", &valid)] {
                if Vec::is_empty(part) {
                    let way_out = if split_given {
                        format!("give it one in column '{}'", self.split)
                    } else {
                        let more = rows.len() + 1;
                        let dealt = self.client.is_empty();
                        let fewer = if dealt { "lower data.clients, " } else { "" };
                        format!(
                            "{fewer}lower data.validation, or leave such clients out with \
                             data.min_examples = {more}"
                        )
                    };
                    let plural = if rows.len() == 1 { "" } else { "s" };
                    return Err(self.error(format!(
                        "client '{}' has {} row{plural} but no {kind} example; {way_out}",
                        records.clients[client],
                        rows.len(),
                    )));
                }
            }
            parts.push(Part {
                client,
                train,
                valid,
            });
        }
        if parts.is_empty() {
            return Err(self.error(format!(
                "no client has data.min_examples = {} rows",
                self.common.min_examples
            )));
        }
        Ok((parts, left_out))
    }

    /// The classes are those of some client's training rows.
    fn task(&self, records: &Records, parts: &[Part]) -> Result<Task> {
        if self.regression {
            return Ok(Task::Regression);
        }
        let train = parts.iter().flat_map(|part| &part.train);
        let classes = in_order(train.map(|row| records.labels[*row as usize].as_str()));
        let numeric = classes.iter().all(|c| c.parse::<f64>().is_ok());
        if classes.len() < 2 {
            return Err(self.error(format!(
                "every training row has the label '{}' (column '{}'): there is nothing to learn",
                classes[0], self.label
            )));
        }
        let rows: usize = parts.iter().map(|part| part.train.len()).sum();
        let mostly_different = classes.len() > 20 && 2 * classes.len() > rows;
        if numeric && (classes.len() > 1000 || mostly_different) {
            return Err(self.error(format!(
                "column '{}' has {} different numbers as classes; \
                 data.task = \"regression\" predicts the number itself",
                self.label,
                classes.len()
            )));
        }
        Ok(Task::Classification {
            classes: classes.into_iter().map(str::to_owned).collect(),
        })
    }

    fn targets(&self, records: &Records, task: &Task, parts: &[Part]) -> Result<Targets> {
        let Task::Classification { classes } = task else {
            let value = |(label, number): (&String, &u64)| {
                Cell::Text(label).number().map_err(|found| {
                    let unit = records.unit;
                    self.error(format!("{unit} {number}, column '{}': {found}", self.label))
                })
            };
            let rows = records.labels.iter().zip(&records.numbers);
            let single = |pair| value(pair).map(|x| x as f32);
            return Ok(Targets::Values(rows.map(single).collect::<Result<_>>()?));
        };
        let index = index_of(classes);
        let way_out = match records.held.iter().any(Option::is_some) {
            true => "move such a row to training",
            false => "another data.seed may hold out other rows, a split column says which",
        };
        for part in parts {
            for row in part.valid.iter().map(|row| *row as usize) {
                if !index.contains_key(records.labels[row].as_str()) {
                    return Err(self.error(format!(
                        "{} {}: the label '{}' of client '{}' is in its validation rows but in \
                         no client's training rows; {way_out}, or remove such rows",
                        records.unit,
                        records.numbers[row],
                        records.labels[row],
                        records.clients[part.client]
                    )));
                }
            }
        }
        // Rows of clients that are left out may have any label: nobody looks at them.
        let class = |label: &String| index.get(label.as_str()).copied().unwrap_or(0);
        Ok(Targets::Classes(records.labels.iter().map(class).collect()))
    }
}

/// The most bytes of a client's name or a label.
const LONGEST_NAME: usize = 1000;

/// Reads the feature columns of a new table, in the schema's order and scale; other
/// columns are ignored.
pub fn read_features(path: &Path, schema: &Schema) -> Result<Vec<f32>> {
    let error = |message: String| Error::Data(format!("{}: {message}", path.display()));
    let mut rows = open(path)?;
    let header = rows.header().to_vec();
    let mut columns = Vec::with_capacity(schema.features.len());
    for name in &schema.features {
        let mut named = (0..header.len()).filter(|k| header[*k] == *name);
        match (named.next(), named.next()) {
            (Some(k), None) => columns.push(k),
            (Some(a), Some(b)) => {
                let (a, b) = (a + 1, b + 1);
                return Err(error(format!(
                    "columns {a} and {b} are both named '{name}'"
                )));
            }
            (None, _) => {
                return Err(error(format!(
                    "there is no column '{name}', which the model was trained on; \
                     the columns are {}",
                    listed(&header)
                )));
            }
        }
    }
    let mut x = Vec::new();
    while rows.advance().map_err(error)? {
        for (j, k) in columns.iter().enumerate() {
            let raw = rows.cell(*k).number().map_err(|found| {
                let (unit, number) = (rows.unit(), rows.number());
                error(format!("{unit} {number}, column '{}': {found}", header[*k]))
            })?;
            x.push(match &schema.normalization {
                Normalization::None => raw as f32,
                Normalization::Standardized { mean, deviation } => {
                    ((raw - mean[j]) / deviation[j]) as f32
                }
                Normalization::Bytes { channels } => {
                    let (scale, shift) = channels[j * channels.len() / columns.len()];
                    raw as f32 * scale + shift
                }
            });
        }
    }
    Ok(x)
}

struct Columns {
    client: Option<usize>,
    label: usize,
    split: Option<usize>,
    features: Vec<(usize, String)>,
}

#[derive(Default)]
struct Records {
    clients: Vec<String>,
    /// `line` or `row`, and every row's number in the file.
    unit: &'static str,
    numbers: Vec<u64>,
    /// None: of no client.
    client: Vec<Option<usize>>,
    held: Vec<Option<bool>>,
    labels: Vec<String>,
    features: Vec<f64>,
}

struct Part {
    client: usize,
    train: Vec<u32>,
    valid: Vec<u32>,
}

/// The different labels, by value where all are numbers, else by text.
fn in_order<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let different: HashSet<&str> = labels.collect();
    let mut classes: Vec<&str> = different.into_iter().collect();
    let value = |c: &str| c.parse::<f64>();
    let numeric = classes.iter().all(|c| value(c).is_ok());
    classes.sort_unstable_by(|a, b| match (numeric, value(a), value(b)) {
        (true, Ok(x), Ok(y)) => x.total_cmp(&y).then(a.cmp(b)),
        _ => a.cmp(b),
    });
    classes
}

fn index_of<T: AsRef<str>>(classes: &[T]) -> HashMap<&str, u32> {
    let named = classes.iter().enumerate();
    named.map(|(k, name)| (name.as_ref(), k as u32)).collect()
}

fn listed(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(String::as_str).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
