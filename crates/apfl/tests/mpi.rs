//! The library on the ranks of an MPI job. (The program's tests have the rest of MPI.)
//!
//! The test starts itself again under `mpirun`; what the leader finds there is its result.
#![cfg(feature = "mpi")]

use std::process::Command;
use std::sync::Arc;

use crate::small::synthetic;
use apfl::algorithm::OneModel;
use apfl::engine::EngineKind;
use apfl::engine::mpi::{Cluster, Membership};
use apfl::local_client::{LocalClient, Sgd};
use apfl::params::Params;
use apfl::run::Run;
use apfl::spec::{Plan, Resources};
use apfl::training::{ClientModels, Training, serve};

fn plan() -> Plan {
    // An optimizer of the server, which lives at the leader.
    let more = "training = { rounds = 2, local_steps = 2, batch = 16 }
                federation = { server = { kind = 'adam', learning_rate = 0.05 } }";
    synthetic("{ kind = 'apfl', mixing = { fixed = 0.5 } }", more)
}

/// Every client's models, handed over by whoever has them.
fn handed_over(mut training: Training) -> Vec<(String, ClientModels)> {
    while training.next_round().unwrap().is_some() {}
    let mut models = Vec::new();
    let receivers = training.receivers();
    training
        .finalize(&receivers, &mut |finalized| {
            models.push((finalized.name, finalized.models.unwrap()));
            Ok(())
        })
        .unwrap();
    models
}

/// Returns this rank of a job of three, or `None` after the test ran in such a job.
fn rank_of_three(test: &str) -> Option<(Membership, Cluster)> {
    if std::env::var_os("OMPI_COMM_WORLD_RANK").is_none() {
        let itself = std::env::current_exe().unwrap();
        let mut job = Command::new("mpirun");
        job.args(["--oversubscribe", "--allow-run-as-root", "-n", "3"]);
        job.arg(itself).args(["--exact", &format!("mpi::{test}")]);
        let output = job.output().expect("mpirun starts");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{printed}");
        assert_eq!(printed.matches("1 passed").count(), 3, "{printed}");
        return None;
    }
    let (membership, cluster) = Cluster::join().unwrap();
    assert_eq!(cluster.ranks, 3);
    Some((membership, cluster))
}

/// Federated averaging that the library does not list.
#[derive(Clone, Debug)]
struct Averaging;

impl OneModel for Averaging {
    type ClientState = ();
    fn join(&self, _w0: &[f32]) {}
    fn local_round(&self, sent: &[f32], _: &mut (), client: &mut LocalClient<'_>) -> Params {
        let mut w = sent.to_vec();
        Sgd::round(&mut w, client);
        w
    }
}

#[test]
fn a_run_of_the_callers_own_algorithm_trains_on_ranks() {
    let test = "a_run_of_the_callers_own_algorithm_trains_on_ranks";
    let Some((_membership, cluster)) = rank_of_three(test) else {
        return;
    };
    let run = |engine: EngineKind| {
        let data = plan().data.load().unwrap();
        let model = plan().architecture.build(data.schema()).unwrap();
        let builder = Run::builder_shared(data, Arc::from(model)).algorithm(Averaging);
        builder.rounds(3).engine(engine).build().unwrap()
    };
    let finished = run(EngineKind::Mpi(cluster)).train_on_ranks().unwrap();
    assert_eq!(finished.is_some(), cluster.leads());
    if let Some(finished) = finished {
        let alone = run(EngineKind::Threads).train().unwrap();
        assert_eq!(finished.summary.fingerprint, alone.summary.fingerprint);
    }
}

#[test]
fn models_are_handed_over_on_every_engine_of_one_trust_domain() {
    let test = "models_are_handed_over_on_every_engine_of_one_trust_domain";
    let Some((_membership, cluster)) = rank_of_three(test) else {
        return;
    };
    let plan = plan();
    let on = Resources {
        engine: EngineKind::Mpi(cluster),
        ..Resources::default()
    };
    let setup = plan.setup_with(plan.data.load().unwrap(), on).unwrap();
    if !cluster.leads() {
        serve(cluster, setup, &plan.algorithm).unwrap();
        return;
    }
    let _leader = cluster.lead();
    let theirs = handed_over(Training::new(setup, &plan.algorithm).unwrap());
    let alone = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    assert_eq!(theirs, handed_over(alone));
}
