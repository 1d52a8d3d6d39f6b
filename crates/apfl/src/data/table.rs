//! A user's own table: one row an example, with a client, a label and numbers.

use std::collections::HashMap;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::partition::{hold_out, iid};
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
    /// How many clients a table without client column is dealt to.
    pub clients: usize,
    /// Seed, held-out share and least number of examples.
    pub common: Common,
}

impl Table {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let path = s.optional_text("path").unwrap_or_else(|| {
            s.problem("path", "missing: the CSV file to read, such as \"my.csv\"");
            String::new()
        });
        let path = std::path::absolute(&path).unwrap_or_else(|_| path.clone().into());
        s.resolve("path", path.display().to_string());
        let split_required = s.has("split");
        let client = s.text("client", "client");
        let mut clients = 1;
        if client.is_empty() {
            clients = s.integer("clients", 100, 1..=10_000_000, "1 to 10000000") as usize;
            s.section("partition", |p| p.choice("kind", "iid", &[("iid", ())]));
        }
        Self {
            path,
            client,
            clients,
            label: s.text("label", "label"),
            split: match split_required {
                true => s.text("split", "split"),
                false => "split".into(),
            },
            split_required,
            regression: s.choice(
                "task",
                "classification",
                &[("classification", false), ("regression", true)],
            ),
            standardize: s.boolean("standardize", false),
            common,
        }
    }

    fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::Data(format!("{}: {message}", self.path.display()))
    }

    /// Reads the file, splits every client's rows and checks all of it.
    pub fn load(&self) -> Result<InMemory> {
        let columns = self.columns()?;
        let mut records = self.records(&columns)?;
        if records.starts.is_empty() {
            return Err(self.error("there is a header but not one row"));
        }
        if self.client.is_empty() {
            self.deal(&mut records)?;
        }
        let (parts, left_out) = self.parts(&records)?;
        let task = self.task(&records, &parts)?;
        let targets = self.targets(&records, &task, &parts)?;
        let mut notes = Vec::new();
        if left_out > 0 {
            notes.push(format!(
                "{left_out} of {} clients have fewer than {} examples and are left out",
                records.clients.len(),
                self.common.min_examples
            ));
        }

        let width = columns.features.len();
        let normalization = match self.standardize {
            true => standardize(&mut records.features, width, &parts),
            false => {
                notes.extend(scale_warning(&records.features, &columns, &parts));
                Normalization::None
            }
        };
        let all = Examples::new(width, Features::Floats(records.features), targets);
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
            files: vec![SourceFile {
                path: self.path.display().to_string(),
                sha256: sha256_of_file(&self.path)?,
            }],
            notes,
        })
    }

    fn columns(&self) -> Result<Columns> {
        let header = open(&self.path)?
            .headers()
            .map(header_of)
            .map_err(|e| self.error(unreadable(&self.path, &e)))?;
        if header.is_empty() || header.iter().all(String::is_empty) {
            return Err(self.error("the file is empty; its first line must name the columns"));
        }
        let mut seen = HashMap::new();
        for (k, name) in header.iter().enumerate() {
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
                self.error(format!(
                    "there is no column '{name}' (data.{key}); the columns are {}{way_out}",
                    listed(&header)
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
            count: header.len(),
            client,
            label,
            split,
            features,
        })
    }

    fn records(&self, columns: &Columns) -> Result<Records> {
        let wrong = |e: csv::Error| self.error(unreadable(&self.path, &e));
        let mut reader = open(&self.path)?;
        reader.headers().map_err(wrong)?; // else a bad first row is placed on line 1
        let mut records = Records::default();
        let mut index: HashMap<String, usize> = HashMap::new();
        let mut row = csv::StringRecord::new();
        loop {
            match reader.read_record(&mut row) {
                Ok(false) => break,
                Ok(true) => {}
                Err(e) => return Err(wrong(e)),
            }
            let start = row.position().map_or(0, csv::Position::byte);
            let line = || line_at(&self.path, start);
            if row.len() != columns.count {
                return Err(self.error(format!(
                    "line {} has {} fields, the header has {}",
                    line(),
                    row.len(),
                    columns.count
                )));
            }
            let client = match columns.client {
                None => 0,
                Some(k) => {
                    let name = row[k].trim();
                    if name.is_empty() {
                        return Err(self.error(format!("line {}: the client is empty", line())));
                    }
                    match index.get(name) {
                        Some(client) => *client,
                        None => {
                            let client = records.clients.len();
                            index.insert(name.to_owned(), client);
                            records.clients.push(name.to_owned());
                            client
                        }
                    }
                }
            };
            let held = match columns.split.map(|k| row[k].trim()) {
                None => None,
                Some("train") => Some(false),
                Some("valid") => Some(true),
                Some(other) => {
                    return Err(self.error(format!(
                        "line {}, column '{}': found '{other}', allowed is train or valid",
                        line(),
                        self.split
                    )));
                }
            };
            let label = row[columns.label].trim();
            if label.is_empty() {
                return Err(self.error(format!("line {}: the label is empty", line())));
            }
            for (k, name) in &columns.features {
                let number = number(&row[*k]).map_err(|found| {
                    self.error(format!("line {}, column '{name}': {found}", line()))
                })?;
                records.features.push(number);
            }
            records.starts.push(start);
            records.client.push(client);
            records.held.push(held);
            records.labels.push(label.to_owned());
        }
        Ok(records)
    }

    /// Deals the rows of a table without client column.
    fn deal(&self, records: &mut Records) -> Result<()> {
        let rows = records.starts.len();
        if self.clients > rows {
            return Err(self.error(format!(
                "{rows} rows cannot be dealt to {} clients (data.clients)",
                self.clients
            )));
        }
        records.clients = (0..self.clients).map(|c| c.to_string()).collect();
        for (client, part) in iid(rows, self.clients, self.common.seed).iter().enumerate() {
            part.iter()
                .for_each(|row| records.client[*row as usize] = client);
        }
        Ok(())
    }

    /// Every client's training and validation rows, and how many clients are too small.
    fn parts(&self, records: &Records) -> Result<(Vec<Part>, usize)> {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); records.clients.len()];
        for (row, client) in records.client.iter().enumerate() {
            rows[*client].push(row as u32);
        }
        let mut parts = Vec::new();
        let mut left_out = 0;
        for (client, rows) in rows.into_iter().enumerate() {
            if rows.len() < self.common.min_examples {
                left_out += 1;
                continue;
            }
            let split_given = records.held.iter().any(Option::is_some);
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
                        "data.min_examples = 2 leaves such clients out".into()
                    };
                    return Err(self.error(format!(
                        "client '{}' has {} rows but no {kind} example; {way_out}, \
                         or remove the client",
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
        let mut classes: Vec<&str> = parts
            .iter()
            .flat_map(|part| &part.train)
            .map(|row| records.labels[*row as usize].as_str())
            .collect();
        let numeric = classes.iter().all(|c| c.parse::<f64>().is_ok());
        classes.sort_unstable_by(|a, b| match numeric {
            true => {
                let value = |c: &str| c.parse::<f64>().expect("tried above");
                value(a).total_cmp(&value(b)).then(a.cmp(b))
            }
            false => a.cmp(b),
        });
        classes.dedup();
        if classes.len() < 2 {
            return Err(self.error(format!(
                "every training row has the label '{}' (column '{}'): there is nothing to learn",
                classes[0], self.label
            )));
        }
        if numeric && classes.len() > 1000 {
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
            let value = |(label, start): (&String, &u64)| {
                number(label).map_err(|found| {
                    let line = line_at(&self.path, *start);
                    self.error(format!("line {line}, column '{}': {found}", self.label))
                })
            };
            let rows = records.labels.iter().zip(&records.starts);
            return Ok(Targets::Values(rows.map(value).collect::<Result<_>>()?));
        };
        let index: HashMap<&str, u32> = classes
            .iter()
            .enumerate()
            .map(|(k, name)| (name.as_str(), k as u32))
            .collect();
        for part in parts {
            for row in part.valid.iter().map(|row| *row as usize) {
                if !index.contains_key(records.labels[row].as_str()) {
                    return Err(self.error(format!(
                        "line {}: the label '{}' of client '{}' is in its validation rows but in \
                         no client's training rows; move such a row to training \
                         or remove it",
                        line_at(&self.path, records.starts[row]),
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

/// Reads the feature columns of a new table, in the schema's order and scale; other
/// columns are ignored.
pub fn read_features(path: &Path, schema: &Schema) -> Result<Vec<f32>> {
    let error = |message: String| Error::Data(format!("{}: {message}", path.display()));
    let mut reader = open(path)?;
    let header = reader
        .headers()
        .map(header_of)
        .map_err(|e| error(unreadable(path, &e)))?;
    let mut columns = Vec::with_capacity(schema.features.len());
    for name in &schema.features {
        match header.iter().position(|column| column == name) {
            Some(k) => columns.push(k),
            None => {
                return Err(error(format!(
                    "there is no column '{name}', which the model was trained on; \
                     the columns are {}",
                    listed(&header)
                )));
            }
        }
    }
    let mut x = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|e| error(unreadable(path, &e)))?;
        let start = row.position().map_or(0, csv::Position::byte);
        let line = || line_at(path, start);
        if row.len() != header.len() {
            return Err(error(format!(
                "line {} has {} fields, the header has {}",
                line(),
                row.len(),
                header.len()
            )));
        }
        for (j, k) in columns.iter().enumerate() {
            let raw = number(&row[*k]).map_err(|found| {
                error(format!("line {}, column '{}': {found}", line(), header[*k]))
            })?;
            x.push(match &schema.normalization {
                Normalization::None => raw,
                Normalization::Standardized { mean, deviation } => {
                    ((f64::from(raw) - mean[j]) / deviation[j]) as f32
                }
                Normalization::Bytes { channels } => {
                    let (scale, shift) = channels[j * channels.len() / columns.len()];
                    raw * scale + shift
                }
            });
        }
    }
    Ok(x)
}

struct Columns {
    count: usize,
    client: Option<usize>,
    label: usize,
    split: Option<usize>,
    features: Vec<(usize, String)>,
}

#[derive(Default)]
struct Records {
    clients: Vec<String>,
    /// Where the rows start in the file, in bytes.
    starts: Vec<u64>,
    client: Vec<usize>,
    held: Vec<Option<bool>>,
    labels: Vec<String>,
    features: Vec<f32>,
}

struct Part {
    client: usize,
    train: Vec<u32>,
    valid: Vec<u32>,
}

fn open(path: &Path) -> Result<csv::Reader<std::fs::File>> {
    let file = std::fs::File::open(path).map_err(crate::error::at(path, "read"))?;
    Ok(csv::ReaderBuilder::new().flexible(true).from_reader(file))
}

/// The line of the row that starts at that byte, as an editor counts: the reader's own
/// count stays behind where lines end in \r\n, and at empty lines. Called on errors only.
fn line_at(path: &Path, start: u64) -> u64 {
    let Ok(file) = std::fs::File::open(path) else {
        return 0; // it was there a moment ago
    };
    let mut line = 1;
    let bytes = BufReader::new(file).bytes().map_while(std::io::Result::ok);
    for (at, byte) in (0u64..).zip(bytes) {
        if at >= start && byte != b'\n' && byte != b'\r' {
            break;
        }
        line += u64::from(byte == b'\n');
    }
    line
}

/// Why the reader gave up, with the line.
fn unreadable(path: &Path, error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { pos, err } => format!(
            "line {}, field {} is not UTF-8 text; save the file as UTF-8",
            line_at(path, pos.as_ref().map_or(0, csv::Position::byte)),
            err.field() + 1
        ),
        _ => error.to_string(),
    }
}

fn header_of(record: &csv::StringRecord) -> Vec<String> {
    record
        .iter()
        .map(|name| name.trim_start_matches('\u{feff}').trim().to_owned())
        .collect()
}

fn listed(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(String::as_str).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

fn number(text: &str) -> std::result::Result<f32, String> {
    match text.trim().parse::<f32>() {
        Ok(x) if x.is_finite() => Ok(x),
        Ok(_) => Err(format!("found '{}', which is not finite", text.trim())),
        Err(_) => Err(format!("found '{}', which is not a number", text.trim())),
    }
}

/// Mean and deviation of every feature over the training rows.
fn moments(x: &[f32], width: usize, parts: &[Part]) -> (Vec<f64>, Vec<f64>) {
    let rows = || {
        let train = parts.iter().flat_map(|part| &part.train);
        train.map(|row| &x[*row as usize * width..][..width])
    };
    let count = rows().count() as f64;
    let mut mean = vec![0.0; width];
    for row in rows() {
        mean.iter_mut()
            .zip(row)
            .for_each(|(m, x)| *m += f64::from(*x));
    }
    mean.iter_mut().for_each(|m| *m /= count);
    let mut deviation = vec![0.0; width];
    for row in rows() {
        for ((d, m), x) in deviation.iter_mut().zip(&mean).zip(row) {
            *d += (f64::from(*x) - m).powi(2);
        }
    }
    deviation.iter_mut().for_each(|d| *d = (*d / count).sqrt());
    (mean, deviation)
}

fn standardize(x: &mut [f32], width: usize, parts: &[Part]) -> Normalization {
    let (mean, mut deviation) = moments(x, width, parts);
    for d in deviation.iter_mut().filter(|d| **d == 0.0) {
        *d = 1.0;
    }
    for row in x.chunks_exact_mut(width) {
        for ((x, m), d) in row.iter_mut().zip(&mean).zip(&deviation) {
            *x = ((f64::from(*x) - m) / d) as f32;
        }
    }
    Normalization::Standardized { mean, deviation }
}

/// A word of warning where features' scales differ by more than a hundred.
fn scale_warning(x: &[f32], columns: &Columns, parts: &[Part]) -> Option<String> {
    let (mean, deviation) = moments(x, columns.features.len(), parts);
    let scale = |j: &usize| mean[*j].abs().max(deviation[*j]);
    let varying = || (0..mean.len()).filter(|j| deviation[*j] > 0.0);
    let largest = varying().max_by(|a, b| scale(a).total_cmp(&scale(b)))?;
    let smallest = varying().min_by(|a, b| scale(a).total_cmp(&scale(b)))?;
    (scale(&largest) > 100.0 * scale(&smallest)).then(|| {
        format!(
            "warning: the scales of the features differ by a factor of {:.0} ('{}' about {:.3}, \
             '{}' about {:.3}): training will be slow or unstable; data.standardize = true mends it",
            scale(&largest) / scale(&smallest),
            columns.features[largest].1,
            scale(&largest),
            columns.features[smallest].1,
            scale(&smallest),
        )
    })
}
