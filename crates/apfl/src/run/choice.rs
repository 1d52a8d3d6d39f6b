//! The choice of the model that a client serves, by losses on held-out rows.
//!
//! ```text
//! αᵢ = argmin_a [Σ_{x∈Hᵢ} ℓ(v̄ᵢᵃ; x) + κ·ℓ̄(a)] / (|Hᵢ| + κ)      ℓ̄(a) = Σᵢ Σ_{x∈Hᵢ} ℓ(v̄ᵢᵃ; x) / Σᵢ|Hᵢ|
//! ```
//!
//! with κ = `prior`. A client with few rows follows the federation's losses, a client with many
//! rows its own.

use std::collections::BTreeMap;

use crate::choice::{Candidate, Choosing, HeldOut};

/// Returns the index of argmin_a [Σ_{Hᵢ} ℓ(a) + κ·ℓ̄(a)] / (|Hᵢ| + κ) among the candidates, the
/// first of equal ones; ℓ̄ decides if |Hᵢ| = 0.
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

/// Represents a client's choice, with the losses that it is based on.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The model that the client serves.
    pub candidate: Candidate,
    /// The losses of all candidates.
    pub held_out: HeldOut,
}

/// Represents the choices of all clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choices {
    /// All candidates.
    pub candidates: Vec<Candidate>,
    /// Choices by the client's index.
    pub by_client: BTreeMap<usize, Choice>,
    /// The summed losses of all clients, from which ℓ̄ follows.
    pub total: HeldOut,
    /// Wall time of the passes before the last one.
    pub seconds: f64,
}

impl Choices {
    /// Lets every client choose. `counts` decides whose losses are part of ℓ̄, which is summed in
    /// the order of the clients.
    pub fn make(
        choosing: &Choosing,
        held_out: BTreeMap<usize, HeldOut>,
        counts: impl Fn(usize) -> bool,
    ) -> Self {
        let candidates = choosing.list();
        let mut total = HeldOut {
            rows: 0,
            sums: vec![0.0; candidates.len()],
        };
        let counted = held_out.iter().filter(|(client, _)| counts(**client));
        counted.for_each(|(_, own)| total.add(own));
        let curve = total.means();
        let by_client = held_out.into_iter().map(|(client, held_out)| {
            let candidate = candidates[choose(&held_out, &curve, choosing.prior)];
            let choice = Choice {
                candidate,
                held_out,
            };
            (client, choice)
        });
        Self {
            by_client: by_client.collect(),
            candidates,
            total,
            seconds: 0.0,
        }
    }

    /// Returns every client with its candidate, as requests carry them.
    pub fn chosen(&self) -> Vec<(usize, Candidate)> {
        let each = self.by_client.iter();
        each.map(|(client, choice)| (*client, choice.candidate))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Pass;

    fn held_out(rows: u64, sums: &[f64]) -> HeldOut {
        HeldOut {
            rows,
            sums: sums.to_vec(),
        }
    }

    /// Two clients, candidates shared, 0.5 and 1. Client 0: 10 rows, sums 9, 6, 3. Client 1:
    /// 30 rows, sums 15, 18, 33. ℓ̄ = (24, 24, 36)/40 = (0.6, 0.6, 0.9).
    #[test]
    fn choices_by_hand() {
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
            assert_eq!(choices.total, held_out(40, &[24.0, 24.0, 36.0]));
            [0, 1].map(|client| choices.by_client[&client].candidate)
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
        assert_eq!(choices.total, held_out(1, &[1.0, 2.0, 3.0]));
        assert_eq!(choices.by_client.len(), 2);
    }

    #[test]
    fn without_a_last_pass_there_is_one() {
        let mut choosing = Choosing::from([0.0, 1.0]);
        assert_eq!(choosing.single(), None);
        (choosing.folds, choosing.refit) = (1, false);
        assert_eq!(choosing.single(), Some(Pass::HeldOut(1)));
    }
}
