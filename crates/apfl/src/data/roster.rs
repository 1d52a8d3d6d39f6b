//! The roster: names and sizes of all clients, and the data of those that live here.

use std::sync::Arc;

use super::partition::Dealing;
use super::{Dataset, Schema, Shard, SourceFile};
use crate::error::{Error, Result};

/// The data without the shards of clients that live elsewhere. Data that is generated is
/// left as it is: nothing of it is in memory before it is asked for.
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
        files: dataset.files(),
        dealing: dataset.dealing().cloned(),
        notes: dataset.notes(),
    }))
}

struct Roster {
    names: Vec<String>,
    sizes: Vec<(usize, usize)>,
    tests: Vec<usize>,
    shards: Vec<Option<Arc<Shard>>>,
    schema: Schema,
    files: Vec<SourceFile>,
    dealing: Option<Dealing>,
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
    fn files(&self) -> Vec<SourceFile> {
        self.files.clone()
    }
    fn dealing(&self) -> Option<&Dealing> {
        self.dealing.as_ref()
    }
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}
