//! Everything an algorithm may see at a client.
//!
//! A [`LocalClient`] gives batches, gradients and rates. It knows no names, no files, no clock
//! and no other client.

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
pub use private::PrivateSteps;
use sampler::Sampler;
use scoring::EVALUATION_ROWS;
pub use scratch::Scratch;
pub use sgd::Sgd;

/// A loss that is not a finite number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NonFiniteLoss {
    /// The local step, from 1.
    pub step: u64,
    /// inf or NaN.
    pub loss: f64,
}

/// Which of a client's training examples a batch is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of them.
    Whole,
    /// Those that [`LocalClient::hold_out`] put aside.
    HeldOut,
    /// The others.
    Rest,
}

/// A client in a round, as an algorithm sees it.
pub struct LocalClient<'a> {
    model: &'a dyn Model,
    train: &'a Examples,
    local_training: LocalTraining,
    round: u64,
    steps: u64,
    steps_before: u64,
    rng: Stream,
    scratch: &'a mut Scratch,
    /// Whether the batch is all examples as they lie, so that none was gathered.
    whole: bool,
    batches: u64,
    non_finite: Option<NonFiniteLoss>,
    augmentation: Option<Augmentation>,
    choice: Option<Candidate>,
    private: Option<PrivateState>,
    /// What dropout's masks come from, and that of the batch.
    masks: Option<Stream>,
    mask: u64,
}

impl std::fmt::Debug for LocalClient<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("examples", &self.train.len())
            .field("round", &self.round)
            .field("steps", &self.steps)
            .finish_non_exhaustive()
    }
}

impl<'a> LocalClient<'a> {
    /// A client's examples in round `round`, with `rng` for their order.
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
        Self {
            model,
            train,
            local_training,
            round,
            steps,
            steps_before: (round - 1) * steps,
            rng,
            scratch,
            whole: false,
            batches: 0,
            non_finite: None,
            augmentation: None,
            choice: None,
            private: None,
            masks: None,
            mask: 0,
        }
    }

    /// The same, with `rng` for the outputs of hidden layers that a step drops, where the model
    /// drops some: a mask for every batch, the same for every model that sees it.
    pub fn dropping(mut self, rng: Stream) -> Self {
        self.masks = Some(rng);
        self
    }

    /// The round, from 1.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// The same at a client that has chosen what it serves.
    pub fn choosing(mut self, choice: Option<Candidate>) -> Self {
        self.choice = choice;
        self
    }

    /// What this client has chosen to serve, where it has.
    pub fn choice(&self) -> Option<Candidate> {
        self.choice
    }

    /// The same, with `rng` for flips and crops where the model trains on such images.
    /// They happen to the batches of training alone.
    pub fn augmenting(mut self, rng: Stream) -> Self {
        let shape = self.model.network().augmented();
        self.augmentation = shape.map(|shape| Augmentation::new(shape, rng));
        self
    }

    /// τ: the local steps of this round.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// For an algorithm whose rounds have numbers of steps of their own: this one has
    /// `steps`, all rounds before it had `before`.
    pub fn take_steps(&mut self, steps: u64, before: u64) {
        (self.steps, self.steps_before) = (steps, before);
    }

    /// η_t of local step `s` = 0, 1, … of this round.
    pub fn rate(&self, s: u64) -> f32 {
        self.rate_in(self.round, self.steps_before + s)
    }

    /// η_t at the end of the round before, when all its local steps were done; in round 1
    /// that of its first step.
    pub fn rate_before(&self) -> f32 {
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

    /// Whether η_t depends on t.
    pub fn rate_falls(&self) -> bool {
        self.local_training.schedule.varies()
    }

    /// The local steps before this round of a client that took part in all of them.
    pub fn steps_before(&self) -> u64 {
        self.steps_before
    }

    /// `training.momentum`.
    pub fn momentum(&self) -> f32 {
        self.local_training.momentum as f32
    }

    /// a of a theory schedule, where there is one.
    pub fn shift(&self) -> Option<f64> {
        self.local_training.schedule.shift()
    }

    /// `training.learning_rate`, whatever the schedule made of it.
    pub fn learning_rate(&self) -> f32 {
        self.local_training.learning_rate as f32
    }

    /// The model.
    pub fn model(&self) -> &'a dyn Model {
        self.model
    }

    /// Moves on to the next mini-batch ξ: a fresh permutation of the examples a round,
    /// another when it is used up, the last short batch kept.
    pub fn next_batch(&mut self) {
        self.next_batch_of(Part::Whole);
    }

    /// The next mini-batch of a part of the examples; every part has an order of its own.
    pub fn next_batch_of(&mut self, part: Part) {
        self.batches += 1;
        // Never 0, which is no mask.
        self.mask = self.masks.as_mut().map_or(0, |rng| rng.next_u64() | 1);
        let m = self.train.len();
        let size = self.local_training.batch;
        let all = part == Part::Whole && size.is_none_or(|size| size >= m);
        let same = self.whole;
        self.whole = all && self.augmentation.is_none();
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
        let sampler = match part {
            Part::Whole => whole,
            Part::Rest => rest,
            Part::HeldOut => held_out,
        };
        if sampler.len() == 0 {
            assert_eq!(part, Part::Whole, "set_aside comes first");
            sampler.fill(0..m as u32);
        }
        let rows = match (size, &self.private) {
            (Some(size), Some(_)) if size < m => {
                sampler.draw_each(size as f64 / m as f64, &mut self.rng)
            }
            _ => sampler.draw(size, &mut self.rng),
        };
        self.train.gather_into(rows, batch);
        if let Some(augmentation) = &mut self.augmentation {
            augmentation.apply(batch);
        }
    }

    /// Puts `count` of the training examples aside (at least one): evenly spaced ones,
    /// the same in every round. Of a single example both parts are that one.
    pub fn hold_out(&mut self, count: usize) {
        let m = self.train.len();
        let count = count.clamp(1, m);
        // ⌊(2j+1)·m/2k⌋ for j = 0 … k−1: strictly increasing, as k ≤ m.
        let chosen: Vec<u32> = (0..count)
            .map(|j| ((2 * j + 1) * m / (2 * count)) as u32)
            .collect();
        let others = (0..m as u32).filter(|row| chosen.binary_search(row).is_err());
        self.scratch.rest.fill(others);
        if self.scratch.rest.len() == 0 {
            self.scratch.rest.fill(0..m as u32);
        }
        self.scratch.held_out.fill(chosen);
    }

    /// Of the examples put aside only the next batch stays there: all batches of that part are
    /// that one from now on. Returns how many steps make a pass over the others.
    pub fn keep_one_batch_aside(&mut self) -> u64 {
        let Scratch { rest, held_out, .. } = &mut *self.scratch;
        let rows = held_out
            .draw(self.local_training.batch, &mut self.rng)
            .to_vec();
        held_out.fill(rows);
        self.local_training.steps_per_epoch(rest.len())
    }

    /// The training examples of this client.
    pub fn examples(&self) -> usize {
        self.train.len()
    }

    /// Does `work` with the model and the batch ξ.
    pub fn on_batch<T>(
        &mut self,
        work: impl FnOnce(&dyn Model, &Batch<'_>, &mut Workspace) -> T,
    ) -> T {
        assert!(self.batches > 0, "next_batch comes first");
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

    /// Takes note of a loss that is not finite; [`LocalClient::non_finite`] returns the first.
    pub fn watch(&mut self, loss: f64) -> f64 {
        if !loss.is_finite() && self.non_finite.is_none() {
            self.non_finite = Some(NonFiniteLoss {
                step: self.batches,
                loss,
            });
        }
        loss
    }

    /// grad ← ∇f(at; ξ). Returns the loss without its ℓ2 term.
    pub fn gradient(&mut self, at: &[f32], grad: &mut [f32]) -> f64 {
        if self.batch_is_empty() {
            let l2 = self.model.l2();
            grad.iter_mut().zip(at).for_each(|(g, at)| *g = l2 * at);
            return 0.0;
        }
        let loss = self.on_batch(|model, batch, ws| model.gradient(at, batch, ws, grad));
        self.watch(loss)
    }

    /// x ← x − rate·∇f(x; ξ). Returns the loss at the old x. At a site whose steps are private
    /// this is the shared model's step, and the private one.
    pub fn descend(&mut self, x: &mut [f32], rate: f32) -> f64 {
        if self.private.is_some() {
            return self.descend_privately(x, rate);
        }
        let loss = self.on_batch(|model, batch, ws| model.descend(None, x, rate, batch, ws));
        self.watch(loss)
    }

    /// x ← x − rate·∇f(at; ξ). Returns the loss at `at`.
    pub fn descend_at(&mut self, at: &[f32], x: &mut [f32], rate: f32) -> f64 {
        if self.batch_is_empty() {
            let decay = rate * self.model.l2();
            x.iter_mut().zip(at).for_each(|(x, at)| *x -= decay * at);
            return 0.0;
        }
        let loss = self.on_batch(|model, batch, ws| model.descend(Some(at), x, rate, batch, ws));
        self.watch(loss)
    }

    /// fᵢ(at) over all training examples, ℓ2 term included, whatever the batch.
    pub fn objective(&mut self, at: &[f32]) -> f64 {
        let tally = self
            .scratch
            .tally(self.model, &Predictor::At(at), self.train);
        self.watch(tally.loss / tally.examples as f64 + self.model.penalty(at))
    }

    /// The mean loss of `at` over the examples that [`LocalClient::hold_out`] put aside, without
    /// the ℓ2 term.
    pub fn loss_aside(&mut self, at: &[f32]) -> f64 {
        let rows = self.train.gathered(self.scratch.held_out.rows());
        assert!(!rows.is_empty(), "set_aside comes first");
        let tally = self.scratch.tally(self.model, &Predictor::At(at), &rows);
        self.watch(tally.loss / tally.examples as f64)
    }

    /// grad ← ∇fᵢ(at) over all training examples, whatever the batch.
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

    /// v ← v − rates.0·∇f(αv + (1−α)w; ξ) and w ← w − rates.1·∇f(w; ξ), both gradients at
    /// the values before the step. At a site whose steps are private, w's is: v stays here.
    pub fn descend_both(&mut self, alpha: f32, v: &mut [f32], w: &mut [f32], rates: (f32, f32)) {
        if self.private.is_some() {
            return self.descend_both_privately(alpha, v, w, rates);
        }
        let (mixed, own) =
            self.on_batch(|model, batch, ws| model.descend_both(alpha, (v, w), rates, batch, ws));
        self.watch(mixed);
        self.watch(own);
    }

    /// [`LocalClient::descend_both`] for several fixed α with a v each, and w once:
    /// v ← v − ηα·∇f(αv + (1−α)w; ξ), w ← w − η·∇f(w; ξ).
    pub fn descend_all(&mut self, models: &mut [(f32, &mut Params)], w: &mut [f32], eta: f32) {
        let sum = self.on_batch(|model, batch, ws| model.descend_all(models, w, eta, batch, ws));
        self.watch(sum);
    }

    /// The first loss of this round that was not finite.
    pub fn non_finite(&self) -> Option<NonFiniteLoss> {
        self.non_finite
    }

    /// A vector of the model's size with arbitrary content, from the scratch.
    pub fn borrow(&mut self) -> Params {
        let mut spare = self.scratch.spare.pop().unwrap_or_default();
        spare.resize(self.model.layout().len(), 0.0);
        spare
    }

    /// Gives a borrowed vector back.
    pub fn give_back(&mut self, spare: Params) {
        self.scratch.spare.push(spare);
    }
}
