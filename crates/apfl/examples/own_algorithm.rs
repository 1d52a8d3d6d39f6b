//! Two custom algorithms in one file, compared with FedAvg.
//!
//! ```text
//! cargo run --release -p apfl --example own_algorithm
//! ```
//!
//! An algorithm whose server is one model, the mean of its clients' models, implements
//! [`OneModel`]: what a client keeps and what it does in a round. An algorithm whose server
//! keeps more implements [`Algorithm`]: also what the server keeps and what travels. The library
//! does the rest: threads, random numbers, scores, fingerprints.
//!
//! To make an algorithm a `kind` of the spec, move its file to `src/algorithm/`, give it a `KIND`
//! like the others there, and add a line to the list in `src/algorithm/mod.rs`. It is then in
//! `apfl init`, the help, `apfl bench`, and every test over `every_algorithm()`.

use apfl::algorithm::{AfterRound, Algorithm, FedAvg, Models, OneModel, Sender};
use apfl::local_client::{LocalClient, Sgd};
use apfl::pack::{ModelOnly, OwnModel};
use apfl::params::{Mean, Params, axpy, mix};
use apfl::run::{Finished, Run};
use apfl::{Examples, InMemory, Mlp, Result};

/// FedAvg whose clients serve a moving mean of their models. With β = 1 it is FedAvg.
#[derive(Clone, Copy, Debug)]
pub struct MovingMean {
    /// β, the share of the latest model.
    pub share: f32,
}

impl OneModel for MovingMean {
    type ClientState = OwnModel; // kept by a client: vᵢ

    /// Returns the state of a client before its first round.
    fn join(&self, w0: &[f32]) -> OwnModel {
        OwnModel { v: w0.to_vec() }
    }

    /// wᵢ ← w;   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)   τ times;   vᵢ ← βwᵢ + (1−β)vᵢ
    fn local_round(
        &self,
        sent: &[f32],
        own: &mut OwnModel,
        client: &mut LocalClient<'_>,
    ) -> Params {
        let mut w = sent.to_vec();
        Sgd::round(&mut w, client);
        let before = own.v.clone();
        mix(&mut own.v, self.share, &w, &before);
        w
    }

    /// The client serves vᵢ.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::two(&after.update.model, &after.local.v)
    }
}

/// Federated averaging whose server keeps momentum (FedAvgM: Hsu, Qi and Brown 2019,
/// arXiv:1909.06335). With β = 0 it is FedAvg.
#[derive(Clone, Copy, Debug)]
pub struct Momentum {
    /// β, how much of the last move is repeated.
    pub beta: f32,
}

/// State of the server: w, and its last move d.
#[derive(Debug)]
pub struct Server {
    /// The shared model.
    pub w: Params,
    /// How it moved in the last round.
    pub d: Params,
}

// Names the arrays, so that they can be hashed, stored and sent; d is as long as w.
apfl::pack!(Server { w, d like w });

impl Algorithm for Momentum {
    type Server = Server; // kept by the server
    type Broadcast = ModelOnly; // travels down: w alone
    type ClientState = (); // kept by a client: nothing
    type Update = ModelOnly; // travels back: wᵢ
    type Fold = Mean; // the sum of the updates so far, in f64

    fn start(&self, w0: &[f32], _clients: usize) -> Server {
        Server {
            w: w0.to_vec(),
            d: vec![0.0; w0.len()],
        }
    }

    fn broadcast(&self, server: &Server) -> ModelOnly {
        ModelOnly {
            model: server.w.clone(),
        }
    }

    fn join(&self, _w0: &[f32]) {}

    /// wᵢ ← w;   wᵢ ← wᵢ − η∇fᵢ(wᵢ; ξ)   τ times
    ///
    /// `client` provides batches and rates, but not the client's identity.
    fn local_round(&self, sent: &ModelOnly, _: &mut (), client: &mut LocalClient<'_>) -> ModelOnly {
        let mut w = sent.model.clone();
        for s in 0..client.steps() {
            client.next_batch();
            client.descend(&mut w, client.rate(s));
        }
        ModelOnly { model: w }
    }

    /// Updates arrive one by one, always in the order of the clients.
    fn fold(&self, _: &Server, fold: &mut Mean, from: Sender, update: ModelOnly) {
        fold.add(from.weight, &update.model);
    }

    /// w⁺ ← mean wᵢ + β·d;   d ← w⁺ − w
    fn finish(&self, server: &mut Server, fold: Mean) {
        let Some(mut next) = fold.value() else {
            return;
        };
        axpy(&mut next, self.beta, &server.d);
        let pairs = next.iter().zip(&server.w);
        server.d = pairs.map(|(next, w)| next - w).collect();
        server.w = next;
    }

    fn shared<'a>(&self, server: &'a Server) -> &'a [f32] {
        &server.w
    }

    /// The client's localized, personal and local model are all wᵢ.
    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        Models::one(&after.update.model)
    }
}

/// Makes 30 clients with 60 rows each: the side of a line that a point is on, wrong for every
/// tenth row.
fn data() -> Result<InMemory> {
    let mut data = InMemory::classes(["x", "y"], ["below", "above"]);
    for client in 0..30 {
        // Points of an additive recurrence: evenly spread, and different at every client.
        let point = |k: usize, step: f64| (k as f64 * step).fract() as f32 - 0.5;
        let points = (60 * client..60 * (client + 1)).map(|k| [point(k, 0.7549), point(k, 0.5698)]);
        let labels = points.clone().enumerate();
        let labels = labels.map(|(k, [x, y])| u32::from(y > 0.5 * x) ^ u32::from(k % 10 == 0));
        let examples = Examples::classes(2, points.flatten().collect(), labels.collect())?;
        data.add(format!("client {client}"), examples, 0.2)?;
    }
    Ok(data)
}

/// Trains an algorithm for 10 rounds.
pub fn train(algorithm: impl Algorithm) -> Result<Finished> {
    Run::builder(data()?, Mlp::logistic(2, 2, 1e-4))
        .algorithm(algorithm)
        .rounds(10)
        .batch(20)
        .learning_rate(0.05)
        .build()?
        .train()
}

/// On identically distributed clients and few rounds, momentum gets further.
pub fn main() -> Result<()> {
    let runs = [
        ("FedAvg", train(FedAvg)?),
        ("momentum 0.5", train(Momentum { beta: 0.5 })?),
        ("moving mean 0.5", train(MovingMean { share: 0.5 })?),
        ("momentum 0.9", train(Momentum { beta: 0.9 })?),
    ];
    println!("validation loss        shared  personal");
    for (name, run) in runs {
        let models = run
            .summary
            .models
            .expect("every client has validation rows");
        let [shared, personal] =
            [models.shared, models.personal].map(|of| of.pooled.valid.score.loss);
        println!("{name:<21} {shared:>7.4}  {personal:>8.4}");
    }
    Ok(())
}
