//! `apfl run`: trains one run.

#[cfg(feature = "mpi")]
mod ranks;
mod resume;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use apfl::aggregation::Aggregation;
use apfl::data::partition::Partition;
use apfl::error::{Error, Result};
use apfl::run::RunDir;
use apfl::run::checkpoint::Found;
use apfl::run::run_dir::{InterruptedRun, Summary};
use apfl::run::{Ended, Event, Run};
use apfl::spec::Plan;
use apfl::spec::Resources;
use apfl::training::Setup;
use serde::Serialize;

use crate::args::{self, read_spec};
use crate::cluster;
use crate::directory::new_directory;
use crate::guard;
use crate::memory;
use crate::output::{counted, duration, print, print_json};
use crate::progress::Progress;
use crate::signals::stop_on_signal;
use crate::summary;
#[cfg(feature = "mpi")]
use ranks::run as on_ranks;

/// Trains, finalizes and shows the result.
pub fn run(args: &args::Run) -> Result<ExitCode> {
    let prepared = Prepared::new(args)?;
    if prepared.plan.engine.mpi {
        return on_ranks(args, prepared);
    }
    cluster::refuse_many()?;
    if prepared.finished() {
        return prepared.show_finished(args);
    }
    let dataset = prepared.plan.data.load()?;
    let out = prepared.directory(args)?;
    let resources = Resources {
        directory: Some(&out),
        ..Resources::default()
    };
    let setup = prepared
        .plan
        .setup_with(dataset, resources)
        .and_then(|setup| {
            memory::require_room(memory::of_models(&setup), args.force)?;
            Ok(setup)
        });
    if setup.is_err() && prepared.out.is_none() {
        let _ = std::fs::remove_dir(&out); // created above, and still empty
    }
    let setup = setup?;
    prepared.train(args, setup, &out)
}

/// Returns an error: the program was built without MPI.
#[cfg(not(feature = "mpi"))]
fn on_ranks(_: &args::Run, _: Prepared) -> Result<ExitCode> {
    Err(Error::Request(
        "engine.kind: found \"mpi\", but this program was built without it; build it with \
         --features mpi, or use \"threads\""
            .into(),
    ))
}

/// Represents a requested run before its data is read.
pub struct Prepared {
    /// The plan.
    pub plan: Plan,
    /// The run directory, if given.
    pub out: Option<PathBuf>,
    /// The run in that directory, if it is resumed.
    pub begun: Option<InterruptedRun>,
}

impl Prepared {
    fn new(args: &args::Run) -> Result<Self> {
        let begun = if args.resume {
            resume::begun(args)?
        } else {
            None
        };
        if let Some((plan, begun)) = begun {
            return Ok(Self {
                plan,
                out: Some(begun.path.clone()),
                begun: Some(begun),
            });
        }
        let mut spec = read_spec(args.spec.as_ref(), &args.overrides)?;
        if let Some(threads) = args.threads {
            spec.set(&format!("engine.threads={threads}"))?;
        }
        if let Some(out) = &args.out
            && RunDir::require_empty(out).is_err()
        {
            return Err(Error::Request(format!(
                "--out {}: the directory is not empty; give another one, or continue its run \
                 with --resume",
                out.display()
            )));
        }
        Ok(Self {
            plan: spec.plan()?,
            out: args.out.clone(),
            begun: None,
        })
    }

    /// Returns whether the run is finished already.
    pub fn finished(&self) -> bool {
        self.begun.as_ref().is_some_and(|b| b.summary.is_some())
    }

    /// Shows the result of a finished run.
    pub fn show_finished(&self, args: &args::Run) -> Result<ExitCode> {
        if let Some(InterruptedRun {
            summary: Some(summary),
            path,
            ..
        }) = &self.begun
        {
            if !args.quiet {
                crate::output::tell(format!("{}: the run is finished already", path.display()));
            }
            let page = path.join("report.html");
            if !page.exists() {
                apfl_report::write(std::slice::from_ref(path), &page, None)?; // a full disk prevented it
            }
            show(args, None, summary, path)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the given run directory, or creates a new one.
    pub fn directory(&self, args: &args::Run) -> Result<PathBuf> {
        if let Some(out) = &self.out {
            return Ok(out.clone());
        }
        let name = match args.spec.as_deref().and_then(Path::file_stem) {
            Some(stem) => stem.to_string_lossy().into_owned(),
            None => format!("{}-{}", self.plan.algorithm.kind(), self.plan.data.kind()),
        };
        new_directory(&name)
    }

    /// Trains, finalizes and shows the result.
    pub fn train(self, args: &args::Run, setup: Setup, out: &Path) -> Result<ExitCode> {
        let headline = headline(&self.plan, &setup);
        let (rounds, notes) = (setup.rounds, setup.notes.clone());
        let run = Run::new(&self.plan, setup)
            .program(crate::program())
            .force(args.force);
        let run = match self.begun {
            None => run.directory(out),
            Some(begun) if args.finish => run.finish(begun.path),
            Some(begun) => run.resume(begun.path),
        };
        let stop = stop_on_signal()?;
        let mut progress: Option<Progress> = None;
        let mut notes = Some(notes);
        let mut pass = None;
        let (mut begun, mut finalizing) = (false, false);
        let ended = run.watch(&mut |event| {
            let begin = || Progress::rounds(rounds, 0, args.quiet);
            match event {
                Event::Probe { rate, round: 0 } if !args.quiet => {
                    crate::output::tell(format!("probe: learning rate {rate}"));
                }
                Event::Rate(found) if !args.quiet => {
                    crate::output::tell(format!("{}: {}", found.key, found.learning_rate));
                }
                Event::Restarts { rate, error } => {
                    progress.iter().for_each(Progress::clear);
                    (progress, pass) = (None, None);
                    crate::output::tell(format!(
                        "{}; starting again with a third of the rate: {rate}",
                        crate::output::describe(error)
                    ));
                }
                Event::Pass { pass: this, of } => {
                    progress.iter().for_each(Progress::clear);
                    pass = Some((this, of));
                    if !args.quiet {
                        crate::output::tell(describe_pass(this, of));
                    }
                }
                Event::Begun(round) => {
                    (begun, finalizing) = (true, false);
                    let bar = Progress::rounds(rounds, round, args.quiet);
                    if let (Some(notes), false) = (notes.take(), args.quiet) {
                        notes.iter().for_each(|note| bar.say(note));
                    }
                    progress = Some(bar);
                }
                Event::Found(found) => print_resume(found, out, args.quiet),
                Event::Round(record) => {
                    let bar = progress.get_or_insert_with(begin);
                    bar.round(record);
                    if !record.skipped.is_empty() {
                        bar.say(&format!(
                            "round {}: left out, because their loss is not finite: {}",
                            record.round,
                            record.skipped.join(", ")
                        ));
                    }
                }
                Event::Finalizing(clients) => {
                    finalizing = true;
                    progress.iter().for_each(Progress::clear);
                    progress = Some(Progress::finalizations(clients, args.quiet));
                }
                Event::Finalized(clients) => progress.iter().for_each(|bar| bar.finalized(clients)),
                _ => {}
            }
            if stop.load(Ordering::Relaxed) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        progress.iter().for_each(Progress::clear);
        match ended? {
            Ended::Finished(finished) => {
                let summary = &finished.summary;
                if !summary.skipped.is_empty() {
                    crate::output::tell(format!(
                        "finalization: left out, because their loss is not finite: {}",
                        summary.skipped.join(", ")
                    ));
                }
                apfl_report::write(&[out.to_owned()], &out.join("report.html"), None)?;
                let chosen = self.plan.algorithm.choosing().is_some();
                if !args.quiet
                    && let Some(line) = guard::warning(summary, &finished.clients()?, chosen)
                {
                    crate::output::tell(line);
                }
                show(args, Some(&headline), summary, out)?;
                Ok(ExitCode::SUCCESS)
            }
            Ended::Stopped(round) => {
                let when = if finalizing {
                    "stopped during finalization".to_string()
                } else {
                    format!("stopped after round {round} of {rounds}")
                };
                let (when, last_pass) = match pass {
                    Some((pass, of)) => (format!("{when}, in pass {pass} of {of}"), pass == of),
                    None => (when, true),
                };
                let out = out.display();
                let last_pass = last_pass && begun;
                let mut next = format!("{when}; continue with: apfl run --resume --out {out}");
                if last_pass && round > 0 {
                    next += &format!(", or take what is trained: apfl finish {out}");
                }
                crate::output::tell(next);
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Describes a pass of a run that chooses α.
fn describe_pass(pass: u64, of: u64) -> String {
    if pass == of {
        format!("pass {pass} of {of}: all training rows, each client with its chosen α")
    } else {
        format!("pass {pass} of {of}: all candidates for α, scored on held-out rows")
    }
}

/// Prints which checkpoint a resumed run continues from.
fn print_resume(found: &Found, out: &Path, quiet: bool) {
    match found {
        Found::Resumed { round, notes } => {
            notes.iter().for_each(crate::output::tell);
            if !quiet {
                crate::output::tell(format!("{}: continuing after round {round}", out.display()));
            }
        }
        Found::None if !quiet => {
            crate::output::tell(format!(
                "{}: no checkpoint yet, starting from round 1",
                out.display()
            ));
        }
        Found::None => {}
    }
}

fn show(args: &args::Run, headline: Option<&str>, summary: &Summary, out: &Path) -> Result<()> {
    #[derive(Serialize)]
    struct Document<'a> {
        run: String,
        #[serde(flatten)]
        summary: &'a Summary,
    }
    if args.json {
        return print_json(&Document {
            run: out.display().to_string(),
            summary,
        });
    }
    if args.quiet {
        return Ok(());
    }
    let headline = headline.map_or(String::new(), |line| format!("{line}\n\n"));
    print(&format!(
        "{headline}{}\n{} in {}; run directory: {}\n",
        summary::table(summary),
        counted(summary.rounds as usize, "round"),
        duration(summary.seconds),
        out.display()
    ))
}

/// Describes in one line what is trained.
fn headline(plan: &Plan, setup: &Setup) -> String {
    let context = &setup.context;
    let n = context.dataset.clients();
    let k = setup.cohort_size();
    let cohort = if k == n {
        String::new()
    } else {
        format!(", {k} per round")
    };
    // The partition decides the result; it is shown unless the data names its clients.
    let partition = match plan.data.partition() {
        None => String::new(),
        Some(partition) => {
            let kind = partition.kind();
            match partition {
                Partition::Stripe { classes, .. } | Partition::Shards { classes, .. } => {
                    format!(" by {kind} of {classes} classes")
                }
                Partition::Dirichlet { concentration, .. } => {
                    format!(" by {kind} of {concentration}")
                }
                Partition::Iid { .. } | Partition::File(_) => format!(" by {kind}"),
            }
        }
    };
    let aggregator = match plan.aggregation {
        Aggregation::Mean => String::new(),
        aggregation => format!(" · {aggregation}"),
    };
    format!(
        "{}{aggregator} · {} ({} parameters) · {}{partition} · {}{cohort} · seed {}",
        plan.algorithm.describe(),
        plan.architecture.kind(),
        context.model.layout().len(),
        plan.data.kind(),
        counted(n, "client"),
        plan.seed
    )
}
