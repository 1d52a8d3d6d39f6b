//! `apfl theory`: measures the paper's quantities and checks its theorems.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apfl::choice::Candidate;
use apfl::error::{Error, Result};
use apfl::files::write_atomically;
use apfl::run::run_dir::{ClientRecord, FinishedRun, read_clients};
use apfl::spec::Plan;
use apfl_paper::theory::bound::Constants;
use apfl_paper::theory::convergence::{self, Effort};
use apfl_paper::theory::{self, Inputs, measure_chosen};
use serde::Deserialize;

use crate::args::{self, read_spec};
use crate::output::{print, print_json};
use crate::progress::Progress;

pub fn run(args: &args::Theory) -> Result<()> {
    if args.convergence {
        return simulate(args);
    }
    let (plan, directory) = plan(args)?;
    let inputs = Inputs {
        points: args.points,
        constants: constants(&args.constants)?,
        ..Inputs::default()
    };
    let progress = Progress::stages(args.quiet);
    let chosen = match &directory {
        Some(directory) => chosen(directory)?,
        None => BTreeMap::new(),
    };
    let report = measure_chosen(&plan, &chosen, &inputs, &mut |what, done, of| {
        progress.stage(what, done, of)
    })?;
    progress.clear();
    if let Some(directory) = &directory {
        check_replay(directory, &report.fingerprint)?;
    }
    let file = match (&args.picture, directory) {
        (Some(file), _) => Some(file.clone()),
        (None, Some(directory)) => Some(directory.join("theory.svg")),
        (None, None) => None,
    };
    if let Some(file) = &file {
        write_atomically(file, theory::draw(&report, file)?)?;
    }
    if args.json {
        return print_json(&report);
    }
    let mut text = theory::text(&report);
    if let Some(file) = file {
        text.push_str(&format!("\npicture: {}\n", file.display()));
    }
    print(&text)
}

/// Checks the theorems' rates against simulations.
fn simulate(args: &args::Theory) -> Result<()> {
    let progress = Progress::stages(args.quiet);
    let checks = convergence::check(&effort(args), &mut |what, done, of| {
        progress.stage(what, done, of)
    })?;
    progress.clear();
    if args.json {
        return print_json(&checks);
    }
    print(&convergence::text(&checks))
}

/// Returns what the clients of a run chose, by client; empty if they did not choose.
fn chosen(run: &Path) -> Result<BTreeMap<String, Candidate>> {
    let clients = read_clients(run)?.into_iter();
    let choice = |client: ClientRecord| {
        let name = client.chosen?.alpha.name();
        Some((client.client, Candidate::named(&name)?))
    };
    Ok(clients.filter_map(choice).collect())
}

/// Returns the plan of a run directory or spec file, and the run directory.
fn plan(args: &args::Theory) -> Result<(Plan, Option<PathBuf>)> {
    let target = args
        .target
        .as_ref()
        .ok_or_else(|| Error::Request("give a run directory or a spec, or --convergence".into()))?;
    if !target.is_dir() {
        return Ok((read_spec(Some(target), &args.overrides)?.plan()?, None));
    }
    if !args.overrides.set.is_empty() {
        return Err(Error::Request(
            "--set applies to a spec, not to a run directory; leave it out, or give the spec"
                .into(),
        ));
    }
    let run = FinishedRun::open(target)?;
    Ok((run.plan, Some(run.path)))
}

/// Warns if the replay's fingerprint differs from the run's.
fn check_replay(directory: &Path, replayed: &str) -> Result<()> {
    #[derive(Deserialize)]
    struct Summary {
        fingerprint: String,
    }
    let path = directory.join("summary.json");
    let text = std::fs::read_to_string(&path).map_err(|source| Error::File {
        path: path.clone(),
        action: "read",
        source,
    })?;
    let summary: Summary = serde_json::from_str(&text).map_err(|e| Error::in_file(&path, e))?;
    if summary.fingerprint != replayed {
        crate::output::tell(
            "warning: the replay's fingerprint differs from the run's, which was made by another \
             version, on another kind of CPU or from other data; the numbers are the replay's",
        );
    }
    Ok(())
}

/// Parses constants such as `B=2`, `d=610` and `delta=0.05`.
fn constants(pairs: &[String]) -> Result<Constants> {
    let mut constants = Constants::default();
    for pair in pairs {
        let wrong = || {
            Error::Request(format!(
                "--constant {pair}: expected NAME=NUMBER with one of B, G, C1 (or C), C2, d, delta, R"
            ))
        };
        let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
        let value: f64 = value.trim().parse().map_err(|_| wrong())?;
        match name.trim() {
            "B" => constants.b = value,
            "G" => constants.g = value,
            "C" | "C1" => constants.c = value,
            "C2" => constants.c2 = value,
            "d" => constants.d = Some(value),
            "delta" => constants.delta = value,
            "R" => constants.r = Some(value),
            _ => return Err(wrong()),
        }
    }
    Ok(constants)
}

/// Returns how much `--convergence` simulates.
fn effort(args: &args::Theory) -> Effort {
    let effort = Effort {
        seeds: args.seeds,
        ..Effort::default()
    };
    if args.quick {
        Effort {
            longest: 10_000,
            network_longest: 3_000,
            ..effort
        }
    } else {
        effort
    }
}
