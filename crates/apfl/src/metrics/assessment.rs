//! Final scores of a model, computed from mergeable summary statistics.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::auc::{self, LogitBins};
use crate::moments::Moments;

/// The largest number of classes with a pooled AUC and a confusion matrix.
pub const MAX_RANKED_CLASSES: usize = 100;
/// Number of bins of a probability.
const PROBABILITY_BINS: usize = 10;

/// Prediction for one example of a classification task.
#[derive(Clone, Debug)]
pub struct ClassPrediction {
    /// The true class.
    pub truth: usize,
    /// The predicted class.
    pub predicted: usize,
    /// The probability of every class, if the loss defines probabilities.
    pub probabilities: Option<Vec<f64>>,
}

/// Mergeable sums over examples, from which final scores are computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// Number of examples of each (true class, predicted class).
    #[serde(with = "listed")]
    pub confusion: BTreeMap<(u32, u32), u64>,
    /// Σ of the Brier scores, if there are probabilities.
    pub brier: Option<f64>,
    /// For every ranked class, per bin of the logit: the number of examples (of it, of others).
    pub ranks: Vec<LogitBins>,
    /// Per bin of the probability: examples, Σ probability, correct predictions.
    pub calibration: Vec<(u64, f64, u64)>,
    /// Error sums of regression.
    pub values: Option<ErrorSums>,
    /// The exact area under the curve of a single client; dropped when merged.
    pub auc: Option<f64>,
}

/// Serializes a map with non-string keys as a list of pairs.
mod listed {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serializer};

    type Map = BTreeMap<(u32, u32), u64>;

    pub(super) fn serialize<S: Serializer>(map: &Map, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(map)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Map, D::Error> {
        let pairs: Vec<((u32, u32), u64)> = Vec::deserialize(from)?;
        Ok(pairs.into_iter().collect())
    }
}

/// Error sums of regression, in the standardized units of training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSums {
    /// Moments of the true values.
    pub truth: Moments,
    /// Σ|error|
    pub absolute: f64,
    /// Σ error²
    pub squared: f64,
    /// Σ|error| of the baseline: the mean of the client's training examples.
    pub mean_absolute: f64,
    /// Σ error² of the baseline.
    pub mean_squared: f64,
}

impl Assessment {
    /// Assesses the predictions of one client for `classes` classes.
    pub fn of_classes(classes: usize, predictions: impl Iterator<Item = ClassPrediction>) -> Self {
        let mut all = Self::default();
        for one in predictions {
            let place = (one.truth as u32, one.predicted as u32);
            *all.confusion.entry(place).or_default() += 1;
            if let Some(p) = one.probabilities {
                *all.brier.get_or_insert(0.0) += brier(&p, one.truth);
                let (p, so) = match classes {
                    2 => (p[1], one.truth == 1),
                    _ => (p[one.predicted], one.truth == one.predicted),
                };
                all.calibration.resize(PROBABILITY_BINS, (0, 0.0, 0));
                let last = PROBABILITY_BINS - 1;
                let bin = &mut all.calibration[((p * PROBABILITY_BINS as f64) as usize).min(last)];
                *bin = (bin.0 + 1, bin.1 + p, bin.2 + u64::from(so));
            }
        }
        all
    }

    /// Adds the exact area under the curve of one client, and its counts per bin of the logit.
    /// `ranks` replaces its argument by an example's ranking score and logit for every class (with
    /// two classes: for the second only).
    pub fn rank(
        &mut self,
        classes: usize,
        truths: &[u32],
        ranks: impl FnMut(usize, &mut Vec<(f64, f64)>),
    ) {
        if classes <= MAX_RANKED_CLASSES {
            self.ranks = vec![LogitBins::new(); auc::ranked(classes)];
        }
        self.auc = auc::exact(classes, truths, ranks, &mut self.ranks);
    }

    /// Adds the sums of another client.
    pub fn add(&mut self, other: &Assessment) {
        for (place, count) in &other.confusion {
            *self.confusion.entry(*place).or_default() += count;
        }
        if let Some(brier) = other.brier {
            *self.brier.get_or_insert(0.0) += brier;
        }
        self.ranks
            .resize(self.ranks.len().max(other.ranks.len()), LogitBins::new());
        for (mine, other) in self.ranks.iter_mut().zip(&other.ranks) {
            for (bin, counts) in other {
                let sum = mine.entry(*bin).or_default();
                *sum = (sum.0 + counts.0, sum.1 + counts.1);
            }
        }
        let bins = self.calibration.len().max(other.calibration.len());
        self.calibration.resize(bins, (0, 0.0, 0));
        for (mine, other) in self.calibration.iter_mut().zip(&other.calibration) {
            *mine = (mine.0 + other.0, mine.1 + other.1, mine.2 + other.2);
        }
        if let Some(more) = &other.values {
            let values = self.values.get_or_insert_default();
            values.truth.merge(&more.truth);
            values.absolute += more.absolute;
            values.squared += more.squared;
            values.mean_absolute += more.mean_absolute;
            values.mean_squared += more.mean_squared;
        }
        self.auc = None;
    }

    /// Returns whether these can be sums over examples of `classes` classes (0: regression).
    pub fn fits(&self, classes: usize) -> bool {
        let in_range = |count: u64| count <= u64::from(u32::MAX);
        let is_class = |class: u32| (class as usize) < classes;
        (self.confusion.iter()).all(|((a, b), n)| is_class(*a) && is_class(*b) && in_range(*n))
            && self.ranks.len() <= classes
            && (self.ranks.iter().flatten())
                .all(|(bin, (a, b))| (*bin as usize) < auc::BINS && in_range(*a) && in_range(*b))
            && self.calibration.len() <= PROBABILITY_BINS
            && (self.calibration.iter())
                .all(|(n, p, so)| in_range(*n) && so <= n && (0.0..=*n as f64).contains(p))
            && (self.values.iter()).all(|values| values.truth.n <= u64::from(u32::MAX))
    }

    /// Returns whether all sums are finite.
    pub fn is_finite(&self) -> bool {
        let values = self.values.iter().flat_map(|v| {
            let baseline = [v.mean_absolute, v.mean_squared];
            [v.truth.mean, v.truth.m2, v.absolute, v.squared]
                .into_iter()
                .chain(baseline)
        });
        values.chain(self.brier).chain(self.auc).all(f64::is_finite)
    }

    /// Returns the number of examples.
    pub fn examples(&self) -> u64 {
        match &self.values {
            Some(values) => values.truth.n,
            None => self
                .confusion
                .values()
                .fold(0, |sum, n| sum.saturating_add(*n)),
        }
    }

    /// Computes the scores. `unit` is the value of 1 in the label's own units.
    pub fn detail(&self, classes: usize, unit: f64) -> Detail {
        let n = self.examples() as f64;
        if classes == 0 {
            let values = self.values.unwrap_or_default();
            let known = |x: f64| (n > 0.0).then_some(x);
            return Detail::Values {
                mae: known(unit * values.absolute / n),
                r2: (values.truth.m2 > 0.0).then(|| 1.0 - values.squared / values.truth.m2),
            };
        }
        let auc = match self.auc {
            Some(exact) => Some(exact),
            None => mean(self.ranks.iter().filter_map(auc::binned)),
        };
        Detail::Classes {
            balanced_accuracy: self.balanced_accuracy(classes),
            f1: self.f1(classes),
            auc,
            brier: self.brier.map(|sum| sum / n),
        }
    }

    /// Returns the confusion matrix: rows are true classes, columns predicted classes. `None`
    /// with too many classes.
    pub(crate) fn confusion_matrix(&self, classes: usize) -> Option<Vec<Vec<u64>>> {
        (1..=MAX_RANKED_CLASSES).contains(&classes).then(|| {
            let mut matrix = vec![vec![0; classes]; classes];
            for ((truth, predicted), count) in &self.confusion {
                matrix[*truth as usize][*predicted as usize] = *count;
            }
            matrix
        })
    }

    /// Returns per class the number of examples, of predictions, and of correct predictions.
    fn counts(&self, classes: usize) -> Vec<[f64; 3]> {
        let mut counts = vec![[0.0; 3]; classes];
        for ((truth, predicted), count) in &self.confusion {
            let count = *count as f64;
            counts[*truth as usize][0] += count;
            counts[*predicted as usize][1] += count;
            if truth == predicted {
                counts[*truth as usize][2] += count;
            }
        }
        counts
    }

    /// Returns the mean recall over the classes present.
    fn balanced_accuracy(&self, classes: usize) -> Option<f64> {
        let counts = self.counts(classes);
        let present = counts.iter().filter(|[examples, ..]| *examples > 0.0);
        mean(present.map(|[examples, _, correct]| correct / examples))
    }

    /// Returns the mean of 2·correct/(examples + predictions) over the classes present or predicted.
    fn f1(&self, classes: usize) -> Option<f64> {
        let counts = self.counts(classes);
        let known = counts.iter().filter(|[a, b, _]| a + b > 0.0);
        mean(known.map(|[examples, predictions, correct]| 2.0 * correct / (examples + predictions)))
    }
}

/// Returns (p − y)² for two classes and Σₖ(pₖ − yₖ)² for more, as scikit-learn does.
fn brier(p: &[f64], truth: usize) -> f64 {
    let square = |(k, p): (usize, &f64)| (p - f64::from(u8::from(k == truth))).powi(2);
    match p.len() {
        2 => square((1, &p[1])),
        _ => p.iter().enumerate().map(square).sum(),
    }
}

/// Returns the mean; `None` without values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

/// Scores beyond loss and accuracy; null where undefined.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Detail {
    /// Scores of classification.
    Classes {
        /// The mean recall over the classes present.
        #[serde(deserialize_with = "required")]
        balanced_accuracy: Option<f64>,
        /// The mean F1 over the classes present or predicted.
        #[serde(deserialize_with = "required")]
        f1: Option<f64>,
        /// The area under the ROC curve; for more than two classes the mean of one against the rest.
        #[serde(deserialize_with = "required")]
        auc: Option<f64>,
        /// The mean squared error of probabilities.
        #[serde(deserialize_with = "required")]
        brier: Option<f64>,
    },
    /// Scores of regression.
    Values {
        /// The mean absolute error, in the label's own units.
        #[serde(deserialize_with = "required")]
        mae: Option<f64>,
        /// The share of explained variance.
        #[serde(deserialize_with = "required")]
        r2: Option<f64>,
    },
}

/// Deserializes a number or null; the field must be present.
fn required<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(from)
}

impl Detail {
    /// Returns every score with its name and whether high is good.
    pub fn named(&self) -> Vec<(&'static str, Option<f64>, bool)> {
        match *self {
            Detail::Classes {
                balanced_accuracy,
                f1,
                auc,
                brier,
            } => vec![
                ("balanced_accuracy", balanced_accuracy, true),
                ("f1", f1, true),
                ("auc", auc, true),
                ("brier", brier, false),
            ],
            Detail::Values { mae, r2 } => vec![("mae", mae, false), ("r2", r2, true)],
        }
    }

    /// Returns the same variant with all scores replaced, in the order of [`Detail::named`].
    pub(crate) fn with_scores(&self, values: &[Option<f64>]) -> Self {
        match self {
            Detail::Classes { .. } => Detail::Classes {
                balanced_accuracy: values[0],
                f1: values[1],
                auc: values[2],
                brier: values[3],
            },
            Detail::Values { .. } => Detail::Values {
                mae: values[0],
                r2: values[1],
            },
        }
    }

    /// Returns a score by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        let named = self.named();
        named.iter().find(|(n, ..)| *n == name).and_then(|n| n.1)
    }
}
