//! The library on the ranks of an MPI job. (The program's tests have the rest of MPI.)
//!
//! The test starts itself again under `mpirun`; what the leader finds there is its result.
#![cfg(feature = "mpi")]

use std::process::Command;

use crate::small::synthetic;
use apfl::engine::EngineKind;
use apfl::engine::mpi::Cluster;
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

#[test]
fn models_are_handed_over_on_every_engine_of_one_trust_domain() {
    let name = "mpi::models_are_handed_over_on_every_engine_of_one_trust_domain";
    if std::env::var_os("OMPI_COMM_WORLD_RANK").is_none() {
        let itself = std::env::current_exe().unwrap();
        let mut job = Command::new("mpirun");
        job.args(["--oversubscribe", "--allow-run-as-root", "-n", "3"]);
        job.arg(itself).args(["--exact", name]);
        let output = job.output().expect("mpirun starts");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
        assert_eq!(said.matches("1 passed").count(), 3, "{said}");
        return;
    }
    let (_membership, cluster) = Cluster::join().unwrap();
    assert_eq!(cluster.ranks, 3);
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
