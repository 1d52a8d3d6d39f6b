//! `apfl run --resume`: what is there already, and whether it is what was asked for.

use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::run::run_dir::InterruptedRun;
use apfl::spec::{Plan, extended_rounds};
use apfl_paper::grid::agree;

use crate::args::{self, read_spec, set};

/// Looks for a run in `--out`, with the plan that goes on; `None` where none was begun there
/// and a spec says what to begin.
pub fn begun(args: &args::Run) -> Result<Option<(Plan, InterruptedRun)>> {
    let out: PathBuf = args.out.clone().ok_or_else(|| {
        Error::Request("--resume needs --out DIR, the run directory to continue".into())
    })?;
    let Some(mut run) = InterruptedRun::open(&out)? else {
        if args.spec.is_some() {
            return Ok(None);
        }
        return Err(Error::data(format!(
            "{}: no run was begun there (there is no spec.toml); give its SPEC to begin one",
            out.display()
        )));
    };
    if let Some(threads) = args.threads {
        run.spec.set(&format!("engine.threads={threads}"))?;
    }
    // How a run is carried out may change on the way; what it is may not.
    for pair in args.overrides.set.iter().filter(|pair| on_engine(pair)) {
        set(&mut run.spec, pair)?;
    }
    let plan = run.spec.plan()?;
    if args.spec.is_some() || !args.overrides.set.is_empty() {
        let base = match &args.spec {
            Some(_) => read_spec(args.spec.as_ref(), &args.overrides)?,
            None => {
                let mut base = run.spec.clone();
                let pairs = &args.overrides.set;
                pairs.iter().try_for_each(|pair| set(&mut base, pair))?;
                base
            }
        };
        let given = base.plan()?.resolved;
        if let Some(rounds) = extended_rounds(&plan.resolved, &given)? {
            run.spec.set(&format!("training.rounds={rounds}"))?;
            run.summary = None;
            return Ok(Some((run.spec.plan()?, run)));
        }
        let way_out = match &args.spec {
            Some(_) => "leave the spec out to continue the run as it was begun",
            None => "engine, checkpoint and more training.rounds may be set for a run that goes on",
        };
        let way_out = format!("{way_out}; for another run give another --out");
        agree(&plan.resolved, &given, &out, &way_out)?;
    }
    Ok(Some((plan, run)))
}

/// Whether a `--set` is about how a run is carried out: `engine.threads=2`, `engine={…}`.
fn on_engine(pair: &str) -> bool {
    let key = pair.split('=').next().unwrap_or_default().trim();
    let table = key.split('.').next().unwrap_or_default();
    matches!(table, "engine" | "checkpoint")
}
