//! What a choice among mixings leaves to be read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::choice::{Candidate, HeldOut};
use crate::metrics::Gain;
use crate::run::choice::{Choice, Choices};

/// What a client chose: α, or the word `shared`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Alpha {
    /// α
    Mixing(f64),
    /// `shared`
    Word(String),
}

impl Alpha {
    /// Of a candidate.
    pub fn of(candidate: Candidate) -> Self {
        match candidate.mixing() {
            // The shortest decimal of the f32.
            Some(alpha) => Alpha::Mixing(alpha.to_string().parse().expect("its own digits")),
            None => Alpha::Word(candidate.name()),
        }
    }

    /// As [`Candidate::name`] has it.
    pub fn name(&self) -> String {
        match self {
            Alpha::Mixing(alpha) => alpha.to_string(),
            Alpha::Word(word) => word.clone(),
        }
    }
}

/// `"chosen"` of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChosenRecord {
    /// What it serves.
    pub alpha: Alpha,
    /// Its held-out rows.
    pub rows: u64,
    /// The mean loss of every candidate on them, by name; null where there are none.
    pub losses: BTreeMap<String, Option<f64>>,
}

impl ChosenRecord {
    /// Of a client's choice from a list.
    pub fn of(choice: &Choice, list: &[Candidate]) -> Self {
        Self {
            alpha: Alpha::of(choice.candidate),
            rows: choice.held_out.rows,
            losses: losses(list, &choice.held_out),
        }
    }
}

/// `"prior"` of a summary: ℓ̄.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// Held-out rows of all clients.
    pub rows: u64,
    /// κ
    pub examples: f64,
    /// The mean loss of every candidate on them, by name.
    pub losses: BTreeMap<String, Option<f64>>,
}

impl Prior {
    /// Of everybody's choices.
    pub fn of(choices: &Choices, examples: f64) -> Self {
        Self {
            rows: choices.total.rows,
            examples,
            losses: losses(&choices.candidates, &choices.total),
        }
    }
}

fn losses(list: &[Candidate], held_out: &HeldOut) -> BTreeMap<String, Option<f64>> {
    let means = held_out.means().into_iter();
    let means = means.map(|mean| (held_out.rows > 0).then_some(mean));
    let means = means.chain(std::iter::repeat(None));
    list.iter().map(|c| c.name()).zip(means).collect()
}

/// A line of a pass's `held-out.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldOutRecord {
    /// The client's name.
    pub client: String,
    /// Its rows, and the sum of every candidate's losses, in the order of the list.
    #[serde(flatten)]
    pub held_out: HeldOut,
}

/// Rows that a gain is measured on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Rows by which nothing was chosen and nothing tuned.
    Test,
    /// Validation rows: by which no α was chosen.
    Valid,
}

/// `"gain"` of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TotalGain {
    /// On which rows.
    pub part: Part,
    /// Over all of them.
    #[serde(flatten)]
    pub gain: Gain,
}
