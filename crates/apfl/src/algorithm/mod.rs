//! Federated algorithms: a few pure functions over values each.
//!
//! An algorithm says what the server and a client remember, what travels between them,
//! and what happens in a round. Where clients live, in which order they are processed
//! and how often they are scored is not its business.

use std::borrow::Cow;

use crate::choice::{Candidate, Choosing, Pass};
use crate::model::Layout;
use crate::pack::Pack;
use crate::params::Params;
use crate::site::{Predictor, Site};

pub mod agnostic;
pub mod layers;
#[macro_use]
mod one_model;
#[macro_use]
mod registry;

pub use agnostic::Agnostic;
#[doc(hidden)] // for plans
pub use registry::OwnAlgorithm;
pub use registry::{AlgorithmKind, AlgorithmVisitor, every_algorithm};

// Every algorithm there is: the file with its `KIND`, and the types in it that a spec may
// choose, each in its variant of `AlgorithmSpec`. `cargo fmt` does not look into a macro:
// `rustfmt --edition 2024` formats a file named here, and a test asks for it.
algorithms! {
    apfl => Apfl(Apfl), Averaged(Averaged), AgnosticApfl(AgnosticApfl), Chosen(Chosen),
        AgnosticChosen(AgnosticChosen);
    fedavg => FedAvg(FedAvg), AgnosticFedAvg(AgnosticFedAvg);
    scaffold => Scaffold(Scaffold);
    perfedavg => PerFedAvg(PerFedAvg);
    pfedme => PFedMe(PFedMe);
    local => Local(LocalOnly);
    fedprox => FedProx(FedProx);
    ditto => Ditto(Ditto);
    fedper => FedPer(FedPer);
    fedrep => FedRep(FedRep);
    lgfedavg => LgFedAvg(LgFedAvg);
    l2gd => L2gd(L2gd);
    mapper => Mapper(Mapper);
    hypcluster => HypCluster(HypCluster);
}

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

    /// The algorithm for a run of a model with that layout and that seed, where it must know
    /// them; an error says why such a model cannot be trained by it. Comes before all else.
    fn for_run(self, _layout: &Layout, _seed: u64) -> Result<Self, String>
    where
        Self: Sized,
    {
        Ok(self)
    }

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

    /// How long the vectors of an update are, of a model with that many parameters.
    fn sends(&self, _sent: &Self::Broadcast, parameters: usize) -> usize {
        parameters
    }

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

    /// The part of the shared model that the `model` array of an update stands for: all of
    /// it, where not only some layers are shared.
    fn aggregated<'a>(&self, server: &'a Self::Server) -> &'a [f32] {
        self.shared(server)
    }

    /// The same to be changed, by an optimizer of the server; `None` where none can act.
    fn aggregated_mut<'a>(&self, _server: &'a mut Self::Server) -> Option<&'a mut [f32]> {
        None
    }

    /// Several shared models one after the other, of which every client has its own
    /// ([`Algorithm::cluster`]); `None`: there is one.
    fn clusters<'a>(&self, _server: &'a Self::Server) -> Option<&'a [f32]> {
        None
    }

    /// Which of the shared models is the client's.
    fn cluster(&self, _local: &Self::Memory) -> usize {
        0
    }

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

    /// The same with what the client received at hand, which may be what it serves.
    fn serves<'a>(
        &self,
        local: &'a Self::Memory,
        _sent: &'a Self::Broadcast,
        update: &'a Self::Update,
        site: &mut Site<'_>,
    ) -> Predictor<'a> {
        self.personal(local, update, site)
    }

    /// How a choice among several models is made, where the algorithm makes one.
    fn choosing(&self) -> Option<&Choosing> {
        None
    }

    /// The algorithm in one of the passes of a choice; `None`: there is no other than this.
    fn in_pass(&self, _pass: Pass) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// All models that the client may choose from, in the order of [`Choosing::list`]; none
    /// where there is nothing to choose in this pass.
    fn candidates<'a>(
        &self,
        _local: &'a Self::Memory,
        _sent: &'a Self::Broadcast,
        _update: &'a Self::Update,
    ) -> Vec<(Candidate, Predictor<'a>)> {
        Vec::new()
    }

    /// The model that the client trained on its own rows alone, where there is one beside the
    /// others.
    fn alone<'a>(&self, _local: &'a Self::Memory) -> Option<&'a [f32]> {
        None
    }

    /// The client's *local* model: vᵢ where there is one, else the localized model.
    fn own<'a>(&self, local: &'a Self::Memory, update: &'a Self::Update) -> &'a [f32] {
        self.localized(local, update)
    }

    /// Why its settings cannot be run; `None` where they can.
    fn problem(&self) -> Option<String> {
        None
    }

    /// What the rest of a spec must know of it.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// What stands out among its settings, to be read behind its kind, such as
    /// ` (α = 0.5), averaged`.
    fn details(&self) -> String {
        String::new()
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

/// What the rest of a spec, and a measurement, must know of an algorithm with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Properties {
    /// Why aggregation rules and attacks cannot act on its updates; `None`: they can.
    pub beyond_rules: Option<&'static str>,
    /// Why optimizers of the server cannot act on its shared model; `None`: they can.
    pub beyond_optimizers: Option<&'static str>,
    /// Whether `training.learning_rate` and its schedule do not apply.
    pub own_rates: bool,
    /// The key of its rate: what a fair comparison chooses the best value of.
    pub rate_key: &'static str,
    /// The largest learning rate with which it makes sense.
    pub most_rate: Option<f64>,
    /// Whether its rounds have numbers of local steps of their own.
    pub own_steps: bool,
    /// Whether its local steps know `training.momentum`.
    pub momentum: bool,
    /// Whether every client must take part in every round, all with the same weight.
    pub everybody: bool,
    /// The key and the number of the layers that are shared, or not shared, where only some
    /// layers are.
    pub layers: Option<(&'static str, usize)>,
    /// Whether the server weighs clients by itself.
    pub weighs_clients: bool,
    /// The geometric schedule that a spec has where it does not say: (factor, per what).
    pub usual_decay: (f64, &'static str),
    /// Gradients that one local step takes.
    pub gradients: u64,
    /// Whether it takes its constants from a theorem's schedule.
    pub needs_theory: bool,
}

impl Default for Properties {
    /// FedAvg's, but for momentum, which an algorithm must know of.
    fn default() -> Self {
        Self {
            beyond_rules: None,
            beyond_optimizers: None,
            own_rates: false,
            rate_key: "training.learning_rate",
            most_rate: None,
            own_steps: false,
            momentum: false,
            everybody: false,
            layers: None,
            weighs_clients: false,
            usual_decay: (0.99, "round"),
            gradients: 1,
            needs_theory: false,
        }
    }
}
