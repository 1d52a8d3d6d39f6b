//! Aggregators: the mean of the cohort's models, or a robust alternative.
//!
//! An aggregator acts on the `model` array of an update, whatever the algorithm. The mean folds
//! updates one by one. A robust aggregator needs all K models at once, so the round's updates
//! are kept in memory; its result replaces every client's `model` before the algorithm's own
//! fold. The mean of K equal vectors is that vector to the bit, so pFedMe's β and SCAFFOLD's
//! controls are unaffected.

use std::fmt;

#[doc(hidden)]
pub mod optimizer;

pub use optimizer::ServerOptimizer;

use crate::error::{Error, Result};
use crate::pack::{Array, Arrays, Pack};
use crate::params::{Params, distance_squared};
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least, registry};

/// Aggregator, the value of `federation.aggregation`.
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
        /// The share removed at each end.
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

/// Registry entry of an aggregator.
#[doc(hidden)]
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

/// Returns ⌊share·count⌋. Products such as 0.29·100 count as whole despite rounding errors.
pub(crate) fn share_of(share: f64, count: usize) -> usize {
    (share * count as f64 + 1e-9).floor() as usize
}

impl Aggregation {
    /// Checks the settings for a cohort of `k` clients.
    ///
    /// # Errors
    /// If a share is out of range or the cohort is too small.
    #[doc(hidden)]
    pub fn check(&self, k: usize) -> Result<()> {
        if let Aggregation::TrimmedMean { trim: share } | Aggregation::Krum { byzantine: share } =
            *self
            && !(0.0..0.5).contains(&share)
        {
            return Err(Error::Request(format!(
                "federation.aggregation: found {self} with a share of {share}, allowed is from 0 to \
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
             raise federation.participation, lower federation.byzantine or use another aggregator",
            2 * f + 3
        )))
    }

    /// Returns a warning if the share is less than one client of a cohort of `k`.
    #[doc(hidden)]
    pub fn note(&self, k: usize) -> Option<String> {
        let (key, share) = match *self {
            Aggregation::TrimmedMean { trim } => ("trim", trim),
            Aggregation::Krum { byzantine } => ("byzantine", byzantine),
            _ => return None,
        };
        (share_of(share, k) == 0).then(|| {
            format!("federation.{key} = {share} is less than one of {k} clients per round, so {self} tolerates no bad client; raise federation.{key}")
        })
    }

    /// Combines the cohort's models, given in client order, into one. Needs at least one model.
    #[doc(hidden)]
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

/// Returns the trimmed mean of every coordinate, over the sorted values x₍₁₎ ≤ … ≤ x₍K₎:
///
/// ```text
/// (1/(K − 2c)) Σ_{k=c+1}^{K−c} x₍k₎
/// ```
///
/// With c = ⌊(K−1)/2⌋ it is the median. Infinite values and NaN are at the ends and are the
/// first to be cut.
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

/// Returns the update i with the smallest
///
/// ```text
/// s(i) = Σ_{j→i} ‖xᵢ − xⱼ‖²      over its K − f − 2 nearest others
/// ```
///
/// and the first of equals. A NaN distance counts as infinite.
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

/// ν: smaller distances count as ν, which avoids a division by 0.
const SMOOTHING: f64 = 1e-6;
/// Iterations end when z moves by less than this share of K/Σβᵢ, the harmonic mean of the
/// distances, which far updates do not affect.
const TOLERANCE: f64 = 1e-6;
const ITERATIONS: usize = 50;

/// Runs the smoothed Weiszfeld iteration, from the mean, at most [`ITERATIONS`] times:
///
/// ```text
/// βᵢ = 1/max(ν, ‖z − xᵢ‖)      z ← Σ βᵢxᵢ / Σ βᵢ
/// ```
///
/// It approaches the z with the smallest Σ‖z − xᵢ‖. Updates with values that are not finite
/// are left out. If all are such, the first is returned, and the next loss reports it.
fn geometric_median(all: &[Params]) -> Params {
    let finite = |model: &&Params| model.iter().all(|x| x.is_finite());
    let models: Vec<&Params> = all.iter().filter(finite).collect();
    if models.is_empty() {
        return all[0].clone();
    }
    let len = all[0].len();
    let mut z = weighted(&models, &vec![1.0; models.len()], len);
    for _ in 0..ITERATIONS {
        let inverse_distance = |x: &&Params| 1.0 / distance(&z, x).max(SMOOTHING);
        let beta: Vec<f64> = models.iter().map(inverse_distance).collect();
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

/// An update split into its `model` and the rest, so that an attack or an aggregator may change
/// the model.
#[derive(Debug)]
#[doc(hidden)]
pub struct SplitUpdate {
    /// The `model` array.
    pub model: Params,
    rest: Arrays,
}

impl SplitUpdate {
    /// Splits an update.
    ///
    /// # Errors
    /// If the update has no `model`.
    pub fn split(update: &impl Pack) -> Result<Self> {
        let mut rest = update.pack();
        let model = rest.f32("model").map_err(|e| {
            Error::Request(format!(
                "federation.aggregation and federation.attack need the model that clients send, \
                 but this algorithm's update has none: {e}"
            ))
        })?;
        Ok(Self { model, rest })
    }

    /// Creates an update that consists of a model only.
    pub(crate) fn of_model(model: Params) -> Self {
        let rest = Arrays::default();
        Self { model, rest }
    }

    /// Returns whether the update consists of a model only.
    pub(crate) fn is_model_only(&self) -> bool {
        self.rest.0.is_empty()
    }

    /// Returns the update with its `model` replaced by one of the same length.
    pub(crate) fn join_with<U: Pack>(mut self, model: Params) -> U {
        self.rest.0.insert("model".into(), Array::F32(model));
        U::unpack(&mut self.rest).expect("the arrays of an update make an update")
    }

    /// Returns the whole update.
    pub fn join<U: Pack>(mut self) -> U {
        let model = std::mem::take(&mut self.model);
        self.join_with(model)
    }
}
