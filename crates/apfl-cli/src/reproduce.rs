//! `apfl reproduce`: reproduces the paper's figures and tables, with a verdict for every claim.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use apfl::error::{Error, Result};
use apfl_paper::grid::GridOptions;
use apfl_paper::reproduce::{Experiment, Settings, prepare};

use crate::args;
use crate::estimate::expected_seconds;
use crate::output::{counted, duration, print, print_json, tell};
use crate::progress::watch_grid;
use crate::signals::stop_on_signal;

/// Runs the selected items one after the other. An item that fails does not stop the others.
pub fn run(args: &args::Reproduce) -> Result<ExitCode> {
    let settings = Settings {
        seeds: args.seeds,
        quick: args.quick,
        variants: !args.no_variants,
        set: args.overrides.set.clone(),
        out: args.out.clone(),
    };
    let mut experiments = prepare(&args.items, &settings)?;
    let stop = stop_on_signal()?;
    let program = crate::program();
    let watch = watch_grid(args.quiet);
    let options = GridOptions {
        threads: args.threads,
        program: &program,
        stop: &stop,
        watch: &watch,
    };
    let mut failed = false;
    if !args.quiet {
        failed = estimate(&mut experiments, args);
    }
    let mut all = BTreeMap::new();
    for experiment in &experiments {
        let started = Instant::now();
        let findings = match experiment.run(options) {
            Ok(findings) => findings,
            Err(error @ Error::Interrupted(_)) => return Err(error),
            Err(error) => {
                tell(format!("{}: {error}", experiment.name()));
                failed = true;
                continue;
            }
        };
        if !args.json && !args.quiet {
            print(&findings.text)?;
            let spent = duration(started.elapsed().as_secs_f64());
            tell(format!(
                "{}: {spent}; {}\n",
                experiment.name(),
                experiment.directory().display()
            ));
        }
        all.insert(experiment.name(), findings.claims);
    }
    if args.json {
        print_json(&all)?;
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Prints the number of runs and their estimated time, and drops items whose data is missing.
/// Returns whether it dropped any.
fn estimate(experiments: &mut Vec<Experiment<'_>>, args: &args::Reproduce) -> bool {
    let (mut total, mut runs) = (0.0, 0);
    let before = experiments.len();
    experiments.retain(|experiment| {
        let mut seconds = 0.0;
        let mut count = 0;
        // One estimate serves all runs of an algorithm on a data set.
        let mut known: Vec<(String, f64)> = Vec::new();
        for cell in experiment.unfinished() {
            count += 1;
            let plan = &cell.plan;
            let kind = format!("{} {}", plan.algorithm.kind(), plan.data.kind());
            seconds += match known.iter().find(|(name, _)| *name == kind) {
                Some((_, seconds)) => *seconds,
                None => match plan
                    .setup()
                    .and_then(|setup| expected_seconds(plan, &setup))
                {
                    Ok(seconds) => {
                        known.push((kind, seconds));
                        seconds
                    }
                    Err(error) => {
                        tell(format!("skipping {}: {error}", experiment.name()));
                        return false;
                    }
                },
            };
        }
        total += seconds;
        runs += count;
        true
    });
    let reduced = if args.quick {
        " (quick: a fifth of the rounds, a tenth for the CNN)"
    } else {
        ""
    };
    let variants = if args.no_variants {
        ""
    } else {
        ", longer if a claim fails and variants are tried"
    };
    tell(format!(
        "{} to train{reduced}, about {} on this machine{variants}; Ctrl-C stops, the same command \
         continues",
        counted(runs, "run"),
        duration(total)
    ));
    experiments.len() < before
}
