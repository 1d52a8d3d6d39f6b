//! Data in memory: what readers return and what callers of the library provide.

use std::sync::Arc;

use super::partition::{self, hold_out};
use super::{Dataset, Examples, Normalization, Schema, Shard, SourceFile, Task};
use crate::error::{Error, Result};

/// Holds all clients' data in memory.
///
/// ```
/// use apfl::{Dataset, Examples, InMemory};
///
/// let mut data = InMemory::classes(["age", "pressure"], ["healthy", "ill"]);
/// let rows = vec![51.0, 128.0, 64.0, 151.0, 58.0, 133.0, 71.0, 160.0];
/// data.add("north", Examples::classes(2, rows, vec![0, 1, 0, 1])?, 0.25)?;
/// assert_eq!(data.sizes(0), (3, 1));
/// # Ok::<(), apfl::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct InMemory {
    /// The schema of the data.
    pub schema: Schema,
    /// The clients.
    pub shards: Vec<Arc<Shard>>,
    /// The files it was read from.
    pub files: Vec<SourceFile>,
    /// Messages for the user.
    pub notes: Vec<String>,
    /// The assignment of examples to clients, if a partition made it.
    pub assignment: Option<partition::Assignment>,
}

impl InMemory {
    /// Creates data for classification, without clients.
    pub fn classes<F: Into<String>, C: Into<String>>(
        features: impl IntoIterator<Item = F>,
        classes: impl IntoIterator<Item = C>,
    ) -> Self {
        let classes = classes.into_iter().map(Into::into).collect();
        Self::for_task(features, Task::Classification { classes })
    }

    /// Creates data for regression, without clients.
    pub fn values<F: Into<String>>(features: impl IntoIterator<Item = F>) -> Self {
        Self::for_task(features, Task::Regression)
    }

    fn for_task<F: Into<String>>(features: impl IntoIterator<Item = F>, task: Task) -> Self {
        let features: Vec<String> = features.into_iter().map(Into::into).collect();
        Self::new(
            Schema {
                task,
                shape: vec![features.len()],
                features,
                normalization: Normalization::None,
            },
            Vec::new(),
        )
    }

    /// Creates data from clients.
    pub fn new(schema: Schema, shards: Vec<Arc<Shard>>) -> Self {
        Self {
            schema,
            shards,
            files: Vec::new(),
            notes: Vec::new(),
            assignment: None,
        }
    }

    /// Adds a client and holds out ⌈share·m⌉ of its m examples for validation. The random choice
    /// depends on the client's index, not on the run's seed; for another one use
    /// [`InMemory::add_split`].
    ///
    /// # Errors
    /// The share is not in [0, 1).
    pub fn add(&mut self, name: impl Into<String>, all: Examples, share: f64) -> Result<()> {
        let name = name.into();
        if !(0.0..1.0).contains(&share) {
            return Err(Error::at_place(
                format!("client '{name}'"),
                format!("the share to hold out is {share}; allowed is 0 to below 1"),
            ));
        }
        let place = self.shards.len() as u64;
        let (train, valid) = hold_out(all.len(), share, 1, place);
        let (train, valid) = (all.gathered(&train), all.gathered(&valid));
        self.add_split(name, train, valid);
        Ok(())
    }

    /// Adds a client with separate training and validation examples.
    pub fn add_split(&mut self, name: impl Into<String>, train: Examples, valid: Examples) {
        self.shards.push(Arc::new(Shard::new(name, train, valid)));
    }
}

impl Dataset for InMemory {
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn clients(&self) -> usize {
        self.shards.len()
    }
    fn name(&self, client: usize) -> String {
        self.shards[client].name.clone()
    }
    fn sizes(&self, client: usize) -> (usize, usize) {
        let shard = &self.shards[client];
        (shard.train.len(), shard.valid.len())
    }
    fn test_size(&self, client: usize) -> usize {
        self.shards[client].test.len()
    }
    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        Ok(self.shards[client].clone())
    }
    fn files(&self) -> Vec<SourceFile> {
        self.files.clone()
    }
    fn assignment(&self) -> Option<&partition::Assignment> {
        self.assignment.as_ref()
    }
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
