//! Tests accidents of run directories: two processes, edited files, signals.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use apfl::files::DirectoryLock;

use crate::program::{apfl, ended, fails, has, ok};
use crate::short_run::{RUN, killed_at_its_end, long_run, resume, run, signal};
use crate::state::{fingerprint, records};

/// Every file of a directory with its bytes, but for the lock.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else if !path.ends_with(".lock") {
            found.push((path.clone(), fs::read(&path).unwrap()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_directory_in_use_is_refused_by_all_who_write_it_and_nothing_is_touched() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "r", &[]);
    killed_at_its_end(at, "r");
    fs::write(at.join("s.toml"), "[data]\nclients = 6\n").unwrap();
    fs::create_dir_all(at.join("o")).unwrap();
    fs::create_dir_all(at.join("p/fig4")).unwrap();
    let before = contents(&at.join("r"));
    let held = ["r", "o", "p/fig4"].map(|name| DirectoryLock::take(&at.join(name)).unwrap());
    let me = format!("in use by process {} since 20", std::process::id());
    has(&fails(at, &resume("r", &[]), 1), &["r: ", &me]);
    let new = [&RUN[..], &["--out", "o"]].concat();
    has(&fails(at, &new, 1), &["o: ", &me]);
    let sweep = ["sweep", "s.toml", "--seeds", "2", "--out", "o"];
    has(&fails(at, &sweep, 1), &["o: ", &me]);
    let item = ["reproduce", "fig4", "--quick", "--quiet", "--out", "p"];
    let small = ["--set", "data.clients=4", "--set", "training.rounds=2"];
    has(&fails(at, &[&item[..], &small].concat(), 1), &[&me]);
    assert_eq!(contents(&at.join("r")), before);
    drop(held);
    ok(at, &resume("r", &[]));
}

#[test]
fn a_checkpoint_knows_the_run_it_belongs_to() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "r", &[]);
    let whole = fingerprint(&at.join("r"));
    killed_at_its_end(at, "r");
    let spec = fs::read_to_string(at.join("r/spec.toml")).unwrap();
    for (key, from, to) in [
        ("seed", "seed = 1\n", "seed = 2\n"),
        (
            "training.learning_rate",
            "learning_rate = 0.1",
            "learning_rate = 0.2",
        ),
        (
            "federation.participation",
            "participation = 0.5",
            "participation = 0.75",
        ),
        (
            "training.local_steps",
            "local_steps = 10",
            "local_steps = 11",
        ),
        ("model.l2", "l2 = 0.0001", "l2 = 0.001"),
        ("training.batch", "batch = 50", "batch = 10"),
        ("training.rounds", "rounds = 8", "rounds = 3"),
    ] {
        assert!(spec.contains(from), "{from} is not in\n{spec}");
        fs::write(at.join("r/spec.toml"), spec.replacen(from, to, 1)).unwrap();
        let before = contents(&at.join("r"));
        let output = apfl(at, &resume("r", &[]));
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{key}: {printed}");
        has(&printed, &[key]);
        assert_eq!(contents(&at.join("r")), before, "{key}");
    }
    fs::write(at.join("r/spec.toml"), &spec).unwrap();
    // A checkpoint of another run in the place of this one's.
    run(at, "other", &["--set", "seed=3"]);
    let own = at.join("own");
    fs::rename(at.join("r/checkpoint"), &own).unwrap();
    fs::rename(at.join("other/checkpoint"), at.join("r/checkpoint")).unwrap();
    has(
        &fails(at, &resume("r", &[]), 1),
        &[
            "belong to another run",
            "seed: 3 in the existing run, 1 given",
        ],
    );
    fs::remove_dir_all(at.join("r/checkpoint")).unwrap();
    fs::rename(&own, at.join("r/checkpoint")).unwrap();
    ok(at, &resume("r", &[]));
    assert_eq!(fingerprint(&at.join("r")), whole);
}

#[test]
fn another_initial_model_under_the_same_name_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    for (name, seed) in [("a", "seed=5"), ("b", "seed=6")] {
        run(at, name, &["--set", seed]);
    }
    let file = |run: &str| at.join(run).join("models/shared.safetensors");
    fs::copy(file("a"), at.join("w.safetensors")).unwrap();
    run(at, "r", &["--set", "model.init=w.safetensors"]);
    killed_at_its_end(at, "r");
    fs::copy(file("b"), at.join("w.safetensors")).unwrap();
    has(
        &fails(at, &resume("r", &[]), 1),
        &["the initial model: SHA-256"],
    );
}

#[test]
fn one_damaged_file_leaves_a_checkpoint_to_go_on_from() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "whole", &[]);
    let whole = fingerprint(&at.join("whole"));
    let names: Vec<String> = fs::read_dir(at.join("whole/checkpoint"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        names.iter().filter(|n| n.starts_with("memories")).count() >= 2,
        "{names:?}"
    );
    for name in names {
        let file = at.join("whole/checkpoint").join(&name);
        let bytes = fs::read(&file).unwrap();
        let mut damaged = bytes.clone();
        let middle = damaged.len() / 2;
        damaged[middle] ^= 1;
        fs::write(&file, damaged).unwrap();
        run(at, "r", &[]); // its own directory, for its records
        fs::remove_dir_all(at.join("r/checkpoint")).unwrap();
        copy(&at.join("whole/checkpoint"), &at.join("r/checkpoint"));
        killed_at_its_end(at, "r");
        ok(at, &resume("r", &[]));
        assert_eq!(fingerprint(&at.join("r")), whole, "{name}");
        assert_eq!(records(&at.join("r")), records(&at.join("whole")), "{name}");
        fs::remove_dir_all(at.join("r")).unwrap();
        fs::write(&file, bytes).unwrap();
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_directory_with_nothing_but_leftovers_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::create_dir_all(at.join("r/models")).unwrap();
    for leftover in [".lock", "spec.toml.4711.tmp", "memories.scratch"] {
        fs::write(at.join("r").join(leftover), "x").unwrap();
    }
    run(at, "r", &[]);
    assert!(!at.join("r/spec.toml.4711.tmp").exists());
    // A file of somebody's is not.
    fs::create_dir_all(at.join("s")).unwrap();
    fs::write(at.join("s/notes.txt"), "x").unwrap();
    has(
        &fails(at, &[&RUN[..], &["--out", "s"]].concat(), 2),
        &["not empty"],
    );
}

#[cfg(unix)]
#[test]
fn pruning_takes_nothing_but_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "r", &[]);
    killed_at_its_end(at, "r");
    let mine = [
        "notes.txt",
        "checkpoint-x.manifest",
        "server-1.safetensors.bak",
        "memories-1.txt",
    ];
    mine.iter()
        .for_each(|name| fs::write(at.join("r/checkpoint").join(name), "x").unwrap());
    // Elsewhere, through a link: the checkpoints themselves are moved.
    fs::rename(at.join("r/checkpoint"), at.join("elsewhere")).unwrap();
    fs::write(at.join("elsewhere/server-1.safetensors"), "another's").unwrap();
    std::os::unix::fs::symlink(at.join("elsewhere"), at.join("r/checkpoint")).unwrap();
    ok(at, &resume("r", &["--set", "training.rounds=10"]));
    mine.iter()
        .for_each(|name| assert!(at.join("elsewhere").join(name).exists(), "{name}"));
    let another = fs::read_to_string(at.join("elsewhere/server-1.safetensors")).unwrap();
    assert_eq!(another, "another's");
}

#[test]
fn a_finished_run_takes_more_rounds_and_is_then_one_long_run() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "long", &["--set", "training.rounds=12"]);
    run(at, "r", &[]);
    ok(at, &resume("r", &["--set", "training.rounds=12"]));
    assert_eq!(fingerprint(&at.join("r")), fingerprint(&at.join("long")));
    assert_eq!(records(&at.join("r")), records(&at.join("long")));
    let spec = |run: &str| fs::read_to_string(at.join(run).join("spec.toml")).unwrap();
    assert_eq!(spec("r"), spec("long"));
    // Where one long run would have been another, it is said.
    has(
        &fails(at, &resume("r", &["--set", "training.rounds=4"]), 2),
        &[
            "but the existing run has 12",
            "it can end after one of these rounds",
        ],
    );
    run(at, "odd", &["--set", "evaluation.every=3"]);
    let printed = fails(at, &resume("odd", &["--set", "training.rounds=9"]), 2);
    has(&printed, &["round 8 was evaluated as the last round"]);
    let theory = [
        "--set",
        "training.schedule={ kind = \"theory\", theorem = 2 }",
    ];
    run(at, "theory", &theory);
    let printed = fails(at, &resume("theory", &["--set", "training.rounds=9"]), 2);
    has(&printed, &["schedule depends on the number of rounds"]);
    let printed = fails(at, &resume("r", &["--set", "seed=9"]), 2);
    has(
        &printed,
        &[
            "seed: 1 in the existing run, 9 given",
            "training.rounds may be set",
        ],
    );
}

#[test]
fn client_states_move_between_disk_and_ram() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "whole", &[]);
    for (from, to) in [
        (
            "engine={ memory = \"disk\", budget_mb = 1 }",
            "engine.memory=ram",
        ),
        (
            "engine.memory=ram",
            "engine={ memory = \"disk\", budget_mb = 1 }",
        ),
        (
            "engine={ memory = \"disk\", budget_mb = 1 }",
            "engine={ memory = \"ram\" }",
        ),
    ] {
        run(at, "r", &["--set", from]);
        killed_at_its_end(at, "r");
        ok(at, &resume("r", &["--set", to]));
        assert_eq!(
            fingerprint(&at.join("r")),
            fingerprint(&at.join("whole")),
            "{from} {to}"
        );
        assert!(!at.join("r/memories.scratch").exists());
        fs::remove_dir_all(at.join("r")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn only_the_owner_reads_a_run() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "r", &[]);
    let mode = |path: &str| fs::metadata(at.join(path)).unwrap().permissions().mode() & 0o777;
    for directory in ["r", "r/models", "r/checkpoint"] {
        assert_eq!(mode(directory), 0o700, "{directory}");
    }
    for (path, _) in contents(&at.join("r/models"))
        .iter()
        .chain(&contents(&at.join("r/checkpoint")))
    {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
    }
}

#[cfg(unix)]
#[test]
fn a_signal_that_is_ignored_stays_so_and_another_ends_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let child = long_run(dir.path(), "trap '' HUP INT;", &[]);
    signal(&child, "-HUP");
    signal(&child, "-INT");
    std::thread::sleep(Duration::from_millis(300));
    // The live run is refused to others meanwhile.
    let printed = fails(dir.path(), &resume("live", &[]), 1);
    has(&printed, &["in use by process", &child.id().to_string()]);
    signal(&child, "-TERM");
    let output = child.wait_with_output().unwrap();
    has(&ended(&output, 1), &["stopped after round", "--resume"]);
}

#[cfg(unix)]
#[test]
fn a_directory_that_goes_away_ends_the_run_at_the_next_round() {
    for gone in ["live", "live/rounds.jsonl"] {
        let dir = tempfile::tempdir().unwrap();
        let child = long_run(dir.path(), "", &[]);
        let path = dir.path().join(gone);
        let removed = Instant::now();
        while path.exists() {
            assert!(removed.elapsed() < Duration::from_secs(30));
            let _ = fs::remove_file(&path);
            let _ = fs::remove_dir_all(&path); // again where a checkpoint came between
        }
        let output = child.wait_with_output().unwrap();
        let printed = ended(&output, 1);
        assert!(printed.contains("live"), "{gone}: {printed}");
        assert!(!dir.path().join("live/summary.json").exists());
    }
}
