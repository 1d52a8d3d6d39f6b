//! FedProx, Ditto, FedPer, FedRep, LG-FedAvg, L2GD, MAPPER and HypCluster, the optimizers of
//! the server, and local momentum.

use apfl::clients::{ClientModels, Finalized};
use apfl::error::Error;
use apfl::spec::Spec;
use apfl::training::Training;

mod by_hand;
mod equations;
mod identities;
mod momentum;
mod server;
mod specs;

/// Uneven heterogeneous clients, mini-batches, half of the clients a round, three layers.
const SMALL: &str = "
    seed = 5
    data = { kind = 'synthetic', clients = 8, features = 6, classes = 3, max_examples = 90 }
    model = { kind = 'mlp', hidden = [7, 5] }
    federation = { participation = 0.5 }
    training = { rounds = 6, local_steps = 4, batch = 10 }";

/// What a run ends with.
struct End {
    shared: Vec<f32>,
    clients: Vec<ClientModels>,
    bytes_up: Vec<u64>,
    fingerprint: String,
}

/// The run of an algorithm, with further settings.
fn run(algorithm: &str, settings: &[&str]) -> End {
    let mut training = start(algorithm, settings);
    let mut bytes_up = Vec::new();
    while let Some(record) = training.next_round().unwrap() {
        bytes_up.push(record.bytes_up);
    }
    let mut clients = Vec::new();
    let receivers = training.receivers();
    let mut keep = |d: Finalized| {
        clients.push(d.models.expect("models are kept by default"));
        Ok(())
    };
    training.finalize(&receivers, &mut keep).unwrap();
    End {
        shared: training.shared(),
        clients,
        bytes_up,
        fingerprint: training.fingerprint().unwrap(),
    }
}

fn spec(algorithm: &str, settings: &[&str]) -> Spec {
    let mut spec = Spec::parse(SMALL).unwrap();
    spec.set(&format!("algorithm={algorithm}")).unwrap();
    settings.iter().for_each(|pair| spec.set(pair).unwrap());
    spec
}

fn start(algorithm: &str, settings: &[&str]) -> Training {
    let plan = spec(algorithm, settings).plan().unwrap();
    Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap()
}

/// Everything that is wrong with a spec.
fn problems(algorithm: &str, settings: &[&str]) -> String {
    match spec(algorithm, settings).plan() {
        Err(error @ Error::Spec(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{algorithm} {settings:?} is not refused"),
    }
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// The clients' models of that kind, to the bit.
fn models(end: &End, of: fn(&ClientModels) -> &Vec<f32>) -> Vec<Vec<u32>> {
    end.clients.iter().map(|models| bits(of(models))).collect()
}
