//! Raw tables through the program: predict and evaluate by client, stdin, what a join leaves.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::files::{json, lines};
use crate::program::ok;

const SPEC: &str = "[data]
kind = 'table'
path = 'all.csv'
standardize = 'client'
[algorithm]
mixing = { fixed = 0.5 }
[training]
rounds = 5
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
    // From stdin the same; a stranger is served by the shared model, and counted.
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
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("1 row of clients that the run does not know"),
        "{said}"
    );
    assert!(said.contains("kind (1)"), "{said}");
}

#[test]
fn what_a_join_leaves_can_be_asked() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path());
    ok(dir.path(), &["run", "t.toml", "--out", "r", "--quiet"]);
    let all = std::fs::read_to_string(dir.path().join("all.csv")).unwrap();
    std::fs::write(dir.path().join("east.csv"), all.replace("north", "east")).unwrap();
    ok(
        dir.path(),
        &["join", "r", "--data", "east.csv", "--out", "j"],
    );
    let args = ["predict", "j", "--client", "east", "--input", "east.csv"];
    assert_eq!(ok(dir.path(), &args).lines().count(), 91);
    let args = [
        "export",
        "j",
        "--client",
        "east",
        "--model",
        "localized",
        "--out",
        "e.npz",
    ];
    ok(dir.path(), &args);
}
