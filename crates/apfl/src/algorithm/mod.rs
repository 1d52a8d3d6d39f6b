//! Federated algorithms: a few pure functions over values each.
//!
//! An algorithm says what the server and a client remember, what travels between them,
//! and what happens in a round. Where clients live, in which order they are processed
//! and how often they are scored is not its business.

use std::borrow::Cow;

use crate::pack::Pack;
use crate::params::Params;
use crate::settings::Section;
use crate::site::{Predictor, Site};

use self::apfl::options::Preset;

pub mod agnostic;
pub mod apfl;
pub mod fedavg;
pub mod local;
pub mod perfedavg;
pub mod pfedme;
pub mod scaffold;

pub use agnostic::Agnostic;
pub use apfl::{Apfl, Averaged};
pub use fedavg::FedAvg;
pub use local::LocalOnly;
pub use perfedavg::PerFedAvg;
pub use pfedme::PFedMe;
pub use scaffold::Scaffold;

/// Where an update comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// The client's index.
    pub client: usize,
    /// Its weight in the mean: 1, or its number of training examples.
    pub weight: f64,
}

/// A federated algorithm.
pub trait Algorithm: std::fmt::Debug + Send + Sync + 'static {
    /// What the server remembers.
    type Server: Pack + Send + Sync;
    /// What travels down.
    type Broadcast: Pack + Send + Sync;
    /// What a client remembers, for ever.
    type Memory: Pack + Clone + Send + Sync;
    /// What travels back.
    type Update: Pack + Send;
    /// The sum of the updates so far.
    type Fold: Default + Send;

    /// The server before the first round, where `w0` is w⁰.
    fn start(&self, w0: &[f32], clients: usize) -> Self::Server;

    /// What is sent to every client of a round.
    fn broadcast(&self, server: &Self::Server) -> Self::Broadcast;

    /// A client's first memory, made from w⁰ whenever it is first drawn.
    fn join(&self, w0: &[f32]) -> Self::Memory;

    /// A client's part of a round.
    fn local_round(
        &self,
        sent: &Self::Broadcast,
        local: &mut Self::Memory,
        site: &mut Site<'_>,
    ) -> Self::Update;

    /// Takes in one update; called in the order of the clients.
    fn fold(
        &self,
        server: &Self::Server,
        fold: &mut Self::Fold,
        from: Sender,
        update: Self::Update,
    );

    /// Ends a round.
    fn finish(&self, server: &mut Self::Server, fold: Self::Fold);

    /// The shared model.
    fn shared<'a>(&self, server: &'a Self::Server) -> &'a [f32];

    /// The shared model that a run ends with, where it is not the last one.
    fn output<'a>(&self, server: &'a Self::Server) -> Cow<'a, [f32]> {
        Cow::Borrowed(self.shared(server))
    }

    /// The personal model that a client ends with, where it is made of what training left
    /// there and not by delivery's last local round. `output` is the run's shared model.
    fn conclude(&self, _local: &Self::Memory, _output: &[f32], _site: &Site<'_>) -> Option<Params> {
        None
    }

    /// wᵢ after the local steps and before aggregation.
    fn localized<'a>(&self, local: &'a Self::Memory, update: &'a Self::Update) -> &'a [f32];

    /// The client's own model at the same moment. May train (on training batches).
    fn personal<'a>(
        &self,
        local: &'a Self::Memory,
        update: &'a Self::Update,
        site: &mut Site<'_>,
    ) -> Predictor<'a>;

    /// What `--model local` exports: vᵢ where there is one, else the localized model.
    fn own<'a>(&self, local: &'a Self::Memory, update: &'a Self::Update) -> &'a [f32] {
        self.localized(local, update)
    }

    /// Whether the personal model is a mixture of two models' outputs.
    fn mixes_outputs(&self) -> bool {
        false
    }

    /// αᵢ, where there is one.
    fn mixing(&self, _local: &Self::Memory) -> Option<f32> {
        None
    }
}

/// One of the algorithms, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum AlgorithmSpec {
    /// Adaptive personalized federated learning.
    Apfl(Apfl),
    /// The same, ending with the averages of Algorithm 1.
    Averaged(Averaged),
    /// The same for the worst mixture of clients.
    AgnosticApfl(Agnostic<Apfl>),
    /// Federated averaging.
    FedAvg(FedAvg),
    /// The same for the worst mixture of clients.
    AgnosticFedAvg(Agnostic<FedAvg>),
    /// Control variates against the clients' drift.
    Scaffold(Scaffold),
    /// A shared model from which one step personalizes well.
    PerFedAvg(PerFedAvg),
    /// Personal models held near the shared one.
    PFedMe(PFedMe),
    /// Every client alone.
    Local(LocalOnly),
}

/// Something to be done with an algorithm of any type.
pub trait AlgorithmVisitor {
    /// What comes of it.
    type Out;
    /// Does it.
    fn visit<A: Algorithm>(self, algorithm: A) -> Self::Out;
}

impl AlgorithmSpec {
    /// Does something with the algorithm itself.
    pub fn accept<T: AlgorithmVisitor>(self, visitor: T) -> T::Out {
        match self {
            AlgorithmSpec::Apfl(a) => visitor.visit(a),
            AlgorithmSpec::Averaged(a) => visitor.visit(a),
            AlgorithmSpec::AgnosticApfl(a) => visitor.visit(a),
            AlgorithmSpec::FedAvg(a) => visitor.visit(a),
            AlgorithmSpec::AgnosticFedAvg(a) => visitor.visit(a),
            AlgorithmSpec::Scaffold(a) => visitor.visit(a),
            AlgorithmSpec::PerFedAvg(a) => visitor.visit(a),
            AlgorithmSpec::PFedMe(a) => visitor.visit(a),
            AlgorithmSpec::Local(a) => visitor.visit(a),
        }
    }

    /// Reads `[algorithm]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        type Read = fn(&mut Section<'_>) -> AlgorithmSpec;
        let kinds: [(&str, Read); 6] = [
            ("apfl", read_apfl),
            ("fedavg", |s| match agnostic::read(s) {
                None => AlgorithmSpec::FedAvg(FedAvg),
                Some(step) => AlgorithmSpec::AgnosticFedAvg(Agnostic {
                    inner: FedAvg,
                    step,
                }),
            }),
            ("scaffold", |s| AlgorithmSpec::Scaffold(Scaffold::read(s))),
            ("perfedavg", |s| {
                AlgorithmSpec::PerFedAvg(PerFedAvg::read(s))
            }),
            ("pfedme", |s| AlgorithmSpec::PFedMe(PFedMe::read(s))),
            ("local", |_| AlgorithmSpec::Local(LocalOnly)),
        ];
        let read = s.choice("kind", "apfl", &kinds);
        read(s)
    }

    /// APFL's settings, where it is APFL in any form.
    pub fn apfl(&self) -> Option<&Apfl> {
        match self {
            AlgorithmSpec::Apfl(apfl) => Some(apfl),
            AlgorithmSpec::Averaged(averaged) => Some(&averaged.apfl),
            AlgorithmSpec::AgnosticApfl(agnostic) => Some(&agnostic.inner),
            _ => None,
        }
    }

    /// Whether the server weighs clients by itself.
    pub fn agnostic(&self) -> bool {
        matches!(
            self,
            AlgorithmSpec::AgnosticApfl(_) | AlgorithmSpec::AgnosticFedAvg(_)
        )
    }

    /// Whether the personal model is a mixture of two models' outputs.
    pub fn mixes_outputs(&self) -> bool {
        self.apfl().is_some_and(Apfl::mixes_outputs)
    }

    /// The geometric schedule that a spec has where it does not say: (factor, per what).
    pub fn usual_decay(&self) -> (f64, &'static str) {
        match self.apfl().map(|apfl| apfl.options.preset) {
            Some(Preset::FedTorch) => (1.0 / 1.01, "epoch"),
            _ => (0.99, "round"),
        }
    }

    /// Its kind, as a spec writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            AlgorithmSpec::Apfl(_)
            | AlgorithmSpec::Averaged(_)
            | AlgorithmSpec::AgnosticApfl(_) => "apfl",
            AlgorithmSpec::FedAvg(_) | AlgorithmSpec::AgnosticFedAvg(_) => "fedavg",
            AlgorithmSpec::Scaffold(_) => "scaffold",
            AlgorithmSpec::PerFedAvg(_) => "perfedavg",
            AlgorithmSpec::PFedMe(_) => "pfedme",
            AlgorithmSpec::Local(_) => "local",
        }
    }

    /// Its kind and what stands out, in a few words.
    pub fn describe(&self) -> String {
        match self {
            AlgorithmSpec::Apfl(apfl) => apfl.describe(),
            AlgorithmSpec::Averaged(averaged) => format!("{}, averaged", averaged.apfl.describe()),
            AlgorithmSpec::AgnosticApfl(agnostic) => {
                format!("{}, agnostic", agnostic.inner.describe())
            }
            AlgorithmSpec::AgnosticFedAvg(_) => "fedavg, agnostic".into(),
            other => other.kind().into(),
        }
    }
}

/// APFL with `output = "last"` (the experiments') or `"averaged"` (Algorithm 1's own). The
/// latter's weights are (t+a)²; a is `averaging_shift` (0 to 1e15), or the schedule's.
fn read_apfl(s: &mut Section<'_>) -> AlgorithmSpec {
    let apfl = Apfl::read(s);
    let averaged = s.choice("output", "last", &[("last", false), ("averaged", true)]);
    let shift = s.optional_float("averaging_shift", 0.0..=1e15, "0 to 1e15");
    let agnostic = agnostic::read(s);
    if !averaged && shift.is_some() {
        s.problem(
            "averaging_shift",
            "is for output = \"averaged\" only; leave it out, or ask for that output",
        );
    }
    if averaged && agnostic.is_some() {
        s.problem(
            "agnostic",
            "does not go with output = \"averaged\", whose theory weighs all clients alike",
        );
    }
    match (averaged, agnostic) {
        (true, _) => AlgorithmSpec::Averaged(Averaged { apfl, shift }),
        (false, Some(step)) => AlgorithmSpec::AgnosticApfl(Agnostic { inner: apfl, step }),
        (false, None) => AlgorithmSpec::Apfl(apfl),
    }
}

/// Every algorithm there is, as a spec writes it: what the identity, engine and resume
/// tests run over, so that a new one is tested before anyone writes a test.
pub fn every_algorithm() -> Vec<&'static str> {
    vec![
        "{ kind = 'apfl', mixing = { fixed = 0.25 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, preset = 'fedtorch' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, mix = 'logits', alpha_every = 'step' }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, order = 'sequential', alpha_rate = 0.05, \
         alpha_l2 = 0.02, alpha_gradient = 'blended' }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, projection = 0.1, v_rate = 0.2, l2_on_v = true }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 20 }",
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, output = 'averaged', averaging_shift = 0, \
         projection = 0.1 }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 }, agnostic = 0.05 }",
        "{ kind = 'fedavg' }",
        "{ kind = 'fedavg', agnostic = true }",
        "{ kind = 'scaffold' }",
        "{ kind = 'scaffold', control = 'fresh' }",
        "{ kind = 'perfedavg', outer_rate = 0.05 }",
        "{ kind = 'perfedavg', variant = 'hf', outer_rate = 0.05 }",
        "{ kind = 'perfedavg', variant = 'sequential', outer_rate = 0.05 }",
        "{ kind = 'pfedme' }",
        "{ kind = 'pfedme', variant = 'fedtorch', server = 0.5 }",
        "{ kind = 'local' }",
    ]
}
