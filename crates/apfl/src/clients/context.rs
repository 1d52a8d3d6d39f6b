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

/// The learning rate of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// That of the algorithm and its local training.
    Planned,
    /// To be found by a probe; nothing can be trained before.
    Unknown,
    /// This one, in place of the planned one.
    Set(f64),
}

impl Rate {
    /// Returns the rate that replaces the planned one.
    pub fn set(self) -> Option<f64> {
        match self {
            Rate::Set(rate) => Some(rate),
            Rate::Planned | Rate::Unknown => None,
        }
    }
}

/// The share of the training rows that a probe of the learning rate holds out.
const PROBED_SHARE: f64 = 0.1;

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
    /// The pass, if the run is one of several trainings.
    pub pass: Option<Pass>,
    /// The learning rate.
    pub rate: Rate,
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
    pub fn holding_out(self, choosing: &Choosing, part: u64) -> Self {
        let rows = HeldOutRows {
            seed: self.seed,
            folds: choosing.folds,
            part,
            share: choosing.aside,
        };
        self.without(rows)
    }

    fn without(mut self, rows: HeldOutRows) -> Self {
        self.dataset = without_held_out(self.dataset, rows);
        self
    }

    /// Returns the context without the training rows that a probe holds out.
    fn holding_out_for_probe(self) -> Self {
        let rows = HeldOutRows {
            seed: self.seed,
            folds: 1,
            part: 1,
            share: PROBED_SHARE,
        };
        self.without(rows)
    }

    /// Returns the context and the algorithm of the pass: the data without held-out rows, the
    /// algorithm as it is in that pass, and both with the learning rate that is set. Of a run with
    /// one training and its planned rate both are unchanged.
    pub fn for_pass<A: Algorithm>(self, algorithm: Arc<A>) -> (Self, Arc<A>) {
        let (context, algorithm) = self.with_set_rate(algorithm);
        let Some(pass) = context.pass else {
            return (context, algorithm);
        };
        let choice = algorithm.extensions().choice;
        let context = match (pass, choice) {
            (Pass::Probe, _) => context.holding_out_for_probe(),
            (Pass::HeldOut(part), Some(choice)) => context.holding_out(choice.choosing(), part),
            (Pass::HeldOut(_), None) | (Pass::Last, _) => context,
        };
        match choice.map(|choice| choice.in_pass(pass)) {
            Some(in_pass) => (context, Arc::new(in_pass)),
            None => (context, algorithm),
        }
    }

    fn with_set_rate<A: Algorithm>(mut self, algorithm: Arc<A>) -> (Self, Arc<A>) {
        let Some(rate) = self.rate.set() else {
            return (self, algorithm);
        };
        match algorithm.extensions().rate.map(|own| own.with_rate(rate)) {
            Some(rated) => (self, Arc::new(rated)),
            None => {
                self.local_training.learning_rate = rate;
                (self, algorithm)
            }
        }
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
