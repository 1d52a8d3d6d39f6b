//! The durable run: started or resumed, trained round by round, checkpointed, finalized.
//!
//! A [`Run`] reports its progress to a caller as [`Event`]s, after each of which the caller may
//! stop it. With a directory everything is durable: a run that is killed at any moment and
//! resumed ends with the same bits. Without one it lives in memory.
//!
//! ```
//! use apfl::{Apfl, Examples, InMemory, Loss, Mlp, Run};
//!
//! // Two clients with opposite labels.
//! let mut data = InMemory::classes(["x"], ["no", "yes"]);
//! for (client, flipped) in [("north", 0), ("south", 1)] {
//!     let x: Vec<f32> = (0..40).map(|k| k as f32 / 20.0 - 1.0).collect();
//!     let y = x.iter().map(|x| u32::from(*x > 0.0) ^ flipped).collect();
//!     data.add(client, Examples::classes(1, x, y)?, 0.25)?;
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
use crate::run::run_dir::{Environment, InterruptedRun};
use crate::spec::{Plan, changed_rounds, differences};
use crate::training::{RoundRecord, Setup, Training};

mod builder;
#[doc(hidden)] // for the program and the tests
pub mod checkpoint;
pub mod choice;
mod environment;
mod finalization;
mod finish;
mod finished;
pub(crate) mod manifest;
mod passes;
pub(crate) mod probe;
#[cfg(feature = "mpi")]
#[doc(hidden)] // for the program
pub mod ranks;
mod rate;
pub(crate) mod releases;
mod rounds;
#[doc(hidden)]
pub mod run_dir;
mod start;
pub(crate) mod stop;
mod summary;

pub use builder::RunBuilder;
#[doc(hidden)]
pub use checkpoint::Checkpoints;
pub use checkpoint::Found;
pub use environment::Program;
pub use finished::Finished;
#[doc(hidden)]
pub use manifest::Identity;
#[doc(hidden)] // for estimates
pub use probe::probe_rounds;
pub(crate) use probe::rates;
pub use probe::{FoundRate, ProbedRate};
#[doc(hidden)]
pub use run_dir::RunDir;
pub use run_dir::{ChosenRecord, ClientRecord, FinishedRun, Summary};
pub use stop::{StopReason, Stopped};

use choice::Choices;
use finalization::Output;
pub(crate) use finalization::write_site;
use passes::EarlierPasses;
use start::Start;

/// Represents a run that is ready to start or to resume.
pub struct Run {
    setup: Setup,
    plan: Plan,
    start: Arc<dyn Start>,
    directory: Option<PathBuf>,
    resumes: bool,
    finishes: bool,
    program: Program,
    force: bool,
}

/// What is known of a directory in which a run goes on.
#[derive(Clone, Copy)]
struct Begun<'a> {
    environment: &'a Environment,
    /// The rounds of the run there and those of the plan, if they differ.
    changed: Option<(u64, u64)>,
    /// Whether a run was found there, which the caller is told.
    found: bool,
}

/// Represents the progress of a run, as its caller sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A resumed run found these checkpoints.
    Found(&'a Found),
    /// A probe trains with this learning rate, after this many rounds.
    Probe {
        /// The rate.
        rate: f64,
        /// Rounds that are trained with it.
        round: u64,
    },
    /// The learning rate that a probe found, now or before an interruption.
    Rate(&'a FoundRate),
    /// A loss is not finite, and the run starts again with this learning rate, a third of the one
    /// before.
    Restarts {
        /// The rate.
        rate: f64,
        /// Why.
        error: &'a Error,
    },
    /// A pass of a choice among mixings starts. The last pass trains with the choices.
    Pass {
        /// The pass, from 1.
        pass: u64,
        /// Number of passes.
        of: u64,
    },
    /// Training starts after this round.
    Begun(u64),
    /// A round is done and recorded.
    Round(&'a RoundRecord),
    /// Finalization of this many clients starts.
    Finalizing(u64),
    /// This many clients are finalized.
    Finalized(u64),
}

/// Represents the end of a run.
#[derive(Debug)]
#[must_use]
pub enum Ended {
    /// All rounds are done and there is a summary.
    Finished(Box<Finished>),
    /// The caller stopped the run after this round. With a directory it can be resumed.
    Stopped(u64),
}

/// Receives events and decides whether to go on.
pub type Watch<'a> = dyn FnMut(Event<'_>) -> ControlFlow<()> + Send + 'a;

impl Run {
    /// Returns the run of a plan; see [`Run::builder`] for your own data and models.
    pub fn new(plan: &Plan, setup: Setup) -> Self {
        Self::with_start(Arc::new(plan.algorithm.clone()), plan.clone(), setup)
    }

    /// Returns a run that starts training with `start`.
    fn with_start(start: Arc<dyn Start>, plan: Plan, setup: Setup) -> Self {
        Self {
            setup,
            plan,
            start,
            directory: None,
            resumes: false,
            finishes: false,
            program: Program::default(),
            force: false,
        }
    }

    /// Starts a new run in this directory, which must be empty if it exists. If client states live
    /// on disk, the setup must have been made for it ([`Resources::directory`](crate::spec::Resources)).
    pub fn directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Resumes the run in a directory; without one a new run starts.
    pub fn resume(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self.resumes = true;
        self
    }

    /// Ends the run in a directory at its last checkpoint: finalizes its clients and writes its
    /// summary. Afterwards it is a finished run of that many rounds, which can be extended.
    pub fn finish(mut self, directory: impl Into<PathBuf>) -> Self {
        self.finishes = true;
        self.resume(directory)
    }

    /// Sets the program that `environment.json` names. Default: this library.
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Sets whether to resume a run that another version of the program started.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Returns the setup of the run.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Trains all rounds and finalizes.
    ///
    /// # Errors
    /// A run directory that is not empty or has another run, or a failure of training.
    pub fn train(self) -> Result<Finished> {
        match self.watch(&mut |_| ControlFlow::Continue(()))? {
            Ended::Finished(finished) => Ok(*finished),
            Ended::Stopped(_) => unreachable!("the watcher never stops the run"),
        }
    }

    /// Trains like [`Run::train`], watched by a caller that may stop it after a round or between
    /// two clients of finalization.
    ///
    /// # Errors
    /// Those of [`Run::train`].
    pub fn watch(mut self, watch: &mut Watch<'_>) -> Result<Ended> {
        let Some(path) = self.directory.clone() else {
            return self.with_rate(None, watch, |run, watch| {
                match run.earlier_passes(None, watch)? {
                    EarlierPasses::Stopped(round) => Ok(Ended::Stopped(round)),
                    EarlierPasses::Done(setup, choices) => {
                        let training = run.start_training(*setup, &choices)?;
                        run.train_to_end(training, choices, Output::in_memory(), None, watch)
                    }
                }
            });
        };
        // No other process may write here until this run ends.
        private::create_directory(&path)?;
        let _lock = DirectoryLock::take(&path)?;
        let existing = if self.resumes {
            InterruptedRun::open(&path)?
        } else {
            None
        };
        let environment = environment::of(&self.setup, &self.program);
        let mut begun = Begun {
            environment: &environment,
            changed: None,
            found: existing.is_some(),
        };
        if let Some(existing) = existing {
            self.recognize_rate(&path)?;
            begun.changed = require_same_run(&existing, &self.plan)?;
            if let Some(summary) = existing.summary
                && begun.changed.is_none()
            {
                let form = self.plan.algorithm.properties().personal;
                let finished = Finished::in_directory(summary, &path, &self.setup, form);
                return Ok(Ended::Finished(Box::new(finished)));
            }
            environment::fits(existing.environment.as_ref(), &environment, &path)?;
            if self.finishes {
                self.require_finishable(&path)?;
            }
            if let Some((before, rounds)) = begun.changed {
                self.require_possible(&path, before, rounds)?;
            }
        } else if self.finishes {
            return Err(Error::Request(format!(
                "{}: no run was begun there, so there is nothing to finish",
                path.display()
            )));
        } else {
            let schema = self.setup.context.dataset.schema();
            let (spec, notes) = (self.plan.to_toml(), &self.setup.notes);
            RunDir::create(&path, &spec, notes, schema, &environment)?;
        }
        self.with_rate(Some(&path), watch, |run, watch| {
            let ended = run.go_on(&path, begun, watch);
            begun.found = false;
            ended
        })
    }

    /// Trains from the last checkpoint in a directory that has the run's spec.
    fn go_on(&self, path: &Path, begun: Begun<'_>, watch: &mut Watch<'_>) -> Result<Ended> {
        let Begun {
            environment,
            changed,
            found: reported,
        } = begun;
        let identity = environment::identity(&self.plan, &self.setup, environment)?;
        self.keep_releases(path)?;
        let (setup, choices) = match self.earlier_passes(Some(path), watch)? {
            EarlierPasses::Stopped(round) => return Ok(Ended::Stopped(round)),
            EarlierPasses::Done(setup, choices) => (setup, choices),
        };
        let mut training = self.start_training(*setup, &choices)?;
        let last = self.plan.rounds;
        let (mut checkpoints, found) =
            Checkpoints::resume_by(path, identity, self.force, last, &mut training)?;
        RunDir::clean(path);
        if changed.is_some() {
            RunDir::change_rounds(path, &self.plan.to_toml(), &training.setup().notes)?;
        }
        if changed.is_some_and(|(before, rounds)| rounds < before) {
            checkpoints.drop_others();
        }
        if self.finishes {
            training.end_here();
        }
        RunDir::describe(path, self.setup.context.dataset.schema(), environment)?;
        let output = Output::Directory(RunDir::reopen(path, training.written())?);
        if reported && watch(Event::Found(&found)).is_break() {
            return Ok(Ended::Stopped(training.round()));
        }
        self.train_to_end(training, choices, output, Some(checkpoints), watch)
    }

    /// Starts training, and sends clients their choices from the earlier passes.
    fn start_training(&self, setup: Setup, choices: &Choices) -> Result<Training> {
        let mut training = self.start.training(setup)?;
        training.choose(choices.chosen())?;
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
}

/// Checks that a run directory has the run of a plan. Returns the rounds there and those of the
/// plan if they differ.
///
/// # Errors
/// The keys in which the runs differ.
fn require_same_run(existing: &InterruptedRun, plan: &Plan) -> Result<Option<(u64, u64)>> {
    // A spec that this program can plan is compared with every default spelled out.
    let resolved = match existing.spec.plan() {
        Ok(plan) => plan.resolved,
        Err(_) => existing.spec.table().clone(),
    };
    let changed = changed_rounds(&resolved, &plan.resolved)?;
    let differences = differences(&resolved, &plan.resolved);
    if differences.is_empty() || changed.is_some() {
        Ok(changed)
    } else {
        Err(Error::Request(format!(
            "{}: the directory contains another run, which differs in\n  {}\nuse another directory",
            existing.path.display(),
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
