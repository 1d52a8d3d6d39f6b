//! Tests that killed runs can be resumed, for every algorithm and both places for client states.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::state::{fingerprint, records};

const BASE: [&str; 18] = [
    "--quiet",
    "--set",
    "data={ kind = 'synthetic' }",
    "--set",
    "algorithm={ kind = 'apfl' }",
    "--set",
    "data.clients=24",
    "--set",
    "training.rounds=40",
    "--set",
    "checkpoint.every=2",
    "--set",
    "federation.participation=0.5",
    "--set",
    "evaluation.every=5",
    "--set",
    "data.max_examples=200",
    "--json",
];

fn command(out: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_apfl"));
    command.arg("run").args(args).arg("--out").arg(out);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// Starts or resumes a run and kills it after a while; true if it ended by itself.
fn run_for(out: &Path, args: &[&str], resume: bool, time: Duration) -> bool {
    let mut child = if resume {
        command(out, &["--resume", "--quiet"])
    } else {
        command(out, args)
    }
    .spawn()
    .unwrap();
    std::thread::sleep(time);
    let _ = child.kill(); // SIGKILL; an error only where it has ended
    let output = child.wait_with_output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => true,
        None => false, // by the signal
        Some(code) => panic!("ended with {code}: {message}"),
    }
}

/// Kills the run of `args` three times and then lets it end. Moments are fractions of the duration of
/// a whole run. If a run ends before its moment, it starts again with half the pause, so that the
/// kills happen on a machine of any speed.
fn killed_three_times(out: &Path, args: &[&str], whole: Duration, moments: &mut u64) {
    let mut kills = 0;
    let mut shorten = 1;
    while kills < 3 {
        *moments = (*moments * 31 + 17) % 241;
        let pause = whole * *moments as u32 / 241 / shorten;
        let begun = out.join("spec.toml").exists();
        if !begun {
            let _ = std::fs::remove_dir_all(out);
        }
        if run_for(out, args, begun, pause) {
            std::fs::remove_dir_all(out).unwrap();
            (kills, shorten) = (0, shorten * 2);
        } else {
            kills += 1
        }
    }
    let mut last = if out.join("spec.toml").exists() {
        command(out, &["--resume", "--quiet"])
    } else {
        let _ = std::fs::remove_dir_all(out);
        command(out, args)
    };
    let output = last.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{message}");
}

/// Tests every fourth algorithm. Most of the time is waiting, so the algorithms are distributed over
/// four tests that run at the same time.
fn a_killed_run_ends_with_the_bits_of_an_uninterrupted_one(remainder: usize) {
    let dir = tempfile::tempdir().unwrap();
    let mut moments = 20 + remainder as u64;
    for (k, algorithm) in apfl::algorithm::every_algorithm().iter().enumerate() {
        if k % 4 != remainder {
            continue;
        }
        let algorithm = format!("algorithm={algorithm}");
        let mut args = [&BASE[..], &["--set", &algorithm]].concat();
        let whole = dir.path().join(format!("whole-{k}"));
        let mut started = Instant::now();
        let mut output = command(&whole, &args).output().unwrap();
        // Some want every client in every round, some a model of which they share a part.
        for wanted in [
            "federation.participation=1.0",
            "model={ kind = 'mlp', hidden = [7] }",
        ] {
            if !output.status.success() {
                args.extend(["--set", wanted]);
                started = Instant::now();
                output = command(&whole, &args).output().unwrap();
            }
        }
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{algorithm}: {message}");
        let time = started.elapsed();
        for memory in ["engine.memory=ram", "engine.memory=disk"] {
            let args = [&args[..], &["--set", memory]].concat();
            let run = dir.path().join(format!("{k}-{memory}"));
            killed_three_times(&run, &args, time, &mut moments);
            assert_eq!(
                fingerprint(&run),
                fingerprint(&whole),
                "{algorithm} {memory}"
            );
            assert_eq!(records(&run), records(&whole), "{algorithm} {memory}");
        }
    }
}

#[test]
fn every_fourth_algorithm_killed() {
    a_killed_run_ends_with_the_bits_of_an_uninterrupted_one(0);
}

#[test]
fn every_fourth_algorithm_killed_from_the_second() {
    a_killed_run_ends_with_the_bits_of_an_uninterrupted_one(1);
}

#[test]
fn every_fourth_algorithm_killed_from_the_third() {
    a_killed_run_ends_with_the_bits_of_an_uninterrupted_one(2);
}

#[test]
fn every_fourth_algorithm_killed_from_the_fourth() {
    a_killed_run_ends_with_the_bits_of_an_uninterrupted_one(3);
}

#[test]
fn resume_prints_what_it_does() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("r");
    let resume = |args: &[&str]| {
        let output = command(&run, &[&["--resume"], args].concat())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap(), message)
    };
    // Nothing there.
    let (code, message) = resume(&[]);
    assert_eq!(code, 1);
    assert!(message.contains("no run was begun there"), "{message}");
    // A finished run says so.
    assert!(command(&run, &BASE).status().unwrap().success());
    let (code, message) = resume(&[]);
    assert_eq!(code, 0);
    assert!(message.contains("finished already"), "{message}");
    // Before finalization: continues from the checkpoint of the last round.
    let before = fingerprint(&run);
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let (code, message) = resume(&[]);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("continuing after round 40"), "{message}");
    assert_eq!(fingerprint(&run), before);
    // Another spec is refused and the difference named.
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let (code, message) = resume(&["--set", "seed=9"]);
    assert_eq!(code, 2);
    assert!(
        message.contains("seed: 1 in the existing run, 9 given"),
        "{message}"
    );
    // The newest checkpoint torn: the one before is used, and that is said.
    let torn = run.join("checkpoint/server-40.safetensors");
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &bytes[..bytes.len() / 2]).unwrap();
    let (code, message) = resume(&[]);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("round 40 is damaged"), "{message}");
    assert!(message.contains("continuing after round 38"), "{message}");
    assert_eq!(fingerprint(&run), before);
    assert_eq!(records(&run).len(), 40);
    // None whole: exit 1, nothing touched.
    std::fs::remove_file(run.join("summary.json")).unwrap();
    for round in [38, 40] {
        let path = run.join(format!("checkpoint/checkpoint-{round}.manifest"));
        std::fs::write(path, "nonsense").unwrap();
    }
    let lines = std::fs::read(run.join("rounds.jsonl")).unwrap();
    let (code, message) = resume(&[]);
    assert_eq!(code, 1);
    assert!(message.contains("all checkpoints are damaged"), "{message}");
    assert_eq!(std::fs::read(run.join("rounds.jsonl")).unwrap(), lines);
    // None at all: from round 1.
    std::fs::remove_dir_all(run.join("checkpoint")).unwrap();
    let (code, message) = resume(&[]);
    assert_eq!(code, 0, "{message}");
    assert!(message.contains("starting from round 1"), "{message}");
    assert_eq!(fingerprint(&run), before);
}
