//! A user's own table: one row an example, with a client, a label and numbers.

use std::path::PathBuf;
use std::sync::Arc;

mod features;
mod records;
mod split;

pub use features::{features_of, read_features};
use records::Records;
use split::{Part, in_order, index_of};

use super::partition::{Dealing, Partition, digest_of_labels};
use super::rows::{RowReader, open};
use super::scales::{scale_warning, standardize};
use super::{
    Common, Examples, Features, InMemory, Normalization, Schema, Shard, Source, SourceFile,
    SourceKind,
};
use crate::digest::sha256_of_file;
use crate::error::{Error, Result};
use crate::settings::{Kind, Section};

/// What `path` says where the rows are not in a file but were handed over in memory.
pub const IN_MEMORY: &str = "the frame";

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

pub(super) const KIND: SourceKind = Kind {
    name: "table",
    about: "your own table, CSV or Parquet: one row an example",
    keys: &[
        ("path = \"my.csv\"", "columns: client, label, and numbers"),
        (
            "client = \"client\"",
            "the column that names the client; \"\" deals the rows to `clients`, by a partition",
        ),
        (
            "label = \"label\"",
            "the column to predict: any text or number",
        ),
        (
            "task = \"classification\"",
            "or \"regression\": the label is a number to predict",
        ),
        (
            "# split = \"split\"",
            "a column with `train` or `valid`, if there is one",
        ),
        (
            "standardize = false",
            "true: every feature to mean 0 and deviation 1",
        ),
    ],
    examples: &[
        "{ kind = 'table', path = 't.csv', task = 'regression' }",
        "{ kind = 'table', path = 't.csv', client = '', clients = 5, partition = 'iid' }",
    ],
    read: |s, common| Source::Table(Table::read(s, common)),
};

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
        let path = match path.as_str() {
            IN_MEMORY => path.into(),
            _ => std::path::absolute(&path).unwrap_or_else(|_| path.clone().into()),
        };
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
        Error::in_file(&self.path, message)
    }

    /// Reads the file, splits every client's rows and checks all of it.
    pub fn load(&self) -> Result<InMemory> {
        if self.path.as_os_str() == IN_MEMORY {
            return Err(Error::data(
                "the run's rows came from memory, not from a file: give them again, as in \
                 apfl.train(resume=…, data=frame)",
            ));
        }
        let mut rows = open(&self.path)?;
        let file = SourceFile {
            path: self.path.display().to_string(),
            sha256: sha256_of_file(&self.path)?,
        };
        self.take(&mut *rows, vec![file])
    }

    /// The data set that those rows make.
    pub fn take(&self, rows: &mut dyn RowReader, mut files: Vec<SourceFile>) -> Result<InMemory> {
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
}
