//! The roster: names and sizes of all clients, and the data of those that live here.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::partition::Assignment;
use super::{Dataset, Schema, Shard, SourceFile};
use crate::error::{Error, Result};

/// Name and sizes of a client, without its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its training, validation and test examples.
    pub rows: [usize; 3],
}

/// The roster of a federation whose clients live elsewhere, all of them or all but one.
/// `classes`: its training examples of every class.
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

/// The data without the shards of clients that live elsewhere. Data that is generated is
/// left as it is: nothing of it is in memory before it is asked for.
#[cfg(feature = "mpi")]
pub fn keep_own(
    dataset: Arc<dyn Dataset>,
    mine: impl Fn(usize) -> bool,
) -> Result<Arc<dyn Dataset>> {
    if dataset.is_generated() {
        return Ok(dataset);
    }
    let clients = 0..dataset.clients();
    let shard = |client| mine(client).then(|| dataset.shard(client)).transpose();
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
        let elsewhere = || {
            let name = &self.names[client];
            Error::data(format!(
                "the data of client '{name}' is not in this process"
            ))
        };
        self.shards[client].clone().ok_or_else(elsewhere)
    }
    fn holds(&self, client: usize) -> bool {
        self.shards[client].is_some()
    }
    fn class_counts(&self) -> Result<Vec<u64>> {
        let elsewhere = || Error::data("the clients' classes are not known in this process");
        self.classes.clone().ok_or_else(elsewhere)
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
