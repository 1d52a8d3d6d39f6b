//! Examples, and how they fall on clients.
//!
//! A [`Dataset`] hands out one [`Shard`] per client: its training and validation
//! [`Examples`]. A model sees a [`Batch`] of them. Images stay bytes until a kernel
//! turns them into numbers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::digest::sha256_of;
use crate::error::Result;

mod assign;
pub(crate) mod augment;
#[doc(hidden)] // for the program and the tests
pub mod cifar10;
mod examples;
#[doc(hidden)] // for the program and the tests
pub mod femnist;
#[doc(hidden)] // for the program and the tests
pub mod folder;
#[doc(hidden)] // for the program and the tests
pub mod held_out;
#[doc(hidden)] // for the program and the tests
pub mod idx;
#[doc(hidden)] // for the program and the tests
pub mod images;
mod in_memory;
#[doc(hidden)] // for the program and the tests
pub mod leaf;
mod magic;
#[doc(hidden)] // for the program and the tests
pub mod mnist;
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

/// What a client has.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The client's name.
    pub name: String,
    /// What it trains on.
    pub train: Examples,
    /// What it holds out.
    pub valid: Examples,
    /// What it holds out and nothing is chosen by; mostly none.
    pub test: Examples,
}

impl Shard {
    /// A client's data without a test part.
    pub fn new(name: impl Into<String>, train: Examples, valid: Examples) -> Self {
        Self {
            name: name.into(),
            test: train.empty_like(),
            train,
            valid,
        }
    }
}

/// What is to be learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "task", rename_all = "lowercase")]
pub enum Task {
    /// One of these classes.
    Classification {
        /// Their names, in the order of their indices.
        classes: Vec<String>,
    },
    /// A number.
    Regression,
}

impl Task {
    /// The number of classes; 0 for regression.
    pub fn classes(&self) -> usize {
        match self {
            Task::Classification { classes } => classes.len(),
            Task::Regression => 0,
        }
    }
}

/// How raw inputs became the features that models see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Normalization {
    /// Not at all.
    None,
    /// (x − mean)/deviation, feature by feature, from the training rows.
    Standardized {
        /// Means.
        mean: Vec<f64>,
        /// Standard deviations (1 where a feature is constant).
        deviation: Vec<f64>,
    },
    /// Bytes: x·scale + shift, channel by channel.
    Bytes {
        /// (scale, shift) of every channel.
        channels: Vec<(f32, f32)>,
    },
    /// The columns of a table, each in its way.
    Prepared(table::Preparation),
}

/// What a user must know to feed a trained model: `schema.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Schema {
    /// What is predicted.
    #[serde(flatten)]
    pub task: Task,
    /// The features' names, in order.
    pub features: Vec<String>,
    /// The shape of one example: `[features]`, or `[channels, height, width]`.
    pub shape: Vec<usize>,
    /// How raw inputs became features.
    pub normalization: Normalization,
}

impl Schema {
    /// What does not agree within it, as in a file that was altered.
    pub fn problem(&self) -> Option<String> {
        let width = self.shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let width = match width {
            Some(width) if width > 0 && width == self.features.len() => width,
            _ => {
                return Some(format!(
                    "{} features and a shape of {:?}",
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
                (!right).then(|| format!("not {width} means and deviations that are numbers"))
            }
            Normalization::Bytes { channels } => {
                let right = !channels.is_empty()
                    && width.is_multiple_of(channels.len())
                    && channels.iter().all(|c| c.0.is_finite() && c.1.is_finite());
                (!right).then(|| "channels that do not fit its shape".into())
            }
            Normalization::Prepared(preparation) => (preparation.features() != self.features)
                .then(|| "columns that do not make its features".into()),
        }
    }

    /// How the label was standardized, where it is a number and was.
    pub fn label_scale(&self) -> Option<table::Scale> {
        match &self.normalization {
            Normalization::Prepared(preparation) => preparation.label,
            _ => None,
        }
    }
}

/// A file that the data came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Where it lies.
    pub path: String,
    /// Its SHA-256, in hexadecimal.
    pub sha256: String,
}

/// A digest of a data set: of its files and of who has which example; of the examples
/// themselves where they are in no file. Data that is generated follows from its settings.
pub fn digest(dataset: &dyn Dataset) -> Result<String> {
    let mut words = serde_json::to_string(dataset.schema()).expect("plain JSON");
    let files = dataset.files();
    words.extend(files.iter().map(|file| format!(";{}", file.sha256)));
    words.extend(dataset.assignment().map(partition::checksum));
    let mut sums = vec![sha256_of(words.as_bytes())];
    if files.is_empty() && !dataset.is_generated() {
        for client in 0..dataset.clients() {
            if !dataset.holds(client) {
                let (train, valid) = dataset.sizes(client);
                let told = (
                    dataset.name(client),
                    train,
                    valid,
                    dataset.test_size(client),
                );
                sums.push(sha256_of(format!("{told:?}").as_bytes()));
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

/// The clients and their data.
pub trait Dataset: Send + Sync {
    /// What the data looks like.
    fn schema(&self) -> &Schema;

    /// How many clients there are.
    fn clients(&self) -> usize;

    /// A client's name.
    fn name(&self, client: usize) -> String;

    /// How many (training, validation) examples a client has, without making them.
    fn sizes(&self, client: usize) -> (usize, usize);

    /// How many examples of a test part it has, without making them.
    fn test_size(&self, _client: usize) -> usize {
        0
    }

    /// The sizes by which clients are placed on processes: the same whatever is held out.
    fn whole_sizes(&self, client: usize) -> (usize, usize) {
        self.sizes(client)
    }

    /// A client's data. Cheap where the data is in memory, made afresh where it is
    /// synthetic.
    fn shard(&self, client: usize) -> Result<Arc<Shard>>;

    /// Whether `shard` has a client's data: not where it lives elsewhere.
    fn holds(&self, _client: usize) -> bool {
        true
    }

    /// The federation's training examples of every class.
    fn class_counts(&self) -> Result<Vec<u64>> {
        let classes = self.schema().task.classes();
        let mut counts = vec![0; classes];
        for client in 0..self.clients() {
            let own = self.shard(client)?.train.class_counts(classes);
            let both = counts.iter_mut().zip(own);
            both.for_each(|(all, own)| *all += own);
        }
        Ok(counts)
    }

    /// The training rows of a client that are held out of `shard`, where some are for a choice.
    fn held_out(&self, _client: usize) -> Result<Option<Arc<Examples>>> {
        Ok(None)
    }

    /// Whether `shard` makes the data afresh every time.
    fn is_generated(&self) -> bool {
        false
    }

    /// The files it was read from.
    fn files(&self) -> Vec<SourceFile> {
        Vec::new()
    }

    /// How its examples were dealt to the clients, where it does not name them itself.
    fn assignment(&self) -> Option<&partition::Assignment> {
        None
    }

    /// What a user should be told about how it was read, such as clients left out.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}
