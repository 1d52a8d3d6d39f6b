//! Made data of related sites, such as hospitals: each follows the common rule and its own.
//!
//! For site k with n_k training rows, d features and two classes:
//!
//! ```text
//! θ ~ N(0, common²/d)     θ_k = θ + N(0, own²/d)     intercepts b, b_k likewise
//! x ~ N(0, I)             P(y = 1) = 1/(1 + exp(−(⟨θ_k, x⟩ + b_k)))
//! n_k = smallest·(largest/smallest)^u                u uniform in [0, 1)
//! ```
//!
//! One model for all misses what a site has of its own; a model of a small site alone has too few
//! rows. The paper's generator is [`synthetic`](super::synthetic).

use std::sync::Arc;

use rand::RngExt;
use rand_distr::StandardNormal;

use super::partition::{held_out_count, hold_out_parts};
use super::{Common, Examples, InMemory, Shard, Source, SourceKind};
use crate::error::{Error, Result};
use crate::rng::{Purpose, Stream, stream};
use crate::settings::{Kind, Number, Section, Setting, Whole, at_least};

/// Represents the generator's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Multisite {
    /// The number of sites.
    pub clients: usize,
    /// The number of features.
    pub features: usize,
    /// The training rows of the smallest and the largest possible site.
    pub rows: [usize; 2],
    /// The standard deviation of the logit by the common coefficients.
    pub common_deviation: f64,
    /// The standard deviation of the logit by a site's own coefficients.
    pub own_deviation: f64,
    /// The settings of every kind of data.
    pub common: Common,
}

const CLIENTS: Setting<Whole> = Setting::number("clients", 20, at_least(1).to(100_000))
    .symbol("n")
    .help("how many sites there are");
const FEATURES: Setting<Whole> =
    Setting::number("features", 12, at_least(1).to(100_000)).help("inputs of an example");
const SMALLEST: Setting<Whole> = Setting::number("smallest", 20, at_least(1).to(1_000_000))
    .help("training rows of the smallest site");
const LARGEST: Setting<Whole> = Setting::number("largest", 200, at_least(1).to(1_000_000))
    .help("training rows of the largest site");
const COMMON: Setting<Number> = Setting::number("common", 3.0, at_least(0.0).to(1e3)).help(
    "how much the common coefficients decide: the standard deviation of their part of the logit",
);
const OWN: Setting<Number> = Setting::number("own", 1.5, at_least(0.0).to(1e3)).help(
    "how much a site's own coefficients decide: 0 is one model for all, far above `common` \
     unrelated sites",
);

pub(super) const KIND: SourceKind = Kind {
    name: "multisite",
    about: "generated, 20 related sites of different size: needs no files",
    settings: &[&CLIENTS, &FEATURES, &SMALLEST, &LARGEST, &COMMON, &OWN],
    examples: &["{ kind = 'multisite', clients = 5, features = 4, largest = 40, own = 1.0 }"],
    value: |s, common| Source::Multisite(Multisite::read(s, common)),
};

/// The limit on the numbers of all rows, which are held in memory.
const MAX_NUMBERS: f64 = (1u64 << 31) as f64;

impl Multisite {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let rows = [s.get(&SMALLEST), s.get(&LARGEST)].map(|rows| rows as usize);
        if rows[0] > rows[1] {
            s.problem(
                SMALLEST.key,
                format!(
                    "found {}, which is above data.largest = {}; lower it or raise data.largest",
                    rows[0], rows[1]
                ),
            );
        }
        Self {
            clients: s.get(&CLIENTS) as usize,
            features: s.get(&FEATURES) as usize,
            rows,
            common_deviation: s.get(&COMMON),
            own_deviation: s.get(&OWN),
            common,
        }
    }

    /// Generates the data.
    ///
    /// # Errors
    /// The data exceeds the limit on memory, or every site is left out.
    pub fn load(&self) -> Result<InMemory> {
        let kept_share = 1.0 - self.common.validation - self.common.test;
        let numbers = self.rows[1] as f64 / kept_share * self.features as f64;
        if numbers * self.clients as f64 > MAX_NUMBERS {
            return Err(Error::Request(format!(
                "data: {} sites of up to {} training rows and {} features exceed the limit of 2³¹ \
                 numbers; lower data.clients, data.largest or data.features",
                self.clients, self.rows[1], self.features
            )));
        }
        let names = (0..self.features).map(|j| format!("x{j}"));
        let mut data = InMemory::classes(names, ["0", "1"]);
        let common = self.coefficients(&mut self.stream(u64::MAX), self.common_deviation);
        for site in 0..self.clients as u64 {
            let rows = self.all_rows(self.training_rows(site));
            if rows >= self.common.min_examples {
                data.shards.push(Arc::new(self.site(site, rows, &common)));
            }
        }
        let left_out = self.clients - data.shards.len();
        if data.shards.is_empty() {
            return Err(Error::data(format!(
                "data.min_examples: no site has {} examples or more",
                self.common.min_examples
            )));
        }
        if left_out > 0 {
            data.notes.push(format!(
                "{left_out} of {} clients have fewer than {} examples and are left out",
                self.clients, self.common.min_examples
            ));
        }
        Ok(data)
    }

    fn stream(&self, client: u64) -> Stream {
        stream(self.common.seed, Purpose::Synthesis, 0, client)
    }

    /// Samples an intercept and coefficients, of which the logit has this standard deviation.
    fn coefficients(&self, rng: &mut Stream, deviation: f64) -> Vec<f64> {
        let scale = deviation / (self.features as f64).sqrt();
        let normal = |_| scale * rng.sample::<f64, _>(StandardNormal);
        (0..=self.features).map(normal).collect()
    }

    /// smallest·(largest/smallest)^u, rounded
    fn training_rows(&self, site: u64) -> usize {
        let u: f64 = stream(self.common.seed, Purpose::Sizes, 0, site).random();
        let [smallest, largest] = self.rows.map(|rows| rows as f64);
        (smallest * libm::pow(largest / smallest, u)).round() as usize
    }

    /// Returns the least number of examples of which that many are for training.
    fn all_rows(&self, training: usize) -> usize {
        let Common {
            validation, test, ..
        } = self.common;
        let held = |m| held_out_count(m, validation) + held_out_count(m, test);
        let share = 1.0 - validation - test;
        let mut all = (training as f64 / share) as usize;
        while all < training + held(all) {
            all += 1;
        }
        all
    }

    fn site(&self, site: u64, rows: usize, common: &[f64]) -> Shard {
        let Common {
            seed,
            validation,
            test,
            ..
        } = self.common;
        let mut rng = self.stream(site);
        let own = self.coefficients(&mut rng, self.own_deviation);
        let rule: Vec<f64> = common.iter().zip(own).map(|(c, o)| c + o).collect();
        let mut x: Vec<f32> = Vec::with_capacity(rows * self.features);
        let mut y = Vec::with_capacity(rows);
        for _ in 0..rows {
            let mut logit = rule[0];
            for coefficient in &rule[1..] {
                let value: f32 = rng.sample(StandardNormal);
                logit += coefficient * f64::from(value);
                x.push(value);
            }
            let ill = 1.0 / (1.0 + libm::exp(-logit));
            y.push(u32::from(rng.random::<f64>() < ill));
        }
        let all = Examples::new(
            self.features,
            super::Features::Floats(x),
            super::Targets::Classes(y),
        );
        let parts = hold_out_parts(rows, [validation, test], seed, site);
        let [train, valid, test] = parts.map(|rows| all.gathered(&rows));
        Shard {
            name: site.to_string(),
            train,
            valid,
            test,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Dataset, Features, Labels};
    use crate::spec::Spec;

    fn data(settings: &str) -> Arc<dyn Dataset> {
        let text = format!("data = {{ kind = 'multisite'{settings} }}");
        let plan = Spec::parse(&text).unwrap().plan().unwrap();
        plan.data.load().unwrap()
    }

    /// 20 sites of 20 to 200 training rows; with a share v held out, m − ⌈v·m⌉ rows train.
    #[test]
    fn sites_have_the_training_rows_that_the_settings_say() {
        for settings in ["", ", validation = 0.5", ", validation = 0.3, test = 0.3"] {
            let data = data(settings);
            assert_eq!((data.clients(), data.schema().features.len()), (20, 12));
            let sizes: Vec<usize> = (0..20).map(|k| data.sizes(k).0).collect();
            assert!(sizes.iter().all(|n| (20..=200).contains(n)), "{sizes:?}");
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(*least < 40 && *most > 120, "{sizes:?}");
        }
        // Equal bounds: n = 30, and m = 43 is the least with m − ⌈0.3·m⌉ = 43 − 13 = 30.
        let data = data(", validation = 0.3, smallest = 30, largest = 30");
        assert_eq!(data.sizes(7), (30, 13));
    }

    #[test]
    fn a_site_is_a_function_of_seed_and_index() {
        let (few, many) = (data(", clients = 3"), data(", clients = 9"));
        for k in 0..3 {
            assert_eq!(few.shard(k).unwrap().train, many.shard(k).unwrap().train);
        }
        let other = data(", clients = 3, seed = 2");
        assert_ne!(few.shard(0).unwrap().train, other.shard(0).unwrap().train);
        // Sites left out keep the others' names and rows.
        let large = data(", clients = 9, min_examples = 100");
        assert!((1..9).contains(&large.clients()) && large.notes().len() == 1);
        let k: usize = large.name(0).parse().unwrap();
        assert_eq!(large.shard(0).unwrap().train, many.shard(k).unwrap().train);
    }

    /// Without its own part (`own = 0`) every site has the same rule: the direction
    /// Σ (2y − 1)x of two sites with many rows agrees. Without the common part it does not.
    #[test]
    fn what_sites_share_is_set() {
        let cosine = |settings: &str| {
            let data = data(&format!(
                ", clients = 2, smallest = 4000, largest = 4000, {settings}"
            ));
            let [a, b] = [0, 1].map(|k| direction(&data.shard(k).unwrap()));
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
        };
        assert!(cosine("own = 0.0") > 0.95);
        let between = cosine("features = 400, common = 1.5");
        assert!((0.2..0.8).contains(&between), "{between}");
        let unrelated = cosine("features = 400, common = 0.0");
        assert!(unrelated.abs() < 0.2, "{unrelated}");
    }

    fn direction(shard: &Shard) -> Vec<f64> {
        let Features::Floats(x) = shard.train.features() else {
            unreachable!("made above")
        };
        let Labels::Classes(y) = shard.train.all().targets else {
            unreachable!("made above")
        };
        let mut sum = vec![0.0; shard.train.width()];
        for (x, y) in x.chunks_exact(sum.len()).zip(y) {
            let sign = 2.0 * f64::from(*y) - 1.0;
            sum.iter_mut()
                .zip(x)
                .for_each(|(s, x)| *s += sign * f64::from(*x));
        }
        sum
    }

    #[test]
    fn impossible_sizes_are_refused() {
        let refused = |settings: &str| {
            let text = format!("data = {{ kind = 'multisite', {settings} }}");
            match Spec::parse(&text).unwrap().plan() {
                Err(error) => error.to_string(),
                Ok(plan) => plan.data.load().map(|_| ()).unwrap_err().to_string(),
            }
        };
        let message = refused("smallest = 50, largest = 40");
        assert!(message.contains("above data.largest = 40"), "{message}");
        let message = refused("clients = 100000, largest = 1000000, features = 100000");
        assert!(message.contains("2³¹"), "{message}");
        let message = refused("min_examples = 1000");
        assert!(message.contains("no site has 1000"), "{message}");
    }
}
