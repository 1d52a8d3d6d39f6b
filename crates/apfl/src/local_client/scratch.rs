//! Buffers of a worker thread.

use super::Sampler;
use crate::data::{Examples, Features, Targets};
use crate::model::Workspace;
use crate::params::Params;

/// Buffers of a worker thread, reused from client to client.
#[derive(Clone, Debug)]
pub struct Scratch {
    pub(super) workspace: Workspace,
    pub(super) batch: Examples,
    pub(super) whole: Sampler,
    pub(super) rest: Sampler,
    pub(super) held_out: Sampler,
    pub(super) spare: Vec<Params>,
    /// The number of batches sampled so far, which identifies the latest.
    pub(super) sampled: u64,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            workspace: Workspace::default(),
            batch: Examples::new(
                0,
                Features::Floats(Vec::new()),
                Targets::Classes(Vec::new()),
            ),
            whole: Sampler::default(),
            rest: Sampler::default(),
            held_out: Sampler::default(),
            spare: Vec::new(),
            sampled: 0,
        }
    }
}
