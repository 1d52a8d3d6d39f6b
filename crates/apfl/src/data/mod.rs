//! Examples and their assignment to clients.
//!
//! A [`Dataset`] has one [`Shard`] per client: its training, validation and test [`Examples`]. A
//! model sees a [`Batch`] of them. Images stay bytes until a kernel turns them into numbers.
//!
//! To add a kind of data, write a module with a `KIND` and a type with `load`, and add a line to
//! `sources!` in `source.rs`. File readers are `rows` (CSV, Parquet), `idx` and `leaf`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::sha256_of;
use crate::error::Result;

mod assign;
pub(crate) mod augment;
#[doc(hidden)] // for the program and the tests
pub mod cifar10;
mod classes;
mod examples;
#[doc(hidden)] // for the program and the tests
pub mod femnist;
#[doc(hidden)] // for the program and the tests
pub mod folder;
mod foreign_formats;
#[doc(hidden)] // for the program and the tests
pub mod held_out;
#[doc(hidden)] // for the program and the tests
pub mod idx;
#[doc(hidden)] // for the program and the tests
pub mod images;
mod in_memory;
#[doc(hidden)] // for the program and the tests
pub mod leaf;
#[doc(hidden)] // for the program and the tests
pub mod mnist;
#[doc(hidden)] // for the program and the tests
pub mod multisite;
#[doc(hidden)] // for the program and the tests
pub mod new_client;
#[cfg(feature = "parquet")]
mod parquet;
#[doc(hidden)] // for the program and the tests
pub mod partition;
#[doc(hidden)] // for the program and the tests
pub mod qmnist;
pub(crate) mod roster;
#[doc(hidden)] // for the program and the tests
pub mod rows;
mod scales;
mod source;
#[doc(hidden)] // for the program and the tests
pub mod synthetic;
#[doc(hidden)] // for the program and the tests
pub mod table;

pub use examples::{Batch, Examples, FeatureView, Features, Labels, Scaling, Targets};
pub use in_memory::InMemory;
pub use partition::Assignment;
pub use source::{Common, Source, SourceKind};

/// Represents the data of one client.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The client's name.
    pub name: String,
    /// Examples for training.
    pub train: Examples,
    /// Examples for validation.
    pub valid: Examples,
    /// Examples for a test, which influence no choice; usually none.
    pub test: Examples,
}

impl Shard {
    /// Creates a client's data without a test part.
    pub fn new(name: impl Into<String>, train: Examples, valid: Examples) -> Self {
        Self {
            name: name.into(),
            test: train.empty_like(),
            train,
            valid,
        }
    }
}

/// Represents what is predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Task {
    /// A class.
    Classification {
        /// The classes' names, by index.
        classes: Vec<String>,
    },
    /// A number.
    Regression,
}

impl Task {
    /// Returns the number of classes; 0 for regression.
    pub fn classes(&self) -> usize {
        match self {
            Task::Classification { classes } => classes.len(),
            Task::Regression => 0,
        }
    }
}

/// Represents how raw inputs become features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Normalization {
    /// Inputs are used unchanged.
    None,
    /// (x − mean)/deviation for each feature, by the training rows.
    Standardized {
        /// Means.
        mean: Vec<f64>,
        /// Standard deviations (1 where a feature is constant).
        deviation: Vec<f64>,
    },
    /// x·scale + shift for the bytes of each channel.
    Bytes {
        /// (scale, shift) of every channel.
        channels: Vec<(f32, f32)>,
    },
    /// Each column of a table has its own encoding.
    Prepared(table::Preparation),
}

/// Represents a model's inputs and outputs, as in `schema.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// The prediction task.
    #[serde(flatten)]
    pub task: Task,
    /// The names of the features, in order.
    pub features: Vec<String>,
    /// The shape of one example: `[features]`, or `[channels, height, width]`.
    pub shape: Vec<usize>,
    /// How raw inputs became features.
    pub normalization: Normalization,
}

impl Schema {
    /// Returns what is inconsistent, as in a file that was altered.
    pub fn problem(&self) -> Option<String> {
        let width = self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let width = match width {
            Some(width) if width > 0 && width == self.features.len() => width,
            _ => {
                return Some(format!(
                    "{} features do not match the shape {:?}",
                    self.features.len(),
                    self.shape
                ));
            }
        };
        if matches!(&self.task, Task::Classification { classes } if classes.len() < 2) {
            return Some("fewer than two classes".into());
        }
        match &self.normalization {
            Normalization::None => None,
            Normalization::Standardized { mean, deviation } => {
                let usable = |d: &f64| d.is_finite() && *d > 0.0;
                let right = mean.len() == width
                    && deviation.len() == width
                    && mean.iter().all(|m| m.is_finite())
                    && deviation.iter().all(usable);
                (!right).then(|| format!("expected {width} finite means and positive deviations"))
            }
            Normalization::Bytes { channels } => {
                let right = !channels.is_empty()
                    && width.is_multiple_of(channels.len())
                    && channels.iter().all(|c| c.0.is_finite() && c.1.is_finite());
                (!right).then(|| "the channels do not match the shape or are not finite".into())
            }
            Normalization::Prepared(preparation) => (preparation.features() != self.features)
                .then(|| "the prepared columns do not match the features".into()),
        }
    }

    /// Returns the standardization of the label, if any.
    pub fn label_scale(&self) -> Option<table::Scale> {
        match &self.normalization {
            Normalization::Prepared(preparation) => preparation.label,
            _ => None,
        }
    }
}

/// Represents a file that the data was read from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Its path.
    pub path: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// Returns a digest of a data set: of its schema, files and assignment, and of the examples
/// themselves if they are in no file. Generated data follows from its settings.
#[doc(hidden)]
pub fn digest(dataset: &dyn Dataset) -> Result<String> {
    let mut identity = serde_json::to_string(dataset.schema()).expect("plain JSON");
    let files = dataset.files();
    identity.extend(files.iter().map(|file| format!(";{}", file.sha256)));
    identity.extend(dataset.assignment().map(partition::checksum));
    let mut sums = vec![sha256_of(identity.as_bytes())];
    if files.is_empty() && !dataset.is_generated() {
        for client in 0..dataset.clients() {
            if !dataset.is_local(client) {
                let (train, valid) = dataset.sizes(client);
                let sizes = (
                    dataset.name(client),
                    train,
                    valid,
                    dataset.test_size(client),
                );
                sums.push(sha256_of(format!("{sizes:?}").as_bytes()));
                continue;
            }
            let shard = dataset.shard(client)?;
            sums.push(sha256_of(shard.name.as_bytes()));
            sums.push(shard.train.digest());
            sums.push(shard.valid.digest());
            if !shard.test.is_empty() {
                sums.push(shard.test.digest());
            }
        }
    }
    Ok(sha256_of(sums.concat().as_bytes()))
}

/// Provides the clients' data.
pub trait Dataset: Send + Sync {
    /// Returns the schema of the data.
    fn schema(&self) -> &Schema;

    /// Returns the number of clients.
    fn clients(&self) -> usize;

    /// Returns a client's name.
    fn name(&self, client: usize) -> String;

    /// Returns a client's numbers of (training, validation) examples without loading them.
    fn sizes(&self, client: usize) -> (usize, usize);

    /// Returns a client's number of test examples without loading them.
    fn test_size(&self, _client: usize) -> usize {
        0
    }

    /// Returns the sizes including rows held out for a choice, so that the placement of clients on
    /// processes does not depend on them.
    fn whole_sizes(&self, client: usize) -> (usize, usize) {
        self.sizes(client)
    }

    /// Returns a client's data: a cheap clone if it is in memory, generated anew if it is
    /// synthetic.
    fn shard(&self, client: usize) -> Result<Arc<Shard>>;

    /// Returns whether a client's data is in this process.
    fn is_local(&self, _client: usize) -> bool {
        true
    }

    /// Returns the number of training examples of every class over all clients.
    fn class_counts(&self) -> Result<Vec<u64>> {
        let classes = self.schema().task.classes();
        let mut counts = vec![0; classes];
        for client in 0..self.clients() {
            let own = self.shard(client)?.train.class_counts(classes);
            counts
                .iter_mut()
                .zip(own)
                .for_each(|(sum, own)| *sum += own);
        }
        Ok(counts)
    }

    /// Returns the training rows that are held out of a client's `shard` for a choice.
    fn held_out(&self, _client: usize) -> Result<Option<Arc<Examples>>> {
        Ok(None)
    }

    /// Returns whether `shard` generates the data on every call.
    fn is_generated(&self) -> bool {
        false
    }

    /// Returns the files that the data was read from.
    fn files(&self) -> Vec<SourceFile> {
        Vec::new()
    }

    /// Returns the assignment of examples to clients, if a partition made it.
    fn assignment(&self) -> Option<&partition::Assignment> {
        None
    }

    /// Returns messages for the user about how the data was read, such as clients left out.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
