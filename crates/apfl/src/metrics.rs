//! Scores of models on examples, and their summaries over clients.

use serde::{Deserialize, Serialize};

#[doc(hidden)]
pub mod assessment;
mod auc;
mod finals;

#[doc(hidden)]
pub use assessment::{Assessment, Detail};
pub use finals::{FinalScore, FinalScores, OverClients};
#[doc(hidden)]
pub use finals::{Finals, FinalsAccumulator, Scoring};

/// Sums over examples, from which scores are computed. Adding them in client order is
/// reproducible to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Tally {
    /// Number of examples.
    pub examples: u64,
    /// Sum of their losses, without the ℓ2 term.
    #[serde(deserialize_with = "number_or_null")]
    pub loss: f64,
    /// Number of correctly classified examples.
    pub correct: u64,
    /// Sum of squared errors (regression).
    #[serde(deserialize_with = "number_or_null")]
    pub squared_error: f64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: &Tally) {
        self.examples += other.examples;
        self.loss += other.loss;
        self.correct += other.correct;
        self.squared_error += other.squared_error;
    }

    /// Returns mean loss and accuracy, or root mean squared error. Without examples the loss is
    /// NaN and the others are `None`.
    pub fn score(&self, regression: bool) -> Score {
        let n = self.examples as f64;
        let nonempty = self.examples > 0;
        Score {
            loss: self.loss / n,
            accuracy: (nonempty && !regression).then_some(self.correct as f64 / n),
            rmse: (nonempty && regression).then(|| (self.squared_error / n).sqrt()),
        }
    }
}

/// Loss and accuracy of one model on one set of examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Mean loss, without the ℓ2 term; NaN (null in JSON) without examples.
    #[serde(deserialize_with = "number_or_null")]
    pub loss: f64,
    /// Share of examples classified correctly; null for regression.
    pub accuracy: Option<f64>,
    /// Root mean squared error; for regression only.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rmse: Option<f64>,
}

/// Reads a number that JSON writes as null where it is not finite.
pub(crate) fn number_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    if from.is_human_readable() {
        Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
    } else {
        f64::deserialize(from)
    }
}

/// A model's tallies on training and validation examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Tallies {
    /// On training examples.
    pub train: Tally,
    /// On held-out examples.
    pub valid: Tally,
}

impl Tallies {
    /// Adds other tallies.
    pub fn add(&mut self, other: &Tallies) {
        self.train.add(&other.train);
        self.valid.add(&other.valid);
    }

    /// Returns the scores of both.
    pub fn scores(&self, regression: bool) -> Scores {
        Scores {
            train: self.train.score(regression),
            valid: self.valid.score(regression),
        }
    }
}

/// The largest of the clients' mean losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct WorstLosses {
    /// On training examples; null in JSON if it is not finite.
    #[serde(deserialize_with = "number_or_null")]
    pub train: f64,
    /// On held-out examples; null in JSON if it is not finite.
    #[serde(deserialize_with = "number_or_null")]
    pub valid: f64,
}

/// A model's tallies over clients: their sum and the worst losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Pool {
    /// Sum over all examples.
    pub sum: Tallies,
    /// The largest mean loss of a client.
    pub worst: WorstLosses,
}

impl Pool {
    /// Adds a client.
    pub fn add(&mut self, client: &Tallies) {
        self.sum.add(client);
        let loss = |tally: &Tally| tally.loss / tally.examples as f64;
        self.worst.train = self.worst.train.max(loss(&client.train));
        self.worst.valid = self.worst.valid.max(loss(&client.valid));
    }
}

/// A model's scores on training and validation examples.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// On training examples.
    pub train: Score,
    /// On held-out examples.
    pub valid: Score,
}

/// Gain of a client from the federation: over some rows, the loss of its own tuned fit minus the
/// loss of the model that it serves.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gain {
    /// Number of rows.
    pub n: u64,
    /// Mean difference; null without rows.
    pub mean: Option<f64>,
    /// Standard deviation (n − 1); null with fewer than two rows.
    pub sd: Option<f64>,
    /// Skewness, the third central moment over that of the standard deviation (both with 1/n);
    /// null with fewer than three rows or without spread.
    #[serde(default)]
    pub skew: Option<f64>,
}

impl Gain {
    /// Computes the gain from the differences per row.
    pub fn of(differences: &[f64]) -> Self {
        let n = differences.len() as u64;
        let mean = (n > 0).then(|| differences.iter().sum::<f64>() / n as f64);
        let power = |k: i32| -> f64 {
            let mean = mean.unwrap_or(0.0);
            differences.iter().map(|d| (d - mean).powi(k)).sum()
        };
        Self::from_sums(n, mean, power(2), power(3))
    }

    /// Creates the gain from Σ(d − m)² and Σ(d − m)³.
    fn from_sums(n: u64, mean: Option<f64>, squares: f64, cubes: f64) -> Self {
        let rows = n as f64;
        let spread = (squares / rows).powf(1.5);
        Self {
            n,
            mean,
            sd: (n > 1).then(|| (squares / (rows - 1.0)).sqrt()),
            skew: (n > 2 && spread > 0.0).then(|| cubes / rows / spread),
        }
    }

    /// Returns Σ(d − m)² and Σ(d − m)³ about its own mean.
    fn sums(&self) -> (f64, f64) {
        let n = self.n as f64;
        let squares = (n - 1.0).max(0.0) * self.sd.unwrap_or(0.0).powi(2);
        let cubes = match self.skew {
            Some(skew) => n * skew * (squares / n).powf(1.5),
            None => 0.0,
        };
        (squares, cubes)
    }

    /// Pools the rows of several clients.
    pub fn pooled<'a>(clients: impl Iterator<Item = &'a Gain> + Clone) -> Self {
        let n: u64 = clients.clone().map(|gain| gain.n).sum();
        let sums = clients.clone().map(|g| g.n as f64 * g.mean.unwrap_or(0.0));
        let mean = (n > 0).then(|| sums.sum::<f64>() / n as f64);
        // With δᵢ = mᵢ − m: Σ(d − m)² = Σᵢ [Sᵢ + nᵢδᵢ²] and Σ(d − m)³ = Σᵢ [Cᵢ + 3δᵢSᵢ + nᵢδᵢ³].
        let (mut squares, mut cubes) = (0.0, 0.0);
        for gain in clients.filter(|g| g.n > 0) {
            let shift = gain.mean.unwrap_or(0.0) - mean.unwrap_or(0.0);
            let (own_squares, own_cubes) = gain.sums();
            squares += own_squares + gain.n as f64 * shift.powi(2);
            cubes += own_cubes + 3.0 * shift * own_squares + gain.n as f64 * shift.powi(3);
        }
        Self::from_sums(n, mean, squares, cubes)
    }
}

/// The three models of the paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ByModel<T> {
    /// The server's model.
    pub shared: T,
    /// The client's copy of it after local steps, before aggregation.
    pub localized: T,
    /// The model that the client serves.
    pub personal: T,
}

impl<T> ByModel<T> {
    /// Applies `f` to each.
    pub fn map<U>(&self, f: impl Fn(&T) -> U) -> ByModel<U> {
        ByModel {
            shared: f(&self.shared),
            localized: f(&self.localized),
            personal: f(&self.personal),
        }
    }
}

/// Distribution of a value over clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Smallest.
    pub min: f64,
    /// First decile.
    pub q10: f64,
    /// Median.
    pub q50: f64,
    /// Last decile.
    pub q90: f64,
    /// Largest.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of some values, with linearly interpolated quantiles; `None` without
    /// values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |q: f64| {
            let at = q * last as f64;
            let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
            low + (high - low) * at.fract()
        };
        Some(Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            min: sorted[0],
            q10: quantile(0.1),
            q50: quantile(0.5),
            q90: quantile(0.9),
            max: sorted[last],
        })
    }
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let s = Spread::of(&[3.0, 1.0, 2.0, 4.0, 5.0]).unwrap();
        assert_eq!((s.min, s.q50, s.max, s.mean), (1.0, 3.0, 5.0, 3.0));
        assert!((s.q10 - 1.4).abs() < 1e-12 && (s.q90 - 4.6).abs() < 1e-12);
        assert_eq!(Spread::of(&[]), None);
    }

    /// 1, 2, 3: mean 2, deviation 1. With a client of 4 and 6 (mean 5, deviation √2) the five
    /// numbers have mean 3.2 and squares 4.84 + 1.44 + .04 + .64 + 7.84 = 14.8, over 4.
    #[test]
    fn a_gain_and_its_pool_by_hand() {
        let three = Gain::of(&[1.0, 2.0, 3.0]);
        assert_eq!((three.n, three.mean, three.sd), (3, Some(2.0), Some(1.0)));
        let two = Gain::of(&[4.0, 6.0]);
        let none = Gain::of(&[]);
        assert_eq!((none.n, none.mean, none.sd), (0, None, None));
        assert_eq!(Gain::of(&[7.0]).sd, None);
        let pool = Gain::pooled([three, none, two].iter());
        assert_eq!(pool.n, 5);
        assert!((pool.mean.unwrap() - 3.2).abs() < 1e-12);
        assert!((pool.sd.unwrap() - (14.8f64 / 4.0).sqrt()).abs() < 1e-12);
        // Cubes −10.648 − 1.728 − .008 + .512 + 21.952 = 10.08 about 3.2.
        let skew = 10.08 / 5.0 / (14.8f64 / 5.0).powf(1.5);
        assert!((pool.skew.unwrap() - skew).abs() < 1e-12);
        assert_eq!((three.skew, two.skew), (Some(0.0), None));
        // 1, 2, 6 deviate by −2, −1 and 3: squares 14, cubes 18.
        let skew = 6.0 / (14.0f64 / 3.0).powf(1.5);
        assert!((Gain::of(&[1.0, 2.0, 6.0]).skew.unwrap() - skew).abs() < 1e-12);
        assert_eq!(Gain::of(&[1.0; 4]).skew, None);
    }

    #[test]
    fn pooled_weighs_examples_and_mean_weighs_clients() {
        let client = |examples, correct, loss| {
            let t = Tally {
                examples,
                correct,
                loss,
                squared_error: 0.0,
            };
            Finals {
                tallies: Tallies { train: t, valid: t },
                ..Finals::default()
            }
        };
        // Accuracies 0.9 (10 examples) and 0.3 (30 examples): pooled 18/40, mean 0.6, std 0.3.
        let scoring = Scoring {
            classes: 2,
            unit: 1.0,
            tested: false,
        };
        let mut gathered = FinalsAccumulator::default();
        // A client without examples does not change the summary.
        for client in [client(10, 9, 1.0), client(30, 9, 9.0), client(0, 0, 0.0)] {
            gathered.add(&client, &scoring);
        }
        let o = gathered.summarize(&scoring).unwrap();
        let acc = |s: &FinalScores| s.valid.accuracy.unwrap();
        assert_eq!(acc(&o.pooled), 0.45);
        assert!((acc(&o.mean) - 0.6).abs() < 1e-12 && (acc(&o.std) - 0.3).abs() < 1e-12);
        assert_eq!((acc(&o.worst_decile), acc(&o.min)), (0.3, 0.3));
        assert_eq!(o.pooled.test, None);
        // WorstLosses 0.1 and 0.3: the worst is the highest.
        assert_eq!(o.worst_decile.valid.loss, 0.3);
        assert_eq!(o.min.valid.loss, 0.1);
    }
}
