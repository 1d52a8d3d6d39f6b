//! Tests a site's state: consent, status, and models without the server.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Mutex};

use apfl::federation::{Accept, Message, Node, Server, Site, Transport};
use apfl::run::Program;
use apfl::spec::Spec;

use crate::program::{fails, ok};

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
        training = { rounds = 3, learning_rate = 0.1 }";
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
