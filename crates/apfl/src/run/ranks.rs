//! Runs on all ranks of an MPI job.

use super::{Finished, Program, Run};
use crate::data::partition;
use crate::digest::sha256_of;
use crate::engine::EngineKind;
use crate::engine::mpi::Facts;
use crate::error::Result;
use crate::model::kernels::describe_vectors;
use crate::params::bytes_of;
use crate::training::Setup;

impl Run {
    /// Trains on all ranks of the MPI job that the run was built for; every rank builds the same
    /// run and calls this. Returns the finished run on the leading rank, `None` on the others.
    ///
    /// # Errors
    /// On the leading rank: facts that differ between ranks, and the errors of [`Run::train`].
    pub fn train_on_ranks(self) -> Result<Option<Finished>> {
        let EngineKind::Mpi(cluster) = self.setup.engine else {
            return self.train().map(Some);
        };
        let facts = facts_of(&self.program, &self.plan.to_toml(), &self.setup);
        if !cluster.agree(Ok(facts))? {
            return Ok(None);
        }
        if cluster.leads() {
            let _leader = cluster.lead();
            return self.train().map(Some);
        }
        self.start.serve(cluster, self.setup)?;
        Ok(None)
    }
}

/// Returns the facts that must be the same on all ranks: program, spec, initial model and data.
pub fn facts_of(program: &Program, spec: &str, setup: &Setup) -> Facts {
    let digest = |bytes: &[u8]| format!("SHA-256 {}", sha256_of(bytes));
    let program = format!("{} ({})", program.version, program.commit);
    let mut facts = vec![
        ("the program".to_string(), program),
        (
            "the width of the CPU's vectors (it changes the bits)".into(),
            describe_vectors().into(),
        ),
        ("the spec".into(), digest(spec.as_bytes())),
        (
            "the initial model".into(),
            digest(&bytes_of(&setup.context.w0)),
        ),
    ];
    let dataset = &setup.context.dataset;
    for file in dataset.files() {
        facts.push((file.path, format!("SHA-256 {}", file.sha256)));
    }
    let assignment = dataset.assignment().map(partition::checksum);
    facts.extend(assignment.map(|sum| ("the partition".to_string(), sum)));
    facts
}
