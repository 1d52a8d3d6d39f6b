//! What every client is given.

use std::sync::Arc;

use crate::algorithm::Algorithm;
use crate::choice::{Choosing, Pass};
use crate::data::Dataset;
use crate::data::held_out::{HeldOutRows, without_held_out};
use crate::local_client::{LocalTraining, PrivateSteps};
use crate::metrics::Scoring;
use crate::model::Model;
use crate::params::Params;

/// What every client is given: the same on every thread and every machine.
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
    /// Whether a client whose loss is not finite is left out of the round, its memory as
    /// before, instead of ending the run.
    pub skip_nonfinite: bool,
    /// How clients' steps are private, where they are.
    pub private: Option<PrivateSteps>,
    /// Whether most clients are drawn once or never: data that can be made again is then let go
    /// when the next round begins.
    pub seldom: bool,
    /// Which training of a choice among mixings it is, where it is one.
    pub pass: Option<Pass>,
}

impl RunContext {
    /// What 1 is in the label's own units, where it is a number that was standardized.
    pub fn unit(&self) -> f64 {
        let scale = self.dataset.schema().label_scale();
        scale.map_or(1.0, |scale| scale.deviation)
    }

    /// How final scores are made.
    pub fn scoring(&self) -> Scoring {
        let dataset = &self.dataset;
        Scoring {
            classes: dataset.schema().task.classes(),
            unit: self.unit(),
            tested: (0..dataset.clients()).any(|client| dataset.test_size(client) > 0),
        }
    }

    /// Returns the same without the training rows that a part of a choice's folds holds out.
    pub fn holding_out(mut self, choosing: &Choosing, part: u64) -> Self {
        let aside = HeldOutRows {
            seed: self.seed,
            folds: choosing.folds,
            part,
            share: choosing.aside,
        };
        self.dataset = without_held_out(self.dataset, aside);
        self
    }

    /// Returns what a pass of a choice trains with: the data without the rows that it holds out,
    /// and the algorithm as it is in that pass. Both stay as they are where it is no pass.
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
        f.debug_struct("World")
            .field("seed", &self.seed)
            .field("clients", &self.dataset.clients())
            .field("parameters", &self.w0.len())
            .field("pace", &self.local_training)
            .finish_non_exhaustive()
    }
}
