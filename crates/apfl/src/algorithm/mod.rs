//! Federated algorithms, each a few pure functions over values.
//!
//! An algorithm defines what the server and a client keep between rounds, what they send each
//! other, and what happens in a round. It does not know where clients run, in which order they
//! are processed, or how often they are scored.

use std::borrow::Cow;

use crate::local_client::{LocalClient, Predictor};
use crate::model::Layout;
use crate::pack::Pack;
use crate::params::Params;

#[doc(hidden)]
pub mod agnostic;
#[doc(hidden)]
pub mod apfl;
#[doc(hidden)]
pub mod ditto;
pub mod extensions;
#[doc(hidden)]
pub mod fedavg;
#[doc(hidden)]
pub mod fedper;
#[doc(hidden)]
pub mod fedprox;
#[doc(hidden)]
pub mod fedrep;
#[doc(hidden)]
pub mod hypcluster;
#[doc(hidden)]
pub mod l2gd;
#[doc(hidden)]
pub mod layers;
#[doc(hidden)]
pub mod lgfedavg;
#[doc(hidden)]
pub mod local;
#[doc(hidden)]
pub mod mapper;
mod one_model;
#[doc(hidden)]
pub mod perfedavg;
#[doc(hidden)]
pub mod pfedme;
mod properties;
#[doc(hidden)]
pub mod scaffold;
#[macro_use]
mod registry;

pub use agnostic::Agnostic;
pub use apfl::{Mixing, Options};
pub use extensions::Extensions;
pub use one_model::OneModel;
pub use properties::Properties;
#[doc(hidden)] // for plans
pub use registry::OwnAlgorithm;
#[doc(hidden)] // for the program and the tests
pub use registry::{AlgorithmKind, AlgorithmVisitor, every_algorithm};

// Every algorithm: the module with its `KIND`, and the types in it that a spec may choose. Each
// is in its variant of `AlgorithmSpec`.
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

/// Sender of an update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// The client's index.
    pub client: usize,
    /// Its weight in the mean: 1, or its number of training examples.
    pub weight: f64,
}

/// A federated algorithm: five types that consist of arrays, and pure functions over them.
///
/// Eight methods are required. If the server is one model, implement [`OneModel`], which needs
/// two. Rarely needed methods are in the traits of [`extensions`].
pub trait Algorithm: std::fmt::Debug + Send + Sync + Sized + 'static {
    /// State of the server.
    type Server: Pack + Send + Sync;
    /// Message that the server sends to every client of a round.
    type Broadcast: Pack + Send + Sync;
    /// State that a client keeps between rounds.
    type ClientState: Pack + Clone + Send + Sync;
    /// Message that a client sends back.
    type Update: Pack + Send;
    /// The sum of the updates so far.
    type Fold: Default + Send;

    /// Returns the server's state before the first round. `w0` is w⁰.
    fn start(&self, w0: &[f32], clients: usize) -> Self::Server;

    /// Returns the message to every client of a round.
    fn broadcast(&self, server: &Self::Server) -> Self::Broadcast;

    /// Returns the state of a client when it is first sampled.
    fn join(&self, w0: &[f32]) -> Self::ClientState;

    /// Trains a client for one round and returns its update.
    fn local_round(
        &self,
        sent: &Self::Broadcast,
        local: &mut Self::ClientState,
        local_client: &mut LocalClient<'_>,
    ) -> Self::Update;

    /// Adds one update; called in the order of the clients.
    fn fold(
        &self,
        server: &Self::Server,
        fold: &mut Self::Fold,
        from: Sender,
        update: Self::Update,
    );

    /// Ends a round.
    fn finish(&self, server: &mut Self::Server, fold: Self::Fold);

    /// Returns the shared model.
    fn shared<'a>(&self, server: &'a Self::Server) -> &'a [f32];

    /// Returns a client's models after its local round. May train on training batches; it is called
    /// only if the models are scored or finalized.
    fn models<'a>(
        &self,
        after: AfterRound<'a, Self>,
        local_client: &mut LocalClient<'_>,
    ) -> Models<'a>;

    /// Returns the shared model, mutable, for a server optimizer; `None` if none can act.
    fn shared_mut<'a>(&self, _server: &'a mut Self::Server) -> Option<&'a mut [f32]> {
        None
    }

    /// Prepares the algorithm for a run with this layout and seed. Called before every other
    /// method.
    ///
    /// # Errors
    /// If the algorithm cannot train such a model; the text says why.
    fn for_run(self, _layout: &Layout, _seed: u64) -> Result<Self, String> {
        Ok(self)
    }

    /// Returns αᵢ, if the algorithm has one.
    fn mixing(&self, _local: &Self::ClientState) -> Option<f32> {
        None
    }

    /// Returns the algorithm's properties.
    fn properties(&self) -> Properties {
        Properties::default()
    }

    /// Returns the opt-in traits that the algorithm implements.
    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions::default()
    }
}

/// A client after its local round.
#[derive(Debug)]
pub struct AfterRound<'a, A: Algorithm> {
    /// The client's state.
    pub local: &'a A::ClientState,
    /// The message that it received.
    pub sent: &'a A::Broadcast,
    /// The update that it sends back.
    pub update: &'a A::Update,
}

impl<A: Algorithm> Clone for AfterRound<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: Algorithm> Copy for AfterRound<'_, A> {}

/// A client's models after its local round, before aggregation.
#[derive(Clone, Debug, PartialEq)]
pub struct Models<'a> {
    /// *Localized*: its copy of the shared model after the local steps.
    pub localized: Cow<'a, [f32]>,
    /// *Personal*: the model that it serves.
    pub personal: Predictor<'a>,
    /// *Local*: vᵢ if the algorithm has one; `None`: it is the localized model.
    pub local: Option<&'a [f32]>,
    /// *Alone*: the model trained on the client's own rows alone, if there is one.
    pub alone: Option<&'a [f32]>,
}

impl<'a> Models<'a> {
    /// Returns one model as localized, personal and local model.
    pub fn one(w: &'a [f32]) -> Self {
        Self {
            localized: Cow::Borrowed(w),
            personal: Predictor::At(w),
            local: None,
            alone: None,
        }
    }

    /// Returns one model, trained for this purpose alone, as localized, personal and local model.
    /// If it diverges and the run continues without clients whose loss is not finite, the client's
    /// scores are missing in that round; its update counts.
    pub fn own(w: Params) -> Self {
        Self {
            personal: Predictor::Own(w.clone()),
            localized: Cow::Owned(w),
            local: None,
            alone: None,
        }
    }

    /// Returns the localized model w and the client's own model v, which it serves.
    pub fn two(w: &'a [f32], v: &'a [f32]) -> Self {
        Self {
            personal: Predictor::At(v),
            local: Some(v),
            ..Self::one(w)
        }
    }
}
