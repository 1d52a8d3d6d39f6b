//! The roster: names and sizes of all clients, and the data of the local ones.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::partition::Assignment;
use super::{Dataset, Schema, Shard, SourceFile};
use crate::error::{Error, Result};

/// Represents a client by name and sizes, without its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// The numbers of its training, validation and test examples.
    pub rows: [usize; 3],
}

/// Creates the roster of a federation of which at most one client is local. `classes` has the
/// number of training examples of every class.
pub fn roster(
    members: &[Member],
    schema: Schema,
    classes: Vec<u64>,
    own: Option<(usize, Arc<Shard>)>,
) -> Arc<dyn Dataset> {
    let mut shards = vec![None; members.len()];
    if let Some((client, shard)) = own {
        shards[client] = Some(shard);
    }
    Arc::new(Roster {
        names: members.iter().map(|m| m.name.clone()).collect(),
        sizes: members.iter().map(|m| (m.rows[0], m.rows[1])).collect(),
        tests: members.iter().map(|m| m.rows[2]).collect(),
        shards,
        schema,
        classes: Some(classes),
        files: Vec::new(),
        assignment: None,
        notes: Vec::new(),
    })
}

/// Drops the shards of clients that are not local. Generated data is returned unchanged, since its
/// shards are not in memory.
#[cfg(feature = "mpi")]
pub fn keep_local(
    dataset: Arc<dyn Dataset>,
    is_local: impl Fn(usize) -> bool,
) -> Result<Arc<dyn Dataset>> {
    if dataset.is_generated() {
        return Ok(dataset);
    }
    let clients = 0..dataset.clients();
    let shard = |client| is_local(client).then(|| dataset.shard(client)).transpose();
    Ok(Arc::new(Roster {
        names: clients.clone().map(|k| dataset.name(k)).collect(),
        sizes: clients.clone().map(|k| dataset.sizes(k)).collect(),
        tests: clients.clone().map(|k| dataset.test_size(k)).collect(),
        shards: clients.map(shard).collect::<Result<_>>()?,
        schema: dataset.schema().clone(),
        classes: None,
        files: dataset.files(),
        assignment: dataset.assignment().cloned(),
        notes: dataset.notes(),
    }))
}

struct Roster {
    names: Vec<String>,
    sizes: Vec<(usize, usize)>,
    tests: Vec<usize>,
    shards: Vec<Option<Arc<Shard>>>,
    schema: Schema,
    classes: Option<Vec<u64>>,
    files: Vec<SourceFile>,
    assignment: Option<Assignment>,
    notes: Vec<String>,
}

impl Dataset for Roster {
    fn schema(&self) -> &Schema {
        &self.schema
    }
    fn clients(&self) -> usize {
        self.names.len()
    }
    fn name(&self, client: usize) -> String {
        self.names[client].clone()
    }
    fn sizes(&self, client: usize) -> (usize, usize) {
        self.sizes[client]
    }
    fn test_size(&self, client: usize) -> usize {
        self.tests[client]
    }
    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let error = || {
            let name = &self.names[client];
            Error::data(format!(
                "the data of client '{name}' is not in this process"
            ))
        };
        self.shards[client].clone().ok_or_else(error)
    }
    fn is_local(&self, client: usize) -> bool {
        self.shards[client].is_some()
    }
    fn class_counts(&self) -> Result<Vec<u64>> {
        let error = || {
            Error::data(
                "the class counts of the clients are not known in this \
                                        process",
            )
        };
        self.classes.clone().ok_or_else(error)
    }
    fn files(&self) -> Vec<SourceFile> {
        self.files.clone()
    }
    fn assignment(&self) -> Option<&Assignment> {
        self.assignment.as_ref()
    }
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
