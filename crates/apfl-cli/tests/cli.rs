//! Tests the program's main commands.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::files::{json, lines};
use crate::program::{apfl, ended, fails, ok};

/// Twelve clients and four rounds of the built-in example.
const SMALL: [&str; 4] = ["--set", "data.clients=12", "--set", "training.rounds=4"];

/// The same number on the paper's data, with a learned α.
const SYNTHETIC: [&str; 6] = [
    "--set",
    "data={ kind = 'synthetic', clients = 12 }",
    "--set",
    "algorithm={ kind = 'apfl' }",
    "--set",
    "training.rounds=4",
];

/// Three sites that follow y = a iff x0 > x1, each with its own offset.
fn write_table(path: &Path) {
    let mut text = String::from("site,x0,x1,kind,comment\n");
    for k in 0..90 {
        let site = ["north", "south", "west"][k % 3];
        let (x0, x1) = ((k * 7 % 19) as f64 / 19.0, (k * 5 % 17) as f64 / 17.0);
        let label = if x0 > x1 + 0.2 * (k % 3) as f64 - 0.2 {
            "a"
        } else {
            "b"
        };
        text.push_str(&format!("{site},{x0},{x1},{label},{k}\n"));
    }
    std::fs::write(path, text).unwrap();
}

const TABLE: &str = "
[data]
kind = 'table'
path = 'my.csv'
client = 'site'
label = 'kind'
standardize = true
[algorithm]
mixing = { fixed = 0.5 }
[training]
rounds = 5
";

/// Neither the shared model nor training alone is the best: the personal model is, in loss and
/// accuracy, for each of three seeds.
#[test]
fn the_built_in_run_shows_what_personalization_is_for() {
    let dir = tempfile::tempdir().unwrap();
    for seed in ["seed=1", "seed=2", "seed=3"] {
        let out = ok(dir.path(), &["run", "--json", "--quiet", "--set", seed]);
        let summary: Value = serde_json::from_str(&out).unwrap();
        let valid = |model: &str, score: &str| {
            let found = &summary[model]["pooled"]["valid"][score];
            found.as_f64().unwrap()
        };
        for other in ["shared", "localized", "alone"] {
            let less = valid("personal", "loss") < valid(other, "loss");
            assert!(less, "{seed}: loss of {other}");
            let more = valid("personal", "accuracy") > valid(other, "accuracy");
            assert!(more, "{seed}: accuracy of {other}");
        }
        let run = dir.path().join(summary["run"].as_str().unwrap());
        assert_eq!(
            json(&run.join("summary.json"))["fingerprint"],
            summary["fingerprint"]
        );
    }
    let table = ok(dir.path(), &[&["run", "--out", "r"], &SMALL[..]].concat());
    // The models in this order, then the verdict of `advise`.
    let mut rest = &table[..];
    for word in [
        "multisite",
        "shared",
        "localized",
        "alone",
        "personal",
        "majority class",
        "joining helps",
        "apfl advise r",
    ] {
        let place = rest.find(word);
        let place = place.unwrap_or_else(|| panic!("{word} is missing or too early in\n{table}"));
        rest = &rest[place..];
    }
    // The verdict is that of `advise`.
    let line = table.lines().find(|line| line.starts_with("joining helps"));
    let (verdict, _) = line.unwrap().split_once(" (apfl advise").unwrap();
    assert!(ok(dir.path(), &["advise", "r"]).contains(verdict));
    // `--set` applies to the built-in example, in which another kind replaces its own.
    let paper = [&["run", "--out", "s", "--quiet"], &SYNTHETIC[..]].concat();
    ok(dir.path(), &paper);
    let spec = std::fs::read_to_string(dir.path().join("s/spec.toml")).unwrap();
    assert!(spec.contains("\"synthetic\"") && spec.contains("adaptive = 0.01"));
}

/// At a small rate α stays at its start, so that personal models are the localized ones.
#[test]
fn a_run_whose_alpha_stayed_small_names_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let said = |more: &[&str]| {
        let slowly = ["run", "--set", "training.learning_rate=0.001"];
        let output = apfl(dir.path(), &[&slowly[..], &SYNTHETIC, more].concat());
        ended(&output, 0)
    };
    let learned = said(&["--out", "a"]);
    let line = learned.lines().find(|line| line.contains("the learned α"));
    let line = line.unwrap_or_else(|| panic!("{learned}"));
    for words in ["from 0.01)", "adaptive = 0.1", "chosen = [0"] {
        assert!(line.contains(words), "{words}: {line}");
    }
    let fixed = ["--set", "algorithm.mixing.fixed=0.01", "--out", "b"];
    assert!(!said(&fixed).contains("the learned α"));
}

/// Synthetic clients whose learned α goes to 0 within three rounds.
#[test]
fn clients_at_the_ends_of_alpha_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(
        at.join("s.toml"),
        "data.kind = 'synthetic'\ntraining.rounds = 2",
    )
    .unwrap();
    let table = ok(at, &["run", "s.toml", "--out", "r"]);
    let mixing = json(&at.join("r/summary.json"))["mixing"].clone();
    let alphas: Vec<f64> = lines(&at.join("r/clients.jsonl"))
        .iter()
        .map(|client| client["mixing"].as_f64().unwrap())
        .collect();
    let zero = alphas.iter().filter(|alpha| **alpha == 0.0).count();
    assert!(zero >= 10, "{alphas:?}");
    assert_eq!(mixing["at_zero"].as_u64(), Some(zero as u64));
    assert_eq!(mixing["at_one"].as_u64(), Some(0));
    assert_eq!(mixing["min"].as_f64(), Some(0.0));
    assert!(
        table.contains(&format!("α at 0: {zero} of 100 clients\n")),
        "{table}"
    );
    let higher = "start higher (algorithm.mixing = { adaptive = 0.1 })";
    assert!(table.contains(higher), "{table}");
    // A fixed α is where it was put.
    let fixed = ok(
        at,
        &[
            "run",
            "s.toml",
            "--set",
            "algorithm.mixing={ fixed = 0 }",
            "--out",
            "f",
        ],
    );
    assert!(!fixed.contains("α at 0"), "{fixed}");
    assert_eq!(json(&at.join("f/summary.json"))["mixing"]["at_zero"], 100);
}

#[test]
fn a_run_directory_has_what_the_contract_says() {
    let dir = tempfile::tempdir().unwrap();
    let out = [
        &[
            "run",
            "--out",
            "r",
            "--quiet",
            "--set",
            "evaluation.every=3",
        ],
        &SYNTHETIC[..],
    ]
    .concat();
    assert_eq!(ok(dir.path(), &out), "");
    let run = dir.path().join("r");
    for file in [
        "spec.toml",
        "environment.json",
        "schema.json",
        "models/shared.safetensors",
    ] {
        assert!(run.join(file).is_file(), "{file}");
    }
    let rounds = lines(&run.join("rounds.jsonl"));
    assert_eq!(rounds.len(), 4);
    for (k, round) in rounds.iter().enumerate() {
        assert_eq!(round["round"], k + 1);
        assert_eq!(round["step"], 10 * (k + 1));
        assert_eq!(round["cohort"], 12);
        // 610 parameters of four bytes, to and from twelve clients.
        assert_eq!(round["bytes_up"], 12 * 610 * 4);
        assert_eq!(round["bytes_down"], 12 * 610 * 4);
        let evaluated = k == 2 || k == 3; // every third, and the last
        assert_eq!(round.get("shared").is_some(), evaluated);
        assert_eq!(round.get("personal").is_some(), evaluated);
        assert!(round["mixing"]["q50"].is_number());
    }
    let clients = lines(&run.join("clients.jsonl"));
    assert_eq!(clients.len(), 12);
    for client in &clients {
        assert_eq!(client["rounds"], 4);
        let counts: u64 = client["classes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c.as_u64().unwrap())
            .sum();
        assert_eq!(client["examples"]["train"], counts);
    }
    let summary = json(&run.join("summary.json"));
    for statistic in ["pooled", "mean", "std", "worst_decile", "min"] {
        assert!(summary["personal"][statistic]["valid"]["accuracy"].is_number());
    }
    // The resolved spec runs again to the same bits, on another number of threads.
    ok(
        dir.path(),
        &[
            "run",
            "r/spec.toml",
            "--out",
            "again",
            "--threads",
            "3",
            "--quiet",
        ],
    );
    assert_eq!(
        json(&dir.path().join("again/summary.json"))["fingerprint"],
        summary["fingerprint"]
    );
    let message = fails(dir.path(), &["run", "--out", "r"], 2);
    assert!(message.contains("not empty"), "{message}");
}

#[test]
fn fingerprints_do_not_depend_on_threads() {
    let dir = tempfile::tempdir().unwrap();
    for kind in ["apfl", "fedavg", "local"] {
        let fingerprint = |threads: &str| {
            let kind = format!("algorithm.kind={kind}");
            let set = |pair| ["--set", pair];
            let args = [
                &["run", "--json", "--quiet", "--threads", threads][..],
                &set(&kind),
                &set("federation.participation=0.3"),
                &SMALL,
            ];
            let out = format!("{kind}-{threads}");
            let args = [&args.concat()[..], &["--out", &out]].concat();
            let document: Value = serde_json::from_str(&ok(dir.path(), &args)).unwrap();
            document["fingerprint"].as_str().unwrap().to_owned()
        };
        let one = fingerprint("1");
        assert_eq!(one, fingerprint("2"), "{kind}");
        assert_eq!(one, fingerprint("8"), "{kind}");
    }
}

#[test]
fn a_users_own_table_trains_predicts_and_exports() {
    let dir = tempfile::tempdir().unwrap();
    write_table(&dir.path().join("my.csv"));
    std::fs::write(dir.path().join("my.toml"), TABLE.replace(",comment", "")).unwrap();
    let check = ok(dir.path(), &["check", "my.toml"]);
    assert!(check.contains("clients      3"), "{check}");
    ok(dir.path(), &["run", "my.toml", "--out", "r", "--quiet"]);
    let schema = json(&dir.path().join("r/schema.json"));
    assert_eq!(schema["classes"], serde_json::json!(["a", "b"]));
    assert_eq!(
        schema["features"],
        serde_json::json!(["x0", "x1", "comment"])
    );

    let answers = ok(
        dir.path(),
        &["predict", "r", "--client", "south", "--input", "my.csv"],
    );
    let rows: Vec<&str> = answers.lines().collect();
    assert_eq!(rows[0], "client,class,score:a,score:b");
    assert_eq!(rows.len(), 91);
    for row in &rows[1..] {
        let cells: Vec<&str> = row.split(',').collect();
        let p: Vec<f64> = cells[2..].iter().map(|c| c.parse().unwrap()).collect();
        assert!((p[0] + p[1] - 1.0).abs() < 1e-5);
        assert_eq!(cells[0], "south");
        assert_eq!(cells[1], if p[0] >= p[1] { "a" } else { "b" });
    }
    std::fs::write(dir.path().join("short.csv"), "x1,x0\n1,2\n").unwrap();
    let message = fails(
        dir.path(),
        &["predict", "r", "--client", "south", "--input", "short.csv"],
        1,
    );
    assert!(message.contains("no column 'comment'"), "{message}");
    let message = fails(
        dir.path(),
        &["predict", "r", "--client", "suoth", "--input", "my.csv"],
        2,
    );
    assert!(message.contains("did you mean 'south'"), "{message}");

    for file in ["m.safetensors", "m.npz"] {
        ok(
            dir.path(),
            &[
                "export", "r", "--client", "west", "--model", "local", "--out", file,
            ],
        );
        assert!(dir.path().join(file).is_file());
    }
    ok(
        dir.path(),
        &["export", "r", "--model", "shared", "--out", "s.safetensors"],
    );
    fails(
        dir.path(),
        &["export", "r", "--model", "shared", "--out", "s.txt"],
        2,
    );
    // An exported model is a start for another run: zero rounds away from itself.
    ok(
        dir.path(),
        &[
            "run",
            "my.toml",
            "--set",
            "model.init=s.safetensors",
            "--quiet",
        ],
    );
}

#[test]
fn wrong_requests_end_with_2_and_list_every_problem() {
    let dir = tempfile::tempdir().unwrap();
    let message = fails(
        dir.path(),
        &[
            "run",
            "--set",
            "training.ruonds=3",
            "--set",
            "federation.participation=1.5",
            "--set",
            "training.local_steps=0",
            "--set",
            "algorithm.mixing.fixed=2",
        ],
        2,
    );
    for part in [
        "4 problems",
        "training.ruonds: unknown key; did you mean \"rounds\"?",
        "federation.participation: found 1.5, allowed is above 0, at most 1",
        "training.local_steps: found 0, allowed is at least 1",
        "algorithm.mixing: found { fixed = 2 }",
    ] {
        assert!(message.contains(part), "{part} is missing in\n{message}");
    }
    std::fs::write(dir.path().join("bad.toml"), "seed = = 1").unwrap();
    assert!(fails(dir.path(), &["run", "bad.toml"], 2).contains("bad.toml"));
    fails(dir.path(), &["no-such-command"], 2);
    fails(dir.path(), &["run", "--set", "seed"], 2);
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "only bad.toml: {left:?}");
}

#[test]
fn what_cannot_be_done_ends_with_1_and_leaves_no_result() {
    let dir = tempfile::tempdir().unwrap();
    assert!(fails(dir.path(), &["run", "missing.toml"], 1).contains("missing.toml"));
    let table = [
        "run",
        "--set",
        "data.kind=table",
        "--set",
        "data.path=none.csv",
    ];
    assert!(fails(dir.path(), &table, 1).contains("none.csv"));
    assert!(!dir.path().join("runs").exists());
    let explode = [
        &["run", "--out", "r", "--set", "training.learning_rate=1e30"],
        &SMALL[..],
    ]
    .concat();
    let message = fails(dir.path(), &explode, 1);
    assert!(
        message.contains("loss of client '") && message.contains("learning_rate"),
        "{message}"
    );
    assert!(!dir.path().join("r/summary.json").exists());
    assert!(!dir.path().join("r/clients.jsonl").exists());
    let message = fails(
        dir.path(),
        &["export", "r", "--model", "shared", "--out", "x.npz"],
        1,
    );
    assert!(message.contains("the run is not finished"), "{message}");
}

#[test]
fn a_spec_of_one_algorithm_runs_another() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("a.toml"),
        "[algorithm]\nkind = 'apfl'\nmixing = { fixed = 0.5 }\n[data]\nclients = 5\n[training]\nrounds = 2",
    )
    .unwrap();
    ok(
        dir.path(),
        &[
            "run",
            "a.toml",
            "--set",
            "algorithm.kind=fedavg",
            "--out",
            "r",
            "--quiet",
        ],
    );
    let spec = std::fs::read_to_string(dir.path().join("r/spec.toml")).unwrap();
    assert!(!spec.contains("mixing"), "{spec}");
    let message = fails(
        dir.path(),
        &[
            "run",
            "a.toml",
            "--set",
            "algorithm.kind=fedavg",
            "--set",
            "algorithm.mixin=1",
        ],
        2,
    );
    assert!(message.contains("algorithm.mixin"), "{message}");
}

#[test]
fn init_writes_a_spec_that_checks() {
    let dir = tempfile::tempdir().unwrap();
    ok(dir.path(), &["init", "my.toml"]);
    assert_eq!(
        std::fs::read_to_string(dir.path().join("my.toml")).unwrap(),
        ok(dir.path(), &["init"])
    );
    let printed = ok(dir.path(), &["check", "my.toml"]);
    assert!(printed.contains("the spec is fine"), "{printed}");
    assert!(
        printed.contains("data.gamma = 1 changes nothing"),
        "{printed}"
    );
    fails(dir.path(), &["init", "my.toml"], 2);
    assert!(ok(dir.path(), &["completions", "bash"]).contains("apfl"));
    assert!(ok(dir.path(), &["run", "--help"]).contains("Examples:"));
}
