//! The output of Algorithm 1: averages over all steps.
//!
//! ```text
//! ŵ  = (1/(K·S_T)) Σ_t p_t Σ_{j∈U_t} wⱼ⁽ᵗ⁾                 p_t = (t+a)²   S_T = Σ p_t
//! v̂ᵢ = αᵢ·(1/S_T) Σ_t p_t vᵢ⁽ᵗ⁾ + (1−αᵢ)ŵ                 t = 1 … T local steps
//! ```
//!
//! A client sums over its own steps and sends the weighted mean of its wᵢ along with wᵢ: one more
//! vector uplink. vᵢ of a client that is not sampled does not change, so the missed part of its
//! sum is vᵢ times a sum of p_t. It is added when the client is next sampled and at the end.

use super::{Apfl, ClientState};
use crate::algorithm::extensions::{Extensions, FinalModels};
use crate::algorithm::{AfterRound, Algorithm, Models, Properties, Sender};
use crate::local_client::LocalClient;
use crate::pack::ModelOnly;
use crate::params::{Mean, Params};

/// APFL with a fixed α whose final models are ŵ and v̂ᵢ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Averaged {
    /// The training, which is not affected by the averages.
    pub apfl: Apfl,
    /// a; `None`: that of the theory schedule.
    pub shift: Option<f64>,
}

/// State of the server.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// w
    pub shared: ModelOnly,
    /// Σ_t p_t (1/K) Σ_{j∈U_t} wⱼ⁽ᵗ⁾
    pub sum: Vec<f64>,
    /// Σ_t p_t
    pub weight: f64,
}

crate::pack!(Server { shared, sum like shared.model, weight });

/// State that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct AveragedState {
    /// vᵢ and αᵢ
    pub state: ClientState,
    /// Σ p_t vᵢ⁽ᵗ⁾ over the steps up to `seen`.
    pub sum: Vec<f64>,
    /// The last step in the sum.
    pub seen: u64,
}

crate::pack!(AveragedState { state, sum like state.v, seen });

/// The update of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// wᵢ after the last step.
    pub last: ModelOnly,
    /// Σ p_t wᵢ⁽ᵗ⁾ / Σ p_t over the round's steps.
    pub path: Params,
    /// Σ p_t over the round's steps.
    pub weight: f64,
}

crate::pack!(Update { last, path like last.model, weight });

/// Returns Σ (t+a)² over t = from+1 … to, without the cancellation of a difference of sums:
/// with k = to − from and b = a + from it is Σ_{j=1}^k (j+b)² = k(k+1)(2k+1)/6 + bk(k+1) + b²k.
pub fn weight_between(from: u64, to: u64, a: f64) -> f64 {
    let k = to.saturating_sub(from) as f64;
    let b = a + from as f64;
    k * (k + 1.0) * (2.0 * k + 1.0) / 6.0 + b * k * (k + 1.0) + b * b * k
}

/// Computes sum ← sum + weight·x.
fn add(sum: &mut [f64], weight: f64, x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += weight * f64::from(*x);
    }
}

impl Averaged {
    fn shift(&self, client: &LocalClient<'_>) -> f64 {
        self.shift
            .or(client.shift())
            .expect("the plan requires algorithm.averaging_shift or a theory schedule")
    }
}

impl Algorithm for Averaged {
    type Server = Server;
    type Broadcast = ModelOnly;
    type ClientState = AveragedState;
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

    fn join(&self, w0: &[f32]) -> AveragedState {
        AveragedState {
            state: self.apfl.join(w0),
            sum: vec![0.0; w0.len()],
            seen: 0,
        }
    }

    fn local_round(
        &self,
        sent: &ModelOnly,
        local: &mut AveragedState,
        client: &mut LocalClient<'_>,
    ) -> Update {
        let a = self.shift(client);
        let AveragedState { state, sum, seen } = local;
        let mut t = client.steps_before();
        add(sum, weight_between(*seen, t, a), &state.v);
        let mut w = sent.model.clone();
        let mut path = vec![0.0; w.len()];
        let mut weight = 0.0;
        self.apfl.round(&mut w, state, client, |w, v| {
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

    fn models<'a>(&self, after: AfterRound<'a, Self>, client: &mut LocalClient<'_>) -> Models<'a> {
        let AfterRound {
            local,
            sent,
            update,
        } = after;
        let inner = AfterRound {
            local: &local.state,
            sent,
            update: &update.last,
        };
        self.apfl.models(inner, client)
    }

    fn mixing(&self, local: &AveragedState) -> Option<f32> {
        self.apfl.mixing(&local.state)
    }

    fn properties(&self) -> Properties {
        let inner = self.apfl.properties();
        Properties {
            details: format!("{}, averaged", inner.details),
            aggregator_problem: Some(
                "algorithm.output = \"averaged\" also sends the mean of every client's path, which \
                                 aggregators and attacks do not reach; use output = \"last\"",
            ),
            optimizer_problem: Some(
                "algorithm.output = \"averaged\" averages the path of the mean; use output = \
                 \"last\"",
            ),
            momentum: false,
            needs_theory: self.shift.is_none(),
            ..inner
        }
    }

    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions {
            final_models: Some(self),
            ..Extensions::default()
        }
    }
}

impl FinalModels for Averaged {
    /// Returns ŵ.
    fn shared(&self, server: &Server) -> Params {
        if server.weight == 0.0 {
            return server.shared.model.clone();
        }
        let mean = server.sum.iter().map(|sum| (sum / server.weight) as f32);
        mean.collect()
    }

    /// Returns v̂ᵢ.
    fn personal(&self, local: &AveragedState, shared: &[f32], client: &LocalClient<'_>) -> Params {
        let a = self.shift(client);
        let AveragedState { state, sum, seen } = local;
        let steps = client.steps_before();
        let missed = weight_between(*seen, steps, a);
        let total = weight_between(0, steps, a);
        let alpha = f64::from(state.alpha);
        let own = |sum: f64, v: f64| match steps {
            0 => v,
            _ => (sum + missed * v) / total,
        };
        let pairs = sum.iter().zip(&state.v).zip(shared);
        let v_hat = pairs.map(|((sum, v), w)| {
            (alpha * own(*sum, f64::from(*v)) + (1.0 - alpha) * f64::from(*w)) as f32
        });
        v_hat.collect()
    }
}
