//! How the server makes one model of the cohort's: the mean, or a rule that a few bad
//! clients cannot drag away.
//!
//! A rule acts on the `model` array of an update, whatever the algorithm. It needs all K
//! models at once, so a round with a rule keeps the cohort's updates in memory; the mean
//! goes on folding them one by one. What the rule returns takes the place of every client's
//! `model` before the algorithm's own fold, whose mean of K equal vectors is that vector to
//! the bit: pFedMe's β and SCAFFOLD's controls work as ever.

use std::fmt;

pub mod optimizer;

pub use optimizer::ServerOptimizer;

use crate::error::{Error, Result};
use crate::pack::{Array, Arrays, Pack};
use crate::params::{Params, distance_squared};
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least, registry};

/// A rule, as `federation.aggregation` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Aggregation {
    /// The algorithm's own weighted mean.
    #[default]
    Mean,
    /// The median of every coordinate (Yin et al., 2018).
    Median,
    /// The mean of every coordinate without its extremes (Yin et al., 2018).
    TrimmedMean {
        /// The share cut off at each end.
        trim: f64,
    },
    /// The update with the nearest neighbours (Blanchard et al., 2017).
    Krum {
        /// f/K
        byzantine: f64,
    },
    /// The point with the smallest sum of distances (Pillutla et al., 2022).
    GeometricMedian,
}

/// One rule: with blank settings, and what is shown.
pub type AggregatorKind = Kind<Aggregation>;

registry! {
    Aggregation, AggregatorKind:
    Mean = MEAN,
    Median = MEDIAN,
    TrimmedMean = TRIMMED_MEAN,
    Krum = KRUM,
    GeometricMedian = GEOMETRIC_MEDIAN,
}

const MEAN: AggregatorKind = Kind {
    name: "mean",
    about: "the algorithm's own weighted mean",
    settings: &[],
    examples: &["'mean'"],
    value: Aggregation::Mean,
};

const MEDIAN: AggregatorKind = Kind {
    name: "median",
    about: "the median of every coordinate (Yin et al., 2018)",
    settings: &[],
    examples: &["'median'"],
    value: Aggregation::Median,
};

const TRIM: Setting<Number> =
    Setting::number("trim", 0.2, at_least(0.0).below(0.5)).help("the share cut off at each end");

const TRIMMED_MEAN: AggregatorKind = Kind {
    name: "trimmed-mean",
    about: "the mean of every coordinate without its extremes (Yin et al., 2018)",
    settings: &[&TRIM],
    examples: &["'trimmed-mean'"],
    value: Aggregation::TrimmedMean { trim: 0.0 },
};

const BYZANTINE: Setting<Number> = Setting::number("byzantine", 0.2, at_least(0.0).below(0.5))
    .symbol("f/K")
    .help("the share of the cohort that may be bad, with K ≥ 2f + 3");

const KRUM: AggregatorKind = Kind {
    name: "krum",
    about: "the update with the nearest neighbours (Blanchard et al., 2017)",
    settings: &[&BYZANTINE],
    examples: &["'krum'"],
    value: Aggregation::Krum { byzantine: 0.0 },
};

const GEOMETRIC_MEDIAN: AggregatorKind = Kind {
    name: "geometric-median",
    about: "the point with the smallest sum of distances (Pillutla et al., 2022)",
    settings: &[],
    examples: &["'geometric-median'"],
    value: Aggregation::GeometricMedian,
};

impl Settings for Aggregation {
    /// Binds its keys of `[federation]`.
    fn settings(&mut self, s: &mut Section<'_>) {
        s.kind("aggregation", Self::KINDS, self.kind(), self);
        match self {
            Aggregation::TrimmedMean { trim } => s.field(&TRIM, trim),
            Aggregation::Krum { byzantine } => s.field(&BYZANTINE, byzantine),
            Aggregation::Mean | Aggregation::Median | Aggregation::GeometricMedian => {}
        }
    }
}

/// ⌊share·count⌋, where a product such as 0.29·100 is meant to be whole.
pub fn share_of(share: f64, count: usize) -> usize {
    (share * count as f64 + 1e-9).floor() as usize
}

impl Aggregation {
    /// An error where a share is none, or a cohort of `k` clients is too small for the rule.
    pub fn check(&self, k: usize) -> Result<()> {
        if let Aggregation::TrimmedMean { trim: share } | Aggregation::Krum { byzantine: share } =
            *self
            && !(0.0..0.5).contains(&share)
        {
            return Err(Error::Request(format!(
                "federation.aggregation: found {self} with a share of {share}, allowed is 0 to \
                 below 0.5"
            )));
        }
        let Aggregation::Krum { byzantine } = *self else {
            return Ok(());
        };
        let f = share_of(byzantine, k);
        if k >= 2 * f + 3 {
            return Ok(());
        }
        Err(Error::Request(format!(
            "federation.aggregation: found \"krum\", which needs K ≥ 2f + 3 clients a round; here \
             K = {k} and f = {f} (federation.byzantine = {byzantine}), so at least {} are needed: \
             raise federation.participation, lower federation.byzantine or use another rule",
            2 * f + 3
        )))
    }

    /// What a user should be told where a share of a cohort of `k` clients is nobody.
    pub fn note(&self, k: usize) -> Option<String> {
        let (key, share) = match *self {
            Aggregation::TrimmedMean { trim } => ("trim", trim),
            Aggregation::Krum { byzantine } => ("byzantine", byzantine),
            _ => return None,
        };
        (share_of(share, k) == 0).then(|| {
            format!("federation.{key} = {share} of {k} clients a round is nobody: {self} guards against none")
        })
    }

    /// One model of all, which are those of the cohort in client order; at least one.
    pub fn combine(&self, models: &[Params]) -> Params {
        match *self {
            Aggregation::Mean => trimmed_mean(models, 0),
            Aggregation::Median => trimmed_mean(models, (models.len() - 1) / 2),
            Aggregation::TrimmedMean { trim } => trimmed_mean(models, share_of(trim, models.len())),
            Aggregation::Krum { byzantine } => krum(models, share_of(byzantine, models.len())),
            Aggregation::GeometricMedian => geometric_median(models),
        }
    }
}

impl fmt::Display for Aggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())
    }
}

/// In every coordinate, of the values sorted x₍₁₎ ≤ … ≤ x₍K₎:
///
/// ```text
/// (1/(K − 2c)) Σ_{k=c+1}^{K−c} x₍k₎
/// ```
///
/// With c = ⌊(K−1)/2⌋ the middle one, or the mean of the middle two: the median. Infinite
/// values and NaN stand at the ends and are the first to be cut.
fn trimmed_mean(models: &[Params], cut: usize) -> Params {
    let k = models.len();
    let mut values = vec![0.0; k];
    (0..models[0].len())
        .map(|j| {
            for (value, model) in values.iter_mut().zip(models) {
                *value = model[j];
            }
            values.sort_unstable_by(f32::total_cmp);
            let kept = &values[cut..k - cut];
            let sum: f64 = kept.iter().map(|x| f64::from(*x)).sum();
            (sum / kept.len() as f64) as f32
        })
        .collect()
}

/// The update i with the smallest
///
/// ```text
/// s(i) = Σ_{j→i} ‖xᵢ − xⱼ‖²      over its K − f − 2 nearest others
/// ```
///
/// the first of equals. A distance that is not a number is infinitely far.
fn krum(models: &[Params], f: usize) -> Params {
    let k = models.len();
    let mut distances = vec![vec![0.0; k]; k];
    for i in 0..k {
        for j in 0..i {
            let d = distance_squared(&models[i], &models[j]);
            let d = if d.is_nan() { f64::INFINITY } else { d };
            (distances[i][j], distances[j][i]) = (d, d);
        }
    }
    let neighbours = k.saturating_sub(f + 2).max(1);
    let score = |i: usize| {
        let mut others = distances[i].clone();
        others.remove(i);
        others.sort_unstable_by(f64::total_cmp);
        others.iter().take(neighbours).sum::<f64>()
    };
    let scores: Vec<f64> = (0..k).map(score).collect();
    let best = (0..k).min_by(|i, j| scores[*i].total_cmp(&scores[*j]));
    models[best.expect("at least one")].clone()
}

/// ν: nearer than this all distances count alike, so that no division is by 0.
const SMOOTHING: f64 = 1e-6;
/// Iterations end when z moves by less than this share of the harmonic mean K/Σβᵢ of the
/// distances, on which far updates have no hold.
const TOLERANCE: f64 = 1e-6;
const ITERATIONS: usize = 50;

/// The smoothed Weiszfeld iteration, from the mean, at most [`ITERATIONS`] times:
///
/// ```text
/// βᵢ = 1/max(ν, ‖z − xᵢ‖)      z ← Σ βᵢxᵢ / Σ βᵢ
/// ```
///
/// It approaches the z with the smallest Σ‖z − xᵢ‖. An update with a value that is not
/// finite is left out, as if it were infinitely far; where all are such, the first stands
/// for them, and the next loss tells.
fn geometric_median(all: &[Params]) -> Params {
    let finite = |model: &&Params| model.iter().all(|x| x.is_finite());
    let models: Vec<&Params> = all.iter().filter(finite).collect();
    if models.is_empty() {
        return all[0].clone();
    }
    let len = all[0].len();
    let mut z = weighted(&models, &vec![1.0; models.len()], len);
    for _ in 0..ITERATIONS {
        let closeness = |x: &&Params| 1.0 / distance(&z, x).max(SMOOTHING);
        let beta: Vec<f64> = models.iter().map(closeness).collect();
        let next = weighted(&models, &beta, len);
        let moved: f64 = next.iter().zip(&z).map(|(a, b)| (a - b) * (a - b)).sum();
        z = next;
        if moved.sqrt() <= TOLERANCE * models.len() as f64 / beta.iter().sum::<f64>() {
            break;
        }
    }
    z.into_iter().map(|z| z as f32).collect()
}

fn distance(z: &[f64], x: &[f32]) -> f64 {
    let square = |(z, x): (&f64, &f32)| (z - f64::from(*x)).powi(2);
    z.iter().zip(x).map(square).sum::<f64>().sqrt()
}

fn weighted(models: &[&Params], beta: &[f64], len: usize) -> Vec<f64> {
    let mut sum = vec![0.0; len];
    for (model, beta) in models.iter().zip(beta) {
        for (sum, x) in sum.iter_mut().zip(*model) {
            *sum += beta * f64::from(*x);
        }
    }
    let total: f64 = beta.iter().sum();
    sum.iter_mut().for_each(|sum| *sum /= total);
    sum
}

/// An update with its `model` apart, so that an attack or a rule may change it.
#[derive(Debug)]
pub struct SplitUpdate {
    /// Its `model`.
    pub model: Params,
    rest: Arrays,
}

impl SplitUpdate {
    /// Takes an update apart; an error where it has no `model`.
    pub fn of(update: &impl Pack) -> Result<Self> {
        let mut rest = update.pack();
        let model = rest.f32("model").map_err(|e| {
            Error::Request(format!(
                "federation.aggregation and federation.attack act on the model that clients send, \
                 and this algorithm's update has none: {e}"
            ))
        })?;
        Ok(Self { model, rest })
    }

    /// An update that is this model and nothing else.
    pub fn of_model(model: Params) -> Self {
        let rest = Arrays::default();
        Self { model, rest }
    }

    /// Whether it is a model and nothing else.
    pub fn is_model_only(&self) -> bool {
        self.rest.0.is_empty()
    }

    /// The update with this `model`, which is as long as its own was.
    pub fn with<U: Pack>(mut self, model: Params) -> U {
        self.rest.0.insert("model".into(), Array::F32(model));
        U::unpack(&mut self.rest).expect("the arrays of an update make an update")
    }

    /// The update again.
    pub fn joined<U: Pack>(mut self) -> U {
        let model = std::mem::take(&mut self.model);
        self.with(model)
    }
}
