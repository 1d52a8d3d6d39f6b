//! Tests `apfl privacy` and the ε of private runs.

use serde_json::Value;

use crate::program::{fails, ok};

#[test]
fn noise_and_epsilon_are_computed_from_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let document = |args: &[&str]| -> Value {
        let args = [&["privacy", "--json"], args].concat();
        serde_json::from_str(&ok(directory.path(), &args)).unwrap()
    };
    let rest = ["--sampling", "0.05", "--steps", "100", "--delta", "1e-6"];
    let from_noise = document(&[&["--noise", "1.5"], &rest[..]].concat());
    let number = |of: &Value, key: &str| of[key].as_f64().unwrap();
    // Microsoft's PRV accountant has 1.953853 with an error of 0.01.
    let pld = number(&from_noise, "pld");
    assert!((1.933853..=1.953853).contains(&pld), "{pld}");
    assert_eq!(
        number(&from_noise, "epsilon"),
        pld.min(number(&from_noise, "rdp"))
    );
    let curve = from_noise["curve"].as_array().unwrap();
    assert_eq!(curve.len(), 10);
    assert!(curve.is_sorted_by(|a, b| number(a, "epsilon") < number(b, "epsilon")));
    assert_eq!(curve[9]["epsilon"], from_noise["epsilon"]);

    let epsilon = format!("{}", number(&from_noise, "epsilon"));
    let from_epsilon = document(&[&["--epsilon", &epsilon], &rest[..]].concat());
    assert!((number(&from_epsilon, "noise") - 1.5).abs() < 1e-4);
    assert!(number(&from_epsilon, "epsilon") <= number(&from_noise, "epsilon"));

    let none = document(&[&["--noise", "0"], &rest[..]].concat());
    assert!(none["epsilon"].is_null());
    let words = ok(
        directory.path(),
        &[&["privacy", "--noise", "1.5"], &rest[..]].concat(),
    );
    assert!(words.contains("ε = 1.94"), "{words}");
}

#[test]
fn wrong_settings_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for args in [
        &["--sampling", "0.1", "--steps", "10"][..],
        &["--noise", "1", "--sampling", "1.5", "--steps", "10"],
        &["--noise", "-1", "--sampling", "0.5", "--steps", "10"],
        &["--noise", "1", "--sampling", "0.5", "--steps", "0"],
        &[
            "--noise",
            "1",
            "--sampling",
            "0.5",
            "--steps",
            "1",
            "--delta",
            "1",
        ],
        &[
            "--noise",
            "1",
            "--epsilon",
            "1",
            "--sampling",
            "0.5",
            "--steps",
            "1",
        ],
        &[
            "--epsilon",
            "1e-6",
            "--sampling",
            "1",
            "--steps",
            "1000000000",
            "--delta",
            "1e-15",
        ],
    ] {
        fails(directory.path(), &[&["privacy"], args].concat(), 2);
    }
}

#[test]
fn a_private_run_shows_its_epsilon_everywhere() {
    let directory = tempfile::tempdir().unwrap();
    let args = [
        "run",
        "--out",
        "run",
        "--set",
        "data={ kind = 'synthetic', clients = 6 }",
        "--set",
        "algorithm={ kind = 'apfl' }",
        "--set",
        "training.rounds=3",
        "--set",
        "federation.privacy={ level = 'example', epsilon = 4.0 }",
    ];
    let table = ok(directory.path(), &args);
    assert!(table.contains("privacy by example: ε = "), "{table}");
    let read =
        |name: &str| std::fs::read_to_string(directory.path().join("run").join(name)).unwrap();
    let summary: Value = serde_json::from_str(&read("summary.json")).unwrap();
    let privacy = summary["privacy"].as_object().unwrap();
    for key in ["level", "epsilon", "delta", "noise", "clip", "steps"] {
        assert!(privacy.contains_key(key), "{key}");
    }
    assert!(privacy["epsilon"].as_f64().unwrap() <= 4.0);
    for name in ["rounds.jsonl", "clients.jsonl"] {
        for line in read(name).lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            assert!(line["epsilon"].as_f64().unwrap() <= 4.0, "{name}");
        }
    }
    assert!(read("report.html").contains("<h3>Privacy</h3>"));
    assert!(read("spec.toml").contains("this is a simulation"));

    let refused = fails(
        directory.path(),
        &[
            "run",
            "--resume",
            "--out",
            "run",
            "--set",
            "training.rounds=5",
        ],
        2,
    );
    assert!(refused.contains("federation.privacy.epsilon"), "{refused}");
}
