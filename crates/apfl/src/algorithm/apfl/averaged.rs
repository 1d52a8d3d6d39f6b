//! What Algorithm 1 puts out in its last lines: averages over all steps.
//!
//! ```text
//! ŵ  = (1/(K·S_T)) Σ_t p_t Σ_{j∈U_t} wⱼ⁽ᵗ⁾                 p_t = (t+a)²   S_T = Σ p_t
//! v̂ᵢ = αᵢ·(1/S_T) Σ_t p_t vᵢ⁽ᵗ⁾ + (1−αᵢ)ŵ                 t = 1 … T local steps
//! ```
//!
//! A client sums over its own steps and sends the weighted mean of its wᵢ beside wᵢ
//! itself: one more vector uplink. A client that is not drawn keeps vᵢ, so the part of
//! its sum that it missed is vᵢ times a sum of p_t, added when it is next drawn and at
//! the end.

use std::borrow::Cow;

use super::{Algorithm, Apfl, Memory, Properties, Sender};
use crate::pack::{Arrays, ModelOnly, Pack, PackError, View};
use crate::params::{Mean, Params};
use crate::site::{Predictor, Site};

/// APFL with a fixed α that ends with ŵ and v̂ᵢ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaged {
    /// The training itself, which the averages do not touch.
    pub apfl: Apfl,
    /// a; `None`: the theory schedule's.
    pub shift: Option<f64>,
}

/// What the server remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// w
    pub shared: ModelOnly,
    /// Σ_t p_t (1/K) Σ_{j∈U_t} wⱼ⁽ᵗ⁾
    pub sum: Vec<f64>,
    /// Σ_t p_t
    pub weight: f64,
}

/// What a client remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Sums {
    /// vᵢ and αᵢ
    pub memory: Memory,
    /// Σ p_t vᵢ⁽ᵗ⁾ over the steps up to `seen`.
    pub sum: Vec<f64>,
    /// The last step that the sum has.
    pub seen: u64,
}

/// What travels back.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// wᵢ after the last step.
    pub last: ModelOnly,
    /// Σ p_t wᵢ⁽ᵗ⁾ / Σ p_t over the round's steps.
    pub path: Params,
    /// Σ p_t over the round's steps.
    pub weight: f64,
}

impl Pack for Server {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        self.shared.visit(see);
        see("sum", View::F64(&self.sum));
        see("weight", View::F64(&[self.weight]));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        let shared = ModelOnly::unpack(arrays)?;
        Ok(Self {
            sum: arrays.f64_of("sum", shared.model.len())?,
            weight: arrays.f64_of("weight", 1)?[0],
            shared,
        })
    }
}

impl Pack for Sums {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        self.memory.visit(see);
        see("sum", View::F64(&self.sum));
        see("seen", View::U64(&[self.seen]));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        let memory = Memory::unpack(arrays)?;
        Ok(Self {
            sum: arrays.f64_of("sum", memory.v.len())?,
            seen: arrays.count("seen")?,
            memory,
        })
    }
}

impl Pack for Update {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        self.last.visit(see);
        see("path", View::F32(&self.path));
        see("weight", View::F64(&[self.weight]));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        let last = ModelOnly::unpack(arrays)?;
        Ok(Self {
            path: arrays.f32_of("path", last.model.len())?,
            weight: arrays.f64_of("weight", 1)?[0],
            last,
        })
    }
}

/// Σ (t+a)² over t = from+1 … to, without the cancellation of a difference of sums:
/// with k = to − from and b = a + from it is Σ_{j=1}^k (j+b)² = k(k+1)(2k+1)/6 + bk(k+1) + b²k.
pub fn weight_between(from: u64, to: u64, a: f64) -> f64 {
    let k = to.saturating_sub(from) as f64;
    let b = a + from as f64;
    k * (k + 1.0) * (2.0 * k + 1.0) / 6.0 + b * k * (k + 1.0) + b * b * k
}

/// sum ← sum + weight·x
fn add(sum: &mut [f64], weight: f64, x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += weight * f64::from(*x);
    }
}

impl Averaged {
    fn shift(&self, site: &Site<'_>) -> f64 {
        self.shift
            .or(site.shift())
            .expect("the plan asks for algorithm.averaging_shift or a theory schedule")
    }
}

impl Algorithm for Averaged {
    type Server = Server;
    type Broadcast = ModelOnly;
    type Memory = Sums;
    type Update = Update;
    type Fold = (Mean, Mean, f64);

    fn start(&self, w0: &[f32], clients: usize) -> Server {
        Server {
            shared: self.apfl.start(w0, clients),
            sum: vec![0.0; w0.len()],
            weight: 0.0,
        }
    }

    fn broadcast(&self, server: &Server) -> ModelOnly {
        server.shared.clone()
    }

    fn join(&self, w0: &[f32]) -> Sums {
        Sums {
            memory: self.apfl.join(w0),
            sum: vec![0.0; w0.len()],
            seen: 0,
        }
    }

    fn local_round(&self, sent: &ModelOnly, local: &mut Sums, site: &mut Site<'_>) -> Update {
        let a = self.shift(site);
        let Sums { memory, sum, seen } = local;
        let mut t = site.steps_before();
        add(sum, weight_between(*seen, t, a), &memory.v);
        let mut w = sent.model.clone();
        let mut path = vec![0.0; w.len()];
        let mut weight = 0.0;
        self.apfl.round(&mut w, memory, site, |w, v| {
            t += 1;
            let p = (t as f64 + a).powi(2);
            add(&mut path, p, w);
            add(sum, p, v);
            weight += p;
        });
        *seen = t;
        Update {
            last: ModelOnly { model: w },
            path: path.into_iter().map(|sum| (sum / weight) as f32).collect(),
            weight,
        }
    }

    fn fold(&self, _: &Server, fold: &mut Self::Fold, from: Sender, update: Update) {
        fold.0.add(from.weight, &update.last.model);
        fold.1.add(from.weight, &update.path);
        fold.2 = update.weight; // the same at every client: all take τ steps
    }

    fn finish(&self, server: &mut Server, (last, path, weight): Self::Fold) {
        if let (Some(w), Some(path)) = (last.value(), path.value()) {
            server.shared.model = w;
            add(&mut server.sum, weight, &path);
            server.weight += weight;
        }
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.shared.model
    }

    /// ŵ
    fn output<'a>(&self, server: &'a Server) -> Cow<'a, [f32]> {
        match server.weight > 0.0 {
            false => Cow::Borrowed(&server.shared.model),
            true => {
                let mean = server.sum.iter().map(|sum| (sum / server.weight) as f32);
                Cow::Owned(mean.collect())
            }
        }
    }

    /// v̂ᵢ
    fn conclude(&self, local: &Sums, output: &[f32], site: &Site<'_>) -> Option<Params> {
        let a = self.shift(site);
        let Sums { memory, sum, seen } = local;
        let steps = site.steps_before();
        let missed = weight_between(*seen, steps, a);
        let total = weight_between(0, steps, a);
        let alpha = f64::from(memory.alpha);
        let own = |sum: f64, v: f64| match steps {
            0 => v,
            _ => (sum + missed * v) / total,
        };
        let pairs = sum.iter().zip(&memory.v).zip(output);
        let v_hat = pairs.map(|((sum, v), w)| {
            (alpha * own(*sum, f64::from(*v)) + (1.0 - alpha) * f64::from(*w)) as f32
        });
        Some(v_hat.collect())
    }

    fn localized<'a>(&self, _: &'a Sums, update: &'a Update) -> &'a [f32] {
        &update.last.model
    }

    fn personal<'a>(
        &self,
        local: &'a Sums,
        update: &'a Update,
        site: &mut Site<'_>,
    ) -> Predictor<'a> {
        self.apfl.personal(&local.memory, &update.last, site)
    }

    fn own<'a>(&self, local: &'a Sums, _: &'a Update) -> &'a [f32] {
        &local.memory.v
    }

    fn mixing(&self, local: &Sums) -> Option<f32> {
        Some(local.memory.alpha)
    }

    fn properties(&self) -> Properties {
        Properties {
            beyond_rules: Some(
                "algorithm.output = \"averaged\" sends the mean of every client's path besides, \
                 which it would not reach; use output = \"last\"",
            ),
            beyond_optimizers: Some(
                "algorithm.output = \"averaged\" averages the path of the mean; use output = \
                 \"last\"",
            ),
            momentum: false,
            needs_theory: self.shift.is_none(),
            ..self.apfl.properties()
        }
    }

    fn details(&self) -> String {
        format!("{}, averaged", self.apfl.details())
    }
}
