//! Tests `apfl join` and `apfl theory`.

use std::path::Path;

use serde_json::Value;

use crate::files::{json, lines};
use crate::program::{fails, ok};

fn answer(directory: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&ok(directory, args)).unwrap()
}

/// A small run in `runs/a`: 6 clients of 60 examples, 4 features, 3 classes.
fn run(directory: &Path) {
    let mut args = vec!["run", "--quiet", "--out", "runs/a"];
    for set in [
        "data={ kind = 'synthetic' }",
        "algorithm={ kind = 'apfl' }",
        "data.clients=6",
        "data.examples=60",
        "data.features=4",
        "data.classes=3",
        "training.rounds=5",
        "training.batch=10",
    ] {
        args.extend(["--set", set]);
    }
    ok(directory, &args);
}

#[test]
fn a_new_client_joins_from_the_generator_or_from_its_table() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here);
    let join = |data: &str, more: &[&str]| {
        let mut args = vec!["join", "runs/a", "--data", data, "--json"];
        args.extend(more);
        answer(here, &args)
    };
    let first = join("synthetic:6", &["--mixing", "0.5", "--out", "joined"]);
    let epochs = first["epochs"].as_array().unwrap();
    assert_eq!(epochs.len(), 6); // 0 to 5
    assert_eq!(epochs[0]["personal"], epochs[0]["shared"]);
    assert_eq!(epochs[5]["shared"], epochs[0]["shared"]);
    assert_ne!(epochs[5]["personal"], epochs[0]["personal"]);
    assert_eq!(first["examples"]["valid"], 12); // ⌈0.2·60⌉
    for file in [
        "join.json",
        "personal.safetensors",
        "local.safetensors",
        "data.csv",
    ] {
        assert!(here.join("joined").join(file).exists(), "{file}");
    }
    let again = join("joined/data.csv", &["--mixing", "0.5"]);
    assert_eq!(again["epochs"], first["epochs"]);
    let running = join(
        "synthetic:7",
        &["--mixing", "adaptive:0.3", "--running", "--epochs", "2"],
    );
    assert_eq!(running["epochs"].as_array().unwrap().len(), 3);
    assert_eq!(running["running"], true);

    let error = fails(here, &["join", "runs/a", "--data", "synthetic:2"], 2);
    assert!(error.contains("were in training"), "{error}");
    fails(
        here,
        &["join", "runs/a", "--data", "synthetic:6", "--mixing", "1.5"],
        2,
    );
    fails(here, &["join", "runs/a", "--data", "none.csv"], 1);
    std::fs::write(here.join("bad.csv"), "x0,x1,x2,x3,label\n1,2,3,4,nine\n").unwrap();
    let error = fails(here, &["join", "runs/a", "--data", "bad.csv"], 1);
    assert!(
        error.contains("'nine'") && error.contains("bad.csv"),
        "{error}"
    );
}

#[test]
fn a_run_is_replayed_and_measured() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here);
    let report = answer(here, &["theory", "runs/a", "--points", "3", "--json"]);
    let summary = json(&here.join("runs/a/summary.json"));
    assert_eq!(report["fingerprint"], summary["fingerprint"]);
    assert_eq!(report["visited"], serde_json::json!([0, 2, 5]));
    assert_eq!(report["clients"].as_array().unwrap().len(), 6);
    assert_eq!(report["optimum"]["converged"], true);
    let picture = std::fs::read_to_string(here.join("runs/a/theory.svg")).unwrap();
    assert_eq!(picture.matches("<circle").count(), 18); // 6 clients, 3 panels
    // The learned α is that of finalization.
    let finalized = lines(&here.join("runs/a/clients.jsonl"));
    for (line, client) in finalized.iter().zip(report["clients"].as_array().unwrap()) {
        assert_eq!(
            (&line["client"], &line["mixing"]),
            (&client["client"], &client["mixing"])
        );
    }
    // Constants are inputs.
    let table = ok(
        here,
        &["theory", "runs/a", "--points", "2", "--constant", "B=2"],
    );
    assert!(table.contains("B = 2") && table.contains("κ ="), "{table}");
    // The corollary's two conditions, its two sides, and what Theorem 1 is stated for.
    for part in [
        "√(C₂/(4C₁))} = 0.5000",
        "as printed √(C₂/(2C₁)), αᵢ ≤ 0.7071",
        "is at most its right side at ",
        "corollary: right side",
        "the loss here is softmax",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    // C₂ ≤ 2C₁; C and C1 are one constant.
    assert!(
        table.contains("C₁ = 1, C₂ = 1") && !table.contains("C₂ > 2C₁"),
        "{table}"
    );
    let with = |constants: &[&str]| {
        let mut args = vec!["theory", "runs/a", "--points", "2"];
        constants
            .iter()
            .for_each(|pair| args.extend(["--constant", *pair]));
        ok(here, &args)
    };
    let broken = with(&["C2=3"]);
    assert!(broken.contains("C₂ > 2C₁: no distribution"), "{broken}");
    let widened = with(&["C2=3", "C1=1.5"]);
    assert!(
        widened.contains("C₁ = 1.5, C₂ = 3") && !widened.contains("C₂ > 2C₁"),
        "{widened}"
    );
    assert_eq!(widened, with(&["C2=3", "C=1.5"]));
    let error = fails(here, &["theory", "runs/a", "--constant", "Q=2"], 2);
    assert!(
        error.contains("one of B, G, C1 (or C), C2, d, delta, R"),
        "{error}"
    );
    fails(here, &["theory", "runs/a", "--constant", "delta=2"], 2);
    fails(here, &["theory", "runs/a", "--set", "seed=2"], 2);
    fails(here, &["theory"], 2);
}

#[test]
fn the_theorems_are_checked() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "theory",
        "--convergence",
        "--quick",
        "--seeds",
        "2",
        "--json",
    ];
    let found = answer(directory.path(), &args);
    let lemma = found["lemma"].as_array().unwrap();
    assert_eq!(lemma.len(), 5);
    for row in lemma {
        assert!(row["measured"].as_f64() < row["bound"].as_f64());
    }
    // The lemmas on gradients and deviations hold as printed, and not without ζ/K.
    let deviations = found["deviations"].as_array().unwrap();
    assert_eq!(deviations.len(), 11);
    for row in deviations {
        let dropped = row["statement"] == "gap_without_zeta";
        assert!(row["holds"] == true || dropped, "{row}");
    }
    let dropped = |row: &&Value| row["statement"] == "gap_without_zeta" && row["holds"] == false;
    assert!(deviations.iter().any(|row| dropped(&row)));
    // Theorem 4's corrected bound holds at every α and T.
    for row in found["bounded"]["rows"].as_array().unwrap() {
        for cell in row["cells"].as_array().unwrap() {
            assert_eq!(cell["holds"], true, "{cell}");
        }
    }
    // Theorem 3 with one client of 50 at α = 1: only the repaired step size.
    let last = found["selection"]["rows"]
        .as_array()
        .unwrap()
        .last()
        .unwrap();
    assert_eq!(last["printed"]["holds"], false);
    assert_eq!(last["repaired"]["holds"], true);
    // Full participation: about 1/T.
    let slope = found["strongly_convex"][0]["slope"].as_f64().unwrap();
    assert!((-1.5..-0.6).contains(&slope), "{slope}");
    let exponent = found["residual"]["exponent"].as_f64().unwrap();
    assert!((1.8..2.2).contains(&exponent), "{exponent}");
}
