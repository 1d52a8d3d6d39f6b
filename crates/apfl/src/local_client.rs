//! What an algorithm sees of a client: batches, gradients and rates.
//!
//! A [`LocalClient`] has no access to names, files, the clock or other clients.

use rand::Rng;

use crate::choice::Candidate;
use crate::data::augment::Augmentation;
use crate::data::{Batch, Examples};
use crate::model::{Model, Step, Workspace};
use crate::params::Params;
use crate::rng::Stream;
use crate::schedule::Clock;

mod local_training;
mod predictor;
mod private;
mod sampler;
mod scoring;
mod scratch;
mod sgd;

pub use local_training::{LocalTraining, LocalWork};
pub use predictor::{ModelForm, Predictor};
use private::PrivateState;
#[doc(hidden)]
pub use private::PrivateSteps;
use sampler::Sampler;
use scoring::EVALUATION_ROWS;
#[doc(hidden)]
pub use scratch::Scratch;
pub use sgd::Sgd;

/// Reports a loss that is not finite.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct NonFiniteLoss {
    /// The local step, from 1.
    pub step: u64,
    /// The loss: infinite or NaN.
    pub loss: f64,
}

/// Says which of a client's training examples a batch is sampled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchSource {
    /// All training examples.
    Whole,
    /// The examples held out by [`LocalClient::hold_out`].
    HeldOut,
    /// The examples that are not held out.
    Rest,
}

/// Random streams that a client's batches are made from.
#[derive(Clone)]
struct Streams {
    /// The order of the examples.
    order: Stream,
    /// Flips and crops of training images.
    augmentation: Option<Augmentation>,
    /// Dropout masks.
    masks: Option<Stream>,
}

/// Represents a client during one round, as an algorithm sees it.
pub struct LocalClient<'a> {
    model: &'a dyn Model,
    train: &'a Examples,
    local_training: LocalTraining,
    round: u64,
    steps: u64,
    steps_before: u64,
    streams: Streams,
    /// The streams at the start of the round.
    start: Streams,
    scratch: &'a mut Scratch,
    /// Whether the batch is all examples in their stored order, so that none is gathered.
    whole: bool,
    batches: u64,
    non_finite: Option<NonFiniteLoss>,
    choice: Option<Candidate>,
    private: Option<PrivateState>,
    /// The mask of the current batch.
    mask: u64,
}

impl std::fmt::Debug for LocalClient<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalClient")
            .field("examples", &self.train.len())
            .field("round", &self.round)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl<'a> LocalClient<'a> {
    /// Creates the client for round `round`, with `rng` for the order of its examples.
    #[doc(hidden)]
    pub fn new(
        model: &'a dyn Model,
        train: &'a Examples,
        local_training: LocalTraining,
        round: u64,
        rng: Stream,
        scratch: &'a mut Scratch,
    ) -> Self {
        scratch.whole.clear();
        scratch.rest.clear();
        scratch.held_out.clear();
        scratch.sampled += 1;
        let steps = local_training.steps(train.len());
        let streams = Streams {
            order: rng,
            augmentation: None,
            masks: None,
        };
        Self {
            model,
            train,
            local_training,
            round,
            steps,
            steps_before: (round - 1) * steps,
            start: streams.clone(),
            streams,
            scratch,
            whole: false,
            batches: 0,
            non_finite: None,
            choice: None,
            private: None,
            mask: 0,
        }
    }

    /// Sets the stream of dropout masks: one mask per batch, the same for every model that
    /// sees the batch.
    pub(crate) fn with_dropout(mut self, rng: Stream) -> Self {
        self.streams.masks = Some(rng);
        self.start.masks = self.streams.masks.clone();
        self
    }

    /// Returns the round, from 1.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Sets the candidate that the client has chosen to serve.
    pub(crate) fn with_choice(mut self, choice: Option<Candidate>) -> Self {
        self.choice = choice;
        self
    }

    /// Returns the candidate that the client has chosen to serve, if any.
    pub fn choice(&self) -> Option<Candidate> {
        self.choice
    }

    /// Sets the stream of flips and crops, for models that train on augmented images.
    /// Only training batches are augmented.
    #[doc(hidden)]
    pub fn with_augmentation(mut self, rng: Stream) -> Self {
        let shape = self.model.network().augmented();
        self.streams.augmentation = shape.map(|shape| Augmentation::new(shape, rng));
        self.start.augmentation = self.streams.augmentation.clone();
        self
    }

    /// Returns τ, the number of local steps of this round.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Sets the number of steps of this round and of all rounds before it, for an algorithm
    /// whose rounds differ in length.
    pub(crate) fn take_steps(&mut self, steps: u64, before: u64) {
        (self.steps, self.steps_before) = (steps, before);
    }

    /// Returns η_t of local step `s` = 0, 1, … of this round.
    pub fn rate(&self, s: u64) -> f32 {
        self.rate_in(self.round, self.steps_before + s)
    }

    /// Returns η_t after the last local step of the previous round; in round 1, of the first step.
    pub(crate) fn rate_before(&self) -> f32 {
        self.rate_in((self.round - 1).max(1), self.steps_before)
    }

    fn rate_in(&self, round: u64, step: u64) -> f32 {
        let clock = Clock {
            round,
            step,
            steps_per_epoch: self.local_training.steps_per_epoch(self.train.len()),
        };
        self.local_training
            .schedule
            .rate(self.local_training.learning_rate, clock) as f32
    }

    /// Returns whether η_t depends on t.
    pub(crate) fn rate_varies(&self) -> bool {
        self.local_training.schedule.varies()
    }

    /// Returns the number of local steps of all previous rounds, as if the client took part in all.
    #[doc(hidden)]
    pub fn steps_before(&self) -> u64 {
        self.steps_before
    }

    /// Returns `training.momentum`.
    pub fn momentum(&self) -> f32 {
        self.local_training.momentum as f32
    }

    /// Returns the shift a of a `theory` schedule; `None` for other schedules.
    #[doc(hidden)]
    pub fn shift(&self) -> Option<f64> {
        self.local_training.schedule.shift()
    }

    /// Returns `training.learning_rate`, before the schedule is applied.
    pub fn learning_rate(&self) -> f32 {
        self.local_training.learning_rate as f32
    }

    /// Returns the model.
    pub fn model(&self) -> &'a dyn Model {
        self.model
    }

    /// Advances to the next mini-batch ξ: a fresh permutation of the examples per round, another
    /// when it is used up. The last short batch is kept.
    pub fn next_batch(&mut self) {
        self.next_batch_of(BatchSource::Whole);
    }

    /// Advances to the next mini-batch from `source`; every source has its own order.
    pub fn next_batch_of(&mut self, source: BatchSource) {
        self.batches += 1;
        // Never 0, which means no mask.
        self.mask = self
            .streams
            .masks
            .as_mut()
            .map_or(0, |rng| rng.next_u64() | 1);
        let m = self.train.len();
        let size = self.local_training.batch;
        let all = source == BatchSource::Whole && size.is_none_or(|size| size >= m);
        let same = self.whole;
        self.whole = all && self.streams.augmentation.is_none();
        if self.whole && same {
            return;
        }
        self.scratch.sampled += 1;
        if self.whole {
            return;
        }
        let Scratch {
            whole,
            rest,
            held_out,
            batch,
            ..
        } = &mut *self.scratch;
        let sampler = match source {
            BatchSource::Whole => whole,
            BatchSource::Rest => rest,
            BatchSource::HeldOut => held_out,
        };
        if sampler.len() == 0 {
            assert_eq!(source, BatchSource::Whole, "call hold_out first");
            sampler.fill(0..m as u32);
        }
        let rows = match (size, &self.private) {
            (Some(size), Some(_)) if size < m => {
                sampler.poisson_sample(size as f64 / m as f64, &mut self.streams.order)
            }
            _ => sampler.next_batch(size, &mut self.streams.order),
        };
        self.train.gather_into(rows, batch);
        if let Some(augmentation) = &mut self.streams.augmentation {
            augmentation.apply(batch);
        }
    }

    /// Returns to the start of the round, so that the next batches repeat those of the round:
    /// the same examples in the same order, augmented and masked in the same way. Rows are no
    /// longer held out. The noise of private steps is not repeated.
    pub(crate) fn rewind(&mut self) {
        self.streams = self.start.clone();
        let Scratch {
            whole,
            rest,
            held_out,
            ..
        } = &mut *self.scratch;
        for sampler in [whole, rest, held_out] {
            sampler.clear();
        }
        self.batches = 0;
    }

    /// Holds out `count` training examples (at least one), evenly spaced, the same in every
    /// round. With a single example both sources contain it.
    pub fn hold_out(&mut self, count: usize) {
        let m = self.train.len();
        let count = count.clamp(1, m);
        // ⌊(2j+1)·m/2k⌋ for j = 0 … k−1: strictly increasing, as k ≤ m.
        let held_out: Vec<u32> = (0..count)
            .map(|j| ((2 * j + 1) * m / (2 * count)) as u32)
            .collect();
        let others = (0..m as u32).filter(|row| held_out.binary_search(row).is_err());
        self.scratch.rest.fill(others);
        if self.scratch.rest.len() == 0 {
            self.scratch.rest.fill(0..m as u32);
        }
        self.scratch.held_out.fill(held_out);
    }

    /// Reduces the held-out examples to their next batch, which all later held-out batches
    /// repeat. Returns the number of steps in one pass over the other examples.
    pub(crate) fn keep_one_held_out_batch(&mut self) -> u64 {
        let Scratch { rest, held_out, .. } = &mut *self.scratch;
        let rows = held_out
            .next_batch(self.local_training.batch, &mut self.streams.order)
            .to_vec();
        held_out.fill(rows);
        self.local_training.steps_per_epoch(rest.len())
    }

    /// Returns the number of training examples.
    pub fn examples(&self) -> usize {
        self.train.len()
    }

    /// Calls `work` with the model and the current batch ξ.
    #[doc(hidden)]
    pub fn on_batch<T>(
        &mut self,
        work: impl FnOnce(&dyn Model, &Batch<'_>, &mut Workspace) -> T,
    ) -> T {
        assert!(self.batches > 0, "call next_batch first");
        let Scratch {
            batch,
            workspace,
            sampled,
            ..
        } = &mut *self.scratch;
        let examples = if self.whole { self.train } else { batch };
        let batch = Batch {
            number: *sampled,
            mask: self.mask,
            ..examples.all()
        };
        work(self.model, &batch, workspace)
    }

    /// Records a loss that is not finite; [`LocalClient::non_finite`] returns the first.
    #[doc(hidden)]
    pub fn watch(&mut self, loss: f64) -> f64 {
        if !loss.is_finite() && self.non_finite.is_none() {
            self.non_finite = Some(NonFiniteLoss {
                step: self.batches,
                loss,
            });
        }
        loss
    }

    /// Computes grad ← ∇f(at; ξ). Returns the loss without its ℓ2 term.
    pub fn gradient(&mut self, at: &[f32], grad: &mut [f32]) -> f64 {
        if self.batch_is_empty() {
            let l2 = self.model.l2();
            grad.iter_mut().zip(at).for_each(|(g, at)| *g = l2 * at);
            return 0.0;
        }
        let loss = self.on_batch(|model, batch, ws| model.gradient(at, batch, ws, grad));
        self.watch(loss)
    }

    /// Takes a step x ← x − rate·∇f(x; ξ) of the shared model. Returns the loss at the old x.
    /// In a run with example-level privacy the step is private.
    pub fn descend(&mut self, x: &mut [f32], rate: f32) -> f64 {
        if self.private.is_some() {
            return self.descend_privately(x, rate);
        }
        let loss = self.on_batch(|model, batch, ws| model.descend(None, x, rate, batch, ws));
        self.watch(loss)
    }

    /// Takes a step x ← x − rate·∇f(at; ξ). Returns the loss at `at`.
    pub(crate) fn descend_at(&mut self, at: &[f32], x: &mut [f32], rate: f32) -> f64 {
        if self.batch_is_empty() {
            let decay = rate * self.model.l2();
            x.iter_mut().zip(at).for_each(|(x, at)| *x -= decay * at);
            return 0.0;
        }
        let loss = self.on_batch(|model, batch, ws| model.descend(Some(at), x, rate, batch, ws));
        self.watch(loss)
    }

    /// Returns fᵢ(at) over all training examples, with the ℓ2 term.
    pub fn objective(&mut self, at: &[f32]) -> f64 {
        let tally = self
            .scratch
            .tally(self.model, &Predictor::At(at), self.train);
        self.watch(tally.loss / tally.examples as f64 + self.model.penalty(at))
    }

    /// Returns the mean loss of `at` over the held-out examples, without the ℓ2 term.
    pub(crate) fn held_out_loss(&mut self, at: &[f32]) -> f64 {
        let rows = self.train.gathered(self.scratch.held_out.rows());
        assert!(!rows.is_empty(), "call hold_out first");
        let tally = self.scratch.tally(self.model, &Predictor::At(at), &rows);
        self.watch(tally.loss / tally.examples as f64)
    }

    /// Computes grad ← ∇fᵢ(at) over all training examples.
    pub fn full_gradient(&mut self, at: &[f32], grad: &mut [f32]) {
        let m = self.train.len();
        let mut sum = 0.0;
        let mut decay = -self.model.l2();
        grad.fill(0.0);
        for start in (0..m).step_by(EVALUATION_ROWS) {
            let batch = self.train.batch(start, EVALUATION_ROWS);
            let ws = &mut self.scratch.workspace;
            let share = batch.len() as f32 / m as f32;
            self.model.forward(at, &batch, ws);
            sum += self.model.differentiate(&batch, ws);
            let step = Step {
                scale: share,
                decay: std::mem::take(&mut decay),
            };
            self.model.backward(Some(at), grad, step, &batch, ws);
        }
        self.watch(sum);
    }

    /// Takes the steps v ← v − rates.0·∇f(αv + (1−α)w; ξ) and w ← w − rates.1·∇f(w; ξ), both
    /// gradients at the old values. In a private run w's step is private; v stays at the client.
    pub fn descend_both(&mut self, alpha: f32, v: &mut [f32], w: &mut [f32], rates: (f32, f32)) {
        if self.private.is_some() {
            return self.descend_both_privately(alpha, v, w, rates);
        }
        let (mixed, own) =
            self.on_batch(|model, batch, ws| model.descend_both(alpha, (v, w), rates, batch, ws));
        self.watch(mixed);
        self.watch(own);
    }

    /// Does [`LocalClient::descend_both`] for several fixed α with one v each, and w once:
    /// v ← v − ηα·∇f(αv + (1−α)w; ξ), w ← w − η·∇f(w; ξ).
    pub fn descend_all(&mut self, models: &mut [(f32, &mut Params)], w: &mut [f32], eta: f32) {
        let sum = self.on_batch(|model, batch, ws| model.descend_all(models, w, eta, batch, ws));
        self.watch(sum);
    }

    /// Returns the first loss of this round that was not finite.
    #[doc(hidden)]
    pub fn non_finite(&self) -> Option<NonFiniteLoss> {
        self.non_finite
    }

    /// Borrows a vector of the model's size from the scratch; its content is arbitrary.
    #[doc(hidden)]
    pub fn borrow(&mut self) -> Params {
        let mut spare = self.scratch.spare.pop().unwrap_or_default();
        spare.resize(self.model.layout().len(), 0.0);
        spare
    }

    /// Returns a borrowed vector to the scratch.
    pub(crate) fn give_back(&mut self, spare: Params) {
        self.scratch.spare.push(spare);
    }
}
