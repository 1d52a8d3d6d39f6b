//! HypCluster (Mansour et al., 2020; IFCA: Ghosh et al., 2020): several shared models, and
//! every client trains the one that fits it best.

use rand::RngExt;

use super::extensions::{Clusters, Extensions};
use super::{AfterRound, Algorithm, AlgorithmKind, AlgorithmSpec, Models, Properties, Sender};
use crate::local_client::{LocalClient, Sgd};
use crate::model::Layout;
use crate::pack;
use crate::params::{Mean, Params};
use crate::rng::{Purpose, stream};
use crate::settings::{Kind, Section, Setting, Settings, Whole, at_least};

/// HypCluster's settings. *Shared* is the model of each client's cluster; *localized* and
/// *personal* are that model after the client's steps. New clients get the model of the cluster
/// with the most updates so far.
#[derive(Clone, Debug, PartialEq)]
pub struct HypCluster {
    /// k
    pub clusters: usize,
    /// Offsets from w⁰ of the initial models of all clusters but the first.
    offsets: Vec<f32>,
}

/// State of the server: the models of all clusters.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// w₁ … w_k, one after the other.
    pub models: Params,
    /// Number of updates of each.
    pub updates: Vec<u64>,
}

pack!(Server { models, updates });

/// The broadcast: w₁ … w_k.
#[derive(Clone, Debug, PartialEq)]
pub struct Broadcast {
    /// The models, one after the other.
    pub models: Params,
}

pack!(Broadcast { models });

/// State that a client keeps between rounds.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientState {
    /// j, its cluster, from 0.
    pub cluster: u64,
}

pack!(ClientState { cluster });

/// The update of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// w_j after the local steps.
    pub model: Params,
    /// j, from 0.
    pub cluster: u64,
}

pack!(Update { model, cluster });

const CLUSTERS: Setting<Whole> = Setting::number("clusters", 2, at_least(1).to(1000))
    .symbol("k")
    .help("the number of models (1: FedAvg)");

pub(super) const KIND: AlgorithmKind = Kind {
    name: "hypcluster",
    about: "several shared models, each client trains its best (Mansour et al., 2020)",
    settings: &[&CLUSTERS],
    examples: &["{ kind = 'hypcluster' }"],
    value: |s| AlgorithmSpec::HypCluster(s.filled(HypCluster::new(0))),
};

impl Settings for HypCluster {
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&CLUSTERS, &mut self.clusters);
    }
}

impl HypCluster {
    /// Creates HypCluster with k models.
    pub fn new(clusters: usize) -> Self {
        Self {
            clusters,
            offsets: Vec::new(),
        }
    }
}

impl Server {
    /// Returns the range of a cluster in `models`.
    fn range(&self, cluster: usize) -> std::ops::Range<usize> {
        let len = self.models.len() / self.updates.len();
        cluster * len..(cluster + 1) * len
    }

    /// Returns the cluster with the most updates so far, the first of equals.
    pub fn largest(&self) -> usize {
        let most = self.updates.iter().max();
        let place = self.updates.iter().position(|n| Some(n) == most);
        place.unwrap_or(0)
    }
}

impl Algorithm for HypCluster {
    type Server = Server;
    type Broadcast = Broadcast;
    type ClientState = ClientState;
    type Update = Update;
    /// The mean and the number of members of every cluster.
    type Fold = Vec<(Mean, u64)>;

    /// Starts the first cluster at w⁰ and the others at w⁰ plus uniform(±1/√fan_in). From equal
    /// starts all clients would stay in one cluster.
    fn for_run(mut self, layout: &Layout, seed: u64) -> Result<Self, String> {
        self.offsets.clear();
        for cluster in 1..self.clusters {
            let mut rng = stream(seed, Purpose::Clusters, 0, cluster as u64);
            for tensor in &layout.tensors {
                let bound = 1.0 / (tensor.fan_in.max(1) as f64).sqrt();
                let offsets = (0..tensor.len()).map(|_| rng.random_range(-bound..bound) as f32);
                self.offsets.extend(offsets);
            }
        }
        Ok(self)
    }

    fn start(&self, w0: &[f32], _clients: usize) -> Server {
        let mut models = w0.to_vec();
        let others = self.offsets.iter().zip(w0.iter().cycle());
        models.extend(others.map(|(offset, w)| w + offset));
        Server {
            models,
            updates: vec![0; self.clusters],
        }
    }

    fn broadcast(&self, server: &Server) -> Broadcast {
        Broadcast {
            models: server.models.clone(),
        }
    }

    fn join(&self, _w0: &[f32]) -> ClientState {
        ClientState { cluster: 0 }
    }

    /// ```text
    /// j = argmin_k fᵢ(w_k) over all training examples, the first of equals
    /// wᵢ ← w_j;   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)   τ times
    /// ```
    fn local_round(
        &self,
        sent: &Broadcast,
        local: &mut ClientState,
        client: &mut LocalClient<'_>,
    ) -> Update {
        let len = client.model().layout().len();
        let mut best = (f64::INFINITY, 0);
        if self.clusters > 1 {
            for (k, model) in sent.models.chunks(len).enumerate() {
                let objective = client.objective(model);
                if objective < best.0 {
                    best = (objective, k);
                }
            }
        }
        let mut w = sent.models[best.1 * len..][..len].to_vec();
        Sgd::round(&mut w, client);
        local.cluster = best.1 as u64;
        Update {
            model: w,
            cluster: local.cluster,
        }
    }

    fn fold(&self, _: &Server, fold: &mut Self::Fold, from: Sender, update: Update) {
        fold.resize_with(self.clusters, Default::default);
        if let Some((mean, members)) = fold.get_mut(update.cluster as usize) {
            mean.add(from.weight, &update.model);
            *members += 1;
        }
    }

    /// w_k ← the mean of the wᵢ of its cluster; an empty cluster does not change.
    fn finish(&self, server: &mut Server, fold: Self::Fold) {
        for (k, (mean, members)) in fold.into_iter().enumerate() {
            if let Some(w) = mean.value() {
                let range = server.range(k);
                server.models[range].copy_from_slice(&w);
            }
            server.updates[k] += members;
        }
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.models[server.range(server.largest())]
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.update.model)
    }

    fn properties(&self) -> Properties {
        const WHY: &str = "algorithm \"hypcluster\" has several shared models";
        let clusters = self.clusters;
        Properties {
            details: format!(" ({clusters} clusters)"),
            models: [
                "the model of the client's cluster",
                "that model after the local steps",
                "the same",
            ],
            aggregator_problem: Some(WHY),
            optimizer_problem: Some(WHY),
            momentum: true,
            ..Properties::default()
        }
    }

    fn extensions(&self) -> Extensions<'_, Self> {
        Extensions {
            clusters: Some(self),
            ..Extensions::default()
        }
    }
}

impl Clusters for HypCluster {
    fn models<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.models
    }

    fn of_client(&self, local: &ClientState) -> usize {
        local.cluster as usize
    }
}
