//! A run that was stopped is finished from its last checkpoint: it is then a run of that many
//! rounds, which can be extended.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use apfl::Result;
use apfl::algorithm::every_algorithm;
use apfl::run::{Ended, Event, Finished, Run, StopReason};
use apfl::spec::{Plan, Spec};

use crate::small::fitting;

fn plan(algorithm: &str, rounds: u64, more: &str) -> Plan {
    let text = format!(
        "algorithm = {algorithm}
         data = {{ kind = 'synthetic', clients = 5, features = 6, classes = 3, max_examples = 60 }}
         training = {{ rounds = {rounds}, local_steps = 2, batch = 8 }}
         checkpoint = {{ every = 2 }}
         {more}"
    );
    fitting(Spec::parse(&text).unwrap()).plan().unwrap()
}

fn run(plan: &Plan) -> Run {
    Run::new(plan, plan.setup().unwrap())
}

fn whole(plan: &Plan) -> Finished {
    run(plan).train().unwrap()
}

/// Trains in a directory until `count` rounds have been seen.
fn stopped(plan: &Plan, path: &Path, count: u64) {
    let mut seen = 0;
    let ended = run(plan).resume(path).watch(&mut |event| {
        seen += u64::from(matches!(event, Event::Round(_)));
        if seen == count {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    });
    assert!(matches!(ended.unwrap(), Ended::Stopped(_)));
}

/// As if the process was killed after round 5: its checkpoint of round 4 is the last.
fn killed_after_five(plan: &Plan, path: &Path) {
    stopped(plan, path, 5);
    for entry in fs::read_dir(path.join("checkpoint")).unwrap().flatten() {
        if entry.file_name().to_string_lossy().contains("-5") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
}

fn refused(result: Result<Finished>) -> String {
    result.unwrap_err().to_string()
}

fn same(a: &Finished, b: &Finished, name: &str) {
    assert_eq!(a.summary.fingerprint, b.summary.fingerprint, "{name}");
    assert_eq!(a.clients().unwrap(), b.clients().unwrap(), "{name}");
    let client = &a.clients().unwrap()[0].client;
    let params = |run: &Finished| run.personal(client).unwrap().params().to_vec();
    assert_eq!(params(a), params(b), "{name}");
}

/// For every algorithm. Steps of a theorem depend on the number of rounds.
#[test]
fn a_killed_run_becomes_one_of_the_rounds_of_its_checkpoint() {
    for algorithm in every_algorithm() {
        let long = plan(algorithm, 9, "");
        if long.theory().is_some() || long.algorithm.choosing().is_some() {
            continue;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        killed_after_five(&long, &path);
        let finished = run(&long).finish(&path).train().unwrap();
        let short = plan(algorithm, 4, "");
        same(&finished, &whole(&short), algorithm);
        assert_eq!(
            (finished.summary.rounds, finished.rounds().unwrap().len()),
            (4, 4)
        );
        let ended = finished.summary.stopped.unwrap();
        assert_eq!((ended.reason, ended.served), (StopReason::Finish, 4));
        // Its spec says so, and it is finished.
        let spec = fs::read_to_string(path.join("spec.toml")).unwrap();
        let there = Spec::parse(&spec).unwrap().plan().unwrap();
        assert_eq!(there.rounds, 4);
        let again = run(&there).resume(&path).train().unwrap();
        assert_eq!(again.summary.fingerprint, finished.summary.fingerprint);
        assert_eq!(again.summary.rounds, 4);
        // Extended, it is the long run.
        let extended = run(&long).resume(&path).train().unwrap();
        same(&extended, &whole(&long), algorithm);
        assert_eq!(extended.summary.stopped, None);
    }
}

const FEDAVG: &str = "{ kind = 'fedavg' }";

#[test]
fn a_run_ends_at_a_checkpoint_that_is_named() {
    let long = plan(FEDAVG, 9, "");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    stopped(&long, &path, 7); // checkpoints of rounds 6 and 7
    let rounds = |rounds: u64| run(&plan(FEDAVG, rounds, "")).resume(&path).train();
    for impossible in [1, 5] {
        let refusal = refused(rounds(impossible));
        let parts = [
            format!("training.rounds: found {impossible}, but the existing run has 9"),
            "checkpoints of rounds 6, 7".into(),
            "any round from 7 on".into(),
        ];
        assert!(parts.iter().all(|part| refusal.contains(part)), "{refusal}");
    }
    same(&rounds(6).unwrap(), &whole(&plan(FEDAVG, 6, "")), "6");
    // Round 7 is gone, and the run can go on from round 6.
    assert!(!path.join("checkpoint/checkpoint-7.manifest").exists());
    same(&rounds(8).unwrap(), &whole(&plan(FEDAVG, 8, "")), "8");
}

#[test]
fn what_cannot_be_finished_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    let plain = plan(FEDAVG, 9, "");
    let none = refused(run(&plain).finish(&path).train());
    assert!(none.contains("no run was begun there"), "{none}");
    stopped(&plain, &path, 1);
    fs::remove_dir_all(path.join("checkpoint")).unwrap();
    let early = refused(run(&plain).finish(&path).train());
    assert!(early.contains("the run has no checkpoint"), "{early}");
}

/// The passes of a choice are never cut short; the last pass is.
#[test]
fn a_choice_is_finished_in_its_last_pass() {
    let chosen = "{ kind = 'apfl', mixing = { chosen = [0, 1], folds = 2, prior = 5 } }";
    let plan = plan(chosen, 4, "");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    stopped(&plan, &path, 6);
    let early = refused(run(&plan).finish(&path).train());
    assert!(early.contains("stopped in pass 2 of 3"), "{early}");
    stopped(&plan, &path, 2 + 2);
    let finished = run(&plan).finish(&path).train().unwrap();
    assert_eq!(finished.summary.rounds, 2);
    assert!(!finished.summary.chosen.is_empty());
    let (resumed, complete) = (run(&plan).resume(&path).train().unwrap(), whole(&plan));
    assert_eq!(resumed.summary.rounds, 2, "it is finished");
    // The choices are those of whole passes.
    let choices = |run: &Finished| {
        let clients = run.clients().unwrap().into_iter();
        clients.map(|client| client.chosen).collect::<Vec<_>>()
    };
    assert_eq!(choices(&finished), choices(&complete));
}

/// With early stopping the best round by then is served.
#[test]
fn the_best_round_so_far_is_served() {
    let stop = "training.stop = { patience = 4 }\ntraining.learning_rate = 2.0";
    let mut spec = Spec::parse(&plan(FEDAVG, 9, "").to_toml()).unwrap();
    for assignment in stop.lines() {
        spec.set(assignment).unwrap();
    }
    let plan = spec.plan().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("run");
    killed_after_five(&plan, &path);
    let finished = run(&plan).finish(&path).train().unwrap();
    let records = finished.rounds().unwrap();
    let loss = |k: usize| records[k].scores.unwrap().personal.valid.loss;
    let best = (0..4).min_by(|a, b| loss(*a).total_cmp(&loss(*b))).unwrap();
    let ended = finished.summary.stopped.unwrap();
    assert_eq!(
        (ended.reason, ended.served),
        (StopReason::Finish, best as u64 + 1)
    );
    assert_eq!((finished.summary.rounds, ended.loss), (4, Some(loss(best))));
}
