//! What must hold whatever the data: the numbered invariants of the algorithms, `i01`
//! to `i14`. The fifth, about slopes, is in `gradients`; thread counts are in `engines`.

use apfl::clients::{ClientModels, Finalized};
use apfl::data::InMemory;
use apfl::spec::Spec;
use apfl::training::{RoundRecord, Setup, Training};

mod mixing;
mod mixtures;
mod naming;
mod partition;
mod sgd;
mod tendencies;

const LOGISTIC: &str = "{ kind = 'logistic', l2 = 0.01 }";
const MLP: &str = "{ kind = 'mlp', hidden = [7, 5] }";

/// Uneven heterogeneous clients, mini-batches, half of the clients a round.
const SMALL: &str = "
    seed = 5
    data = { kind = 'synthetic', clients = 8, features = 6, classes = 3, max_examples = 90 }
    federation = { participation = 0.5 }
    training = { rounds = 6, local_steps = 4, batch = 10 }";

/// The same with all clients and full batches.
const FULL: &str = "
    seed = 5
    data = { kind = 'synthetic', clients = 8, features = 6, classes = 3, examples = 40 }
    training = { rounds = 5, local_steps = 3, batch = 'full' }";

fn apfl(mixing: &str) -> String {
    format!("{{ kind = 'apfl', mixing = {{ {mixing} }} }}")
}

/// The spec `base` with that algorithm and model.
fn spec(base: &str, algorithm: &str, model: &str) -> Spec {
    Spec::parse(&format!("algorithm = {algorithm}\nmodel = {model}\n{base}")).unwrap()
}

fn start(spec: &Spec) -> Training {
    start_with(spec, |_| {})
}

fn start_with(spec: &Spec, change: impl FnOnce(&mut Setup)) -> Training {
    let plan = spec.plan().unwrap();
    let mut setup = plan.setup().unwrap();
    change(&mut setup);
    Training::new(setup, &plan.algorithm).unwrap()
}

fn finish(training: &mut Training) -> Vec<RoundRecord> {
    std::iter::from_fn(|| training.next_round().unwrap()).collect()
}

/// What every client is left with, in the order of the clients.
fn finalized(training: &mut Training) -> Vec<ClientModels> {
    let mut models = Vec::new();
    let receivers = training.receivers();
    let mut keep = |d: Finalized| {
        models.push(d.models.expect("models are kept by default"));
        Ok(())
    };
    training.finalize(&receivers, &mut keep).unwrap();
    models
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

fn close(a: &[f32], b: &[f32], tolerance: f32) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}
/// The data of a plan, in memory, so that it can be changed.
fn in_memory(setup: &Setup) -> InMemory {
    let data = &setup.context.dataset;
    InMemory {
        schema: data.schema().clone(),
        shards: (0..data.clients())
            .map(|k| data.shard(k).unwrap())
            .collect(),
        files: Vec::new(),
        notes: Vec::new(),
        assignment: None,
    }
}
