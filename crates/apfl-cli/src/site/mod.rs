//! `apfl site`: shows what a site would send, shows its state and accepts terms, for its operator.

mod check;

use std::path::Path;

use apfl::error::Result;
use apfl::federation::{Node, SiteStatus};
use serde::Serialize;

use crate::args;
use crate::output::{print, print_json};

/// Represents the output of `--json`.
#[derive(Serialize)]
struct Document {
    proposed: Option<String>,
    accepted: Option<String>,
    surveyed: Option<String>,
    agreement: Option<String>,
    sites: Vec<String>,
    memories: Vec<u64>,
    delivered: bool,
    log: Vec<String>,
}

/// Shows what a site would send or its state, or accepts proposed terms.
pub fn site(command: &args::Site) -> Result<()> {
    match command {
        args::Site::Check(args) => check::check(args),
        args::Site::Status { state, json } => status(state, *json),
        args::Site::Accept { state, hash } => {
            Node::accept(state, hash)?;
            print(&format!("terms {hash} accepted\n"))
        }
    }
}

fn status(state: &Path, json: bool) -> Result<()> {
    let SiteStatus {
        proposed,
        accepted,
        surveyed,
        agreement,
        state_rounds,
        finalized,
        log,
        ..
    } = Node::status(state)?;
    if json {
        let (agreement, sites) = agreement.unzip();
        return print_json(&Document {
            proposed,
            accepted,
            surveyed,
            agreement,
            sites: sites.unwrap_or_default(),
            memories: state_rounds,
            delivered: finalized,
            log,
        });
    }
    let none = || "none".to_string();
    let mut text = String::new();
    let mut line = |name: &str, value: String| text += &format!("{name:<10} {value}\n");
    if proposed != accepted {
        let hash = proposed.unwrap_or_else(none);
        let text = format!("{hash}  (proposal.toml; accept with: apfl site accept STATE HASH)");
        line("proposed", text);
    }
    line("accepted", accepted.unwrap_or_else(none));
    line("survey", survey_line(surveyed));
    match agreement {
        None => line("agreement", none()),
        Some((hash, sites)) => {
            let text = format!("{hash}  (the same at every site: compare it with the others)");
            line("agreement", text);
            line("sites", sites.join(", "));
        }
    }
    let rounds: Vec<String> = state_rounds.iter().map(u64::to_string).collect();
    let rounds = if rounds.is_empty() {
        none()
    } else {
        format!("of rounds {}", rounds.join(", "))
    };
    line("states", rounds);
    let models = if finalized {
        "run/ (for apfl predict and apfl export)".into()
    } else {
        none()
    };
    line("models", models);
    log.iter().for_each(|entry| text += &format!("  {entry}\n"));
    print(&text)
}

fn survey_line(surveyed: Option<String>) -> String {
    match surveyed {
        None => "not sent".into(),
        Some(terms) => format!("sent under terms {terms}; others need a new state directory"),
    }
}
