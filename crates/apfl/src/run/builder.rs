//! The front door: a run of one's own data and model, without a spec.

use std::path::PathBuf;
use std::sync::Arc;

use super::start::{Start, start_of};
use super::{Program, Run};
use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::{Algorithm, AlgorithmSpec, Apfl};
use crate::attack::Attack;
use crate::data::Dataset;
use crate::engine::EngineKind;
use crate::error::{Error, Result};
use crate::local_client::LocalWork;
use crate::model::Model;
use crate::privacy::PrivacySettings;
use crate::run::run_dir::RunDir;
use crate::spec::{Initial, Plan, PlannedSchedule, Resources};
use crate::training::{FinalizedClients, Setup, Weights};

/// A run in the making. What is not said has the default of a spec; [`RunBuilder::build`]
/// checks all of it as a spec is checked, and the data, before anything is done.
pub struct RunBuilder {
    dataset: Arc<dyn Dataset>,
    model: Arc<dyn Model>,
    plan: Plan,
    /// Where it is not the algorithm's usual one.
    schedule: Option<PlannedSchedule>,
    start: Starter,
    initial: Initial,
    engine: EngineKind,
    directory: Option<PathBuf>,
    resume: bool,
    force: bool,
    program: Program,
}

/// Makes what begins training, once the setup is known.
type Starter = Box<dyn FnOnce(&Setup) -> Result<Arc<dyn Start>> + Send>;

impl Run {
    /// Starts a run of a model on data; by default of adaptive APFL from α⁰ = 0.01.
    pub fn builder(data: impl Dataset + 'static, model: impl Model + 'static) -> RunBuilder {
        Self::builder_shared(Arc::new(data), Arc::new(model))
    }

    /// Starts a run like [`Run::builder`], of data and a model that others use too.
    pub fn builder_shared(dataset: Arc<dyn Dataset>, model: Arc<dyn Model>) -> RunBuilder {
        RunBuilder {
            plan: Plan::of_own(&*dataset, &*model),
            dataset,
            model,
            schedule: None,
            start: Box::new(|setup| start_of(Apfl::adaptive(0.01), setup)),
            initial: Initial::Model,
            engine: EngineKind::default(),
            directory: None,
            resume: false,
            force: false,
            program: Program::default(),
        }
    }
}

impl RunBuilder {
    /// Sets the algorithm: one of the library's, or one's own.
    pub fn algorithm<A: Algorithm>(mut self, algorithm: A) -> Self {
        self.plan.algorithm = AlgorithmSpec::of(&algorithm);
        self.start = Box::new(move |setup| start_of(algorithm, setup));
        self
    }

    /// Sets the algorithm of a spec.
    pub fn algorithm_of(mut self, spec: AlgorithmSpec) -> Self {
        self.plan.algorithm = spec.clone();
        self.start = Box::new(move |_| Ok(Arc::new(spec)));
        self
    }

    /// Sets what everything random in training follows from: w⁰, cohorts, batches. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// Sets the rounds to train. Default: 100.
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.plan.rounds = rounds;
        self
    }

    /// Sets τ, the local steps of every client in a round. Default: 10.
    pub fn local_steps(mut self, steps: u64) -> Self {
        self.plan.local_training.work = LocalWork::Steps(steps);
        self
    }

    /// Sets the passes over a client's examples in a round, in place of a number of steps.
    pub fn local_epochs(mut self, epochs: u64) -> Self {
        self.plan.local_training.work = LocalWork::Epochs(epochs);
        self
    }

    /// Sets the examples of a step. Default: 50.
    pub fn batch(mut self, examples: usize) -> Self {
        self.plan.local_training.batch = Some(examples);
        self
    }

    /// Makes every step see all of the client's training examples.
    pub fn full_batch(mut self) -> Self {
        self.plan.local_training.batch = None;
        self
    }

    /// Sets η. Default: 0.1.
    pub fn learning_rate(mut self, rate: f64) -> Self {
        self.plan.local_training.learning_rate = rate;
        self
    }

    /// Sets how the learning rate changes: a [`Schedule`](crate::Schedule), or a theorem that
    /// makes one of the data. Default: the algorithm's usual one, mostly 1% less a round.
    pub fn schedule(mut self, schedule: impl Into<PlannedSchedule>) -> Self {
        self.schedule = Some(schedule.into());
        self
    }

    /// Sets β of the clients' momentum, which starts anew in every round. Default: 0.
    pub fn momentum(mut self, beta: f64) -> Self {
        self.plan.local_training.momentum = beta;
        self
    }

    /// Leaves a client whose loss is not finite out of the round, instead of ending the run.
    pub fn skip_nonfinite(mut self, skip: bool) -> Self {
        self.plan.skip_nonfinite = skip;
        self
    }

    /// Makes rare classes count for more in training. Default: no.
    pub fn balance_classes(mut self, balance: bool) -> Self {
        self.plan.class_weights = balance;
        self
    }

    /// Sets K/n, the share of the clients drawn each round. Default: 1.
    pub fn participation(mut self, share: f64) -> Self {
        self.plan.participation = share;
        self
    }

    /// Sets how updates are weighted. Default: all alike.
    pub fn weights(mut self, weights: Weights) -> Self {
        self.plan.weights = weights;
        self
    }

    /// Sets how updates become one model. Default: the mean.
    pub fn aggregation(mut self, rule: Aggregation) -> Self {
        self.plan.aggregation = rule;
        self
    }

    /// Sets how the server moves its model to the cohort's. Default: there at once.
    pub fn server(mut self, optimizer: ServerOptimizer) -> Self {
        self.plan.server = optimizer;
        self
    }

    /// Makes some clients attack the shared model. Default: nobody does.
    pub fn attack(mut self, attack: Attack) -> Self {
        self.plan.attack = Some(attack);
        self
    }

    /// Trains under differential privacy. Default: without.
    pub fn privacy(mut self, settings: PrivacySettings) -> Self {
        self.plan.privacy = Some(settings);
        self
    }

    /// Sets the rounds between evaluations. Default: 1.
    pub fn evaluate_every(mut self, rounds: u64) -> Self {
        self.plan.evaluate_every = rounds;
        self
    }

    /// Scores shuffled rows so many at a time, which matters to models whose rows depend on each
    /// other alone. Default: as the model says ([`Network::evaluation`](crate::model::Network::evaluation)).
    pub fn evaluate_in_batches_of(mut self, rows: usize) -> Self {
        self.plan.architecture.extras.evaluation_batch = Some(rows);
        self
    }

    /// Sets who gets a last local round, scores and a model at the end. Default: all.
    pub fn finalized_clients(mut self, who: FinalizedClients) -> Self {
        self.plan.finalized_clients = who;
        self
    }

    /// Sets whether to keep the clients' models. Default: yes.
    pub fn keep_models(mut self, keep: bool) -> Self {
        self.plan.keep_models = keep;
        self
    }

    /// Sets w⁰: parameters, or an [`Initial`]. Default: the model's own.
    pub fn initial(mut self, initial: impl Into<Initial>) -> Self {
        self.initial = initial.into();
        self
    }

    /// Sets the engine. Default: threads of this process. On MPI every rank builds the same run
    /// and calls [`Run::train_on_ranks`]. Data at sites are described by a spec: see
    /// [`federation::Server`](crate::federation::Server).
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the threads. Default: one per core. No number of them changes a bit of the result.
    pub fn threads(mut self, threads: usize) -> Self {
        self.plan.engine.threads = threads;
        self
    }

    /// Makes the run durable: everything it leaves is in that directory, which must be empty
    /// or, with [`RunBuilder::resume`], hold this very run.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Goes on with the run that is in the directory; begins one where there is none.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Goes on also where another version of the program began the run.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets what `environment.json` says the run was made by. Default: this library.
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Sets the rounds between checkpoints; 0: only at the end. Default: 10.
    pub fn checkpoint_every(mut self, rounds: u64) -> Self {
        self.plan.checkpoint_every = rounds;
        self
    }

    /// Keeps client memories beyond so many megabytes in a file of the run directory, which
    /// must be given.
    pub fn memories_on_disk(mut self, budget_mb: u64) -> Self {
        self.plan.engine.keep_on_disk(budget_mb);
        self
    }

    /// Returns the plan: every setting checked as those of a spec are, the data not yet looked
    /// at.
    ///
    /// # Errors
    /// All that is wrong with the settings, by the keys that a spec has for them.
    pub fn plan(&self) -> Result<Plan> {
        let mut plan = self.plan.clone();
        let usual = || PlannedSchedule::usual(&plan.algorithm);
        plan.local_training.schedule = self.schedule.clone().unwrap_or_else(usual);
        let mut problems = plan.resolve();
        if plan.engine.memory_budget.is_some() && self.directory.is_none() {
            let problem = "found \"disk\", but there is no run directory for them; give one";
            problems.note("engine.memory", problem);
        }
        if problems.0.is_empty() {
            Ok(plan)
        } else {
            Err(Error::Spec(problems))
        }
    }

    /// Checks settings, model and data.
    ///
    /// # Errors
    /// All that is wrong with the settings, by the keys that a spec has for them; or the first
    /// client and row that cannot be trained on.
    pub fn build(self) -> Result<Run> {
        let plan = self.plan()?;
        match (&self.directory, self.resume) {
            (None, true) => {
                let problem = "to resume a run, give the directory it is in";
                return Err(Error::Request(problem.into()));
            }
            (Some(directory), false) => RunDir::require_empty(directory)?,
            _ => {}
        }
        let model = match plan.architecture.extras.evaluation_batch {
            None => self.model,
            Some(rows) => self.model.with_evaluation_batch(rows).ok_or_else(|| {
                Error::Request(format!(
                    "evaluation.batch: found {rows}, but the model says itself how it is scored; \
                     change its `Network::evaluation`"
                ))
            })?,
        };
        let w0 = self.initial.params(&*model, plan.seed)?;
        let on = Resources {
            engine: self.engine,
            directory: self.directory.as_deref(),
            ..Resources::default()
        };
        let setup = plan.setup_with_model(self.dataset, model, w0, on)?;
        Ok(Run {
            directory: self.directory,
            resumes: self.resume,
            program: self.program,
            force: self.force,
            ..Run::started_by((self.start)(&setup)?, plan, setup)
        })
    }
}

impl std::fmt::Debug for RunBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunBuilder")
            .field("plan", &self.plan)
            .field("schedule", &self.schedule)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
