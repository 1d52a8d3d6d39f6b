//! Tests the choice of α and `apfl advise`.

use std::path::Path;

use serde_json::Value;

use crate::files::{json, lines};
use crate::program::{apfl, fails, ok};

const CHOSEN: &str = "algorithm.mixing={ chosen = [0, 0.5, 1], folds = 2, prior = 10 }";

/// A small run: 6 clients of 60 examples, 4 features, 3 classes.
fn run(here: &Path, out: &str, more: &[&str]) -> String {
    let mut args = vec!["run", "--out", out];
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
    args.extend(more);
    let output = apfl(here, &args);
    assert!(output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

fn answer(here: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&ok(here, args)).unwrap()
}

#[test]
fn a_run_that_chooses_alpha_is_recorded_and_advised_on() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let printed = run(here, "runs/a", &["--set", CHOSEN]);
    for pass in ["pass 1 of 3", "pass 2 of 3", "pass 3 of 3"] {
        assert!(printed.contains(pass), "{printed}");
    }
    let clients = lines(&here.join("runs/a/clients.jsonl"));
    assert_eq!(clients.len(), 6);
    for client in &clients {
        let chosen = &client["chosen"];
        assert_eq!(chosen["rows"], 48, "every training row once");
        assert_eq!(chosen["losses"].as_object().unwrap().len(), 4);
        match chosen["alpha"].as_str() {
            Some(word) => assert!(word == "shared" && client["mixing"].is_null()),
            None => assert_eq!(chosen["alpha"], client["mixing"]),
        }
        assert!(client.as_object().unwrap().contains_key("mixing"));
        assert!(client["alone"]["valid"]["loss"].is_number());
        // The gain is that over the client's own tuned fit, which is not training alone.
        let loss = |model: &str| client[model]["valid"]["loss"].as_f64().unwrap();
        assert!(loss("baseline") != loss("alone"));
        assert_eq!(client["gain"]["n"], 12);
        let gain = client["gain"]["mean"].as_f64().unwrap();
        assert!((gain - (loss("baseline") - loss("personal"))).abs() < 1e-9);
        assert!(client["gain"]["skew"].is_number());
    }
    let summary = json(&here.join("runs/a/summary.json"));
    assert_eq!(summary["prior"]["rows"], 6 * 48);
    assert_eq!(summary["gain"]["n"], 72);
    for model in ["alone", "baseline"] {
        assert!(summary[model]["pooled"]["valid"]["loss"].is_number());
    }

    let advice = answer(here, &["advise", "runs/a", "--json"]);
    assert_eq!(advice["part"], "valid");
    let each = advice["clients"].as_array().unwrap();
    assert_eq!(each.len(), 6);
    let mut counts = [0, 0, 0];
    for (client, record) in each.iter().zip(&clients) {
        assert_eq!(client["client"], record["client"]);
        assert_eq!(
            (&client["rows"], &client["gain"]),
            (&record["gain"]["n"], &record["gain"]["mean"])
        );
        let serve = match record["chosen"]["alpha"].as_f64() {
            None => "shared",
            Some(0.0) => "localized",
            Some(1.0) => "alone",
            Some(_) => "personal",
        };
        assert_eq!(client["serve"], serve);
        let interval = client["interval"].as_array().unwrap();
        let (low, high) = (interval[0].as_f64().unwrap(), interval[1].as_f64().unwrap());
        assert!((low..=high).contains(&client["gain"].as_f64().unwrap()));
        // t of 11 degrees of freedom is 2.200985; with a = skew/(3√12) the ends are
        // mean − g·sd/√12 for (1 + a·g)³ = 1 + 3a(±t − a/2).
        let of = |key: &str| record["gain"][key].as_f64().unwrap();
        let a = of("skew") / (3.0 * 12f64.sqrt());
        for (end, t) in [(low, 2.200_985), (high, -2.200_985)] {
            let g = (of("mean") - end) * 12f64.sqrt() / of("sd");
            let difference = (1.0 + a * g).powi(3) - 1.0 - 3.0 * a * (t - 0.5 * a);
            assert!(difference.abs() < 1e-4, "{record}");
        }
        let verdicts = ["helps", "harms", "undecided"];
        let verdict = client["verdict"].as_str().unwrap();
        counts[verdicts.iter().position(|v| *v == verdict).unwrap()] += 1;
    }
    let total = &advice["total"];
    assert_eq!(
        (&total["helps"], &total["harms"], &total["undecided"]),
        (&counts[0].into(), &counts[1].into(), &counts[2].into())
    );
    let pooled = (
        total["gain"].as_f64().unwrap(),
        summary["gain"]["mean"].as_f64().unwrap(),
    );
    assert!((pooled.0 - pooled.1).abs() < 1e-12);
    let text = ok(here, &["advise", "runs/a"]);
    for words in [
        "false-discovery",
        "95% confidence",
        "validation rows",
        "serve",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let page = std::fs::read_to_string(here.join("runs/a/report.html")).unwrap();
    assert!(page.contains("Is joining worth it?") && page.contains("gain from joining"));

    // What was trained alone can be taken out.
    let alone = [
        "export",
        "runs/a",
        "--client",
        "0",
        "--model",
        "alone",
        "--out",
        "alone.npz",
    ];
    ok(here, &alone);
    // A finished run is not trained again, in no pass.
    let again = ok(here, &["run", "--resume", "--out", "runs/a", "--json"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["fingerprint"], summary["fingerprint"]);
}

#[test]
fn join_and_theory_use_the_chosen_mixing() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here, "runs/a", &["--quiet", "--set", CHOSEN]);
    let joined = answer(here, &["join", "runs/a", "--data", "synthetic:6", "--json"]);
    assert_eq!(joined["mixing"], "chosen");
    assert_eq!(joined["chosen"]["rows"], 48);
    let losses = joined["chosen"]["losses"].as_object().unwrap();
    let prior = json(&here.join("runs/a/summary.json"))["prior"]["losses"].clone();
    // The rule, from what was written: 48 rows of its own and a prior of 10.
    let score = |name: &str| {
        let own = losses[name].as_f64().unwrap();
        (48.0 * own + 10.0 * prior[name].as_f64().unwrap()) / 58.0
    };
    let mut best = "shared";
    for name in ["0", "0.5", "1"] {
        if score(name) < score(best) - 1e-12 {
            best = name;
        }
    }
    let alpha = &joined["chosen"]["alpha"];
    let alpha = alpha
        .as_str()
        .map_or_else(|| alpha.as_f64().unwrap().to_string(), str::to_owned);
    assert_eq!(alpha, best);
    let last = joined["epochs"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(
        last["mixing"].as_f64().unwrap(),
        best.parse().unwrap_or(0.0)
    );

    let theory = answer(here, &["theory", "runs/a", "--json"]);
    let clients = lines(&here.join("runs/a/clients.jsonl"));
    assert_eq!(
        theory["fingerprint"],
        json(&here.join("runs/a/summary.json"))["fingerprint"]
    );
    for (client, record) in theory["clients"].as_array().unwrap().iter().zip(&clients) {
        assert_eq!(client["chosen"].as_f64(), record["mixing"].as_f64());
        assert!(client["learned"].is_number() && client["line_search"].is_number());
    }
    let text = ok(here, &["theory", "runs/a"]);
    assert!(
        text.contains("α chosen") && text.contains("α learned"),
        "{text}"
    );
    // The learned α beside it is that of the paper's rule on the same run.
    run(here, "runs/b", &["--quiet"]);
    let learned = lines(&here.join("runs/b/clients.jsonl"));
    for (client, record) in theory["clients"].as_array().unwrap().iter().zip(&learned) {
        assert_eq!(client["learned"], record["mixing"]);
    }
}

#[test]
fn without_a_choice_the_error_names_the_setting() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here, "runs/a", &["--quiet"]);
    let printed = fails(here, &["advise", "runs/a"], 2);
    assert!(
        printed.contains("chosen = [0, 0.1, 0.25, 0.5, 0.75, 1]"),
        "{printed}"
    );
    assert!(
        fails(
            here,
            &[
                "export", "runs/a", "--client", "0", "--model", "alone", "--out", "a.npz"
            ],
            1
        )
        .contains("alone")
    );
    let printed = fails(
        here,
        &[
            "join",
            "runs/a",
            "--data",
            "synthetic:6",
            "--mixing",
            "chosen",
        ],
        2,
    );
    assert!(printed.contains("no choice"), "{printed}");
}

#[test]
fn check_estimates_all_passes() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    std::fs::write(
        here.join("a.toml"),
        "data = { kind = 'synthetic', clients = 6, examples = 60 }
         algorithm = { kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 3 } }
         training = { rounds = 2 }",
    )
    .unwrap();
    let text = ok(here, &["check", "a.toml"]);
    assert!(text.contains("3 with rows held out"), "{text}");
    let json = answer(here, &["check", "a.toml", "--json"]);
    let passes = json["passes"].as_array().unwrap();
    assert_eq!(passes[0], 3);
    assert!(json["seconds"].as_f64().unwrap() > 3.0 * passes[1].as_f64().unwrap());
}
