//! Tests the refusal of runs that exceed the machine, and the program's own version.

use std::fs;
use std::process::Command;

use crate::program::{fails, has, ok};
#[cfg(target_os = "linux")]
use crate::short_run::long_run;

/// A median needs all updates of the cohort at once: 100,000 models of ten million numbers are 4 TB,
/// which `run` and `check` refuse before training.
#[cfg(target_os = "linux")]
#[test]
fn a_run_beyond_the_memory_is_refused_before_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let spec = "[data]\nclients = 100000\nfeatures = 1000\nexamples = 4\n\
                [model]\nkind = 'mlp'\nhidden = [10000]\n\
                [federation]\naggregation = 'median'\n";
    fs::write(at.join("s.toml"), spec).unwrap();
    for command in [
        &["check", "s.toml"][..],
        &["run", "s.toml", "--out", "r"][..],
    ] {
        let printed = fails(at, command, 1);
        has(
            &printed,
            &["the run needs about", "TB", "this machine has", "--force"],
        );
    }
    assert!(!at.join("r/spec.toml").exists());
}

/// Weights of classes change the loss of a CNN, not what it takes. 40 images of 16×16 in two
/// classes, one of them three times as common.
#[test]
fn a_weighted_cnn_is_estimated_as_the_plain_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    // IDX: zero, zero, unsigned bytes, the number of sizes, the sizes.
    let images = [0, 0, 8, 3, 0, 0, 0, 40, 0, 0, 0, 16, 0, 0, 0, 16];
    let pixels = (0..40 * 16 * 16).map(|k| (k * 31 % 251) as u8);
    let images: Vec<u8> = images.into_iter().chain(pixels).collect();
    let labels = (0..40).map(|k| u8::from(k % 4 == 0));
    let labels: Vec<u8> = [0, 0, 8, 1, 0, 0, 0, 40]
        .into_iter()
        .chain(labels)
        .collect();
    fs::write(at.join("images"), images).unwrap();
    fs::write(at.join("labels"), labels).unwrap();
    let spec = "model = { kind = 'cnn', channels = [2, 3], kernel = 3, dense = 4 }\n\
                [data]\nkind = 'idx'\nimages = 'images'\nlabels = 'labels'\nclients = 2\n\
                partition = 'iid'\n[training]\nlocal_steps = 1\n";
    fs::write(at.join("s.toml"), spec).unwrap();
    let estimate = |weights: &str| {
        let weights = format!("training.class_weights={weights}");
        let printed = ok(at, &["check", "s.toml", "--json", "--set", &weights]);
        let report: serde_json::Value = serde_json::from_str(&printed).unwrap();
        report["memory_bytes"].as_f64().unwrap()
    };
    assert_eq!(estimate("balanced"), estimate("none"));
}

/// An entry of a header is the tensor's name and some 80 bytes; a million clients with weight
/// and bias are beyond the 100 MB that readers of the format take.
#[test]
fn a_header_that_other_readers_refuse_is_reported_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let many = "[data]\nclients = 1000000\nfeatures = 2\nclasses = 2\nexamples = 4\n[federation]\nparticipation = 1e-6\n[training]\nrounds = 1\n";
    fs::write(dir.path().join("s.toml"), many).unwrap();
    let expected = "other readers of the format accept at most 100 MB";
    has(
        &ok(dir.path(), &["check", "s.toml"]),
        &["1000000 clients", expected],
    );
    for fewer in [
        "delivery.keep=false",
        "delivery.clients=none",
        "data.clients=1000",
    ] {
        let printed = ok(dir.path(), &["check", "s.toml", "--set", fewer]);
        assert!(!printed.contains(expected), "{fewer}: {printed}");
    }
}

/// Six clients can keep six threads busy, not sixty-four.
#[cfg(target_os = "linux")]
#[test]
fn threads_without_a_client_are_not_started() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = long_run(dir.path(), "", &["--threads", "64"]);
    let tasks = || {
        fs::read_dir(format!("/proc/{}/task", child.id()))
            .unwrap()
            .count()
    };
    let started = tasks();
    child.kill().unwrap();
    child.wait().unwrap();
    // Plus the main thread and those of signals and progress.
    assert!((2..=6 + 4).contains(&started), "{started} threads");
}

/// The build script marks builds of changed sources; it is run in a repository of its own.
#[test]
fn a_build_of_changed_sources_is_called_dirty() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/build.rs");
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let built = Command::new(rustc)
        .args(["--edition", "2024", script, "-o", "build"])
        .current_dir(at)
        .status();
    if !built.is_ok_and(|status| status.success()) {
        return crate::skipped::skipped("the build script's own test: there is no rustc");
    }
    let git = |args: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
        let done = Command::new("git")
            .args(identity)
            .args(args)
            .current_dir(at)
            .output();
        assert!(done.unwrap().status.success(), "git {args:?}");
    };
    let printed = || {
        let output = Command::new(at.join("build"))
            .current_dir(at)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    has(&printed(), &["APFL_COMMIT=unknown"]);
    fs::create_dir(at.join("src")).unwrap();
    fs::write(at.join("src/main.rs"), "fn main() {}\n").unwrap();
    git(&["init", "-q"]);
    git(&["add", "src"]);
    git(&["commit", "-q", "-m", "first"]);
    let clean = printed();
    assert!(!clean.contains("-dirty"), "{clean}");
    // An edit of sources alone makes cargo run it again.
    has(&clean, &["rerun-if-changed=src\n"]);
    fs::write(at.join("src/main.rs"), "fn main() { }\n").unwrap();
    has(&printed(), &["-dirty\n"]);
}

/// The records of finalized clients are part of the memory: 200,000 of them with five scores of
/// three models on three parts need more than 200,000 · 3 · (2 + 6) · 8 bytes, and without
/// finalization none of it.
#[test]
fn the_memory_of_finalization_is_estimated() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let spec = "[data]\nclients = 200000\nfeatures = 2\nclasses = 2\nexamples = 4\n\
                [federation]\nparticipation = 0.0001\n\
                [training]\nrounds = 2\nlocal_steps = 1\n[delivery]\nkeep = false\n";
    fs::write(at.join("s.toml"), spec).unwrap();
    let estimate = |clients: &str| {
        let clients = format!("delivery.clients={clients}");
        let printed = ok(at, &["check", "s.toml", "--json", "--set", &clients]);
        let report: serde_json::Value = serde_json::from_str(&printed).unwrap();
        report["memory_bytes"].as_f64().unwrap()
    };
    let (all, none) = (estimate("all"), estimate("none"));
    assert!(all - none > 200_000.0 * 3.0 * 8.0 * 8.0, "{all} {none}");
}
