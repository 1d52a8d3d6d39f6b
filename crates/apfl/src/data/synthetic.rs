//! synthetic(γ, β): FedProx's generator. Every client is a pure function of seed and index.
//!
//! For client k:
//!
//! ```text
//! u_k ~ N(0, γ)     W_k, b_k ~ N(u_k, 1)                 γ, β: standard deviations
//! B_k ~ N(0, β)     m_k ~ N(B_k, 1)     x ~ N(m_k, Σ)    Σ_jj = j^−1.2
//! y = argmax(x·W_k + b_k)               n_k = ⌊lognormal(4, 2)⌋ + 50
//! ```
//!
//! synthetic(0, 0) is not IID: each client still samples its own W_k. With `iid = true` all clients
//! share one W and b, and inputs have mean zero.

use std::sync::Arc;

use pulp::{Arch, Simd, WithSimd};
use rand_distr::{Distribution, LogNormal};

mod normals;

use self::normals::Normals;
use super::partition::{held_out_count, hold_out_parts};
use super::{
    Dataset, Examples, Features, Normalization, Schema, Shard, Source, SourceKind, Targets, Task,
};
use crate::error::{Error, Result};
use crate::rng::{Purpose, stream};
use crate::settings::{Flag, Kind, Number, Section, Setting, Whole, at_least};

/// Represents the generator's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Synthetic {
    /// The number of clients.
    pub clients: usize,
    /// γ: standard deviation between the clients' models.
    pub gamma: f64,
    /// β: standard deviation between the clients' inputs.
    pub beta: f64,
    /// The number of features.
    pub features: usize,
    /// The number of classes.
    pub classes: usize,
    /// Whether all clients share one model and one input distribution.
    pub iid: bool,
    /// The number of examples of every client, if they are equal.
    pub examples: Option<usize>,
    /// The maximum number of examples of a client.
    pub max_examples: usize,
    /// The minimum number of examples; clients with fewer are left out.
    pub min_examples: usize,
    /// The share of a client's examples for validation.
    pub validation: f64,
    /// The share of a client's examples for a test.
    pub test: f64,
    /// The data's seed.
    pub seed: u64,
}

const GAMMA: Setting<Number> = Setting::number("gamma", 1.0, at_least(0.0).to(1e6))
    .symbol("γ")
    .help(
        "how much the clients' models differ (standard deviation); inert: it adds one number to \
         all classes' scores",
    );
const BETA: Setting<Number> = Setting::number("beta", 1.0, at_least(0.0).to(1e6))
    .symbol("β")
    .help("how much the clients' inputs differ (standard deviation)");
const FEATURES: Setting<Whole> =
    Setting::number("features", 60, at_least(1).to(1_000_000)).help("inputs of an example");
const CLASSES: Setting<Whole> =
    Setting::number("classes", 10, at_least(2).to(100_000)).help("how many classes there are");
const IID: Setting<Flag> =
    Setting::flag("iid", false).help("true: all clients share one distribution");
const EXAMPLES: Setting<Whole> = Setting::optional("examples", at_least(2).to(10_000_000))
    .help("the same number for every client")
    .usually("lognormal sizes")
    .example("200")
    .seldom();
const MAX_EXAMPLES: Setting<Whole> =
    Setting::number("max_examples", 1000, at_least(51).to(10_000_000))
        .help("the most that a client may have");
const CLIENTS: Setting<Whole> = Setting::number("clients", 100, at_least(1).to(100_000_000))
    .symbol("n")
    .help("how many clients there are");

pub(super) const KIND: SourceKind = Kind {
    name: "synthetic",
    about: "generated, synthetic(γ, β): needs no files",
    settings: &[
        &GAMMA,
        &BETA,
        &FEATURES,
        &CLASSES,
        &IID,
        &EXAMPLES,
        &MAX_EXAMPLES,
        &CLIENTS,
    ],
    examples: &["{ kind = 'synthetic', gamma = 0.5, iid = true, examples = 30 }"],
    value: |s, common| Source::Synthetic(Synthetic::read(s, common)),
};

impl Synthetic {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: super::Common) -> Self {
        let examples = s.optional(&EXAMPLES);
        Self {
            gamma: s.get(&GAMMA),
            beta: s.get(&BETA),
            features: s.get(&FEATURES) as usize,
            classes: s.get(&CLASSES) as usize,
            iid: s.get(&IID),
            examples: examples.map(|x| x as usize),
            max_examples: s.get(&MAX_EXAMPLES) as usize,
            clients: s.get(&CLIENTS) as usize,
            min_examples: common.min_examples,
            validation: common.validation,
            test: common.test,
            seed: common.seed,
        }
    }

    fn size(&self, k: u64) -> usize {
        self.examples.unwrap_or_else(|| {
            let mut rng = stream(self.seed, Purpose::Sizes, 0, k);
            let sampled: f64 = LogNormal::new(4.0, 2.0).expect("2 > 0").sample(&mut rng);
            (sampled as usize).saturating_add(50).min(self.max_examples)
        })
    }

    /// Returns the data set; clients are generated on demand.
    pub fn load(&self) -> Result<Generated> {
        let all = 0..self.clients as u64;
        let kept_indices: Option<Vec<u64>> = (self.min_examples > 50 || self.examples.is_some())
            .then(|| all.filter(|k| self.size(*k) >= self.min_examples).collect());
        if kept_indices.as_ref().is_some_and(Vec::is_empty) {
            return Err(Error::data(format!(
                "data.min_examples: no client has {} examples or more",
                self.min_examples
            )));
        }
        let largest = self.examples.unwrap_or(self.max_examples);
        let cells = largest.checked_mul(self.features);
        let weights = self.features.checked_mul(self.classes);
        if [cells, weights]
            .iter()
            .any(|n| n.is_none_or(|n| n > 1 << 31))
        {
            return Err(Error::Request(format!(
                "data: {largest} examples of {} features and {} classes exceed the limit of 2³¹ \
                 numbers per client; lower data.features, data.classes or data.max_examples",
                self.features, self.classes
            )));
        }
        let smallest = self.examples.unwrap_or(50);
        if held_out_count(smallest, self.validation) >= smallest {
            return Err(Error::Request(format!(
                "data.validation: holding out a share of {} of a client's {smallest} examples \
                 leaves none for training; lower it or raise data.examples",
                self.validation
            )));
        }
        let names = |prefix: &str, n: usize| (0..n).map(|j| format!("{prefix}{j}")).collect();
        Ok(Generated {
            kept_indices,
            schema: Schema {
                task: Task::Classification {
                    classes: names("", self.classes),
                },
                features: names("x", self.features),
                shape: vec![self.features],
                normalization: Normalization::None,
            },
            settings: self.clone(),
        })
    }
}

/// Generates synthetic clients on demand.
#[derive(Debug)]
pub struct Generated {
    settings: Synthetic,
    /// The indices of the clients that are large enough, if some may not be.
    kept_indices: Option<Vec<u64>>,
    schema: Schema,
}

impl Generated {
    fn index(&self, client: usize) -> u64 {
        self.kept_indices
            .as_ref()
            .map_or(client as u64, |kept_indices| kept_indices[client])
    }

    /// Returns the numbers of all, validation and test examples of a client.
    fn counts(&self, client: usize) -> (usize, usize, usize) {
        let m = self.settings.size(self.index(client));
        let held = held_out_count(m, self.settings.validation);
        (m, held, held_out_count(m, self.settings.test).min(m - held))
    }
}

impl Dataset for Generated {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn clients(&self) -> usize {
        self.kept_indices
            .as_ref()
            .map_or(self.settings.clients, |kept_indices| kept_indices.len())
    }

    fn name(&self, client: usize) -> String {
        self.index(client).to_string()
    }

    fn sizes(&self, client: usize) -> (usize, usize) {
        let (m, held, tested) = self.counts(client);
        (m - held - tested, held)
    }

    fn test_size(&self, client: usize) -> usize {
        if self.settings.test == 0.0 {
            0 // without sampling the client's size
        } else {
            self.counts(client).2
        }
    }

    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let s = &self.settings;
        let k = self.index(client);
        let (d, c) = (s.features, s.classes);
        let of = |client: u64| Normals::new(stream(s.seed, Purpose::Synthesis, 0, client));
        let mut normals = of(k);

        // The model: a client's own, or the shared one (sampled by client 2⁶⁴−1).
        let (model, u) = if s.iid {
            (&mut of(u64::MAX), 0.0)
        } else {
            let u = s.gamma * normals.one();
            (&mut normals, u)
        };
        let weights = model.around(u, d * c);
        let bias = model.around(u, c);

        // The inputs' mean.
        let mean: Vec<f64> = if s.iid {
            vec![0.0; d]
        } else {
            let center = s.beta * normals.one();
            normals.around(center, d)
        };
        let deviation: Vec<f64> = (1..=d).map(|j| (j as f64).powf(-0.6)).collect();

        let m = s.size(k);
        let model = LinearClassifier::new(&weights, &bias);
        let parts = hold_out_parts(m, [s.validation, s.test], s.seed, k);
        let [mut train, mut valid, mut test] = [0, 1, 2].map(|part| {
            let n = parts[part].len();
            ExamplesBuilder {
                x: Vec::with_capacity(n * d),
                y: Vec::with_capacity(n),
            }
        });
        let [_, valid_rows, test_rows] = parts;
        let mut held = valid_rows.into_iter().peekable();
        let mut tested = test_rows.into_iter().peekable();
        let mut sampled = vec![0.0; ROWS_AT_ONCE * d];
        let mut x = vec![0.0; ROWS_AT_ONCE * d];
        for start in (0..m).step_by(ROWS_AT_ONCE) {
            let rows = ROWS_AT_ONCE.min(m - start);
            let sampled = &mut sampled[..rows * d];
            normals.fill(sampled);
            for (row, sampled) in x.chunks_exact_mut(d).zip(sampled.chunks_exact(d)) {
                let moments = mean.iter().zip(&deviation);
                for ((x, z), (mean, deviation)) in row.iter_mut().zip(sampled).zip(moments) {
                    *x = (mean + deviation * z) as f32;
                }
            }
            let classes = model.classes(&x);
            for (r, (row, class)) in x.chunks_exact(d).zip(classes).take(rows).enumerate() {
                let number = (start + r) as u32;
                let part = if held.next_if_eq(&number).is_some() {
                    &mut valid
                } else if tested.next_if_eq(&number).is_some() {
                    &mut test
                } else {
                    &mut train
                };
                part.x.extend_from_slice(row);
                part.y.push(class);
            }
        }
        let examples = |part: ExamplesBuilder| {
            let targets = Targets::Classes(part.y);
            Examples::new(d, Features::Floats(part.x), targets)
        };
        Ok(Arc::new(Shard {
            name: k.to_string(),
            train: examples(train),
            valid: examples(valid),
            test: examples(test),
        }))
    }

    fn is_generated(&self) -> bool {
        true
    }

    fn notes(&self) -> Vec<String> {
        let left_out = self.settings.clients - self.clients();
        if left_out == 0 {
            return Vec::new();
        }
        vec![format!(
            "{left_out} of {} clients have fewer than {} examples and are left out",
            self.settings.clients, self.settings.min_examples
        )]
    }
}

/// Builds the examples of one part.
struct ExamplesBuilder {
    x: Vec<f32>,
    y: Vec<u32>,
}

/// The number of rows whose scores are computed together, so that independent sums overlap.
const ROWS_AT_ONCE: usize = 4;

/// The number of classes in a panel: whole vectors on every CPU.
const LANES: usize = 16;

/// W and b in panels of classes, padded with zeros.
struct LinearClassifier {
    /// The weights, by panel and feature.
    weights: Vec<[f64; LANES]>,
    bias: Vec<[f64; LANES]>,
    classes: usize,
}

impl LinearClassifier {
    fn new(weights: &[f64], bias: &[f64]) -> Self {
        let classes = bias.len();
        let panel = |of: &[f64], first: usize| {
            std::array::from_fn(|k| of.get(first + k).copied().unwrap_or(0.0))
        };
        let panels = || (0..classes).step_by(LANES);
        let rows = || weights.chunks_exact(classes);
        Self {
            weights: panels()
                .flat_map(|first| rows().map(move |row| panel(row, first)))
                .collect(),
            bias: panels().map(|first| panel(bias, first)).collect(),
            classes,
        }
    }

    /// Returns argmax(x·W + b) of every row, the first one on ties. Sums run feature by feature, so
    /// the bits do not depend on the vector width.
    fn classes(&self, x: &[f32]) -> [u32; ROWS_AT_ONCE] {
        let width = x.len() / ROWS_AT_ONCE;
        let rows: [&[f32]; ROWS_AT_ONCE] = std::array::from_fn(|r| &x[r * width..][..width]);
        let mut best = [(0, f64::NEG_INFINITY); ROWS_AT_ONCE];
        for (p, bias) in self.bias.iter().enumerate() {
            let weights = &self.weights[p * width..][..width];
            let scores = Arch::new().dispatch(AddProducts {
                rows,
                weights,
                bias,
            });
            for (best, scores) in best.iter_mut().zip(&scores) {
                let scores = &scores[..LANES.min(self.classes - p * LANES)];
                for (k, score) in scores.iter().enumerate() {
                    if *score > best.1 {
                        *best = (p * LANES + k, *score);
                    }
                }
            }
        }
        best.map(|(class, _)| class as u32)
    }
}

/// Computes b + x·W for a panel of classes. A closure that is not inlined would be compiled for the
/// narrowest vectors.
struct AddProducts<'a> {
    rows: [&'a [f32]; ROWS_AT_ONCE],
    weights: &'a [[f64; LANES]],
    bias: &'a [f64; LANES],
}

impl WithSimd for AddProducts<'_> {
    type Output = [[f64; LANES]; ROWS_AT_ONCE];

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> Self::Output {
        let mut sums = [*self.bias; ROWS_AT_ONCE];
        let [a, b, c, d] = self.rows;
        let rows = a.iter().zip(b).zip(c.iter().zip(d));
        for (weights, ((a, b), (c, d))) in self.weights.iter().zip(rows) {
            for (sums, x) in sums.iter_mut().zip([*a, *b, *c, *d]) {
                let x = f64::from(x);
                for k in 0..LANES {
                    sums[k] += x * weights[k];
                }
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_largest_scores_is_the_class() {
        // 20 classes of one feature: score k = b + x·W with W = 1 for class 17, −1 for
        // class 18 and 0 for the others; b = 0 but for class 3, where it is 1.
        let mut weights = [0.0; 20];
        (weights[17], weights[18]) = (1.0, -1.0);
        let mut bias = [0.0; 20];
        bias[3] = 1.0;
        let scores = LinearClassifier::new(&weights, &bias);
        // x = 2: 17 wins by 2; −3: 18 by 3; ½: 3 by 1; 1: 3 and 17 are equal.
        assert_eq!(scores.classes(&[2.0, -3.0, 0.5, 1.0]), [17, 18, 3, 3]);
    }

    /// u_k is added to every entry of W_k and b_k, so u_k(Σx + 1) to every class's score: whatever
    /// γ is, the classes are those of γ = 0.
    #[test]
    fn gamma_changes_no_label() {
        let shards = |gamma: f64| {
            let text = format!("data = {{ gamma = {gamma}, clients = 4, examples = 200 }}");
            let plan = crate::spec::Spec::parse(&text).unwrap().plan().unwrap();
            let data = plan.data.load().unwrap();
            (0..4).map(move |k| data.shard(k).unwrap().train.clone())
        };
        for gamma in [0.5, 1.0, 3.0] {
            assert!(shards(gamma).eq(shards(0.0)), "γ = {gamma}");
        }
    }
}
