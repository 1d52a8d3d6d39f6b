//! `apfl run`

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apfl::aggregation::Aggregation;
use apfl::error::{Error, Result};
use apfl::spec::Plan;
use apfl::store::checkpoint::Found;
use apfl::store::run_dir::{Environment, Summary};
use apfl::store::{Checkpoints, RunDir};
use apfl::training::{Setup, Training};
use serde::Serialize;

use crate::args::{self, read_spec};
use crate::output::{counted, duration, print, print_json};
use crate::progress::Progress;
use crate::resume::{self, Begun};
use crate::summary;

/// Trains, delivers and shows the result.
pub fn run(args: &args::Run) -> Result<ExitCode> {
    let begun = match args.resume {
        true => resume::begun(args)?,
        false => None,
    };
    let (plan, out) = match &begun {
        Some(Begun { plan, out, .. }) => (plan.clone(), Some(out.clone())),
        None => {
            let mut spec = read_spec(args.spec.as_ref(), &args.overrides)?;
            if let Some(threads) = args.threads {
                spec.set(&format!("engine.threads={threads}"))?;
            }
            if let Some(out) = &args.out {
                RunDir::require_empty(out)?;
            }
            (spec.plan()?, args.out.clone())
        }
    };
    if let Some(Begun {
        finished: Some(summary),
        out,
        ..
    }) = &begun
    {
        if !args.quiet {
            crate::output::tell(format!("{}: the run is finished already", out.display()));
        }
        show(args, None, summary, out)?;
        return Ok(ExitCode::SUCCESS);
    }

    let mut setup = plan.setup()?;
    let environment = environment(&setup);
    let out = match out {
        Some(out) => out,
        None => new_directory(&plan, args.spec.as_deref())?,
    };
    let (mut training, mut directory, mut checkpoints) = match begun {
        None => {
            let directory = RunDir::create(&out, &plan, &setup, &environment)?;
            setup.home = plan.home(&out);
            let training = Training::new(setup.clone(), &plan.algorithm)?;
            (training, directory, Checkpoints::new(&out))
        }
        Some(begun) => {
            begun.fits(&environment, args.force)?;
            setup.home = plan.home(&out);
            let mut training = Training::new(setup.clone(), &plan.algorithm)?;
            let (checkpoints, found) = Checkpoints::resume(&out, &mut training)?;
            RunDir::describe(&out, &setup, &environment)?;
            let directory = RunDir::reopen(&out, training.round())?;
            tell(&found, &out, args.quiet);
            (training, directory, checkpoints)
        }
    };
    let stop = stop_on_signal()?;
    let progress = Progress::rounds(setup.rounds, training.round(), args.quiet);
    if !args.quiet {
        for note in &setup.notes {
            progress.say(note);
        }
    }
    while let Some(record) = training.next_round()? {
        directory.append(&record)?;
        progress.round(&record);
        if !record.skipped.is_empty() {
            progress.say(&format!(
                "round {}: left out, because their loss is not finite: {}",
                record.round,
                record.skipped.join(", ")
            ));
        }
        let last = record.round == setup.rounds;
        let stopping = stop.load(Ordering::Relaxed) && !last;
        let due = plan.checkpoint_every > 0 && record.round.is_multiple_of(plan.checkpoint_every);
        if due || last || stopping {
            directory.sync()?;
            checkpoints.write(&mut training)?;
        }
        if stopping {
            progress.clear();
            crate::output::tell(format!(
                "stopped after round {} of {}; continue with: apfl run --resume --out {}",
                record.round,
                setup.rounds,
                out.display()
            ));
            return Ok(ExitCode::FAILURE);
        }
    }
    progress.clear();

    let progress = Progress::deliveries(training.receivers().len() as u64, args.quiet);
    let summary = directory.finish(&mut training, |n| {
        progress.delivered(n);
        match stop.load(Ordering::Relaxed) {
            true => Err(Error::Interrupted(format!(
                "stopped during delivery; continue with: apfl run --resume --out {}",
                out.display()
            ))),
            false => Ok(()),
        }
    })?;
    progress.clear();
    if !summary.skipped.is_empty() {
        crate::output::tell(format!(
            "delivery: left out, because their loss is not finite: {}",
            summary.skipped.join(", ")
        ));
    }
    show(args, Some(&headline(&plan, &setup)), &summary, &out)?;
    Ok(ExitCode::SUCCESS)
}

fn tell(found: &Found, out: &Path, quiet: bool) {
    match found {
        Found::Resumed { round, notes } => {
            notes.iter().for_each(crate::output::tell);
            if !quiet {
                crate::output::tell(format!("{}: going on after round {round}", out.display()));
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

/// One line that says what is being trained.
fn headline(plan: &Plan, setup: &Setup) -> String {
    let world = &setup.world;
    let n = world.dataset.clients();
    let k = setup.cohort_size();
    let cohort = match k == n {
        true => String::new(),
        false => format!(", {k} a round"),
    };
    let rule = match plan.aggregation {
        Aggregation::Mean => String::new(),
        rule => format!(" · {rule}"),
    };
    format!(
        "{}{rule} · {} ({} parameters) · {} · {}{cohort} · seed {}",
        plan.algorithm.describe(),
        plan.architecture.kind(),
        world.model.layout().len(),
        plan.data.kind(),
        counted(n, "client"),
        plan.seed
    )
}

/// Where and by what a run is made.
pub fn environment(setup: &Setup) -> Environment {
    Environment {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("APFL_COMMIT").into(),
        cpu: cpu(),
        engine: "threads".into(),
        threads: match setup.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        },
        data: setup.world.dataset.files(),
    }
}

fn cpu() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    name.and_then(|line| line.split_once(':'))
        .map_or(std::env::consts::ARCH.into(), |(_, name)| {
            name.trim().into()
        })
}

/// Makes `runs/<name>-<UTC time>`, with a number behind where that is taken.
fn new_directory(plan: &Plan, spec: Option<&Path>) -> Result<PathBuf> {
    let name = match spec.and_then(Path::file_stem) {
        Some(stem) => stem.to_string_lossy().into_owned(),
        None => format!("{}-{}", plan.algorithm.kind(), plan.data.kind()),
    };
    let time = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
    let failed = |path: &Path, source| Error::File {
        path: path.into(),
        action: "create",
        source,
    };
    std::fs::create_dir_all("runs").map_err(|e| failed(Path::new("runs"), e))?;
    for k in 1u32.. {
        let suffix = if k == 1 {
            String::new()
        } else {
            format!("-{k}")
        };
        let path = PathBuf::from(format!("runs/{name}-{time}{suffix}"));
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(failed(&path, e)),
        }
    }
    unreachable!("some number is free")
}

/// A flag that Ctrl-C and a termination signal raise; a second signal ends at once.
fn stop_on_signal() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
        crate::output::tell("\nstopping as soon as it can be continued; once more to stop at once");
    })
    .map_err(|e| Error::Data(format!("cannot listen for Ctrl-C: {e}")))?;
    Ok(stop)
}
