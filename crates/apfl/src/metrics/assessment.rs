//! The final scores of a model: sums that clients can add up, and what is made of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::moments::Moments;

/// Bins of the logit, and where the outermost end.
pub const BINS: usize = 1000;
/// Logits beyond ± this are in the outermost bins.
pub const WIDEST: f64 = 20.0;
/// Data with more classes has no pooled ranking and no confusion matrix.
pub const MOST_CLASSES: usize = 100;
/// Bins of a probability.
const PROBABILITY_BINS: usize = 10;

/// What is said of one example: of classes.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The class it is of.
    pub truth: usize,
    /// The class that was answered.
    pub answer: usize,
    /// The probability of every class, where the loss has them.
    pub probabilities: Option<&'a [f64]>,
    /// Of every class (of two: of the second alone) a score that ranks examples, and its logit.
    pub ranks: &'a [(f64, f64)],
}

/// Sums over examples, of which final scores are made. They can be added up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assessment {
    /// Examples of each (class, answer).
    #[serde(with = "listed")]
    pub confusion: BTreeMap<(u32, u32), u64>,
    /// Σ of the Brier scores, where there are probabilities.
    pub brier: Option<f64>,
    /// For every class ranked: examples (of it, of others) by the bin of the logit.
    pub ranks: Vec<BTreeMap<u16, (u64, u64)>>,
    /// By bin of the probability: examples, Σ probability, how many were so.
    pub calibration: Vec<(u64, f64, u64)>,
    /// What is known of predicted numbers.
    pub values: Option<Values>,
    /// The area under the curve, exact: of a single client's examples, and not added up.
    pub auc: Option<f64>,
}

/// A map whose keys are no texts, as a list of pairs.
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

/// Sums over predicted numbers, in the units that training has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// The true ones.
    pub truth: Moments,
    /// Σ|error|
    pub absolute: f64,
    /// Σ error²
    pub squared: f64,
    /// Σ|error| of always answering the mean of the client's training examples.
    pub mean_absolute: f64,
    /// Σ error² of the same.
    pub mean_squared: f64,
}

impl Assessment {
    /// Takes in the examples of one client, of that many classes; exact about their order.
    pub fn of_classes<'a>(classes: usize, answers: impl Iterator<Item = Answer<'a>>) -> Self {
        let mut all = Self::default();
        let ranked = if classes == 2 { 1 } else { classes };
        let mut scores: Vec<Vec<(f64, bool)>> = vec![Vec::new(); ranked];
        if classes <= MOST_CLASSES {
            all.ranks = vec![BTreeMap::new(); ranked];
        }
        for one in answers {
            let place = (one.truth as u32, one.answer as u32);
            *all.confusion.entry(place).or_default() += 1;
            if let Some(p) = one.probabilities {
                *all.brier.get_or_insert(0.0) += brier(p, one.truth);
                let (p, so) = match classes {
                    2 => (p[1], one.truth == 1),
                    _ => (p[one.answer], one.truth == one.answer),
                };
                all.calibration.resize(PROBABILITY_BINS, (0, 0.0, 0));
                let last = PROBABILITY_BINS - 1;
                let bin = &mut all.calibration[((p * PROBABILITY_BINS as f64) as usize).min(last)];
                *bin = (bin.0 + 1, bin.1 + p, bin.2 + u64::from(so));
            }
            for (k, (score, logit)) in one.ranks.iter().enumerate() {
                let is = one.truth == if classes == 2 { 1 } else { k };
                scores[k].push((*score, is));
                if let Some(bins) = all.ranks.get_mut(k) {
                    let counts = bins.entry(bin_of(*logit)).or_default();
                    if is { counts.0 += 1 } else { counts.1 += 1 }
                }
            }
        }
        all.auc = mean(scores.iter_mut().filter_map(|scores| exact_auc(scores)));
        all
    }

    /// Takes in those of another client.
    pub fn add(&mut self, other: &Assessment) {
        for (place, count) in &other.confusion {
            *self.confusion.entry(*place).or_default() += count;
        }
        if let Some(brier) = other.brier {
            *self.brier.get_or_insert(0.0) += brier;
        }
        self.ranks
            .resize(self.ranks.len().max(other.ranks.len()), BTreeMap::new());
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

    /// Whether they can be sums over examples of that many classes (0: of numbers).
    pub fn fits(&self, classes: usize) -> bool {
        let few = |count: u64| count <= u64::from(u32::MAX);
        let is_class = |class: u32| (class as usize) < classes;
        (self.confusion.iter()).all(|((a, b), n)| is_class(*a) && is_class(*b) && few(*n))
            && self.ranks.len() <= classes
            && (self.ranks.iter().flatten())
                .all(|(bin, (a, b))| (*bin as usize) < BINS && few(*a) && few(*b))
            && self.calibration.len() <= PROBABILITY_BINS
            && (self.calibration.iter()).all(|(n, _, so)| few(*n) && so <= n)
            && (self.values.iter()).all(|values| values.truth.n <= u64::from(u32::MAX))
    }

    /// How many examples.
    pub fn examples(&self) -> u64 {
        match &self.values {
            Some(values) => values.truth.n,
            None => self.confusion.values().sum(),
        }
    }

    /// The scores that these sums make; `unit`: what 1 is in the label's own units.
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
            None => mean(self.ranks.iter().filter_map(binned_auc)),
        };
        Detail::Classes {
            balanced_accuracy: self.balanced_accuracy(classes),
            f1: self.f1(classes),
            auc,
            brier: self.brier.map(|sum| sum / n),
        }
    }

    /// Rows are classes, columns answers; `None` where there are too many classes.
    pub fn matrix(&self, classes: usize) -> Option<Vec<Vec<u64>>> {
        (1..=MOST_CLASSES).contains(&classes).then(|| {
            let mut matrix = vec![vec![0; classes]; classes];
            for ((truth, answer), count) in &self.confusion {
                matrix[*truth as usize][*answer as usize] = *count;
            }
            matrix
        })
    }

    /// By class: its examples, how often it was answered, and how often rightly.
    fn counts(&self, classes: usize) -> Vec<[f64; 3]> {
        let mut counts = vec![[0.0; 3]; classes];
        for ((truth, answer), count) in &self.confusion {
            let count = *count as f64;
            counts[*truth as usize][0] += count;
            counts[*answer as usize][1] += count;
            if truth == answer {
                counts[*truth as usize][2] += count;
            }
        }
        counts
    }

    /// The mean over the classes present of the share that was found.
    fn balanced_accuracy(&self, classes: usize) -> Option<f64> {
        let counts = self.counts(classes);
        let present = counts.iter().filter(|[examples, ..]| *examples > 0.0);
        mean(present.map(|[examples, _, right]| right / examples))
    }

    /// The mean of 2·right/(examples + answers) over the classes present or answered.
    fn f1(&self, classes: usize) -> Option<f64> {
        let counts = self.counts(classes);
        let known = counts.iter().filter(|[a, b, _]| a + b > 0.0);
        mean(known.map(|[examples, answers, right]| 2.0 * right / (examples + answers)))
    }
}

/// Of two classes (p − y)², of more Σₖ(pₖ − yₖ)²: as scikit-learn has it.
fn brier(p: &[f64], truth: usize) -> f64 {
    let square = |(k, p): (usize, &f64)| (p - f64::from(u8::from(k == truth))).powi(2);
    match p.len() {
        2 => square((1, &p[1])),
        _ => p.iter().enumerate().map(square).sum(),
    }
}

fn bin_of(logit: f64) -> u16 {
    let place = (logit + WIDEST) / (2.0 * WIDEST) * BINS as f64;
    place.clamp(0.0, BINS as f64 - 1.0) as u16
}

/// The share of pairs of an example of the class and another in which the first has the higher
/// score, equal ones counting half; `None` where there is no pair.
fn exact_auc(scores: &mut [(f64, bool)]) -> Option<f64> {
    scores.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    area(scores.chunk_by(|a, b| a.0 == b.0).map(|equal| {
        let of = equal.iter().filter(|(_, is)| *is).count() as u64;
        (of, equal.len() as u64 - of)
    }))
}

fn binned_auc(bins: &BTreeMap<u16, (u64, u64)>) -> Option<f64> {
    area(bins.values().copied())
}

/// The same of counts (of the class, of others) by ascending score.
fn area(groups: impl Iterator<Item = (u64, u64)>) -> Option<f64> {
    let (mut of, mut others, mut pairs) = (0.0, 0.0, 0.0);
    for (a, b) in groups {
        let (a, b) = (a as f64, b as f64);
        pairs += a * (others + 0.5 * b);
        of += a;
        others += b;
    }
    (of > 0.0 && others > 0.0).then(|| pairs / (of * others))
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

/// The scores beside loss and accuracy; null where they have no meaning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Detail {
    /// Of classes.
    Classes {
        /// The mean share of a class that was found, over the classes present.
        #[serde(deserialize_with = "given")]
        balanced_accuracy: Option<f64>,
        /// The mean F1 over the classes present or answered.
        #[serde(deserialize_with = "given")]
        f1: Option<f64>,
        /// The area under the curve; of more than two classes the mean of one against the rest.
        #[serde(deserialize_with = "given")]
        auc: Option<f64>,
        /// The mean squared error of probabilities.
        #[serde(deserialize_with = "given")]
        brier: Option<f64>,
    },
    /// Of numbers.
    Values {
        /// The mean absolute error, in the label's own units.
        #[serde(deserialize_with = "given")]
        mae: Option<f64>,
        /// The share of the variance that is explained.
        #[serde(deserialize_with = "given")]
        r2: Option<f64>,
    },
}

/// A number or null, but not absent.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    Option::deserialize(from)
}

impl Detail {
    /// Every score by its name, and whether high is good.
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

    /// The same kind with every score replaced, in the order of [`Detail::named`].
    pub fn with(&self, values: &[Option<f64>]) -> Self {
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

    /// A score by its name.
    pub fn get(&self, name: &str) -> Option<f64> {
        let named = self.named();
        named.iter().find(|(n, ..)| *n == name).and_then(|n| n.1)
    }
}
