//! Which of several models a client serves: chosen by their loss on rows that were held out.
//!
//! The shared model's path depends on no α, so one run trains a model for every α of a list
//! A. Passes with rows held out give the loss of each; a last pass trains on all rows with
//! the α that was chosen.
//!
//! ```text
//! αᵢ = argmin_a [Σ_{x∈Hᵢ} ℓ(v̄ᵢᵃ; x) + κ·ℓ̄(a)] / (|Hᵢ| + κ)      ℓ̄(a) = Σᵢ Σ_{x∈Hᵢ} ℓ(v̄ᵢᵃ; x) / Σᵢ|Hᵢ|
//! ```
//!
//! with κ = `prior`: a client with few rows follows the federation, one with many its own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A model that a client may serve.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Candidate {
    /// The shared model, as it was received.
    Shared,
    /// v̄ᵢᵃ = a·vᵢᵃ + (1−a)wᵢ with this a: 0 is the localized model, 1 training alone.
    Mixing(f32),
}

impl Candidate {
    /// As it is written down: `shared`, or α.
    pub fn name(self) -> String {
        match self {
            Candidate::Shared => "shared".into(),
            Candidate::Mixing(alpha) => alpha.to_string(),
        }
    }

    /// The candidate of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "shared" => Some(Candidate::Shared),
            alpha => alpha.parse().ok().map(Candidate::Mixing),
        }
    }

    /// α, where there is one.
    pub fn mixing(self) -> Option<f32> {
        match self {
            Candidate::Shared => None,
            Candidate::Mixing(alpha) => Some(alpha),
        }
    }
}

/// One training of a run that chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pass {
    /// All candidates, with this part of every client's training rows held out; from 1.
    HeldOut(u64),
    /// All training rows, each client with what it chose.
    Last,
}

/// How a choice is made.
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
    /// One pass alone.
    pub pass: Option<u64>,
}

impl Choosing {
    /// A choice from these α with the default settings.
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

    /// Everything to choose from, in the order in which ties are decided: the shared model
    /// (where there is a choice at all), then smaller α first.
    pub fn list(&self) -> Vec<Candidate> {
        let shared = (self.candidates.len() > 1).then_some(Candidate::Shared);
        let mixings = self.candidates.iter().copied().map(Candidate::Mixing);
        shared.into_iter().chain(mixings).collect()
    }

    /// The pass that a run consists of, where it is one: a part of a choice, or one without
    /// a last pass.
    pub fn single(&self) -> Option<Pass> {
        match self.refit {
            _ if self.pass.is_some() => self.pass.map(Pass::HeldOut),
            true => None,
            false => Some(Pass::HeldOut(1)),
        }
    }

    /// How often the shared model is trained for it: with rows held out, and once more.
    pub fn passes(&self) -> u64 {
        if self.refit { self.folds + 1 } else { 1 }
    }

    /// Whether 1 is a candidate, so that every client also trains alone.
    pub fn has_alone(&self) -> bool {
        self.candidates.contains(&1.0)
    }
}

/// A client's losses on its held-out rows: sums, one for each candidate in its order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// |Hᵢ|
    pub rows: u64,
    /// Σ_{x∈Hᵢ} ℓ(·; x)
    pub sums: Vec<f64>,
}

impl HeldOut {
    /// Adds another pass, or another client.
    pub fn add(&mut self, other: &Self) {
        self.rows += other.rows;
        self.sums.resize(self.sums.len().max(other.sums.len()), 0.0);
        for (sum, more) in self.sums.iter_mut().zip(&other.sums) {
            *sum += more;
        }
    }

    /// The mean loss of every candidate; 0 where there are no rows.
    pub fn means(&self) -> Vec<f64> {
        let rows = self.rows.max(1) as f64;
        self.sums.iter().map(|sum| sum / rows).collect()
    }

    /// The candidate of the least sum, the first of equal ones.
    pub fn least(&self) -> usize {
        first_least(self.sums.iter().copied())
    }
}

/// The place of argmin_a [Σ_{Hᵢ} ℓ(a) + κ·ℓ̄(a)] / (|Hᵢ| + κ) among the candidates, the first
/// of equal ones; ℓ̄ decides where |Hᵢ| + κ = 0.
pub fn choose(own: &HeldOut, curve: &[f64], prior: f64) -> usize {
    let weight = own.rows as f64 + prior;
    if own.rows == 0 || weight == 0.0 {
        return first_least(curve.iter().copied());
    }
    let mixed = own.sums.iter().zip(curve);
    first_least(mixed.map(|(sum, mean)| (sum + prior * mean) / weight))
}

fn first_least(values: impl Iterator<Item = f64>) -> usize {
    let mut best = (0, f64::INFINITY);
    for (k, value) in values.enumerate() {
        if value < best.1 {
            best = (k, value);
        }
    }
    best.0
}

/// A client's choice, and what it was made by.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What it serves.
    pub candidate: Candidate,
    /// What it saw.
    pub held_out: HeldOut,
}

/// Everybody's choice.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// Everything there was to choose from.
    pub list: Vec<Candidate>,
    /// By the client's index.
    pub of: BTreeMap<usize, Choice>,
    /// All clients' losses: ℓ̄ and the rows it is of.
    pub all: HeldOut,
    /// Wall time of the passes before.
    pub seconds: f64,
}

impl Choices {
    /// Lets every client choose. `counts` says whose losses are part of ℓ̄, which is summed in
    /// the order of the clients.
    pub fn make(
        choosing: &Choosing,
        held_out: BTreeMap<usize, HeldOut>,
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        let list = choosing.list();
        let mut all = HeldOut {
            rows: 0,
            sums: vec![0.0; list.len()],
        };
        let counted = held_out.iter().filter(|(client, _)| counts(**client));
        counted.for_each(|(_, own)| all.add(own));
        let curve = all.means();
        let of = held_out.into_iter().map(|(client, held_out)| {
            let candidate = list[choose(&held_out, &curve, choosing.prior)];
            let choice = Choice {
                candidate,
                held_out,
            };
            (client, choice)
        });
        Self {
            of: of.collect(),
            list,
            all,
            seconds: 0.0,
        }
    }

    /// Who serves what, as engines are told.
    pub fn candidates(&self) -> Vec<(usize, Candidate)> {
        let each = self.of.iter();
        each.map(|(client, choice)| (*client, choice.candidate))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held_out(rows: u64, sums: &[f64]) -> HeldOut {
        HeldOut {
            rows,
            sums: sums.to_vec(),
        }
    }

    /// Two clients, candidates shared, 0.5 and 1. Client 0: 10 rows, sums 9, 6, 3. Client 1:
    /// 30 rows, sums 15, 18, 33. ℓ̄ = (24, 24, 36)/40 = (0.6, 0.6, 0.9).
    #[test]
    fn the_rule_by_hand() {
        let both = || {
            BTreeMap::from([
                (0, held_out(10, &[9.0, 6.0, 3.0])),
                (1, held_out(30, &[15.0, 18.0, 33.0])),
            ])
        };
        let chosen = |prior: f64| {
            let mut choosing = Choosing::from([1.0, 0.5]);
            choosing.prior = prior;
            let choices = Choices::make(&choosing, both(), |_| true);
            assert_eq!(choices.all, held_out(40, &[24.0, 24.0, 36.0]));
            [0, 1].map(|client| choices.of[&client].candidate)
        };
        let (shared, half, one) = (
            Candidate::Shared,
            Candidate::Mixing(0.5),
            Candidate::Mixing(1.0),
        );
        // Own rows alone.
        assert_eq!(chosen(0.0), [one, shared]);
        // κ = 8: client 0 has (9 + 4.8, 6 + 4.8, 3 + 7.2)/18 = (.77, .6, .57).
        assert_eq!(chosen(8.0), [one, shared]);
        // κ = 20: (9 + 12, 6 + 12, 3 + 18)/30 = (.7, .6, .7); client 1 (27, 30, 51)/50.
        assert_eq!(chosen(20.0), [half, shared]);
        // Without rows of its own: ℓ̄, whose least two tie.
        assert_eq!(choose(&HeldOut::default(), &[0.6, 0.6, 0.9], 50.0), 0);
    }

    #[test]
    fn ties_go_to_shared_then_to_the_smaller_alpha() {
        let list = Choosing::from([1.0, 0.0, 0.5]).list();
        let names: Vec<String> = list.iter().map(|c| c.name()).collect();
        assert_eq!(names, ["shared", "0", "0.5", "1"]);
        assert!(
            names
                .iter()
                .zip(list)
                .all(|(n, c)| Candidate::named(n) == Some(c))
        );
        assert_eq!(
            choose(&held_out(2, &[1.0, 1.0, 1.0, 1.0]), &[0.5; 4], 3.0),
            0
        );
        assert_eq!(
            choose(&held_out(2, &[2.0, 1.0, 1.0, 1.0]), &[0.5; 4], 3.0),
            1
        );
        // With one α there is no choice, and no shared model to choose.
        assert_eq!(Choosing::from([0.5]).list(), [Candidate::Mixing(0.5)]);
        // Nothing held out, no prior: ℓ̄ decides.
        assert_eq!(choose(&HeldOut::default(), &[0.6, 0.5, 0.9, 0.5], 0.0), 1);
    }

    #[test]
    fn attackers_are_not_part_of_the_curve() {
        let all = BTreeMap::from([
            (0, held_out(1, &[1.0, 2.0, 3.0])),
            (1, held_out(9, &[90.0, 0.0, 0.0])),
        ]);
        let choices = Choices::make(&Choosing::from([0.0, 1.0]), all, |client| client != 1);
        assert_eq!(choices.all, held_out(1, &[1.0, 2.0, 3.0]));
        assert_eq!(choices.of.len(), 2);
    }

    #[test]
    fn without_a_last_pass_there_is_one() {
        let mut choosing = Choosing::from([0.0, 1.0]);
        assert_eq!(choosing.single(), None);
        (choosing.folds, choosing.refit) = (1, false);
        assert_eq!(choosing.single(), Some(Pass::HeldOut(1)));
    }
}
