//! The durable run: begun or resumed, round by round, checkpointed, delivered, finished.
//!
//! A [`Run`] does all of it and tells a caller through [`Event`]s; the caller may end it
//! after any of them. With a directory everything is durable: killed at any instant, the
//! same run resumed ends with the same bits. Without one it lives in memory.
//!
//! ```
//! use apfl::{Apfl, Examples, InMemory, Loss, Mlp, Run};
//!
//! // Two sites with opposite answers to one question.
//! let mut data = InMemory::classes(["x"], ["no", "yes"]);
//! for (site, flipped) in [("north", 0), ("south", 1)] {
//!     let x: Vec<f32> = (0..40).map(|k| k as f32 / 20.0 - 1.0).collect();
//!     let y = x.iter().map(|x| u32::from(*x > 0.0) ^ flipped).collect();
//!     data.add(site, Examples::classes(1, x, y)?, 0.25)?;
//! }
//! let model = Mlp::new(1, &[], 2, Loss::Softmax, 1e-4);
//! let run = Run::builder(data, model)
//!     .algorithm(Apfl::fixed(0.75))
//!     .rounds(20)
//!     .build()?
//!     .train()?;
//! let north = run.personal("north")?;
//! assert_eq!(north.predict(&[0.9])?[0].class(), Some(1));
//! assert_eq!(run.personal("south")?.predict(&[0.9])?[0].class(), Some(0));
//! # Ok::<(), apfl::Error>(())
//! ```

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::files::lock::DirectoryLock;
use crate::files::private;
use crate::run::run_dir::InterruptedRun;
use crate::spec::{Plan, differences, prolonged};
use crate::training::{RoundRecord, Setup, Training};

mod builder;
#[doc(hidden)] // for the program and the tests
pub mod checkpoint;
pub mod choice;
mod environment;
mod finalization;
mod finished;
pub(crate) mod manifest;
mod passes;
#[cfg(feature = "mpi")]
#[doc(hidden)] // for the program
pub mod ranks;
pub(crate) mod releases;
pub mod run_dir;
mod start;

pub use builder::RunBuilder;
#[doc(hidden)]
pub use checkpoint::Checkpoints;
pub use checkpoint::Found;
pub use environment::Program;
pub use finished::Finished;
#[doc(hidden)]
pub use manifest::Identity;
pub use run_dir::RunDir;

use choice::Choices;
use finalization::Output;
pub(crate) use finalization::write_site;
use passes::Before;
use start::Start;

/// A run that is ready to begin, or to go on.
pub struct Run {
    setup: Setup,
    plan: Plan,
    start: Arc<dyn Start>,
    directory: Option<PathBuf>,
    resumes: bool,
    program: Program,
    force: bool,
}

/// What a caller sees of a run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// What the checkpoints of a run that is resumed allow.
    Found(&'a Found),
    /// A pass of a choice among mixings begins: this of so many, the last with the choice.
    Pass {
        /// The pass, from 1.
        pass: u64,
        /// How many there are.
        of: u64,
    },
    /// Training begins after that round.
    Begun(u64),
    /// A round is done, and written down.
    Round(&'a RoundRecord),
    /// That many clients are to get their models.
    Finalizing(u64),
    /// That many have got them.
    Finalized(u64),
}

/// How a run ended.
#[derive(Debug)]
#[must_use]
pub enum Ended {
    /// With all rounds and a summary.
    Finished(Box<Finished>),
    /// After that round, because the caller said so. With a directory it can be resumed.
    Stopped(u64),
}

/// A caller's answer to an event: whether to go on.
pub type Watch<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + Send + 'a;

impl Run {
    /// What a plan does, with its data, in this process; see [`Run::builder`] for data and
    /// models of one's own.
    pub fn new(plan: &Plan, setup: Setup) -> Self {
        Self::started_by(Arc::new(plan.algorithm.clone()), plan.clone(), setup)
    }

    /// Returns a run that starts training by `start`.
    fn started_by(start: Arc<dyn Start>, plan: Plan, setup: Setup) -> Self {
        Self {
            setup,
            plan,
            start,
            directory: None,
            resumes: false,
            program: Program::default(),
            force: false,
        }
    }

    /// Begins a new run directory there; one that exists must be empty. The setup must have
    /// been made for it ([`Resources::directory`](crate::spec::Resources)) where memories are to live on disk.
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Goes on with the run that was begun in a directory; begins one where there is none.
    pub fn resume(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self.resumes = true;
        self
    }

    /// What `environment.json` says the run was made by; by default this library.
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Goes on with a run that another version of the program began.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// What the run is, apart from its algorithm.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Trains to the end and delivers.
    pub fn train(self) -> Result<Finished> {
        match self.watch(&mut |_| ControlFlow::Continue(()))? {
            Ended::Finished(finished) => Ok(*finished),
            Ended::Stopped(_) => unreachable!("nobody said so"),
        }
    }

    /// The same, watched by a caller that may end it: after the current round, or between
    /// two clients of delivery.
    pub fn watch(self, watch: &mut Watch<'_>) -> Result<Ended> {
        let Some(path) = self.directory.clone() else {
            return match self.before(None, watch)? {
                Before::Stopped(round) => Ok(Ended::Stopped(round)),
                Before::Ready(setup, choices) => {
                    let training = self.begin(*setup, &choices)?;
                    self.carry_out(training, choices, Output::in_memory(), None, watch)
                }
            };
        };
        // Until it ends, in whatever way, nobody else writes here.
        private::create_directory(&path)?;
        let _lock = DirectoryLock::take(&path)?;
        let begun = if self.resumes {
            InterruptedRun::open(&path)?
        } else {
            None
        };
        let environment = environment::of(&self.setup, &self.program);
        let schema = self.setup.context.dataset.schema();
        let Some(begun) = begun else {
            let identity = environment::identity(&self.plan, &self.setup, &environment)?;
            let spec = self.plan.to_toml();
            let notes = &self.setup.notes;
            let directory = RunDir::create(&path, &spec, notes, schema, &environment)?;
            let checkpoints = Checkpoints::new(&path, identity);
            self.keep_releases(&path)?;
            let (setup, choices) = match self.before(Some(&path), watch)? {
                Before::Stopped(round) => return Ok(Ended::Stopped(round)),
                Before::Ready(setup, choices) => (setup, choices),
            };
            let training = self.begin(*setup, &choices)?;
            let output = Output::Directory(directory);
            return self.carry_out(training, choices, output, Some(checkpoints), watch);
        };
        let longer = same_run(&begun, &self.plan)?;
        if let Some(summary) = begun.summary
            && longer.is_none()
        {
            let form = self.plan.algorithm.properties().personal;
            let finished = Finished::in_directory(summary, &path, &self.setup, form);
            return Ok(Ended::Finished(Box::new(finished)));
        }
        environment::fits(begun.environment.as_ref(), &environment, &path)?;
        let identity = environment::identity(&self.plan, &self.setup, &environment)?;
        self.keep_releases(&path)?;
        let (setup, choices) = match self.before(Some(&path), watch)? {
            Before::Stopped(round) => return Ok(Ended::Stopped(round)),
            Before::Ready(setup, choices) => (setup, choices),
        };
        let mut training = self.begin(*setup, &choices)?;
        let (checkpoints, found) = Checkpoints::resume(&path, identity, self.force, &mut training)?;
        RunDir::clean(&path);
        if longer.is_some() {
            RunDir::prolong(&path, &self.plan.to_toml(), &training.setup().notes)?;
        }
        RunDir::describe(&path, schema, &environment)?;
        let output = Output::Directory(RunDir::reopen(&path, training.written())?);
        if watch(Event::Found(&found)).is_break() {
            return Ok(Ended::Stopped(training.round()));
        }
        self.carry_out(training, choices, output, Some(checkpoints), watch)
    }

    /// Starts training, and sends clients what they chose in the passes before.
    fn begin(&self, setup: Setup, choices: &Choices) -> Result<Training> {
        let mut training = self.start.training(setup)?;
        training.choose(choices.candidates())?;
        Ok(training)
    }

    /// Makes the ledger of releases durable. The passes of a choice share the ledger in the
    /// directory of the whole run.
    fn keep_releases(&self, path: &Path) -> Result<()> {
        match self.setup.ledger().filter(|ledger| !ledger.is_durable()) {
            Some(ledger) => releases::open(path, ledger),
            None => Ok(()),
        }
    }

    /// Trains the rounds, writes checkpoints and finalizes.
    fn carry_out(
        &self,
        mut training: Training,
        choices: Choices,
        mut output: Output,
        mut durable: Option<Checkpoints>,
        watch: &mut Watch<'_>,
    ) -> Result<Ended> {
        let rounds = training.until();
        let every = self.plan.checkpoint_every;
        if watch(Event::Begun(training.round())).is_break() {
            return Ok(Ended::Stopped(training.round()));
        }
        while let Some(record) = training.next_round()? {
            output.append(&record)?;
            let last = record.round == rounds;
            let stopping = watch(Event::Round(&record)).is_break();
            let due = every > 0 && record.round.is_multiple_of(every);
            if let Some(checkpoints) = &mut durable
                && (due || last || stopping)
            {
                output.sync()?;
                checkpoints.write(&mut training)?;
            }
            if stopping {
                return Ok(Ended::Stopped(record.round));
            }
        }
        let choosing = self.plan.algorithm.choosing();
        match finalization::finalize(&mut training, output, choosing, choices, watch) {
            Ok(finished) => Ok(Ended::Finished(Box::new(finished))),
            Err(Error::Interrupted(_)) => Ok(Ended::Stopped(training.round())),
            Err(error) => Err(error),
        }
    }
}

/// Checks that a run directory has the run of a plan. Returns the rounds of a plan with more
/// rounds than the directory's.
///
/// # Errors
/// The keys in which the runs differ.
fn same_run(begun: &InterruptedRun, plan: &Plan) -> Result<Option<u64>> {
    // A spec that this program can plan is compared with every default spelled out.
    let there = match begun.spec.plan() {
        Ok(there) => there.resolved,
        Err(_) => begun.spec.table().clone(),
    };
    let longer = prolonged(&there, &plan.resolved)?;
    let differences = differences(&there, &plan.resolved);
    if differences.is_empty() || longer.is_some() {
        Ok(longer)
    } else {
        Err(Error::Request(format!(
            "{}: the run in this directory is another one; it differs in\n  {}",
            begun.path.display(),
            differences.join("\n  ")
        )))
    }
}

impl fmt::Debug for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run")
            .field("setup", &self.setup)
            .field("directory", &self.directory)
            .field("resumes", &self.resumes)
            .finish_non_exhaustive()
    }
}
