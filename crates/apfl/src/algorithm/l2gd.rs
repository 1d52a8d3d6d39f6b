//! L2GD (Hanzely and Richtárik, 2020): personal models that are pulled to their mean at random
//! steps.

use rand::RngExt;

use super::{AfterRound, Algorithm, AlgorithmKind, AlgorithmSpec, Models, Properties, Sender};
use crate::local_client::LocalClient;
use crate::model::Layout;
use crate::pack::ModelOnly;
use crate::params::{Mean, Params};
use crate::rng::{Purpose, stream};
use crate::settings::{Kind, Number, Section, Setting, Settings, at_least};

/// L2GD's settings. *Shared* is x̄, the mean of all models; *localized* and *personal* are xᵢ.
///
/// η = α/n is `training.learning_rate`; `training.local_steps` is not used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct L2gd {
    /// p
    pub averaging: f64,
    /// λ
    pub pull: f64,
    seed: u64,
}

/// State of the server and broadcast: x̄ and the progress of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// x̄
    pub model: Params,
    /// Local steps of the next round.
    pub steps: u64,
    /// Local steps of all previous rounds.
    pub before: u64,
    /// Rounds so far.
    pub round: u64,
}

crate::pack!(Server {
    model,
    steps,
    before,
    round
});

const AVERAGING: Setting<Number> = Setting::number("averaging", 0.1, at_least(1e-6).below(1.0))
    .symbol("p")
    .help("the chance that a step is an averaging, in which all clients take part");

const PULL: Setting<Number> = Setting::number("pull", 0.1, at_least(0.0).to(1e6))
    .symbol("λ")
    .help("the pull to the mean, (λ/2)‖xᵢ − x̄‖², with learning_rate·λ/p at most 1");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "l2gd",
    about: "personal models, pulled to their mean at random steps (Hanzely et al., 2020)",
    settings: &[&AVERAGING, &PULL],
    examples: &["{ kind = 'l2gd', averaging = 0.25, pull = 0.5 }"],
    value: |s| AlgorithmSpec::L2gd(s.filled(L2gd::new(0.0, 0.0))),
};

impl Settings for L2gd {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&AVERAGING, &mut self.averaging);
        s.field(&PULL, &mut self.pull);
    }
}

impl L2gd {
    /// Creates L2GD with p and λ.
    pub fn new(averaging: f64, pull: f64) -> Self {
        Self {
            averaging,
            pull,
            seed: 0,
        }
    }

    /// Returns the local steps of a round: the number of coin tosses before the first averaging,
    /// which has probability p. P(k) = p(1−p)ᵏ.
    pub fn steps(&self, round: u64) -> u64 {
        let toss: f64 = stream(self.seed, Purpose::Coin, round, 0).random();
        // 1 − toss is in (0, 1], and P(ln(1−toss) ≤ k·ln(1−p)) = (1−p)ᵏ.
        ((1.0 - toss).ln() / (-self.averaging).ln_1p()) as u64
    }
}

impl Algorithm for L2gd {
    type Server = Server;
    type Broadcast = Server;
    type ClientState = ModelOnly;
    type Update = ModelOnly;
    type Fold = Mean;

    fn for_run(mut self, _: &Layout, seed: u64) -> Result<Self, String> {
        self.seed = seed;
        Ok(self)
    }

    fn start(&self, w0: &[f32], _clients: usize) -> Server {
        Server {
            model: w0.to_vec(),
            steps: self.steps(1),
            before: 0,
            round: 0,
        }
    }

    fn broadcast(&self, server: &Server) -> Server {
        server.clone()
    }

    fn join(&self, w0: &[f32]) -> ModelOnly {
        ModelOnly { model: w0.to_vec() }
    }

    /// With one coin for all clients and x̄ the mean of their models, a step is
    ///
    /// ```text
    /// xᵢ ← xᵢ − (η/(1−p))∇fᵢ(xᵢ; ξ)     with probability 1 − p
    /// xᵢ ← xᵢ − (ηλ/p)(xᵢ − x̄)          with probability p
    /// ```
    ///
    /// A round is the local steps up to an averaging, and the averaging. The mean is known only
    /// after the clients have sent their models, so a client starts a round with the averaging of
    /// the round before, at the rate of its end. In round 1 it has no effect, as xᵢ = x̄ = w⁰.
    fn local_round(
        &self,
        sent: &Server,
        local: &mut ModelOnly,
        client: &mut LocalClient<'_>,
    ) -> ModelOnly {
        let x = &mut local.model;
        client.take_steps(sent.steps, sent.before);
        let share = (f64::from(client.rate_before()) * self.pull / self.averaging) as f32;
        for (x, mean) in x.iter_mut().zip(&sent.model) {
            *x -= share * (*x - mean);
        }
        for s in 0..sent.steps {
            let eta = f64::from(client.rate(s)) / (1.0 - self.averaging);
            client.next_batch();
            client.descend(x, eta as f32);
        }
        ModelOnly { model: x.clone() }
    }

    fn fold(&self, _: &Server, fold: &mut Mean, from: Sender, update: ModelOnly) {
        fold.add(from.weight, &update.model);
    }

    fn finish(&self, server: &mut Server, fold: Mean) {
        if let Some(mean) = fold.value() {
            server.model = mean;
        }
        server.before += server.steps;
        server.round += 1;
        server.steps = self.steps(server.round + 1);
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.model
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.update.model)
    }

    fn properties(&self) -> Properties {
        let Self {
            averaging, pull, ..
        } = *self;
        Properties {
            details: format!(" (p = {averaging}, λ = {pull})"),
            models: ["x̄, the mean of all", "xᵢ", "the same"],
            optimizer_problem: Some(
                "algorithm \"l2gd\" shares the mean of all models, which a server optimizer cannot move",
            ),
            max_learning_rate: (pull > 0.0).then(|| averaging / pull),
            own_steps: true,
            full_participation: true,
            ..Properties::default()
        }
    }
}
