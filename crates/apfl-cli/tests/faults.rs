//! Tests faults around a run: errors name the file or the client, no file is incomplete, and the run
//! can be continued afterwards.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::files::{json, lines};
use crate::program::{apfl, ended, fails, has, ok};
use crate::state::{fingerprint, records};

const APFL: &str = env!("CARGO_BIN_EXE_apfl");

/// 12 rounds of 10 clients, 63 parameters each.
const SMALL: [&str; 13] = [
    "run",
    "--set",
    "data.clients=10",
    "--set",
    "data.features=20",
    "--set",
    "data.classes=3",
    "--set",
    "data.max_examples=100",
    "--set",
    "training.rounds=12",
    "--set",
    "checkpoint.every=2",
];

fn no_temporary_files(directory: &Path) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        assert!(path.extension().is_none_or(|e| e != "tmp"), "{path:?}");
        if path.is_dir() {
            no_temporary_files(&path);
        }
    }
}

/// Runs `apfl` in a shell in which no file may grow beyond that many blocks of 512 bytes
/// and a write beyond is an error, not a signal.
#[cfg(unix)]
fn with_short_files(directory: &Path, blocks: usize, args: &[&str]) -> Output {
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
    Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(APFL)
        .args(args)
        .current_dir(directory)
        .output()
        .unwrap()
}

/// Wherever the space ends, the error names the file, no file is incomplete, and the resumed run ends
/// with the same bits.
#[cfg(unix)]
#[test]
fn a_full_disk_ends_the_run_and_resume_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    // In rounds.jsonl, after checkpoints; in the first checkpoint's client states (10 clients
    // of 256 bytes); in the models, when all rounds are done; in the scratch file of
    // client states (40 kB each, 1 MB of them in RAM).
    let short = ["--set", "evaluation.every=1"];
    let rare = ["--set", "evaluation.every=100"];
    let kept = [
        "--set",
        "evaluation.every=100",
        "--set",
        "checkpoint.every=0",
    ];
    let disk = [
        "--set",
        "evaluation.every=100",
        "--set",
        "engine.memory=disk",
        "--set",
        "engine.budget_mb=1",
        "--set",
        "model={ kind = 'mlp', hidden = [400] }",
        "--set",
        "data.clients=60",
        "--set",
        "checkpoint.every=0",
    ];
    let cases: [(&str, &[&str], usize, &str); 4] = [
        ("rounds", &short, 12, "rounds.jsonl: cannot write"),
        ("memories", &rare, 4, "memories-2.safetensors: cannot write"),
        ("models", &kept, 4, "cannot write"),
        ("scratch", &disk, 400, "memories.scratch: cannot write"),
    ];
    for (name, more, blocks, message) in cases {
        let whole = format!("whole-{name}");
        let args = [&SMALL[..], more, &["--quiet", "--out"]].concat();
        ok(dir.path(), &[&args[..], &[&whole]].concat());
        let output = with_short_files(dir.path(), blocks, &[&args[..], &[name]].concat());
        has(&ended(&output, 1), &[message, "File too large"]);
        let run = dir.path().join(name);
        no_temporary_files(&run);
        assert!(!run.join("summary.json").exists(), "{name}");
        assert!(!run.join("memories.scratch").exists(), "{name}");
        ok(dir.path(), &["run", "--resume", "--quiet", "--out", name]);
        let whole = fingerprint(&dir.path().join(whole));
        assert_eq!(fingerprint(&run), whole, "{name}");
        assert_eq!(records(&run).len(), 12, "{name}");
    }
}

/// If the space ends at the last file, only the report is missing, and resuming the finished run
/// writes it.
#[cfg(unix)]
#[test]
fn a_report_without_space_is_written_by_resume() {
    let dir = tempfile::tempdir().unwrap();
    let args = [&SMALL[..], &["--quiet", "--out", "r"]].concat();
    let output = with_short_files(dir.path(), 40, &args);
    has(&ended(&output, 1), &["report.html: cannot write"]);
    let run = dir.path().join("r");
    no_temporary_files(&run);
    let whole = fingerprint(&run);
    assert!(!run.join("report.html").exists());
    ok(dir.path(), &["run", "--resume", "--quiet", "--out", "r"]);
    assert!(run.join("report.html").exists());
    assert_eq!(fingerprint(&run), whole);
}

/// The same with a file system of 32 kB that is then enlarged, and a read-only one, if a test may
/// mount one.
#[cfg(target_os = "linux")]
#[test]
fn a_small_and_a_read_only_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        mount -t tmpfs -o size=32k none disk || exit 99
        "$@" --quiet --out disk/r; echo "full: $?" >&2
        mount -o remount,size=20m disk || exit 99
        "$0" run --resume --quiet --out disk/r; echo "resumed: $?" >&2
        cat disk/r/summary.json
        mount -o remount,ro disk || exit 99
        "$@" --quiet --out disk/new; echo "read-only: $?" >&2
        "$0" run --resume --quiet --out disk/r; echo "finished: $?" >&2
    "#;
    std::fs::create_dir(dir.path().join("disk")).unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script])
        .arg(APFL)
        .arg(APFL)
        .args(SMALL)
        .current_dir(dir.path())
        .output();
    let output = match output {
        Ok(output) if !matches!(output.status.code(), Some(0)) => {
            // No right to make a namespace or to mount: nothing can be said here.
            let printed = String::from_utf8_lossy(&output.stderr);
            crate::skipped::skipped(&format!(
                "a full disk, for no file system can be mounted: {}",
                printed.trim()
            ));
            return;
        }
        Err(error) => {
            crate::skipped::skipped(&format!("a full disk, for there is no unshare: {error}"));
            return;
        }
        Ok(output) => output,
    };
    let parts = [
        "No space left on device",
        "full: 1",
        "resumed: 0",
        "Read-only file system",
        "read-only: 1",
        "finished: 0",
    ];
    has(&ended(&output, 0), &parts);
    ok(
        dir.path(),
        &[&SMALL[..], &["--quiet", "--out", "whole"]].concat(),
    );
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    let whole = fingerprint(&dir.path().join("whole"));
    assert_eq!(summary["fingerprint"], whole.as_str());
}

#[cfg(unix)]
#[test]
fn errors_name_a_path_that_cannot_be_written() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let printed = fails(dir.path(), &[&SMALL[..], &["--out", "file/r"]].concat(), 1);
    has(&printed, &["file/r: cannot create"]);
    // Results that cannot be shown are an error too.
    if let Ok(full) = std::fs::File::options().write(true).open("/dev/full") {
        let args = [&SMALL[..], &["--json", "--out", "shown"]].concat();
        let output = Command::new(APFL)
            .args(args)
            .current_dir(dir.path())
            .stdout(Stdio::from(full))
            .output()
            .unwrap();
        has(&ended(&output, 1), &["stdout: cannot write"]);
        assert!(dir.path().join("shown/summary.json").exists());
    }
}

/// A run whose checkpoints are deleted repeatedly ends as if undisturbed.
#[test]
fn a_checkpoint_directory_deleted_while_running() {
    let dir = tempfile::tempdir().unwrap();
    let longer = ["--quiet", "--set", "training.rounds=300"];
    let often = ["--set", "checkpoint.every=1", "--out"];
    let args = [&SMALL[..], &longer, &often].concat();
    ok(dir.path(), &[&args[..], &["whole"]].concat());
    let mut child = Command::new(APFL)
        .args([&args[..], &["r"]].concat())
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let checkpoints = dir.path().join("r/checkpoint");
    let (mut deleted, started) = (0, Instant::now());
    while child.try_wait().unwrap().is_none() {
        deleted += u32::from(std::fs::remove_dir_all(&checkpoints).is_ok());
        // Closely until it is there, not to miss a quick run; then ever more seldom, so that a
        // slow machine gets a checkpoint through.
        let pause = if deleted == 0 {
            1
        } else {
            150 << deleted.min(8)
        };
        std::thread::sleep(Duration::from_millis(pause));
        assert!(started.elapsed() < Duration::from_secs(300), "it hangs");
    }
    let output = child.wait_with_output().unwrap();
    ended(&output, 0);
    assert!(deleted > 0, "never there to be deleted");
    let (run, whole) = (dir.path().join("r"), dir.path().join("whole"));
    assert_eq!(fingerprint(&run), fingerprint(&whole));
}

/// Three linearly separable clients, and `zzz`, whose first feature is 1e38.
fn write_table(path: &Path) {
    let mut text = String::from("client,label,a,b\n");
    for (k, client) in ["ann", "bob", "eve", "zzz"].into_iter().enumerate() {
        for row in 0..20 {
            let (a, b) = ((row as f64 * 0.37 + k as f64).sin(), (row as f64).cos());
            let a = if client == "zzz" { 1e38 } else { a };
            text += &format!(
                "{client},{},{a},{b}\n",
                u8::from(a + b > 0.1 && row % 7 > 0)
            );
        }
    }
    std::fs::write(path, text).unwrap();
}

const TABLE: [&str; 9] = [
    "run",
    "--set",
    "data={ kind = 'table', path = 't.csv' }",
    "--set",
    "training.rounds=6",
    "--set",
    "checkpoint.every=2",
    "--set",
    "training.learning_rate=0.1",
];

#[test]
fn a_client_whose_loss_is_not_finite_stops_the_run_or_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    write_table(&dir.path().join("t.csv"));
    let printed = fails(dir.path(), &[&TABLE[..], &["--out", "stop"]].concat(), 1);
    has(&printed, &["the loss of client 'zzz' became", "in round 1"]);
    assert!(!dir.path().join("stop/summary.json").exists());
    let again = fails(dir.path(), &["run", "--resume", "--out", "stop"], 1);
    has(&again, &["the loss of client 'zzz' became"]);

    let skip = ["--set", "training.on_nonfinite=skip", "--out", "skip"];
    let output = apfl(dir.path(), &[&TABLE[..], &skip].concat());
    let left_out = "left out, because their loss is not finite: zzz";
    let expected = ["round 6", "finalization"].map(|when| format!("{when}: {left_out}"));
    has(&ended(&output, 0), &[&expected[0], &expected[1]]);
    let run = dir.path().join("skip");
    for record in lines(&run.join("rounds.jsonl")) {
        assert_eq!(record["skipped"], serde_json::json!(["zzz"]));
        assert_eq!(record["cohort"], 3);
    }
    let summary = json(&run.join("summary.json"));
    assert_eq!(summary["skipped"], serde_json::json!(["zzz"]));
    assert_eq!(summary["clients"], 3);
    assert_eq!(lines(&run.join("clients.jsonl")).len(), 3);
    // Who was left out changed nobody: as if it had never been in the table.
    let text = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
    let others: Vec<&str> = text.lines().filter(|l| !l.starts_with("zzz")).collect();
    std::fs::write(dir.path().join("t.csv"), others.join("\n")).unwrap();
    ok(
        dir.path(),
        &[&TABLE[..], &["--quiet", "--out", "three"]].concat(),
    );
    let shared =
        |run: &str| std::fs::read(dir.path().join(run).join("models/shared.safetensors")).unwrap();
    assert_eq!(shared("skip"), shared("three"));
}

#[test]
fn errors_name_a_data_file_that_changed_or_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let table = dir.path().join("t.csv");
    write_table(&table);
    let text = std::fs::read_to_string(&table)
        .unwrap()
        .replace("1e38", "0.5");
    let text = text.replace("100000000000000000000000000000000000000", "0.5");
    std::fs::write(&table, &text).unwrap();
    ok(
        dir.path(),
        &[&TABLE[..], &["--quiet", "--out", "r"]].concat(),
    );
    let run = dir.path().join("r");
    let before = fingerprint(&run);
    std::fs::remove_file(run.join("summary.json")).unwrap();
    let refused = || fails(dir.path(), &["run", "--resume", "--out", "r"], 1);
    let rounds = std::fs::read(run.join("rounds.jsonl")).unwrap();

    std::fs::write(&table, format!("{text}eve,1,0.5,0.5\n")).unwrap();
    has(
        &refused(),
        &["t.csv", "has changed since the run was begun"],
    );
    std::fs::remove_file(&table).unwrap();
    has(&refused(), &["t.csv"]);
    assert_eq!(std::fs::read(run.join("rounds.jsonl")).unwrap(), rounds);
    assert!(!run.join("summary.json").exists());

    std::fs::write(&table, &text).unwrap();
    ok(dir.path(), &["run", "--resume", "--quiet", "--out", "r"]);
    assert_eq!(fingerprint(&run), before);
}

#[test]
fn attackers_are_marked_and_not_scored() {
    let dir = tempfile::tempdir().unwrap();
    let attack = [
        "--set",
        "federation.aggregation=median",
        "--set",
        "federation.attack=sign-flip",
        "--out",
        "r",
    ];
    let output = apfl(dir.path(), &[&SMALL[..], &attack].concat());
    has(&ended(&output, 0), &["sign-flip by 2 of 10 clients"]);
    let clients = lines(&dir.path().join("r/clients.jsonl"));
    let (bad, good): (Vec<&Value>, Vec<&Value>) =
        clients.iter().partition(|c| c["attacker"] == true);
    assert_eq!((bad.len(), good.len()), (2, 8));
    let summary = json(&dir.path().join("r/summary.json"));
    assert_eq!(
        (&summary["clients"], &summary["attackers"]),
        (&8.into(), &2.into())
    );
    let accuracy = |c: &&Value| c["personal"]["valid"]["accuracy"].as_f64().unwrap();
    let mean = good.iter().map(accuracy).sum::<f64>() / 8.0;
    let score = summary["personal"]["mean"]["valid"]["accuracy"]
        .as_f64()
        .unwrap();
    assert!((mean - score).abs() < 1e-12, "{mean} {score}");
}
