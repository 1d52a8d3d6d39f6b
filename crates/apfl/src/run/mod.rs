//! The durable run: begun or resumed, round by round, checkpointed, delivered, finished.
//!
//! A [`Run`] does all of it and tells a caller through [`Event`]s; the caller may end it
//! after any of them. With a directory everything is durable: killed at any instant, the
//! same run resumed ends with the same bits. Without one it lives in memory.
//!
//! ```
//! use std::sync::Arc;
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
//! let run = Run::builder(Arc::new(data), Arc::new(model))
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

use crate::algorithm::Algorithm;
use crate::choice::Choosing;
use crate::error::{Error, Result};
use crate::files::lock::DirectoryLock;
use crate::files::private;
use crate::local_client::ModelForm;
use crate::run::run_dir::InterruptedRun;
use crate::spec::{Plan, differences, prolonged};
use crate::training::{RoundRecord, Setup, Training, fitted};

mod builder;
#[doc(hidden)] // for the program and the tests
pub mod checkpoint;
mod choice;
mod environment;
mod finalization;
mod finished;
pub(crate) mod manifest;
pub(crate) mod releases;
pub mod run_dir;

pub use builder::RunBuilder;
#[doc(hidden)]
pub use checkpoint::Checkpoints;
pub use checkpoint::Found;
pub use environment::Program;
pub use finished::Finished;
#[doc(hidden)]
pub use manifest::Identity;
pub use run_dir::RunDir;

use choice::Before;
use finalization::Output;
pub(crate) use finalization::write_site;

/// A run that is ready to begin, or to go on.
pub struct Run {
    setup: Setup,
    start: Start,
    /// How it chooses among mixings, where it does.
    choosing: Option<Choosing>,
    /// The form of the models that clients serve.
    personal_form: ModelForm,
    spec: toml::Table,
    checkpoint_every: u64,
    directory: Option<PathBuf>,
    resumes: bool,
    program: Program,
    force: bool,
}

/// Begins training: the algorithm's type is known here alone.
type Start = Arc<dyn Fn(Setup) -> Result<Training> + Send + Sync>;

/// Fits an algorithm to the run of a setup, and returns what begins training with it.
fn start_of<A: Algorithm>(algorithm: A, setup: &Setup) -> Result<Start> {
    let algorithm = Arc::new(fitted(algorithm, setup)?);
    Ok(Arc::new(move |setup| {
        Training::of(setup, algorithm.clone())
    }))
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
        let algorithm = plan.algorithm.clone();
        let start = Arc::new(move |setup| Training::new(setup, &algorithm));
        Self::started_by(start, plan, setup)
    }

    /// The same with another way to begin training.
    fn started_by(start: Start, plan: &Plan, setup: Setup) -> Self {
        Self {
            setup,
            start,
            choosing: plan.algorithm.choosing().cloned(),
            personal_form: plan.algorithm.properties().personal,
            spec: plan.resolved.clone(),
            checkpoint_every: plan.checkpoint_every,
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
                Before::Ready(setup) => {
                    let training = (self.start)(*setup)?;
                    carry_out(training, Output::in_memory(), None, 0, watch)
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
            let identity = environment::identity(&self.spec, &self.setup, &environment)?;
            let spec = toml::to_string(&self.spec).expect("a table of plain values is TOML");
            let notes = &self.setup.notes;
            let directory = RunDir::create(&path, &spec, notes, schema, &environment)?;
            let checkpoints = Checkpoints::new(&path, identity);
            self.keep_releases(&path)?;
            let setup = match self.before(Some(&path), watch)? {
                Before::Stopped(round) => return Ok(Ended::Stopped(round)),
                Before::Ready(setup) => setup,
            };
            let training = (self.start)(*setup)?;
            let output = Output::Directory(directory);
            return carry_out(
                training,
                output,
                Some(checkpoints),
                self.checkpoint_every,
                watch,
            );
        };
        let longer = same_run(&begun, &self.spec)?;
        if let Some(summary) = begun.summary
            && longer.is_none()
        {
            let finished = Finished::in_directory(summary, &path, &self.setup, self.personal_form);
            return Ok(Ended::Finished(Box::new(finished)));
        }
        environment::fits(begun.environment.as_ref(), &environment, &path)?;
        let identity = environment::identity(&self.spec, &self.setup, &environment)?;
        self.keep_releases(&path)?;
        let setup = match self.before(Some(&path), watch)? {
            Before::Stopped(round) => return Ok(Ended::Stopped(round)),
            Before::Ready(setup) => setup,
        };
        let mut training = (self.start)(*setup)?;
        let (checkpoints, found) = Checkpoints::resume(&path, identity, self.force, &mut training)?;
        RunDir::clean(&path);
        if longer.is_some() {
            let spec = toml::to_string(&self.spec).expect("a table of plain values is TOML");
            RunDir::prolong(&path, &spec, &training.setup().notes)?;
        }
        RunDir::describe(&path, schema, &environment)?;
        let output = Output::Directory(RunDir::reopen(&path, training.written())?);
        if watch(Event::Found(&found)).is_break() {
            return Ok(Ended::Stopped(training.round()));
        }
        carry_out(
            training,
            output,
            Some(checkpoints),
            self.checkpoint_every,
            watch,
        )
    }

    /// Makes entries of releases durable, where there are any; those of a choice's passes are
    /// in the directory of the whole run.
    fn keep_releases(&self, path: &Path) -> Result<()> {
        match self.setup.ledger().filter(|ledger| !ledger.is_durable()) {
            Some(ledger) => releases::open(path, ledger),
            None => Ok(()),
        }
    }
}

/// The rounds, their checkpoints, and delivery.
fn carry_out(
    mut training: Training,
    mut output: Output,
    mut durable: Option<Checkpoints>,
    checkpoint_every: u64,
    watch: &mut Watch<'_>,
) -> Result<Ended> {
    let rounds = training.until();
    if watch(Event::Begun(training.round())).is_break() {
        return Ok(Ended::Stopped(training.round()));
    }
    while let Some(record) = training.next_round()? {
        output.append(&record)?;
        let last = record.round == rounds;
        let stopping = watch(Event::Round(&record)).is_break();
        let due = checkpoint_every > 0 && record.round.is_multiple_of(checkpoint_every);
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
    match finalization::finalize(&mut training, output, watch) {
        Ok(finished) => Ok(Ended::Finished(Box::new(finished))),
        Err(Error::Interrupted(_)) => Ok(Ended::Stopped(training.round())),
        Err(error) => Err(error),
    }
}

/// An error where the spec of a run that was begun is not the one that is to go on; how many
/// rounds it is to have where it shall have more.
fn same_run(begun: &InterruptedRun, spec: &toml::Table) -> Result<Option<u64>> {
    // Every default spelled out, where the spec is one that a plan can be made of.
    let there = match begun.spec.plan() {
        Ok(plan) => plan.resolved,
        Err(_) => begun.spec.table().clone(),
    };
    let longer = prolonged(&there, spec)?;
    let differences = differences(&there, spec);
    if differences.is_empty() || longer.is_some() {
        Ok(longer)
    } else {
        Err(Error::Request(format!(
            "{}: the run that was begun there is another one; it differs in\n  {}",
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
