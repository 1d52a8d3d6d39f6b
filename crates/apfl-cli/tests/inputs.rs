//! Tests invalid inputs: files, names, specs.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use crate::program::{ended, fails, has};
use crate::short_run::run;

#[cfg(unix)]
#[test]
fn a_table_that_is_a_pipe_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_apfl"))
        .args([
            "run",
            "--set",
            "data.kind=table",
            "--set",
            "data.path=/dev/stdin",
        ])
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _ = child
        .stdin
        .take()
        .unwrap()
        .write_all(b"client,label,x\na,0,1\n");
    has(
        &ended(&child.wait_with_output().unwrap(), 1),
        &["/dev/stdin", "not a regular file"],
    );
    // A pipe without a writer does not block.
    let pipe = dir.path().join("pipe.csv");
    assert!(
        Command::new("mkfifo")
            .arg(&pipe)
            .status()
            .unwrap()
            .success()
    );
    let args = ["check", "t.toml"];
    let spec = "[data]\nkind = 'table'\npath = 'pipe.csv'\n";
    fs::write(dir.path().join("t.toml"), spec).unwrap();
    has(
        &fails(dir.path(), &args, 1),
        &["pipe.csv", "not a regular file"],
    );
}

#[test]
fn what_is_not_a_table_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("t.toml"), "[data]\nkind = 'table'\npath = 'f'\n").unwrap();
    for (bytes, words) in [
        (&b"ARROW1\0\0"[..], "Arrow"),
        (&[0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1], "IDX file of images"),
        (b"\x89PNG\r\n\x1a\n", "PNG image"),
        (b"PK\x03\x04 rest", "zip archive"),
    ] {
        fs::write(at.join("f"), bytes).unwrap();
        has(&fails(at, &["check", "t.toml"], 1), &["f: is a", words]);
    }
    // An unclosed quote is reported with the line where it opened.
    let rows: String = (0..20).map(|k| format!("a,{},{k}\n", k % 2)).collect();
    let table = format!("client,x,label\n{rows}a,1,\"0\n{rows}");
    fs::write(at.join("f"), table).unwrap();
    has(&fails(at, &["check", "t.toml"], 1), &["line 22", "quote"]);
    // A spec in another encoding is an invalid request.
    let utf16: Vec<u8> = [0xff, 0xfe]
        .into_iter()
        .chain("seed = 1".encode_utf16().flat_map(u16::to_le_bytes))
        .collect();
    fs::write(at.join("u.toml"), utf16).unwrap();
    has(&fails(at, &["run", "u.toml"], 2), &["u.toml", "UTF-16"]);
    if cfg!(unix) {
        has(
            &fails(at, &["check", "/dev/zero"], 2),
            &["/dev/zero", "larger than 16 MB and cannot be a spec"],
        );
    }
    let deep = format!("{}=1", vec!["a"; 60_000].join("."));
    has(&fails(at, &["run", "--set", &deep], 2), &["deep"]);
    has(
        &fails(at, &["run", "--set", "training.rounds=5.5"], 2),
        &["a whole number"],
    );
}

#[test]
fn names_do_not_control_the_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(
        at.join("t.toml"),
        "[data]\nkind = 'table'\npath = 'f.csv'\n",
    )
    .unwrap();
    fs::write(
        at.join("f.csv"),
        "client,label,x\nev\u{1b}[2Jil,0,one\nb,1,2\n",
    )
    .unwrap();
    let printed = fails(at, &["check", "t.toml"], 1);
    assert!(!printed.contains('\u{1b}'), "{printed:?}");
}

#[test]
fn a_damaged_schema_and_rows_beyond_numbers_are_errors_of_predict() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    run(at, "r", &[]);
    fs::write(at.join("x.csv"), "x0,x1,x2,x3\n0,2,3,4\n1,2,3,4\n").unwrap();
    let predict = [
        "predict", "r", "--input", "x.csv", "--client", "0", "--model", "shared",
    ];
    let features: Vec<String> = (0..4).map(|k| format!("x{k}")).collect();
    let schema = fs::read_to_string(at.join("r/schema.json")).unwrap();
    assert!(
        features.iter().all(|name| schema.contains(name)),
        "{schema}"
    );
    for damaged in [
        schema.replacen("\"x0\",", "", 1),
        schema.replacen("\"shape\": [\n    4", "\"shape\": [\n    0", 1),
        schema[..schema.len() / 2].to_owned(),
        String::new(),
    ] {
        fs::write(at.join("r/schema.json"), &damaged).unwrap();
        has(&fails(at, &predict, 1), &["schema.json"]);
        fs::write(
            at.join("n.csv"),
            "x0,x1,x2,x3,label\n1,2,3,4,0\n4,3,2,1,1\n",
        )
        .unwrap();
        has(
            &fails(at, &["join", "r", "--data", "n.csv"], 1),
            &["schema.json"],
        );
    }
    fs::write(at.join("r/schema.json"), &schema).unwrap();
    // A diverged model is an error instead of predicting the first class.
    let file = at.join("r/models/shared.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    has(&fails(at, &predict, 1), &["row 1", "NaN"]);
}
