//! Tests raw tables: predict and evaluate by client, stdin, the directory of a join.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::files::{json, lines};
use crate::program::{fails, has, ok};

const SPEC: &str = "[data]
kind = 'table'
path = 'all.csv'
standardize = 'client'
[algorithm]
mixing = { fixed = 0.5 }
[training]
rounds = 5
learning_rate = 0.1
";

/// Rows of three clients, with a gap and a category, and those of validation alone.
fn write(dir: &Path) {
    let head = "patient,client,label,split,age,kind\n";
    let (mut all, mut valid) = (head.to_string(), head.to_string());
    for k in 0..90 {
        let client = ["north", "south", "west"][k % 3];
        let split = ["train", "train", "train", "valid"][k * 7 / 3 % 4];
        let age = if k % 11 == 0 {
            String::new()
        } else {
            (20 + k * 37 % 61).to_string()
        };
        let label = if (k * 37 % 61) + (k * 13 % 17) > 35 {
            "ill"
        } else {
            "well"
        };
        let kind = ["red", "blue"][k * 5 / 3 % 2];
        let row = format!("p{k},{client},{label},{split},{age},{kind}\n");
        if split == "valid" {
            valid += &row;
        }
        all += &row;
    }
    std::fs::write(dir.join("all.csv"), all).unwrap();
    std::fs::write(dir.join("valid.csv"), valid).unwrap();
    let spec = SPEC.replace("standardize", "ignore = ['patient']\nstandardize");
    std::fs::write(dir.join("t.toml"), spec).unwrap();
}

#[test]
fn evaluate_on_the_validation_rows_gives_the_scores_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    ok(dir.path(), &["run", "t.toml", "--out", "r", "--quiet"]);
    let clients = lines(&dir.path().join("r/clients.jsonl"));
    for model in ["shared", "localized", "personal"] {
        let args = [
            "evaluate",
            "r",
            "--input",
            "valid.csv",
            "--model",
            model,
            "--json",
        ];
        let scores: serde_json::Value = serde_json::from_str(&ok(dir.path(), &args)).unwrap();
        let lines = scores["clients"].as_array().unwrap();
        for record in &clients {
            let of = |line: &&serde_json::Value| line["client"] == record["client"];
            let line = lines.iter().find(of).unwrap();
            for name in [
                "loss",
                "accuracy",
                "balanced_accuracy",
                "f1",
                "auc",
                "brier",
            ] {
                let number = |v: &serde_json::Value| v.as_f64();
                match (number(&record[model]["valid"][name]), number(&line[name])) {
                    (Some(a), Some(b)) => assert!((a - b).abs() < 1e-9, "{name}: {a} {b}"),
                    (a, b) => assert_eq!(a, b, "{name}"),
                }
            }
            assert_eq!(record[model]["valid"]["confusion"], line["confusion"]);
        }
        let pooled = &json(&dir.path().join("r/summary.json"))[model]["pooled"]["valid"];
        assert_eq!(pooled["auc"], scores["total"]["auc"]);
        assert_eq!(pooled["confusion"], scores["total"]["confusion"]);
    }
}

#[test]
fn a_whole_table_is_served_row_by_row_by_its_clients_models() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    ok(dir.path(), &["run", "t.toml", "--out", "r", "--quiet"]);
    let rows = [
        "predict",
        "r",
        "--input",
        "valid.csv",
        "--id",
        "patient",
        "--id",
        "client",
    ];
    let whole = ok(dir.path(), &rows);
    let mut answers = whole.lines();
    let head = "patient,input:client,client,class,score:ill,score:well";
    assert_eq!(answers.next(), Some(head));
    let of_south: Vec<&str> = answers
        .filter(|row| row.contains(",south,south,"))
        .collect();
    let one = ok(
        dir.path(),
        &[
            "predict",
            "r",
            "--input",
            "valid.csv",
            "--client",
            "south",
            "--id",
            "patient",
        ],
    );
    for row in of_south {
        let row = row.replace(",south,south,", ",south,");
        assert!(one.contains(&row), "{row} in\n{one}");
    }
    // The same from stdin; an unknown client is served by the shared model and counted.
    let program = || Command::new(env!("CARGO_BIN_EXE_apfl"));
    let mut child = program()
        .current_dir(dir.path())
        .args(["predict", "r", "--input", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = "client,age,kind\nsouth,40,red\nnobody,40,green\n";
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 3);
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(
        printed.contains("1 row of clients that the run does not know"),
        "{printed}"
    );
    assert!(printed.contains("kind (1)"), "{printed}");
}

/// The rows of one client of the table, under another name.
fn new_client(at: &Path, client: &str, name: &str) {
    let all = std::fs::read_to_string(at.join("all.csv")).unwrap();
    let own = |line: &&str| line.starts_with("patient") || line.contains(client);
    let rows: Vec<String> = (all.lines().filter(own))
        .map(|line| line.replace(client, name) + "\n")
        .collect();
    std::fs::write(at.join("new rows.csv"), rows.concat()).unwrap();
}

#[test]
fn the_directory_of_a_join_predicts_evaluates_and_exports() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    write(at);
    ok(at, &["run", "t.toml", "--out", "r", "--quiet"]);
    new_client(at, "north", "east");
    let join = ["join", "r", "--data", "new rows.csv", "--out", "j"];
    ok(at, &join);
    // The client column has the new client's name, and its model predicts.
    let by = |more: &[&str]| {
        let args = [&["predict", "j", "--input", "new rows.csv"], more].concat();
        ok(at, &args)
    };
    let named = by(&["--client", "east"]);
    assert_eq!(named.lines().count(), 31);
    assert_eq!(by(&[]), named);
    assert_ne!(by(&["--model", "shared"]), named);
    // Without a client column, the only client's model is used.
    let text = std::fs::read_to_string(at.join("new rows.csv")).unwrap();
    std::fs::write(at.join("bare.csv"), text.replacen("client", "site", 1)).unwrap();
    let bare = ok(at, &["predict", "j", "--input", "bare.csv"]);
    let answers = |text: &str| -> Vec<String> {
        let last = |line: &str| line.rsplit(',').next().unwrap().to_owned();
        text.lines().map(last).collect()
    };
    assert_eq!(answers(&bare), answers(&named));
    let export = ["export", "j", "--client", "east", "--model", "localized"];
    ok(at, &[&export[..], &["--out", "e.npz"]].concat());

    // Existing files are not overwritten by a join, an export or a report.
    let before = std::fs::read(at.join("j/clients.jsonl")).unwrap();
    for out in ["j", "r"] {
        let again = ["join", "r", "--data", "new rows.csv", "--out", out];
        has(&fails(at, &again, 2), &["--out", "not empty"]);
    }
    let own = ["--out", "r/models/personal.safetensors"];
    has(
        &fails(at, &[&export[..], &own].concat(), 2),
        &["a run's own"],
    );
    has(
        &fails(at, &["report", "r", "--out", "all.csv"], 2),
        &["must end in .html"],
    );
    assert_eq!(std::fs::read(at.join("j/clients.jsonl")).unwrap(), before);
    // Several clients are not one new client.
    let printed = fails(at, &["join", "r", "--data", "all.csv"], 1);
    has(&printed, &["names 3 clients (north, south, west)"]);
}

#[test]
fn missing_columns_are_reported_together() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    write(at);
    let wrong = [
        "check",
        "t.toml",
        "--set",
        "data.label=Label",
        "--set",
        "data.client=Client",
    ];
    let printed = fails(at, &wrong, 1);
    has(
        &printed,
        &[
            "'Client' (data.client), did you mean 'client'?",
            "'Label' (data.label)",
        ],
    );
    // Numbers are named, gaps of categories are counted.
    let text = std::fs::read_to_string(at.join("all.csv")).unwrap();
    std::fs::write(
        at.join("gaps.csv"),
        text.replace(",train,46,red", ",train,46,"),
    )
    .unwrap();
    let printed = ok(at, &["check", "t.toml", "--set", "data.path=gaps.csv"]);
    has(
        &printed,
        &[
            "kind: 2 categories, 1 missing cell is none of these",
            "age: ",
        ],
    );
    ok(at, &["run", "t.toml", "--out", "r", "--quiet"]);
    std::fs::write(at.join("few.csv"), "client,x\nnorth,1\n").unwrap();
    let printed = fails(at, &["predict", "r", "--input", "few.csv"], 1);
    has(&printed, &["no columns 'age', 'kind'"]);
    std::fs::write(at.join("none.csv"), "").unwrap();
    has(
        &fails(at, &["predict", "r", "--input", "none.csv"], 1),
        &["is empty"],
    );
    // A score that the task does not have; keys that another kind does not have.
    let sweep = ["sweep", "t.toml", "--over", "algorithm.kind=apfl,fedavg"];
    let by = [&sweep[..], &["--by", "rmse"]].concat();
    has(&fails(at, &by, 2), &["--by rmse", "predicts a class"]);
    let set = [
        "--set",
        "algorithm.mixing={ fixed = 0.25 }",
        "--quiet",
        "--out",
        "s",
    ];
    ok(at, &[&sweep[..], &set].concat());
}
