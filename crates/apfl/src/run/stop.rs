//! When training stops by itself, and which round it serves.
//!
//! With p = `patience` and δ = `min_delta`, training stops after evaluation k ≥ 2p if
//!
//! ```text
//! mean(L_{k−p+1} … L_k)  ≥  (1 − δ)·mean(L_{k−2p+1} … L_{k−p})
//! ```
//!
//! The means are there because single rounds are noisy. The models are those of the round with
//! the least loss, the first of equal ones.

use serde::{Deserialize, Serialize};

use crate::clients::EvaluationRows;
use crate::spec::Stop;

/// The losses that decide when training stops. It follows from the run and is part of a
/// checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// The last 2·patience losses, oldest first.
    recent: Vec<f64>,
    /// The largest finite loss.
    worst: Option<f64>,
    /// The round with the least loss, and that loss.
    best: Option<(u64, f64)>,
}

impl Losses {
    /// Adds the loss after a round. Returns whether it is the least so far.
    ///
    /// A loss that is not finite counts as the largest so far. Before the first finite one it does
    /// not count.
    pub fn add(&mut self, stop: &Stop, round: u64, loss: f64) -> bool {
        let loss = if loss.is_finite() {
            loss
        } else {
            match self.worst {
                Some(worst) => worst,
                None => return false,
            }
        };
        self.worst = Some(self.worst.map_or(loss, |worst| worst.max(loss)));
        self.recent.push(loss);
        let window = 2 * stop.patience as usize;
        let surplus = self.recent.len().saturating_sub(window);
        self.recent.drain(..surplus);
        let is_best = self.best.is_none_or(|(_, least)| loss < least);
        if is_best {
            self.best = Some((round, loss));
        }
        is_best
    }

    /// Returns whether the loss no longer improves.
    pub fn converged(&self, stop: &Stop) -> bool {
        let patience = stop.patience as usize;
        if self.recent.len() < 2 * patience {
            return false;
        }
        let (before, last) = self.recent.split_at(patience);
        let improves = mean(last) < (1.0 - stop.min_delta) * mean(before);
        !improves
    }

    /// Returns the round with the least loss, and that loss.
    pub fn best(&self) -> Option<(u64, f64)> {
        self.best
    }
}

/// Returns the median of rounds; of an even number, the mean of the middle two, rounded down.
pub fn median(mut rounds: Vec<u64>) -> Option<u64> {
    rounds.sort_unstable();
    let upper = *rounds.get(rounds.len() / 2)?;
    let lower = rounds[(rounds.len() - 1) / 2];
    Some(lower + (upper - lower) / 2)
}

/// The fewest evaluations that tell whether a loss still falls.
const FEWEST: usize = 10;
/// The fall over the last tenth of a run below which it counts as converged.
const CONVERGED: f64 = 0.01;

/// Returns by which share the loss still fell over the last tenth of a run, if that is more than
/// 1%: the mean over the last tenth's evaluations against the mean over the tenth before.
pub fn still_falling(losses: &[f64]) -> Option<f64> {
    if losses.len() < FEWEST {
        return None;
    }
    let tenth = losses.len() / 10;
    let (earlier, last) = losses.split_at(losses.len() - tenth);
    let before = mean(&earlier[earlier.len() - tenth..]);
    let fall = (before - mean(last)) / before;
    (fall > CONVERGED).then_some(fall)
}

fn mean(losses: &[f64]) -> f64 {
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// Why a run ended, and which round its models are of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopped {
    /// Why no more rounds were trained.
    pub reason: StopReason,
    /// The round that the models are of.
    pub served: u64,
    /// The rows whose loss decided.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rows: Option<EvaluationRows>,
    /// The pooled loss of the personal models after that round, on those rows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loss: Option<f64>,
}

/// Why no more rounds were trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StopReason {
    /// The loss no longer improved.
    Converged,
    /// All rounds of the spec were trained.
    Rounds,
    /// The last pass of a choice ends at the median of the best rounds of the others.
    Median,
    /// The run was interrupted and finished from its last checkpoint.
    Finish,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds losses from round 1. Returns the round after which training stops, and the best one.
    fn stops(patience: u64, min_delta: f64, losses: &[f64]) -> (Option<u64>, Option<(u64, f64)>) {
        let stop = Stop {
            patience,
            min_delta,
        };
        let mut seen = Losses::default();
        for (round, loss) in (1..).zip(losses) {
            seen.add(&stop, round, *loss);
            if seen.converged(&stop) {
                return (Some(round), seen.best());
            }
        }
        (None, seen.best())
    }

    /// Windows of p = 2, as the comments say.
    #[test]
    fn means_of_windows_by_hand() {
        // Windows: (5, 4 | 3, 2), (4, 3 | 2, 3), (3, 2 | 3, 2): 2.5 is not below 2.5.
        let losses = [5.0, 4.0, 3.0, 2.0, 3.0, 2.0, 1.0];
        assert_eq!(stops(2, 0.0, &losses), (Some(6), Some((4, 2.0))));
        // A single worse round does not stop it: (4, 1 | 3, 1) is 2.5 and 2.
        assert_eq!(stops(2, 0.0, &[4.0, 1.0, 3.0, 1.0]), (None, Some((2, 1.0))));
        // patience 1 compares neighbours.
        assert_eq!(stops(1, 0.0, &[4.0, 3.0, 3.5]), (Some(3), Some((2, 3.0))));
        assert_eq!(stops(3, 0.0, &[1.0; 5]), (None, Some((1, 1.0))));
        assert_eq!(stops(3, 0.0, &[1.0; 6]), (Some(6), Some((1, 1.0))));
    }

    /// p = 1: 100 to 99 is an improvement by 1%, to 98 by 2%.
    #[test]
    fn an_improvement_must_be_larger_than_min_delta() {
        assert_eq!(stops(1, 0.01, &[100.0, 99.0]).0, Some(2));
        assert_eq!(stops(1, 0.01, &[100.0, 98.0]).0, None);
        assert_eq!(stops(1, 0.0, &[100.0, 99.0]).0, None);
        // A loss of 0 cannot improve.
        assert_eq!(stops(1, 0.0, &[0.0, 0.0]).0, Some(2));
    }

    #[test]
    fn a_loss_that_is_not_finite_counts_as_the_largest() {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        // (3, 1 | 3, 1): 2 against 2.
        assert_eq!(
            stops(2, 0.0, &[3.0, 1.0, nan, 1.0]),
            (Some(4), Some((2, 1.0)))
        );
        // (3, 2 | 3, 0.5): 2.5 against 1.75.
        assert_eq!(stops(2, 0.0, &[3.0, 2.0, inf, 0.5]), (None, Some((4, 0.5))));
        // Before the first finite loss nothing counts.
        assert_eq!(stops(1, 0.0, &[nan, inf, 2.0]), (None, Some((3, 2.0))));
        assert_eq!(stops(1, 0.0, &[nan, inf]), (None, None));
    }

    /// A checkpoint keeps every bit: the same decisions follow.
    #[test]
    fn losses_come_back_from_json() {
        let stop = Stop::default();
        let mut losses = Losses::default();
        for round in 1..40 {
            losses.add(&stop, round, 1.0 / (3.0 + round as f64));
        }
        assert_eq!(losses.recent.len(), 20);
        let text = serde_json::to_string(&losses).unwrap();
        assert_eq!(serde_json::from_str::<Losses>(&text).unwrap(), losses);
    }

    #[test]
    fn medians_by_hand() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![7]), Some(7));
        assert_eq!(median(vec![30, 10, 20]), Some(20));
        assert_eq!(median(vec![10, 21]), Some(15));
    }

    /// Twenty evaluations, tenths of two: the means of the last four decide.
    #[test]
    fn a_loss_that_still_falls_by_more_than_a_hundredth() {
        let mut losses = vec![9.0; 16];
        losses.extend([1.0, 1.0, 0.9, 0.9]);
        let fall = still_falling(&losses).unwrap();
        assert!((fall - 0.1).abs() < 1e-12);
        losses[18..].fill(0.995);
        assert_eq!(still_falling(&losses), None);
        losses[18..].fill(2.0);
        assert_eq!(still_falling(&losses), None);
        assert_eq!(still_falling(&[2.0, 1.0]), None);
        assert_eq!(still_falling(&[0.0; 20]), None);
    }
}
