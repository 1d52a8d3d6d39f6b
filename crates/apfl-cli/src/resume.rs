//! `apfl run --resume`: whether a run can go on.

use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::spec::Plan;
use apfl::store::run_dir::{Environment, InterruptedRun, Summary};
use toml::{Table, Value};

use crate::args::{self, read_spec};

/// A run that was begun before.
pub struct Begun {
    /// What it does.
    pub plan: Plan,
    /// Where.
    pub out: PathBuf,
    /// Its final numbers, where it is finished.
    pub finished: Option<Summary>,
    /// Where and by what it was begun.
    pub environment: Option<Environment>,
}

/// Looks for a run in `--out`; `None` where none was begun there and a spec says what to
/// begin.
pub fn begun(args: &args::Run) -> Result<Option<Begun>> {
    let out = args.out.clone().ok_or_else(|| {
        Error::Request("--resume needs --out DIR, the run directory to continue".into())
    })?;
    let Some(run) = InterruptedRun::open(&out)? else {
        if args.spec.is_some() {
            return Ok(None);
        }
        return Err(Error::Data(format!(
            "{}: no run was begun there (there is no spec.toml); give its SPEC to begin one",
            out.display()
        )));
    };
    let mut spec = run.spec;
    if let Some(threads) = args.threads {
        spec.set(&format!("engine.threads={threads}"))?;
    }
    // How a run is carried out may change on the way; what it is may not.
    for pair in args.overrides.set.iter().filter(|pair| on_engine(pair)) {
        spec.set(pair)?;
    }
    let plan = spec.plan()?;
    if args.spec.is_some() || !args.overrides.set.is_empty() {
        let base = match &args.spec {
            Some(_) => read_spec(args.spec.as_ref(), &args.overrides)?,
            None => {
                let mut base = spec.clone();
                let set = &args.overrides.set;
                set.iter().try_for_each(|pair| base.set(pair))?;
                base
            }
        };
        let way_out =
            "leave the spec out to continue the run as it was begun, or give another --out";
        agree(&plan.resolved, &base.plan()?.resolved, &out, way_out)?;
    }
    Ok(Some(Begun {
        plan,
        out,
        finished: run.summary,
        environment: run.environment,
    }))
}

fn on_engine(pair: &str) -> bool {
    pair.starts_with("engine.") || pair.starts_with("checkpoint.")
}

/// An error naming the first keys in which two specs differ, but for those that never
/// change a result, and what to do then.
pub fn agree(there: &Table, given: &Table, out: &std::path::Path, way_out: &str) -> Result<()> {
    let mut differences = Vec::new();
    compare("", there, given, &mut differences);
    differences.retain(|d| !on_engine(d));
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::Request(format!(
        "{}: the spec given is not that of the run there; it differs in\n  {}\n\
         {way_out}",
        out.display(),
        differences.join("\n  ")
    )))
}

fn compare(path: &str, there: &Table, given: &Table, differences: &mut Vec<String>) {
    let keys: std::collections::BTreeSet<&String> = there.keys().chain(given.keys()).collect();
    for key in keys {
        let path = match path {
            "" => key.clone(),
            path => format!("{path}.{key}"),
        };
        match (there.get(key), given.get(key)) {
            (Some(Value::Table(a)), Some(Value::Table(b))) => compare(&path, a, b, differences),
            (a, b) if a == b => {}
            (a, b) => {
                let shown = |v: Option<&Value>| v.map_or("nothing".into(), ToString::to_string);
                differences.push(format!("{path}: {} there, {} given", shown(a), shown(b)));
            }
        }
    }
}

impl Begun {
    /// An error where data or program are not those that the run was begun with.
    pub fn fits(&self, now: &Environment, force: bool) -> Result<()> {
        let Some(then) = &self.environment else {
            return Ok(());
        };
        for (then, now) in then.data.iter().zip(&now.data) {
            if then != now {
                return Err(Error::Data(format!(
                    "{}: the file has changed since the run was begun (SHA-256 {} then, {} now); \
                     put the old file back, or begin a new run",
                    now.path, then.sha256, now.sha256
                )));
            }
        }
        if then.data.len() != now.data.len() {
            return Err(Error::Data(format!(
                "the run was begun with {} data files, now there are {}",
                then.data.len(),
                now.data.len()
            )));
        }
        let program = |e: &Environment| format!("{} ({})", e.version, e.commit);
        if program(then) != program(now) && !force {
            return Err(Error::Data(format!(
                "the run was begun by version {}, this is {}: the result may differ in the last \
                 bits; --force goes on all the same",
                program(then),
                program(now)
            )));
        }
        Ok(())
    }
}
