//! Tests `apfl sweep` and `apfl reproduce`.

use std::fs;

use serde_json::Value;

use crate::files::{json, lines};
use crate::program::{apfl, ended, fails, ok};

const SPEC: &str = "[data]\nclients = 6\nfeatures = 5\nclasses = 3\nexamples = 30\n\
                    [training]\nrounds = 4\nlocal_steps = 3";

/// A note on a key does not mark it as unused, and users of a model with batch statistics are warned.
#[test]
fn norms_are_swept_and_batch_statistics_are_noted() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mlp = format!("{SPEC}\n[model]\nkind = 'mlp'\nhidden = [4]");
    fs::write(at.join("s.toml"), mlp).unwrap();
    let norms = "model.norm=none,layer,batch";
    ok(at, &["sweep", "s.toml", "--over", norms, "--out", "o"]);
    let export = |norm: &str| {
        let run = format!("o/runs/norm={norm},seed=1");
        let file = format!("{norm}.safetensors");
        let args = ["export", &run, "--model", "shared", "--out", &file];
        ended(&apfl(at, &args), 0)
    };
    assert!(export("batch").contains("depends on the other rows of its batch"));
    assert_eq!(export("layer"), "");
}

#[test]
fn a_sweep_has_its_runs_and_continues_after_an_interruption() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("s.toml"), SPEC).unwrap();
    let args = [
        "sweep",
        "s.toml",
        "--over",
        "algorithm.kind=apfl,local",
        "--seeds",
        "2",
        "--out",
        "o",
        "--json",
    ];
    let lines: Value = serde_json::from_str(&ok(at, &args)).unwrap();
    assert_eq!(lines.as_array().unwrap().len(), 2);
    for (line, kind) in [(&lines[0], "apfl"), (&lines[1], "local")] {
        assert_eq!(line["set"]["algorithm.kind"], kind);
        // The mean over the two seeds of what the runs themselves say, and each is the run
        // that `apfl run` makes.
        let accuracy = |seed: u64| {
            let summary = json(&at.join(format!("o/runs/{kind},seed={seed}/summary.json")));
            let set = [format!("algorithm.kind={kind}"), format!("seed={seed}")];
            let alone = format!("{kind}-{seed}");
            let run = ["run", "s.toml", "--set", &set[0], "--set", &set[1]];
            let run: Value =
                serde_json::from_str(&ok(at, &[&run[..], &["--out", &alone, "--json"]].concat()))
                    .unwrap();
            assert_eq!(run["fingerprint"], summary["fingerprint"]);
            summary["personal"]["pooled"]["valid"]["accuracy"]
                .as_f64()
                .unwrap()
        };
        let (a, b) = (accuracy(1), accuracy(2));
        let mean = line["personal"]["mean"].as_f64().unwrap();
        let deviation = line["personal"]["deviation"].as_f64().unwrap();
        assert!((mean - (a + b) / 2.0).abs() < 1e-12);
        // Of two values: |a − b|/√2.
        assert!((deviation - (a - b).abs() / 2f64.sqrt()).abs() < 1e-12);
    }
    // What is finished stays untouched, what is missing is run.
    let touched = |name: &str| fs::metadata(at.join(name)).unwrap().modified().unwrap();
    let before = touched("o/runs/apfl,seed=1/summary.json");
    fs::remove_dir_all(at.join("o/runs/local,seed=2")).unwrap();
    let again: Value = serde_json::from_str(&ok(at, &args)).unwrap();
    assert_eq!(again, lines);
    assert_eq!(touched("o/runs/apfl,seed=1/summary.json"), before);
    let csv = fs::read_to_string(at.join("o/sweep.csv")).unwrap();
    assert!(
        csv.starts_with("algorithm.kind,seed,shared_loss,shared_accuracy,shared_worst_decile"),
        "{csv}"
    );
    // Another spec into the same place is refused.
    fs::write(at.join("s.toml"), SPEC.replace("rounds = 4", "rounds = 5")).unwrap();
    let printed = fails(at, &args, 2);
    assert!(
        printed.contains("training.rounds: 4 in the existing run, 5 given"),
        "{printed}"
    );
}

#[test]
fn the_best_value_of_a_key_is_picked_and_a_diverged_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("s.toml"), SPEC).unwrap();
    let over = [
        "sweep",
        "s.toml",
        "--over",
        "training.learning_rate=1e-9,0.5,1e30",
        "--out",
        "o",
        "--json",
    ];
    let printed = fails(at, &over, 1);
    assert!(
        printed.contains("learning_rate=1e30,seed=1: the loss of client"),
        "{printed}"
    );
    let best = ["--best", "training.learning_rate"];
    let lines: Value = serde_json::from_str(&ok(at, &[&over[..], &best].concat())).unwrap();
    assert_eq!(lines.as_array().unwrap().len(), 1);
    // At 1e-9 the model stays at zero and knows nothing.
    assert_eq!(lines[0]["set"]["training.learning_rate"], "0.5");
    for (over, words) in [
        ("training.ruonds=1,2", "unknown key"),
        ("training.rounds", "expected key=value"),
        ("training.rounds=1,1", "twice"),
        ("seed=1,2", "--seeds N"),
    ] {
        let printed = fails(at, &["sweep", "s.toml", "--over", over], 2);
        assert!(printed.contains(words), "{printed}");
    }
    let twice = [
        "--over",
        "training.rounds=1,2",
        "--over",
        "training.rounds=3",
    ];
    let printed = fails(at, &[&["sweep", "s.toml"], &twice[..]].concat(), 2);
    assert!(printed.contains("is there twice"), "{printed}");
    let best = ["--over", "training.rounds=1,2", "--best", "x"];
    let printed = fails(at, &[&["sweep", "s.toml"], &best[..]].concat(), 2);
    assert!(printed.contains("no --over with that key"), "{printed}");
}

#[test]
fn a_reproduction_judges_its_runs() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let args = [
        "reproduce",
        "fig4",
        "--seeds",
        "2",
        "--no-variants",
        "--set",
        "data.clients=8",
        "--set",
        "training.rounds=6",
        "--out",
        "o",
    ];
    let text = ok(at, &args);
    let claims = json(&at.join("o/fig4/verdict.json"));
    assert_eq!(claims.as_array().unwrap().len(), 3);
    for claim in claims.as_array().unwrap() {
        let word = claim["verdict"].as_str().unwrap();
        assert!(["holds", "fails", "within-noise"].contains(&word));
        assert!(claim["paper"].is_string() && claim["ours"].is_string());
        assert!(claim["spread"].is_number());
        assert!(text.contains(claim["claim"].as_str().unwrap()));
    }
    // Claim 10 from the runs' own lines: FedAvg's localized loss less APFL's personal one, in the
    // last round, over two seeds; the worst of three data sets decides. The standard error of two
    // margins a and b is |a − b|/2, and Student's t with one degree of freedom is Cauchy.
    let t = (0.45 * std::f64::consts::PI).tan();
    let names: Vec<String> = fs::read_dir(at.join("o/fig4/runs"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(names.len(), 12, "{names:?}");
    let loss = |kind: &str, data: &str, seed: u64, model: &str| {
        let start = format!("{kind},{data},seed={seed}");
        let name = names.iter().find(|name| name.starts_with(&start));
        let name = name.unwrap_or_else(|| panic!("{start} in {names:?}"));
        let file = at.join(format!("o/fig4/runs/{name}/rounds.jsonl"));
        lines(&file).last().unwrap()[model]["train"]["loss"]
            .as_f64()
            .unwrap()
    };
    let mut verdicts = Vec::new();
    for data in ["synthetic0,0", "synthetic0.5,0.5", "synthetic1,1"] {
        let margin = |seed: u64| {
            loss("fedavg", data, seed, "localized") - loss("apfl", data, seed, "personal")
        };
        let (a, b) = (margin(1), margin(2));
        let (mean, error) = ((a + b) / 2.0, (a - b).abs() / 2.0);
        let comparison = &claims[0]["comparisons"][verdicts.len()];
        let written = comparison["standard_error"].as_f64().unwrap();
        assert!((written - error).abs() < 1e-9, "{comparison} {error}");
        assert_eq!(comparison["kind"], "order");
        verdicts.push(match mean {
            mean if mean.abs() <= t * error => 1,
            mean if mean > 0.0 => 0,
            _ => 2,
        });
    }
    let expected = ["holds", "within-noise", "fails"][*verdicts.iter().max().unwrap()];
    assert_eq!(claims[0]["verdict"], expected);
    // Pictures and tables are there.
    let png = fs::read(at.join("o/fig4/fig4.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG") && png.len() > 10_000);
    let svg = fs::read_to_string(at.join("o/fig4/fig4.svg")).unwrap();
    assert!(svg.contains("communication rounds"));
    assert!(at.join("o/fig4/fig4.csv").exists() && at.join("o/fig4/verdict.md").exists());
    // The same again, from what is there.
    ok(at, &args);
    assert_eq!(json(&at.join("o/fig4/verdict.json")), claims);
    // A quick one does not take its place.
    let printed = fails(at, &["reproduce", "fig4", "--quick", "--out", "o"], 2);
    assert!(printed.contains("give another --out"), "{printed}");
    let printed = fails(at, &["reproduce", "fig7"], 2);
    assert!(printed.contains("there is no item 'fig7'"), "{printed}");
}

#[test]
fn a_sweep_keeps_to_its_own_directory() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("s.toml"), SPEC).unwrap();
    ok(at, &["run", "s.toml", "--quiet", "--out", "r"]);
    let report = fs::read(at.join("r/report.html")).unwrap();
    let seeds = ["sweep", "s.toml", "--seeds", "2", "--quiet", "--out"];
    let printed = fails(at, &[&seeds[..], &["r"]].concat(), 2);
    assert!(
        printed.contains("--out r: a run was begun there"),
        "{printed}"
    );
    assert_eq!(fs::read(at.join("r/report.html")).unwrap(), report);
    // Seeds alone, and the same again; another sweep is refused the place.
    ok(at, &[&seeds[..], &["o"]].concat());
    let csv = fs::read_to_string(at.join("o/sweep.csv")).unwrap();
    assert!(csv.starts_with("seed,shared_loss,"), "{csv}");
    assert_eq!(csv.lines().count(), 3);
    ok(at, &[&seeds[..], &["o"]].concat());
    let over = ["--over", "training.rounds=1,2"];
    let printed = fails(at, &[&seeds[..], &["o"], &over].concat(), 2);
    assert!(printed.contains("there is a sweep over"), "{printed}");
    let printed = fails(at, &["sweep", "s.toml"], 2);
    assert!(printed.contains("nothing to sweep over"), "{printed}");
    // Everything wrong at once.
    let wrong = ["sweep", "s.toml", "--over", "training.rounds=0,3,x"];
    let printed = fails(at, &wrong, 2);
    assert!(
        printed.contains("found 0,") && printed.contains("found \"x\""),
        "{printed}"
    );
    // An unfinished run of another version is not thrown away.
    let cell = at.join("o/runs/seed=2");
    fs::remove_file(cell.join("summary.json")).unwrap();
    let environment = fs::read_to_string(cell.join("environment.json")).unwrap();
    let commit = json(&cell.join("environment.json"))["commit"].to_string();
    let other = environment.replace(&commit, "\"another\"");
    fs::write(cell.join("environment.json"), other).unwrap();
    let printed = fails(at, &[&seeds[..], &["o"]].concat(), 1);
    assert!(printed.contains("was begun by version"), "{printed}");
    assert!(cell.join("checkpoint").exists());
}

#[test]
fn the_files_of_a_sweep_have_every_run_and_its_report_the_spread() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("s.toml"), SPEC).unwrap();
    let args = [
        "sweep",
        "s.toml",
        "--over",
        "training.learning_rate=0.01,0.5",
        "--seeds",
        "3",
        "--best",
        "training.learning_rate",
        "--quiet",
        "--out",
        "o",
    ];
    ok(at, &args);
    let csv = fs::read_to_string(at.join("o/sweep.csv")).unwrap();
    let mut rows = csv.lines();
    let head: Vec<&str> = rows.next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let rows: Vec<Vec<&str>> = rows.map(|row| row.split(',').collect()).collect();
    assert_eq!(rows.len(), 6);
    let mut accuracies = Vec::new();
    for row in &rows {
        let name = format!("learning_rate={},seed={}", row[0], row[column("seed")]);
        let valid = json(&at.join("o/runs").join(name).join("summary.json"));
        for (name, of) in [
            (
                "personal_loss",
                &valid["personal"]["pooled"]["valid"]["loss"],
            ),
            (
                "personal_accuracy",
                &valid["personal"]["pooled"]["valid"]["accuracy"],
            ),
            (
                "shared_worst_decile",
                &valid["shared"]["worst_decile"]["valid"]["accuracy"],
            ),
        ] {
            let there: f64 = row[column(name)].parse().unwrap();
            assert!((there - of.as_f64().unwrap()).abs() < 1e-12, "{name}");
        }
        accuracies.push((
            row[0].to_owned(),
            row[column("personal_accuracy")].parse::<f64>().unwrap(),
        ));
    }
    // The value that is best by its mean is marked in all its rows, and no other.
    let mean = |rate: &str| {
        let of = accuracies.iter().filter(|(r, _)| r == rate);
        of.map(|(_, a)| a / 3.0).sum::<f64>()
    };
    let best = if mean("0.5") > mean("0.01") {
        "0.5"
    } else {
        "0.01"
    };
    for row in &rows {
        assert_eq!(row[column("best")], (row[0] == best).to_string());
    }
    let deviation = |rate: &str| {
        let of = accuracies.iter().filter(|(r, _)| r == rate);
        (of.map(|(_, a)| (a - mean(rate)).powi(2)).sum::<f64>() / 2.0).sqrt()
    };
    let page = fs::read_to_string(at.join("o/report.html")).unwrap();
    for rate in ["0.01", "0.5"] {
        let cell = format!(
            "{:.2} ± {:.2}%",
            100.0 * mean(rate),
            100.0 * deviation(rate)
        );
        assert!(page.contains(&cell), "{cell}");
    }
}

/// Half of figure 4's runs are FedAvg's, which has no α.
#[test]
fn an_algorithms_own_key_is_set_in_its_own_runs() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let item = |set: &str, code: i32| {
        let args = [
            "reproduce",
            "fig4",
            "--no-variants",
            "--seeds=1",
            "--set=data.clients=4",
            "--set=training.rounds=1",
            "--set",
            set,
            "--out",
            "o",
        ];
        if code == 0 {
            ok(at, &args)
        } else {
            fails(at, &args, code)
        }
    };
    item("algorithm.mixing={ fixed = 0.25 }", 0);
    for entry in fs::read_dir(at.join("o/fig4/runs")).unwrap() {
        let path = entry.unwrap().path();
        let spec: toml::Table = fs::read_to_string(path.join("spec.toml"))
            .unwrap()
            .parse()
            .unwrap();
        let algorithm = spec["algorithm"].as_table().unwrap();
        let fixed = algorithm.get("mixing").map(|m| m["fixed"].as_float());
        match algorithm["kind"].as_str() {
            Some("apfl") => assert_eq!(fixed, Some(Some(0.25))),
            kind => assert_eq!((kind, fixed), (Some("fedavg"), None)),
        }
    }
    // A key that no run has is still a mistake.
    let printed = item("algorithm.mixng=0.5", 2);
    assert!(printed.contains("did you mean \"mixing\"?"), "{printed}");
    let printed = item("algorithm.localized=sgd", 2);
    let found = "no run of fig4 has algorithm.localized; its algorithms are apfl and fedavg";
    assert!(printed.contains(found), "{printed}");
}

/// SCAFFOLD has no preset, so that its runs are not repeated with APFL's. The runs of both kinds
/// are SCAFFOLD's then, and a model is not below itself.
#[test]
fn a_variant_without_its_key_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let args = [
        "reproduce",
        "fig4",
        "--seeds=1",
        "--set=data.clients=4",
        "--set=training.rounds=1",
        "--set=algorithm.kind=scaffold",
        "--set=algorithm.localized=sgd",
        "--out",
        "o",
    ];
    let text = ok(at, &args);
    assert!(!text.contains("algorithm.preset"), "{text}");
    let claims = json(&at.join("o/fig4/verdict.json"));
    assert!(
        claims
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["verdict"] == "fails"),
        "{claims}"
    );
    assert_eq!(fs::read_dir(at.join("o/fig4/runs")).unwrap().count(), 6);
}

#[test]
fn a_verdict_of_many_seeds_is_not_overwritten_by_one_of_few() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let small = ["--set", "data.clients=4", "--set", "training.rounds=2"];
    let item = [
        "reproduce",
        "fig4",
        "--no-variants",
        "--quiet",
        "--out",
        "o",
    ];
    ok(at, &[&item[..], &small, &["--seeds", "2"]].concat());
    let verdict = fs::read(at.join("o/fig4/verdict.md")).unwrap();
    let printed = fails(at, &[&item[..], &small, &["--seeds", "1"]].concat(), 2);
    assert!(
        printed.contains("is of 2 seeds and would be overwritten"),
        "{printed}"
    );
    assert_eq!(fs::read(at.join("o/fig4/verdict.md")).unwrap(), verdict);
}

/// Runs of pFedMe over a rate that it does not use would all be the same.
#[test]
fn a_rate_that_an_algorithm_does_not_use_is_not_swept_over() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("s.toml"), SPEC).unwrap();
    for (kinds, over, own) in [
        (
            "apfl,pfedme",
            "training.learning_rate=0.1,0.2",
            "algorithm.rate",
        ),
        (
            "perfedavg",
            "training.schedule.factor=0.9,0.99",
            "algorithm.outer_rate",
        ),
        ("l2gd", "training.local_steps=3,5", "training.learning_rate"),
    ] {
        let kinds = format!("algorithm.kind={kinds}");
        let args = [
            "sweep", "s.toml", "--over", &kinds, "--over", over, "--out", "o",
        ];
        let printed = fails(at, &args, 2);
        for words in ["is not used by", own, "--over rate="] {
            assert!(printed.contains(words), "{printed}");
        }
        assert!(!at.join("o").exists(), "nothing was run");
    }
    // `rate` is each one's own, and the best of it is chosen for each.
    let args = [
        "sweep",
        "s.toml",
        "--over",
        "algorithm.kind=fedavg,pfedme,perfedavg",
        "--over",
        "rate=1e-9,0.05",
        "--best",
        "rate",
        "--out",
        "o",
        "--json",
    ];
    let lines: Value = serde_json::from_str(&ok(at, &args)).unwrap();
    assert_eq!(lines.as_array().unwrap().len(), 3);
    for (kind, table, key) in [
        ("fedavg", "training", "learning_rate"),
        ("pfedme", "algorithm", "rate"),
        ("perfedavg", "algorithm", "outer_rate"),
    ] {
        let spec = format!("o/runs/{kind},rate=0.05,seed=1/spec.toml");
        let spec: toml::Table = fs::read_to_string(at.join(spec)).unwrap().parse().unwrap();
        assert_eq!(spec[table][key].as_float(), Some(0.05), "{kind}");
    }
}

/// With test examples, scores are on test examples and the best is chosen on validation examples.
#[test]
fn the_best_is_chosen_on_validation_and_scored_on_test_examples() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(
        at.join("s.toml"),
        SPEC.replace("examples = 30", "examples = 40\ntest = 0.25"),
    )
    .unwrap();
    let rates = ["0.001", "0.03", "1.0"];
    let over = format!("rate={}", rates.join(","));
    let args = [
        "sweep", "s.toml", "--over", &over, "--best", "rate", "--out", "o",
    ];
    let table = ok(at, &args);
    assert!(table.contains("personal test accuracy"), "{table}");
    assert!(table.contains("scored on test examples"), "{table}");
    let pooled = |rate: &str, part: &str| {
        let summary = json(&at.join(format!("o/runs/rate={rate},seed=1/summary.json")));
        let accuracy = &summary["personal"]["pooled"][part]["accuracy"];
        accuracy.as_f64().unwrap()
    };
    let best = rates
        .into_iter()
        .reduce(|a, b| {
            if pooled(b, "valid") > pooled(a, "valid") {
                b
            } else {
                a
            }
        })
        .unwrap();
    let shown: Value = serde_json::from_str(&ok(at, &[&args[..], &["--json"]].concat())).unwrap();
    assert_eq!(shown[0]["set"]["rate"], best);
    assert_eq!(shown[0]["part"], "test");
    let close = |value: &Value, expected: f64| {
        assert!((value["mean"].as_f64().unwrap() - expected).abs() < 1e-12);
    };
    close(&shown[0]["personal"], pooled(best, "test"));
    close(&shown[0]["chosen_by"], pooled(best, "valid"));
    let csv = fs::read_to_string(at.join("o/sweep.csv")).unwrap();
    assert!(
        csv.starts_with("rate,seed,shared_test_loss,shared_test_accuracy,"),
        "{csv}"
    );
}
