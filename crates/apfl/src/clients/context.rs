//! The context that all clients of a run share.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::choice::{Choosing, Pass};
use crate::data::Dataset;
use crate::data::held_out::{HeldOutRows, without_held_out};
use crate::local_client::{LocalTraining, PrivateSteps};
use crate::metrics::Scoring;
use crate::model::Model;
use crate::params::Params;

/// The context that all clients of a run share, equal on every thread and host.
#[derive(Clone)]
pub struct RunContext {
    /// The seed of training.
    pub seed: u64,
    /// The clients' data.
    pub dataset: Arc<dyn Dataset>,
    /// The model.
    pub model: Arc<dyn Model>,
    /// w⁰
    pub w0: Arc<Params>,
    /// How clients train.
    pub local_training: LocalTraining,
    /// Whether a client whose loss is not finite is left out of the round, with its state
    /// unchanged, instead of ending the run.
    pub skip_nonfinite: bool,
    /// The privacy of local steps, if they are private.
    pub private: Option<PrivateSteps>,
    /// Whether most clients are sampled once or never: generated data is then dropped when the
    /// next round begins.
    pub rarely_sampled: bool,
    /// The pass of a choice, if the run is one.
    pub pass: Option<Pass>,
}

impl RunContext {
    /// Returns the standard deviation of a standardized label, in its own units; else 1.
    pub fn unit(&self) -> f64 {
        let scale = self.dataset.schema().label_scale();
        scale.map_or(1.0, |scale| scale.deviation)
    }

    /// Returns how final scores are computed.
    pub fn scoring(&self) -> Scoring {
        let dataset = &self.dataset;
        Scoring {
            classes: dataset.schema().task.classes(),
            unit: self.unit(),
            tested: (0..dataset.clients()).any(|client| dataset.test_size(client) > 0),
        }
    }

    /// Returns the context without the training rows that a fold of a choice holds out.
    pub fn holding_out(mut self, choosing: &Choosing, part: u64) -> Self {
        let rows = HeldOutRows {
            seed: self.seed,
            folds: choosing.folds,
            part,
            share: choosing.aside,
        };
        self.dataset = without_held_out(self.dataset, rows);
        self
    }

    /// Returns the context and the algorithm of the pass: the data without held-out rows, and the
    /// algorithm as it is in that pass. Outside of a choice both are unchanged.
    pub fn for_pass<A: Algorithm>(self, algorithm: Arc<A>) -> (Self, Arc<A>) {
        let Some((pass, choice)) = self.pass.zip(algorithm.extensions().choice) else {
            return (self, algorithm);
        };
        let context = match pass {
            Pass::HeldOut(part) => self.holding_out(choice.choosing(), part),
            Pass::Last => self,
        };
        (context, Arc::new(choice.in_pass(pass)))
    }
}

impl std::fmt::Debug for RunContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunContext")
            .field("seed", &self.seed)
            .field("clients", &self.dataset.clients())
            .field("parameters", &self.w0.len())
            .field("local_training", &self.local_training)
            .finish_non_exhaustive()
    }
}
