//! One run from its beginning, or from where it was interrupted, to its end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use apfl::data::partition;
use apfl::engine::threads;
use apfl::error::{Error, Result};
use apfl::spec::Plan;
use apfl::store::checkpoint::Found;
use apfl::store::run_dir::{Environment, Summary};
use apfl::store::{Checkpoints, RunDir};
use apfl::training::{RoundRecord, Setup, Training};

use crate::resume::Begun;

/// What is to run, and where.
pub struct Job {
    /// What is to run.
    pub plan: Plan,
    /// With its data.
    pub setup: Setup,
    /// The run directory.
    pub out: PathBuf,
    /// What is there already.
    pub begun: Option<Begun>,
    /// Whether another version's run may be continued.
    pub force: bool,
}

/// What a caller sees of it.
pub enum Event<'a> {
    /// Training begins after that round.
    Begun(u64),
    /// What the checkpoints allowed.
    Found(&'a Found),
    /// A round is done.
    Round(&'a RoundRecord),
    /// That many clients are to get their models.
    Delivering(u64),
    /// That many have got them.
    Delivered(u64),
}

/// How it ended.
pub enum Ended {
    /// With all rounds and a summary.
    Finished(Box<Summary>),
    /// After that round, to be continued.
    Stopped(u64),
}

impl Job {
    /// Trains and delivers. Ends after the current round when `stop` is raised.
    pub fn run(
        &self,
        stop: &AtomicBool,
        watch: &mut (dyn FnMut(Event<'_>) + Send),
    ) -> Result<Ended> {
        let Self {
            plan, setup, out, ..
        } = self;
        let environment = environment(setup);
        let at_home = || Setup {
            home: plan.home(out),
            ..setup.clone()
        };
        let (mut training, mut directory, mut checkpoints) = match &self.begun {
            None => {
                let directory = RunDir::create(out, plan, setup, &environment)?;
                let training = Training::new(at_home(), &plan.algorithm)?;
                (training, directory, Checkpoints::new(out))
            }
            Some(begun) => {
                begun.fits(&environment, self.force)?;
                let mut training = Training::new(at_home(), &plan.algorithm)?;
                let (checkpoints, found) = Checkpoints::resume(out, &mut training)?;
                RunDir::describe(out, setup, &environment)?;
                let directory = RunDir::reopen(out, training.round())?;
                watch(Event::Found(&found));
                (training, directory, checkpoints)
            }
        };
        watch(Event::Begun(training.round()));
        while let Some(record) = training.next_round()? {
            directory.append(&record)?;
            watch(Event::Round(&record));
            let last = record.round == setup.rounds;
            let stopping = stop.load(Ordering::Relaxed) && !last;
            let every = plan.checkpoint_every;
            let due = every > 0 && record.round.is_multiple_of(every);
            if due || last || stopping {
                directory.sync()?;
                checkpoints.write(&mut training)?;
            }
            if stopping {
                return Ok(Ended::Stopped(record.round));
            }
        }
        watch(Event::Delivering(training.receivers().len() as u64));
        let summary = directory.finish(&mut training, |n| {
            watch(Event::Delivered(n));
            match stop.load(Ordering::Relaxed) {
                true => Err(Error::Interrupted(format!(
                    "stopped during delivery; continue with: apfl run --resume --out {}",
                    out.display()
                ))),
                false => Ok(()),
            }
        })?;
        Ok(Ended::Finished(Box::new(summary)))
    }
}

/// Where and by what a run is made.
fn environment(setup: &Setup) -> Environment {
    Environment {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("APFL_COMMIT").into(),
        cpu: cpu(),
        engine: setup.engine.name().into(),
        ranks: setup.engine.ranks(),
        threads: threads::count(setup.threads),
        data: setup.world.dataset.files(),
        partition: setup.world.dataset.dealing().map(partition::checksum),
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
