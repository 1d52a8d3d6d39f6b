//! Federated algorithms: a few pure functions over values each.
//!
//! An algorithm says what the server and a client remember, what travels between them,
//! and what happens in a round. Where clients live, in which order they are processed
//! and how often they are scored is not its business.

use crate::pack::Pack;
use crate::settings::Section;
use crate::site::{Predictor, Site};

pub mod apfl;
pub mod fedavg;
pub mod local;

pub use apfl::Apfl;
pub use fedavg::FedAvg;
pub use local::LocalOnly;

/// Where an update comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sender {
    /// The client's index.
    pub client: usize,
    /// Its weight in the mean: 1, or its number of training examples.
    pub weight: f64,
}

/// A federated algorithm.
pub trait Algorithm: Send + Sync + 'static {
    /// What the server remembers.
    type Server: Pack + Send + Sync;
    /// What travels down.
    type Broadcast: Pack + Send + Sync;
    /// What a client remembers, for ever.
    type Local: Pack + Clone + Send + Sync;
    /// What travels back.
    type Update: Pack + Send;
    /// The sum of the updates so far.
    type Fold: Default + Send;

    /// The server before the first round, where `w0` is w⁰.
    fn start(&self, w0: &[f32], clients: usize) -> Self::Server;

    /// What is sent to every client of a round.
    fn broadcast(&self, server: &Self::Server) -> Self::Broadcast;

    /// A client's first memory, made from w⁰ whenever it is first drawn.
    fn join(&self, w0: &[f32]) -> Self::Local;

    /// A client's part of a round.
    fn local_round(
        &self,
        sent: &Self::Broadcast,
        local: &mut Self::Local,
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

    /// wᵢ after the local steps and before aggregation.
    fn localized<'a>(&self, local: &'a Self::Local, update: &'a Self::Update) -> &'a [f32];

    /// The client's own model at the same moment. May train (on training batches).
    fn personal<'a>(
        &self,
        local: &'a Self::Local,
        update: &'a Self::Update,
        site: &mut Site<'_>,
    ) -> Predictor<'a>;

    /// What `--model local` exports: vᵢ where there is one, else the localized model.
    fn own<'a>(&self, local: &'a Self::Local, update: &'a Self::Update) -> &'a [f32] {
        self.localized(local, update)
    }

    /// αᵢ, where there is one.
    fn mixing(&self, _local: &Self::Local) -> Option<f32> {
        None
    }
}

/// One of the algorithms, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// Adaptive personalized federated learning.
    Apfl(Apfl),
    /// Federated averaging.
    FedAvg(FedAvg),
    /// Every client alone.
    Local(LocalOnly),
}

impl Choice {
    /// Reads `[algorithm]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        type Read = fn(&mut Section<'_>) -> Choice;
        let kinds: [(&str, Read); 3] = [
            ("apfl", |s| Choice::Apfl(Apfl::read(s))),
            ("fedavg", |_| Choice::FedAvg(FedAvg)),
            ("local", |_| Choice::Local(LocalOnly)),
        ];
        let read = s.choice("kind", "apfl", &kinds);
        read(s)
    }

    /// Its kind, as a spec writes it.
    pub fn kind(&self) -> &'static str {
        match self {
            Choice::Apfl(_) => "apfl",
            Choice::FedAvg(_) => "fedavg",
            Choice::Local(_) => "local",
        }
    }

    /// Its kind and what stands out, in a few words.
    pub fn describe(&self) -> String {
        match self {
            Choice::Apfl(apfl) => apfl.describe(),
            other => other.kind().into(),
        }
    }
}

/// Every algorithm there is, as a spec writes it: what the identity, engine and resume
/// tests run over, so that a new one is tested before anyone writes a test.
pub fn every_algorithm() -> Vec<&'static str> {
    vec![
        "{ kind = 'apfl', mixing = { fixed = 0.25 } }",
        "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
        "{ kind = 'fedavg' }",
        "{ kind = 'local' }",
    ]
}
