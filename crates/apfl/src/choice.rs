//! Models that a client may choose to serve, and how it chooses: the settings and messages of a
//! choice. [`run::choice`](crate::run::choice) has the rule.
//!
//! The shared model's path depends on no α, so one run trains a model for every α of a list
//! A. Passes with rows held out give the loss of each; a last pass trains on all rows with
//! the α that was chosen.

use serde::{Deserialize, Serialize};

/// A model that a client may serve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Candidate {
    /// The shared model, as it was received.
    Shared,
    /// v̄ᵢᵃ = a·vᵢᵃ + (1−a)wᵢ: 0 is the localized model, 1 training alone.
    Mixing(f32),
}

impl Candidate {
    /// Returns the name in files: `shared`, or α.
    pub fn name(self) -> String {
        match self {
            Candidate::Shared => "shared".into(),
            Candidate::Mixing(alpha) => alpha.to_string(),
        }
    }

    /// Returns the candidate of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "shared" => Some(Candidate::Shared),
            alpha => alpha.parse().ok().map(Candidate::Mixing),
        }
    }

    /// Returns α, or `None` for the shared model.
    pub fn mixing(self) -> Option<f32> {
        match self {
            Candidate::Shared => None,
            Candidate::Mixing(alpha) => Some(alpha),
        }
    }
}

/// One training of a run that has several: to find its learning rate, or to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub enum Pass {
    /// A few rounds with one learning rate, with a tenth of every client's training rows held
    /// out.
    Probe,
    /// All candidates, with this part of every client's training rows held out; from 1.
    HeldOut(u64),
    /// All training rows, each client with what it chose.
    Last,
}

/// Settings of a choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Choosing {
    /// A, ascending.
    pub candidates: Vec<f32>,
    /// Passes with rows held out.
    pub folds: u64,
    /// κ
    pub prior: f64,
    /// The share held out where there is one such pass.
    pub aside: f64,
    /// Whether a last pass trains on all rows.
    pub refit: bool,
    /// Runs this pass alone.
    pub pass: Option<u64>,
}

impl Choosing {
    /// Returns a choice from these α with the default settings.
    pub fn from(candidates: impl Into<Vec<f32>>) -> Self {
        let mut candidates = candidates.into();
        candidates.sort_by(f32::total_cmp);
        Self {
            candidates,
            folds: 5,
            prior: 50.0,
            aside: 0.2,
            refit: true,
            pass: None,
        }
    }

    /// Returns all candidates in the order that decides ties: the shared model (if there are
    /// several α), then the α, ascending.
    pub fn list(&self) -> Vec<Candidate> {
        let shared = (self.candidates.len() > 1).then_some(Candidate::Shared);
        let mixings = self.candidates.iter().copied().map(Candidate::Mixing);
        shared.into_iter().chain(mixings).collect()
    }

    /// Returns the only pass of the run, if it has one pass: a part of a choice, or a choice
    /// without a last pass.
    pub fn single(&self) -> Option<Pass> {
        match self.pass {
            Some(pass) => Some(Pass::HeldOut(pass)),
            None if self.refit => None,
            None => Some(Pass::HeldOut(1)),
        }
    }

    /// Returns how often the shared model is trained: once per fold, and once on all rows.
    pub fn passes(&self) -> u64 {
        if self.refit { self.folds + 1 } else { 1 }
    }

    /// Returns whether 1 is a candidate, so that every client also trains alone.
    pub(crate) fn has_alone(&self) -> bool {
        self.candidates.contains(&1.0)
    }
}

/// Losses of a client on its held-out rows: one sum per candidate, in their order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct HeldOut {
    /// |Hᵢ|
    pub rows: u64,
    /// Σ_{x∈Hᵢ} ℓ(·; x)
    pub sums: Vec<f64>,
}

impl HeldOut {
    /// Adds the losses of another pass or client.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.sums.resize(self.sums.len().max(other.sums.len()), 0.0);
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            *sum += more;
        }
    }

    /// Returns the mean loss of every candidate; 0 without rows.
    pub fn means(&self) -> Vec<f64> {
        let rows = self.rows.max(1) as f64;
        self.sums.iter().map(|sum| sum / rows).collect()
    }
}
