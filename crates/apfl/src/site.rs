//! Everything an algorithm may see at a client.
//!
//! A [`Site`] gives batches, gradients and rates. It knows no names, no files, no clock
//! and no other client.

use rand::seq::SliceRandom;

use crate::data::augment::Augmentation;
use crate::data::{Batch, Examples, Features, Targets};
use crate::metrics::Tally;
use crate::model::{Model, Workspace};
use crate::params::Params;
use crate::rng::Stream;
use crate::schedule::{Clock, Schedule};

/// How much a client works in one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalWork {
    /// τ steps.
    Steps(u64),
    /// E·⌈m/batch⌉ steps.
    Epochs(u64),
}

/// How every client trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Steps or epochs a round.
    pub work: LocalWork,
    /// Examples a step; `None`: all of the client's.
    pub batch: Option<usize>,
    /// `training.learning_rate`.
    pub learning_rate: f64,
    /// How it changes.
    pub schedule: Schedule,
}

impl Pace {
    /// Steps that make one pass over `m` examples.
    pub fn steps_per_epoch(&self, m: usize) -> u64 {
        self.batch.map_or(1, |batch| m.div_ceil(batch) as u64)
    }

    /// Local steps of one round of a client with `m` training examples.
    pub fn steps(&self, m: usize) -> u64 {
        match self.work {
            LocalWork::Steps(tau) => tau,
            LocalWork::Epochs(epochs) => epochs * self.steps_per_epoch(m),
        }
    }
}

/// A thread's own memory, reused from client to client.
#[derive(Clone, Debug)]
pub struct Desk {
    workspace: Workspace,
    batch: Examples,
    order: Vec<u32>,
    spare: Vec<Params>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            workspace: Workspace::default(),
            batch: Examples::new(
                0,
                Features::Floats(Vec::new()),
                Targets::Classes(Vec::new()),
            ),
            order: Vec::new(),
            spare: Vec::new(),
        }
    }
}

/// Rows of evaluation that go through a model at once.
const EVALUATION_ROWS: usize = 256;

impl Desk {
    /// Loss and hits of `predictor` on all of those examples.
    pub fn tally(
        &mut self,
        model: &dyn Model,
        predictor: &Predictor<'_>,
        examples: &Examples,
    ) -> Tally {
        let mut tally = Tally::default();
        for start in (0..examples.len()).step_by(EVALUATION_ROWS) {
            let batch = examples.batch(start, EVALUATION_ROWS);
            let outputs = predictor.outputs(model, &batch, &mut self.workspace);
            tally.add(&model.tally(&batch, outputs));
        }
        tally
    }
}

/// A model that can be asked for outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictor<'a> {
    /// Parameters, borrowed.
    At(&'a [f32]),
    /// Parameters, made for the occasion.
    Own(Params),
    /// α·(outputs at v) + (1−α)·(outputs at w).
    MixedOutputs {
        /// α
        alpha: f32,
        /// v
        v: &'a [f32],
        /// w
        w: &'a [f32],
    },
}

impl Predictor<'_> {
    /// The outputs for a batch.
    pub fn outputs<'w>(
        &self,
        model: &dyn Model,
        batch: &Batch<'_>,
        ws: &'w mut Workspace,
    ) -> &'w [f32] {
        match self {
            Predictor::At(at) => model.forward(at, batch, ws),
            Predictor::Own(at) => model.forward(at, batch, ws),
            Predictor::MixedOutputs { alpha, v, w } => {
                model.forward(w, batch, ws);
                let of_w = ws.outputs.clone();
                model.forward(v, batch, ws);
                for (out, of_w) in ws.outputs.iter_mut().zip(&of_w) {
                    *out = alpha * *out + (1.0 - alpha) * of_w;
                }
            }
        }
        &ws.outputs
    }
}

/// A loss that is not a finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trouble {
    /// The local step, from 1.
    pub step: u64,
    /// inf or NaN.
    pub loss: f64,
}

/// A client in a round, as an algorithm sees it.
pub struct Site<'a> {
    model: &'a dyn Model,
    train: &'a Examples,
    pace: Pace,
    round: u64,
    steps: u64,
    rng: Stream,
    desk: &'a mut Desk,
    at: usize,
    batches: u64,
    trouble: Option<Trouble>,
    augmentation: Option<Augmentation>,
}

impl<'a> Site<'a> {
    /// A client's examples in round `round`, with `rng` for their order.
    pub fn new(
        model: &'a dyn Model,
        train: &'a Examples,
        pace: Pace,
        round: u64,
        rng: Stream,
        desk: &'a mut Desk,
    ) -> Self {
        desk.order.clear();
        Self {
            model,
            train,
            pace,
            round,
            steps: pace.steps(train.len()),
            rng,
            desk,
            at: 0,
            batches: 0,
            trouble: None,
            augmentation: None,
        }
    }

    /// The same, with `rng` for flips and crops where the model trains on such images.
    /// They happen to the batches of training alone.
    pub fn augmenting(mut self, rng: Stream) -> Self {
        let shape = self.model.augmented();
        self.augmentation = shape.map(|shape| Augmentation::new(shape, rng));
        self
    }

    /// τ: the local steps of this round.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// η_t of local step `s` = 0, 1, … of this round.
    pub fn rate(&self, s: u64) -> f32 {
        let clock = Clock {
            round: self.round,
            step: (self.round - 1) * self.steps + s,
            steps_per_epoch: self.pace.steps_per_epoch(self.train.len()),
        };
        self.pace.schedule.rate(self.pace.learning_rate, clock) as f32
    }

    /// The model.
    pub fn model(&self) -> &'a dyn Model {
        self.model
    }

    /// Moves on to the next mini-batch ξ: a fresh permutation of the examples a round,
    /// another when it is used up, the last short batch kept.
    pub fn next_batch(&mut self) {
        self.batches += 1;
        if self.sees_all() && self.augmentation.is_none() {
            return;
        }
        let m = self.train.len();
        let size = self.pace.batch.unwrap_or(m);
        let Desk { order, batch, .. } = &mut *self.desk;
        if self.at >= order.len() {
            order.clear();
            order.extend(0..m as u32);
            order.shuffle(&mut self.rng);
            self.at = 0;
        }
        let end = (self.at + size).min(m);
        self.train.gather_into(&order[self.at..end], batch);
        self.at = end;
        if let Some(augmentation) = &mut self.augmentation {
            augmentation.apply(batch);
        }
    }

    /// Whether every batch is the whole of the examples.
    fn sees_all(&self) -> bool {
        self.pace.batch.is_none_or(|size| size >= self.train.len())
    }

    fn with_batch<T>(
        &mut self,
        work: impl FnOnce(&dyn Model, &Batch<'_>, &mut Workspace) -> T,
    ) -> T {
        assert!(self.batches > 0, "next_batch comes first");
        let untouched = self.sees_all() && self.augmentation.is_none();
        let Desk {
            batch, workspace, ..
        } = &mut *self.desk;
        let batch = if untouched {
            self.train.all()
        } else {
            batch.all()
        };
        work(self.model, &batch, workspace)
    }

    fn watch(&mut self, loss: f64) -> f64 {
        if !loss.is_finite() && self.trouble.is_none() {
            self.trouble = Some(Trouble {
                step: self.batches,
                loss,
            });
        }
        loss
    }

    /// grad ← ∇f(at; ξ). Gives the loss without its ℓ2 term.
    pub fn gradient(&mut self, at: &[f32], grad: &mut [f32]) -> f64 {
        let loss = self.with_batch(|model, batch, ws| model.gradient(at, batch, ws, grad));
        self.watch(loss)
    }

    /// x ← x − rate·∇f(x; ξ). Gives the loss at the old x.
    pub fn descend(&mut self, x: &mut [f32], rate: f32) -> f64 {
        let loss = self.with_batch(|model, batch, ws| model.descend(None, x, rate, batch, ws));
        self.watch(loss)
    }

    /// x ← x − rate·∇f(at; ξ). Gives the loss at `at`.
    pub fn descend_at(&mut self, at: &[f32], x: &mut [f32], rate: f32) -> f64 {
        let loss = self.with_batch(|model, batch, ws| model.descend(Some(at), x, rate, batch, ws));
        self.watch(loss)
    }

    /// The first loss of this round that was not finite.
    pub fn trouble(&self) -> Option<Trouble> {
        self.trouble
    }

    /// A vector of the model's size with arbitrary content, from the desk.
    pub fn borrow(&mut self) -> Params {
        let mut spare = self.desk.spare.pop().unwrap_or_default();
        spare.resize(self.model.layout().len(), 0.0);
        spare
    }

    /// Gives a borrowed vector back.
    pub fn give_back(&mut self, spare: Params) {
        self.desk.spare.push(spare);
    }
}
