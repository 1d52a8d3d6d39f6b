//! Checkpoints: saved runs resume with the same bits, and damaged files are detected.

use std::fs;
use std::path::Path;

use apfl::algorithm::every_algorithm;
use apfl::clients::StateHome;
use apfl::rng::{Purpose, stream};
use apfl::run::Checkpoints;
use apfl::run::checkpoint::Found;
use apfl::spec::{Plan, Spec};
use apfl::training::Training;
use rand::RngExt;

use crate::small::fitting;

fn plan(algorithm: &str, participation: f64) -> Plan {
    let mut spec = Spec::parse(
        "[data]\nclients = 9\nfeatures = 5\nclasses = 3\n[training]\nrounds = 8\nlocal_steps = 3",
    )
    .unwrap();
    spec.set(&format!("algorithm={algorithm}")).unwrap();
    spec.set(&format!("federation.participation={participation}"))
        .unwrap();
    fitting(spec).plan().unwrap()
}

fn training(plan: &Plan, home: StateHome) -> Training {
    let mut setup = plan.setup().unwrap();
    setup.home = home;
    Training::new(setup, &plan.algorithm).unwrap()
}

fn finish(mut training: Training) -> String {
    while training.next_round().unwrap().is_some() {}
    training.fingerprint().unwrap()
}

/// Runs to the end with a checkpoint after every round of `at`; gives the fingerprint.
fn run_with_checkpoints(plan: &Plan, run: &Path, at: &[u64], home: StateHome) -> String {
    let mut training = training(plan, home);
    let mut checkpoints = Checkpoints::new(run, Default::default());
    while let Some(record) = training.next_round().unwrap() {
        if at.contains(&record.round) {
            checkpoints.write(&mut training).unwrap();
        }
    }
    training.fingerprint().unwrap()
}

/// With participation 1 every algorithm; the averaging ones and theory need it too.
fn participations(algorithm: &str) -> Vec<f64> {
    let sampled = {
        let mut spec = Spec::parse("").unwrap();
        spec.set(&format!("algorithm={algorithm}")).unwrap();
        spec.set("federation.participation=0.4").unwrap();
        fitting(spec).plan().unwrap().participation < 1.0
    };
    if sampled { vec![0.4, 1.0] } else { vec![1.0] }
}

/// For every algorithm whose number is even or odd: a half is a test, and both run at the same time.
fn goes_on_to_the_same_bits_from_ram_and_from_disk(remainder: usize) {
    for algorithm in every_algorithm().iter().skip(remainder).step_by(2) {
        for participation in participations(algorithm) {
            let plan = plan(algorithm, participation);
            let whole = finish(training(&plan, StateHome::Ram));
            let dir = tempfile::tempdir().unwrap();
            // A budget of one byte: every client state but one lives in the file.
            let disk = |name: &str| StateHome::Disk {
                file: dir.path().join(name),
                budget: 1,
            };
            assert_eq!(whole, finish(training(&plan, disk("a"))), "{algorithm}");
            let saved = run_with_checkpoints(&plan, dir.path(), &[2, 3, 5], disk("b"));
            assert_eq!(whole, saved, "{algorithm}");
            for home in [StateHome::Ram, disk("c")] {
                let mut resumed = training(&plan, home);
                let (mut checkpoints, found) =
                    Checkpoints::resume(dir.path(), Default::default(), false, &mut resumed)
                        .unwrap();
                assert!(matches!(found, Found::Resumed { round: 5, notes } if notes.is_empty()));
                assert_eq!(resumed.round(), 5);
                resumed.next_round().unwrap();
                checkpoints.write(&mut resumed).unwrap();
                let mut again = training(&plan, StateHome::Ram);
                Checkpoints::resume(dir.path(), Default::default(), false, &mut again).unwrap();
                assert_eq!(again.round(), 6);
                assert_eq!(whole, finish(again), "{algorithm}");
                assert_eq!(whole, finish(resumed), "{algorithm}");
                // Back to round 5 for the other home.
                let newest = dir.path().join("checkpoint/checkpoint-6.manifest");
                fs::remove_file(newest).unwrap();
            }
        }
    }
}

#[test]
fn every_other_algorithm_goes_on() {
    goes_on_to_the_same_bits_from_ram_and_from_disk(0);
}

#[test]
fn every_other_algorithm_goes_on_from_the_second() {
    goes_on_to_the_same_bits_from_ram_and_from_disk(1);
}

#[test]
fn only_clients_sampled_since_are_written_again() {
    // Nine clients of 18 parameters and α: 76 bytes each. With four sampled per round, the
    // second checkpoint's file has the four of round 2.
    let plan = plan("{ kind = 'apfl', mixing = { fixed = 0.25 } }", 0.4);
    let dir = tempfile::tempdir().unwrap();
    run_with_checkpoints(&plan, dir.path(), &[1, 2], StateHome::Ram);
    let file = dir.path().join("checkpoint/memories-2.safetensors");
    let bytes = fs::read(&file).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut clients: Vec<usize> = tensors
        .names()
        .iter()
        .filter_map(|name| name.strip_suffix("/v").map(|k| k.parse().unwrap()))
        .collect();
    clients.sort_unstable();
    assert_eq!(clients, plan.setup().unwrap().cohort(2));
}

#[test]
fn the_last_two_are_kept_and_no_others() {
    let plan = plan("{ kind = 'fedavg' }", 1.0);
    let dir = tempfile::tempdir().unwrap();
    run_with_checkpoints(&plan, dir.path(), &[1, 2, 3, 4], StateHome::Ram);
    let mut names: Vec<String> = fs::read_dir(dir.path().join("checkpoint"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let expected = [
        "checkpoint-3.manifest",
        "checkpoint-4.manifest",
        "server-3.safetensors",
        "server-4.safetensors",
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_checkpoint_directory_deleted_in_between_is_made_whole_again() {
    let plan = plan("{ kind = 'apfl', mixing = { adaptive = 0.5 } }", 0.4);
    let dir = tempfile::tempdir().unwrap();
    let mut running = training(&plan, StateHome::Ram);
    let mut checkpoints = Checkpoints::new(dir.path(), Default::default());
    for round in 1..=6 {
        running.next_round().unwrap();
        checkpoints.write(&mut running).unwrap();
        if round == 5 {
            fs::remove_dir_all(dir.path().join("checkpoint")).unwrap();
        }
    }
    let mut resumed = training(&plan, StateHome::Ram);
    Checkpoints::resume(dir.path(), Default::default(), false, &mut resumed).unwrap();
    assert_eq!(resumed.round(), 6);
    assert_eq!(finish(running), finish(resumed));
}

#[test]
fn none_of_two_hundred_damaged_checkpoints_is_accepted() {
    let plan = plan("{ kind = 'apfl', mixing = { adaptive = 0.5 } }", 0.4);
    let dir = tempfile::tempdir().unwrap();
    let whole = run_with_checkpoints(&plan, dir.path(), &[3, 5], StateHome::Ram);
    let good = dir.path().join("checkpoint");
    let files: Vec<_> = fs::read_dir(&good)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    let (mut newest, mut previous, mut refused) = (0, 0, 0);
    for case in 0..200 {
        let mut rng = stream(7, Purpose::Theory, 0, case);
        let damaged = tempfile::tempdir().unwrap();
        let copy = damaged.path().join("checkpoint");
        fs::create_dir(&copy).unwrap();
        for name in &files {
            fs::copy(good.join(name), copy.join(name)).unwrap();
        }
        // One to three files: a bit flipped, cut off, emptied, or gone.
        for _ in 0..rng.random_range(1..=3) {
            let path = copy.join(&files[rng.random_range(0..files.len())]);
            let Ok(mut bytes) = fs::read(&path) else {
                continue;
            };
            if bytes.is_empty() {
                continue;
            }
            let place = rng.random_range(0..bytes.len());
            match rng.random_range(0..10) {
                0 => fs::remove_file(&path).unwrap(),
                1 => fs::write(&path, b"").unwrap(),
                2..=4 => fs::write(&path, &bytes[..place]).unwrap(),
                _ => {
                    bytes[place] ^= 1 << rng.random_range(0..8);
                    fs::write(&path, &bytes).unwrap();
                }
            }
        }
        let mut resumed = training(&plan, StateHome::Ram);
        match Checkpoints::resume(damaged.path(), Default::default(), false, &mut resumed) {
            Err(error) => {
                assert!(
                    error.to_string().contains("all checkpoints are damaged"),
                    "{error}"
                );
                refused += 1;
            }
            Ok((_, found)) => {
                match found {
                    Found::Resumed { round: 5, notes } if notes.is_empty() => newest += 1,
                    Found::Resumed { round: 3, .. } => previous += 1,
                    // Both manifests gone: as if there had never been a checkpoint.
                    Found::None => assert_eq!(resumed.round(), 0),
                    Found::Resumed { round, .. } => panic!("round {round}"),
                }
                assert_eq!(whole, finish(resumed));
            }
        }
    }
    // Each outcome occurs: an older file may be damaged that the newest does not need,
    // only the newest may be, or both may be.
    assert!(
        newest > 5 && previous > 20 && refused > 20,
        "{newest} {previous} {refused}"
    );
}
