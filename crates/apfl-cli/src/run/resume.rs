//! `apfl run --resume`: finds the run to continue and checks that the arguments match it.

use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::run::run_dir::InterruptedRun;
use apfl::spec::{Plan, changed_rounds};
use apfl_paper::grid::require_same_spec;

use crate::args::{self, read_spec, set};

/// Opens the run in `--out` with the plan to continue. Returns `None` if no run was begun there
/// and a spec is given.
pub fn begun(args: &args::Run) -> Result<Option<(Plan, InterruptedRun)>> {
    let out: PathBuf = args.out.clone().ok_or_else(|| {
        Error::Request("--resume needs --out DIR, the run directory to continue".into())
    })?;
    let Some(mut run) = InterruptedRun::open(&out)? else {
        if args.spec.is_some() {
            return Ok(None);
        }
        return Err(Error::data(format!(
            "{}: no run was begun there (it has no spec.toml); give a SPEC to begin one",
            out.display()
        )));
    };
    if let Some(threads) = args.threads {
        run.spec.set(&format!("engine.threads={threads}"))?;
    }
    // How a run is executed may change when it is resumed; what it computes may not.
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
        if let Some((_, rounds)) = changed_rounds(&plan.resolved, &given)? {
            run.spec.set(&format!("training.rounds={rounds}"))?;
            run.summary = None;
            return Ok(Some((run.spec.plan()?, run)));
        }
        let remedy = match &args.spec {
            Some(_) => "leave the spec out to continue the run as it was begun",
            None => "only engine, checkpoint and training.rounds may be set with --resume",
        };
        let remedy = format!("{remedy}; for another run give another --out");
        require_same_spec(&plan.resolved, &given, &out, &remedy)?;
    }
    Ok(Some((plan, run)))
}

/// Returns whether a `--set` is about how a run is executed: `engine.threads=2`, `engine={…}`.
fn on_engine(pair: &str) -> bool {
    let key = pair.split('=').next().unwrap_or_default().trim();
    let table = key.split('.').next().unwrap_or_default();
    matches!(table, "engine" | "checkpoint")
}
