//! Tests a site's state: consent, status, and models without the server.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use apfl::federation::{Accept, Message, Node, Server, Site, Transport};
use apfl::run::Program;
use apfl::spec::Spec;

use crate::program::{apfl, ended, fails, has, ok};

/// Carries requests to nodes in this process.
struct Post(Vec<Site>);

impl Transport for Post {
    fn exchange(&mut self, messages: Vec<Message>) -> apfl::Result<Vec<Message>> {
        let answer = |Message { client, bytes }: Message| {
            let node = Node::open(self.0[client].clone(), Program::default())?;
            Ok(Message {
                client,
                bytes: node.answer(&bytes).0,
            })
        };
        messages.into_iter().map(answer).collect()
    }
}

fn run(dir: &Path, out: &str) -> apfl::Result<()> {
    let site = |name: &str| Site {
        client: name.into(),
        data: dir.join(format!("{name}.csv")),
        state: dir.join(format!("state-{name}")),
        accept: match name {
            "north" => Accept::Operator,
            _ => Accept::First,
        },
    };
    let spec = "data = { kind = 'table', client = { file = true }, standardize = true }
        federation = { sites = ['north', 'south'] }
        algorithm = { kind = 'apfl', mixing = { fixed = 0.5 } }
        training = { rounds = 3 }";
    let post = Arc::new(Mutex::new(Post(["north", "south"].map(site).to_vec())));
    let plan = Spec::parse(spec)?.plan()?;
    let server = Server::new(plan, Program::default(), post, dir.join(out), false);
    let ended = server.run(&mut |_| ControlFlow::Continue(()));
    ended.map(drop)
}

#[test]
fn a_site_consents_and_serves_its_own_model() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (k, name) in ["north", "south"].iter().enumerate() {
        let row = |j: usize| format!("{},{}\n", j * 7 % 31, (j * 7 % 31 > 15 - 4 * k) as u8);
        let rows: String = (0..40).map(row).collect();
        std::fs::write(dir.join(format!("{name}.csv")), format!("x,label\n{rows}")).unwrap();
    }
    let error = run(dir, "first").unwrap_err().to_string();
    assert!(error.contains("north: not-accepted"), "{error}");
    let status = ok(dir, &["site", "status", "state-north"]);
    assert!(
        status.contains("accepted   none") && status.contains("apfl site accept"),
        "{status}"
    );
    let printed = fails(dir, &["predict", "state-north", "--input", "north.csv"], 1);
    assert!(printed.contains("no finalized models yet"), "{printed}");
    let first = status.lines().find(|line| line.starts_with("proposed"));
    let hash = first.unwrap().split_whitespace().nth(1).unwrap();
    let printed = fails(dir, &["site", "accept", "state-north", "0000"], 2);
    assert!(printed.contains(hash), "{printed}");
    let accepted = ok(dir, &["site", "accept", "state-north", hash]);
    assert!(accepted.starts_with("terms ") && accepted.trim().ends_with("accepted"));
    run(dir, "second").unwrap();
    let status = ok(dir, &["site", "status", "state-north", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["sites"], serde_json::json!(["north", "south"]));
    assert_eq!(status["delivered"], true);
    assert_eq!(status["accepted"], status["proposed"]);
    let answers = ok(dir, &["predict", "state-north", "--input", "north.csv"]);
    assert_eq!(answers.lines().count(), 41);
    assert!(
        answers
            .lines()
            .skip(1)
            .all(|line| line.starts_with("north,"))
    );
    let export = [
        "export",
        "state-north",
        "--model",
        "personal",
        "--out",
        "n.npz",
    ];
    assert!(ok(dir, &export).contains("2 tensors, 4 parameters"));
    // The server does not have the site's models.
    let printed = fails(
        dir,
        &[
            "predict",
            "second",
            "--input",
            "north.csv",
            "--client",
            "north",
        ],
        2,
    );
    assert!(printed.contains("no client of that name"), "{printed}");
    let shared = [
        "predict",
        "second",
        "--model",
        "shared",
        "--input",
        "north.csv",
    ];
    assert_eq!(ok(dir, &shared).lines().count(), 41);
    fails(dir, &["site", "status", "nowhere"], 2);
}

/// What a server wrote into an older state directory is shown without its escapes, also where
/// the output is no terminal.
#[test]
fn a_status_moves_no_cursor() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    std::fs::create_dir(&state).unwrap();
    let escapes = "\u{1b}]0;owned\u{7}\u{9b}2J";
    std::fs::write(state.join("log"), format!("refused {escapes}\n")).unwrap();
    std::fs::write(state.join("accepted"), format!("{escapes}\n")).unwrap();
    std::fs::write(state.join("proposal.toml"), format!("# terms {escapes}\n")).unwrap();
    for more in [&[][..], &["--json"]] {
        let status = ok(dir.path(), &[&["site", "status", "state"], more].concat());
        assert_eq!(
            status.matches("owned").count(),
            3 - usize::from(more.is_empty())
        );
        let is_plain = |c: char| !c.is_control() || c == '\n';
        assert!(status.chars().all(is_plain), "{status:?}");
    }
}

/// A table of 20 rows and a spec that holds none out but one.
fn site_table(dir: &Path) {
    let row = |j: usize| {
        let colour = ["red", "blue"][j % 2];
        format!("{},{colour},{}\n", j + 1, ["no", "yes"][j / 2 % 2])
    };
    let rows: String = (0..20).map(row).collect();
    std::fs::write(dir.join("north.csv"), format!("x,colour,label\n{rows}")).unwrap();
    let spec = "[data]\nkind = 'table'\nclient = { file = true }\nvalidation = 0.001\n\
                [federation]\nsites = ['south', 'north']\n";
    std::fs::write(dir.join("spec.toml"), spec).unwrap();
}

const CHECK: [&str; 6] = [
    "site",
    "check",
    "--data",
    "north.csv",
    "--spec",
    "spec.toml",
];

#[test]
fn a_site_sees_what_it_would_send() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    site_table(dir);
    let text = ok(dir, &CHECK);
    has(
        &text,
        &[
            "north, of south, north",
            "the values blue, red",
            "counts no 9, yes 10",
        ],
    );
    has(&text, &["the survey can be sent; nothing was sent now"]);
    assert_eq!(
        std::fs::read_dir(dir).unwrap().count(),
        2,
        "nothing is written"
    );
    let json = ok(dir, &[&CHECK[..], &["--json"]].concat());
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["train_rows"], 19);
    assert_eq!(found["valid_rows"], 1);
    // Of 1 … 20 one is held out: Σ − that one, over 19.
    let numbers = &found["columns"][0]["sent"]["numbers"];
    let held_out = 210.0 - 19.0 * numbers["mean"].as_f64().unwrap();
    assert!((held_out - held_out.round()).abs() < 1e-9 && (1.0..=20.0).contains(&held_out));
    assert_eq!(numbers["n"], 19);
    // Rows 1 and 2 are no, 3 and 4 yes, and so on: of ten each, its label has one less.
    let yes = (held_out.round() as usize - 1) / 2 % 2;
    assert_eq!(found["labels"]["yes"], 10 - yes);
    assert_eq!(found["labels"]["no"], 9 + yes);
    // x, three features of colour: 4·2 weights and 2 biases, 4 bytes each, and what frames them.
    assert_eq!(found["training"]["parameters"], 10);
    for way in ["received_bytes", "sent_bytes"] {
        let bytes = found["training"][way].as_u64().unwrap();
        assert!((40..400).contains(&bytes), "{way}: {bytes}");
    }
    // The names of columns and values alone take some of the survey.
    let bytes = found["survey_bytes"].as_u64().unwrap();
    assert!((40..400).contains(&bytes), "{bytes}");
    assert_eq!(found["refused"], false);
    // What is declared is not sent.
    let declared = "data.categories={ colour = ['red', 'blue'] }";
    let less = ok(dir, &[&CHECK[..], &["--json", "--set", declared]].concat());
    let less: serde_json::Value = serde_json::from_str(&less).unwrap();
    assert_eq!(less["columns"][1]["declared"], true);
    assert!(less["columns"][1]["sent"]["words"].is_null());
    assert!(less["survey_bytes"].as_u64().unwrap() < bytes);
}

#[test]
fn a_site_sees_what_would_be_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    site_table(dir);
    let file = dir.join("north.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text
        .replace(",red,yes", ",violet,yes")
        .replace("20,blue", "20,green");
    std::fs::write(&file, text).unwrap();
    let output = apfl(dir, &CHECK);
    let error = ended(&output, 1);
    assert!(
        error.contains("the survey would be refused for 1 rare statistic"),
        "{error}"
    );
    let printed = String::from_utf8(output.stdout).unwrap();
    has(
        &printed,
        &[
            "rare, refused: column 'colour'",
            "declare data.categories",
            "green (1)",
        ],
    );
    // The way out is one.
    let send = ok(
        dir,
        &[&CHECK[..], &["--set", "federation.rare=send"]].concat(),
    );
    has(
        &send,
        &["rare, sent all the same", "the survey can be sent"],
    );
    // A label of every row is refused, whatever federation.rare says.
    let label = [
        "--set",
        "data.label=x",
        "--set",
        "federation.rare=send",
        "--json",
    ];
    let output = apfl(dir, &[&CHECK[..], &label[..]].concat());
    ended(&output, 1);
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["refused"], true);
    let kinds: Vec<&str> = (found["rare"].as_array().unwrap().iter())
        .map(|rare| rare["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["text", "label"]);
    assert_eq!(found["rare"][0]["refused"], false);
    // Requests that make no sense.
    let printed = fails(dir, &[&CHECK[..], &["--client", "west"]].concat(), 2);
    assert!(
        printed.contains("site 'west' is not in federation.sites: south, north"),
        "{printed}"
    );
    std::fs::rename(&file, dir.join("rows.csv")).unwrap();
    let other = ["site", "check", "--data", "rows.csv", "--spec", "spec.toml"];
    let printed = fails(dir, &other, 2);
    assert!(
        printed.contains("give one with --client: south, north"),
        "{printed}"
    );
    let spec = ["--set", "federation={}", "--set", "data.path=rows.csv"];
    let printed = fails(dir, &[&CHECK[..], &spec[..]].concat(), 2);
    assert!(printed.contains("federation.sites is missing"), "{printed}");
}
