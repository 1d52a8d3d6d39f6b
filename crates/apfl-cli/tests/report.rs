//! Tests the report: its numbers, its robustness, and its display in a browser.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::files::{json, lines};
use crate::program::{fails, ok};
use crate::skipped::skipped;

fn run(directory: &Path, name: &str, more: &[&str]) {
    let mut args = vec!["run", "--quiet", "--out", name];
    let synthetic = [
        "data={ kind = 'synthetic', clients = 12 }",
        "algorithm={ kind = 'apfl' }",
        "training.rounds=4",
    ];
    for pair in synthetic.iter().chain(more) {
        args.extend(["--set", pair]);
    }
    ok(directory, &args);
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Returns the page's DOM after loading in a browser, and console messages; `None` without a browser.
fn browsed(page: &Path) -> Option<(String, Vec<String>)> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let profile = tempfile::tempdir().unwrap();
    for name in names {
        let output = Command::new(name)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--enable-logging=stderr",
                "--v=0",
                "--dump-dom",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("file://{}", page.display()))
            .output();
        let Ok(output) = output else { continue };
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        let messages = errors.lines().filter(|line| line.contains("CONSOLE"));
        return Some((
            String::from_utf8(output.stdout).unwrap(),
            messages.map(String::from).collect(),
        ));
    }
    skipped(
        "no chromium on this machine, so the report was not opened in a browser; \
         `apt-get install chromium` lets this test run",
    );
    None
}

/// Returns the cells of the row whose first cell is `first`.
fn row(dom: &str, first: &str) -> Vec<String> {
    let start = dom.find(&format!("<tr><td>{first}</td>")).unwrap();
    let end = start + dom[start..].find("</tr>").unwrap();
    let text = |cell: &str| Some(cell.split_once('>')?.1.split("</td>").next()?.to_string());
    dom[start..end]
        .split("<td")
        .filter_map(text)
        .skip(1)
        .collect()
}

#[test]
fn a_browser_shows_the_runs_numbers_without_errors() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here, "a", &[]);
    assert_eq!(ok(here, &["report", "a"]).trim(), "a/report.html");
    let Some((dom, messages)) = browsed(&here.join("a/report.html")) else {
        return;
    };
    assert_eq!(messages, Vec::<String>::new());
    let summary = json(&here.join("a/summary.json"));
    for model in ["shared", "localized", "personal"] {
        let cells = row(&dom, model);
        let number =
            |of: &str, split: &str, what: &str| summary[model][of][split][what].as_f64().unwrap();
        let loss = number("pooled", "valid", "loss");
        assert_eq!(cells[1], format!("{loss:.4}"), "{model}");
        for (column, of) in [
            (2, "pooled"),
            (3, "mean"),
            (4, "std"),
            (5, "worst_decile"),
            (6, "min"),
        ] {
            let share = number(of, "valid", "accuracy");
            assert_eq!(
                cells[column],
                format!("{:.2}%", 100.0 * share),
                "{model} {of}"
            );
        }
    }
    // Four charts of curves tell the last round's values; the calibration, α's two, the
    // clients' three and the costs' two follow, and the class mix.
    assert_eq!(dom.matches("<figure").count(), 4 + 1 + 2 + 3 + 2 + 1);
    let rounds = lines(&here.join("a/rounds.jsonl"));
    let last = rounds.last().unwrap();
    let share = last["personal"]["valid"]["accuracy"].as_f64().unwrap();
    let expected = format!("personal {:.2}%</title>", 100.0 * share);
    assert!(
        dom.contains("round 4\n") && dom.contains(&expected),
        "{expected}"
    );
    // A dot for each of the 12 clients, against shared and against a constant answer.
    assert_eq!(dom.matches("<circle").count(), 24);
    for client in lines(&here.join("a/clients.jsonl")) {
        let share = |m: &str| 100.0 * client[m]["valid"]["accuracy"].as_f64().unwrap();
        let expected = format!(
            "<title>{}\nshared {:.2}%\nlocalized {:.2}%\npersonal {:.2}%\n",
            client["client"].as_str().unwrap(),
            share("shared"),
            share("localized"),
            share("personal")
        );
        assert!(dom.contains(&expected), "{expected}");
    }
}

#[test]
fn runs_of_every_kind_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here, "plain", &[]);
    run(
        here,
        "fedavg",
        &["algorithm.kind=fedavg", "evaluation.every=3"],
    );
    run(here, "silent", &["delivery.clients=none", "seed=7"]);
    let mut table = String::from("client,label,x\n");
    (0..60).for_each(|k| table.push_str(&format!("c{},{},{}\n", k % 3, k * 2, k)));
    std::fs::write(here.join("line.csv"), table).unwrap();
    let spec = "data = { kind = 'table', path = 'line.csv', task = 'regression', standardize = true }\n\
                training = { rounds = 3, learning_rate = 0.01 }";
    std::fs::write(here.join("line.toml"), spec).unwrap();
    ok(here, &["run", "line.toml", "--quiet", "--out", "line"]);
    // A run that was killed while it wrote its third round.
    std::fs::create_dir(here.join("killed")).unwrap();
    for name in ["spec.toml", "schema.json"] {
        std::fs::copy(
            here.join("plain").join(name),
            here.join("killed").join(name),
        )
        .unwrap();
    }
    let rounds = read(&here.join("plain/rounds.jsonl"));
    let two: usize = rounds.lines().take(2).map(|l| l.len() + 1).sum();
    std::fs::write(here.join("killed/rounds.jsonl"), &rounds[..two + 40]).unwrap();

    let all = [
        "report", "plain", "fedavg", "silent", "line", "killed", "--out", "all.html",
    ];
    assert_eq!(ok(here, &all).trim(), "all.html");
    // By a score the best comes first, and a run without it last.
    let loss = |run: &str| {
        let summary = crate::files::json(&here.join(run).join("summary.json"));
        summary["personal"]["pooled"]["valid"]["loss"]
            .as_f64()
            .unwrap()
    };
    let ranked = [
        "report", "killed", "fedavg", "plain", "--by", "loss", "--out", "by.html",
    ];
    ok(here, &ranked);
    let page = read(&here.join("by.html"));
    assert!(page.contains("personal valid loss"));
    let place = |run: &str| page.find(&format!(">{run}</a>")).unwrap();
    assert_eq!(
        place("plain") < place("fedavg"),
        loss("plain") < loss("fedavg")
    );
    assert!(place("killed") > place("plain").max(place("fedavg")));
    let page = read(&here.join("all.html"));
    let keys = page.split("The specs differ in ").nth(1).unwrap();
    let keys = keys.split("</p>").next().unwrap();
    for key in ["seed", "algorithm.kind", "delivery.clients", "data.kind"] {
        assert!(keys.contains(key), "{key}: {keys}");
    }
    // The same in all, or following from a kind that differs.
    for key in ["model.kind", "data.gamma", "algorithm.order"] {
        assert!(!keys.contains(key), "{key}: {keys}");
    }
    assert!(page.contains("2 of 4 rounds are done"));
    assert!(page.contains("No client was finalized"));
    // But for the words of a table that mean: not known.
    let numbers = page.replace("&quot;NaN&quot;", "");
    assert!(page.contains("validation rmse") && !numbers.contains("NaN"));
    // Nothing comes from elsewhere.
    for outside in ["src=", "url(", "@import", "<link"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let addresses = page.matches("http").count();
    let known = page.matches("http://www.w3.org/2000/svg").count() + 1; // http-equiv
    assert_eq!(addresses, known);
    if let Some((dom, messages)) = browsed(&here.join("all.html")) {
        assert_eq!(messages, Vec::<String>::new());
        assert_eq!(dom.matches("<section").count(), 6);
    }
}

#[test]
fn hostile_run_directories_are_shown_harmlessly_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here, "a", &[]);
    let clients = here.join("a/clients.jsonl");
    let name = "\"client\":\"</title><script>alert(1)</script>\"";
    let text = read(&clients);
    std::fs::write(&clients, text.replacen("\"client\":\"0\"", name, 1)).unwrap();
    ok(here, &["report", "a"]);
    let page = read(&here.join("a/report.html"));
    assert_eq!(page.matches("<script").count(), 1);
    assert!(page.contains("&lt;script&gt;alert(1)"));

    std::fs::write(&clients, text + "{\"client\": 5}\n").unwrap();
    let error = fails(here, &["report", "a"], 1);
    assert!(error.contains("clients.jsonl: line 13"), "{error}");
    // The old report is still there.
    assert_eq!(read(&here.join("a/report.html")), page);
    let error = fails(here, &["report", "none"], 1);
    assert!(error.contains("none"), "{error}");
    std::fs::create_dir(here.join("empty")).unwrap();
    let error = fails(here, &["report", "empty"], 1);
    assert!(error.contains("spec.toml"), "{error}");
}

#[test]
fn a_report_of_a_thousand_clients_and_rounds_is_small() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    run(here, "a", &[]);
    // The run's own lines, over and over, under new names.
    let again = |file: &str, key: &str, quote: &str| {
        let path = here.join("a").join(file);
        let text = read(&path);
        let lines: Vec<&str> = text.lines().collect();
        let mut long = String::new();
        for k in 0..1000 {
            let line: Value = serde_json::from_str(lines[k % lines.len()]).unwrap();
            let old = format!("\"{key}\":{}", line[key]);
            let new = format!("\"{key}\":{quote}{}{quote}", k + 1);
            assert!(lines[k % lines.len()].contains(&old));
            long.push_str(&lines[k % lines.len()].replacen(&old, &new, 1));
            long.push('\n');
        }
        std::fs::write(path, long).unwrap();
    };
    again("rounds.jsonl", "round", "");
    again("clients.jsonl", "client", "\"");
    ok(here, &["report", "a"]);
    let page = read(&here.join("a/report.html"));
    assert!(page.len() < 2_000_000, "{} bytes", page.len());
    assert_eq!(page.matches("<circle").count(), 2000);
}

/// Losses that were not finite are null in the files: the report is made, and a run goes on.
#[test]
fn null_losses_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    run(here, "a", &["evaluation.every=1"]);
    let at = |name: &str| here.join("a").join(name);
    let fingerprint = json(&at("summary.json"))["fingerprint"].clone();
    let nulled = |mut record: Value| {
        for model in ["shared", "localized", "personal"] {
            for part in ["train", "valid"] {
                record[model][part]["loss"] = Value::Null;
                if !record["worst"].is_null() {
                    record["worst"][model][part] = Value::Null;
                }
            }
        }
        record.to_string() + "\n"
    };
    for name in ["rounds.jsonl", "clients.jsonl"] {
        let records: String = lines(&at(name)).into_iter().map(nulled).collect();
        std::fs::write(at(name), records).unwrap();
    }
    let mut summary = json(&at("summary.json"));
    for statistic in ["pooled", "mean", "std", "worst_decile", "min", "max"] {
        summary["shared"][statistic]["valid"]["loss"] = Value::Null;
    }
    std::fs::write(at("summary.json"), summary.to_string()).unwrap();
    ok(here, &["report", "a"]);
    assert!(!read(&at("report.html")).contains("NaN"));
    // As if it had been killed before the summary: its records are read and kept.
    let rounds = read(&at("rounds.jsonl"));
    std::fs::remove_file(at("summary.json")).unwrap();
    ok(here, &["run", "--quiet", "--resume", "--out", "a"]);
    assert_eq!(json(&at("summary.json"))["fingerprint"], fingerprint);
    assert_eq!(read(&at("rounds.jsonl")), rounds);
}
