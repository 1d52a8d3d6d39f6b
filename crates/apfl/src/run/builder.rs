//! Builder of a run from data and a model, without a spec.

use std::path::PathBuf;
use std::sync::Arc;

use super::start::{Start, fitted_start};
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
use crate::spec::{Initial, Plan, PlannedSchedule, Resources, Stop};
use crate::training::{FinalizedClients, Setup, Weights};

/// Builds a [`Run`]. Settings have the defaults of a spec; [`RunBuilder::build`] checks them like a
/// spec, and checks the data.
pub struct RunBuilder {
    dataset: Arc<dyn Dataset>,
    model: Arc<dyn Model>,
    plan: Plan,
    /// `None`: the algorithm's default.
    schedule: Option<PlannedSchedule>,
    start: MakeStart,
    initial: Initial,
    engine: EngineKind,
    directory: Option<PathBuf>,
    resume: bool,
    finish: bool,
    force: bool,
    program: Program,
}

/// Makes the [`Start`] of a run once its setup is known.
type MakeStart = Box<dyn FnOnce(&Setup) -> Result<Arc<dyn Start>> + Send>;

impl Run {
    /// Returns a builder of a run on data. The default algorithm is adaptive APFL with α⁰ = 0.01.
    pub fn builder(data: impl Dataset + 'static, model: impl Model + 'static) -> RunBuilder {
        Self::builder_shared(Arc::new(data), Arc::new(model))
    }

    /// Returns a builder like [`Run::builder`] for shared data and a shared model.
    pub fn builder_shared(dataset: Arc<dyn Dataset>, model: Arc<dyn Model>) -> RunBuilder {
        RunBuilder {
            plan: Plan::for_own(&*dataset, &*model),
            dataset,
            model,
            schedule: None,
            start: Box::new(|setup| fitted_start(Apfl::adaptive(0.01), setup)),
            initial: Initial::Model,
            engine: EngineKind::default(),
            directory: None,
            resume: false,
            finish: false,
            force: false,
            program: Program::default(),
        }
    }
}

impl RunBuilder {
    /// Sets the algorithm, from the library or of your own.
    pub fn algorithm<A: Algorithm>(mut self, algorithm: A) -> Self {
        self.plan.algorithm = AlgorithmSpec::of(&algorithm);
        self.start = Box::new(move |setup| fitted_start(algorithm, setup));
        self
    }

    /// Sets the algorithm by its spec.
    pub fn algorithm_spec(mut self, spec: AlgorithmSpec) -> Self {
        self.plan.algorithm = spec.clone();
        self.start = Box::new(move |_| Ok(Arc::new(spec)));
        self
    }

    /// Sets the seed of all random numbers: w⁰, cohorts, batches. Default: 1.
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self
    }

    /// Sets the number of rounds. Default: 100.
    pub fn rounds(mut self, rounds: u64) -> Self {
        self.plan.rounds = rounds;
        self
    }

    /// Sets τ, the local steps of every client per round. Default: 10.
    pub fn local_steps(mut self, steps: u64) -> Self {
        self.plan.local_training.work = LocalWork::Steps(steps);
        self
    }

    /// Sets the passes over a client's examples per round, instead of a number of steps.
    pub fn local_epochs(mut self, epochs: u64) -> Self {
        self.plan.local_training.work = LocalWork::Epochs(epochs);
        self
    }

    /// Sets the batch size. Default: 50.
    pub fn batch(mut self, examples: usize) -> Self {
        self.plan.local_training.batch = Some(examples);
        self
    }

    /// Uses all of a client's training examples in every step.
    pub fn full_batch(mut self) -> Self {
        self.plan.local_training.batch = None;
        self
    }

    /// Sets the learning rate η. Default: 0.1.
    pub fn learning_rate(mut self, rate: f64) -> Self {
        self.plan.local_training.learning_rate = rate;
        self.plan.auto_rate = false;
        self
    }

    /// Finds the learning rate by a probe: the largest of 1, 0.3, … 0.001 that is as good as the
    /// best one after five rounds, on a tenth of every client's training rows.
    pub fn learning_rate_auto(mut self) -> Self {
        self.plan.auto_rate = true;
        self
    }

    /// Sets how the learning rate changes: a [`Schedule`](crate::Schedule), or a theorem whose
    /// schedule may depend on the data. Default: the algorithm's, mostly 1% less per round.
    pub fn schedule(mut self, schedule: impl Into<PlannedSchedule>) -> Self {
        self.schedule = Some(schedule.into());
        self
    }

    /// Sets the clients' momentum β, which starts anew in every round. Default: 0.
    pub fn momentum(mut self, beta: f64) -> Self {
        self.plan.local_training.momentum = beta;
        self
    }

    /// Sets whether a client whose loss is not finite is left out of the round instead of ending
    /// the run. Default: no.
    pub fn skip_nonfinite(mut self, skip: bool) -> Self {
        self.plan.skip_nonfinite = skip;
        self
    }

    /// Sets whether rare classes count for more in training. Default: no.
    pub fn balance_classes(mut self, balance: bool) -> Self {
        self.plan.class_weights = balance;
        self
    }

    /// Ends training when the validation loss no longer improves, with the models of the best
    /// round. Default: off.
    pub fn stop(mut self, stop: Stop) -> Self {
        self.plan.stop = Some(stop);
        self
    }

    /// Sets K/n, the share of clients sampled per round. Default: 1.
    pub fn participation(mut self, share: f64) -> Self {
        self.plan.participation = share;
        self
    }

    /// Sets how updates are weighted. Default: uniformly.
    pub fn weights(mut self, weights: Weights) -> Self {
        self.plan.weights = weights;
        self
    }

    /// Sets the aggregator of updates. Default: the mean.
    pub fn aggregation(mut self, aggregator: Aggregation) -> Self {
        self.plan.aggregation = aggregator;
        self
    }

    /// Sets the server's optimizer. Default: the server takes the aggregated model as it is.
    pub fn server(mut self, optimizer: ServerOptimizer) -> Self {
        self.plan.server = optimizer;
        self
    }

    /// Simulates an attack of some clients on the shared model. Default: none.
    pub fn attack(mut self, attack: Attack) -> Self {
        self.plan.attack = Some(attack);
        self
    }

    /// Trains with differential privacy. Default: without.
    pub fn privacy(mut self, settings: PrivacySettings) -> Self {
        self.plan.privacy = Some(settings);
        self
    }

    /// Sets the rounds between evaluations. Default: 1.
    pub fn evaluate_every(mut self, rounds: u64) -> Self {
        self.plan.evaluate_every = rounds;
        self
    }

    /// Scores shuffled rows in batches of this size, which changes the scores only if rows of a
    /// batch depend on each other. Default: the model's
    /// [`Network::evaluation`](crate::model::Network::evaluation).
    pub fn evaluate_in_batches_of(mut self, rows: usize) -> Self {
        self.plan.architecture.extras.evaluation_batch = Some(rows);
        self
    }

    /// Sets the clients that get a last local round, scores and a model at the end. Default: all.
    pub fn finalized_clients(mut self, clients: FinalizedClients) -> Self {
        self.plan.finalized_clients = clients;
        self
    }

    /// Sets whether to keep the clients' models. Default: yes.
    pub fn keep_models(mut self, keep: bool) -> Self {
        self.plan.keep_models = keep;
        self
    }

    /// Sets w⁰: parameters, or an [`Initial`]. Default: the model's.
    pub fn initial(mut self, initial: impl Into<Initial>) -> Self {
        self.initial = initial.into();
        self
    }

    /// Sets the engine. Default: threads of this process. On MPI every rank builds the same run
    /// and calls `Run::train_on_ranks`. A federation over sites needs a spec; see
    /// [`federation::Server`](crate::federation::Server).
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = engine;
        self
    }

    /// Sets the number of threads, which never changes the result. Default: one per core.
    pub fn threads(mut self, threads: usize) -> Self {
        self.plan.engine.threads = threads;
        self
    }

    /// Makes the run durable in a run directory, which must be empty or, with
    /// [`RunBuilder::resume`], contain this run.
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Sets whether to resume the run in the directory; without one a new run starts.
    pub fn resume(mut self, resume: bool) -> Self {
        self.resume = resume;
        self
    }

    /// Ends the run in the directory at its last checkpoint instead of training on; see
    /// [`Run::finish`].
    pub fn finish(mut self) -> Self {
        (self.resume, self.finish) = (true, true);
        self
    }

    /// Sets whether to resume a run that another version of the program started.
    pub fn force(mut self, force: bool) -> Self {
        self.force = force;
        self
    }

    /// Sets the program that `environment.json` names. Default: this library.
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Sets the rounds between checkpoints; 0: only at the end. Default: 10.
    pub fn checkpoint_every(mut self, rounds: u64) -> Self {
        self.plan.checkpoint_every = rounds;
        self
    }

    /// Keeps this many megabytes of client states in RAM and the others in a file of the run
    /// directory, which is required.
    pub fn client_states_on_disk(mut self, budget_mb: u64) -> Self {
        self.plan.engine.keep_on_disk(budget_mb);
        self
    }

    /// Returns the checked plan. The data is not checked yet.
    ///
    /// # Errors
    /// All problems of the settings, by their keys in a spec.
    pub fn plan(&self) -> Result<Plan> {
        let mut plan = self.plan.clone();
        let default = || PlannedSchedule::default_of(&plan.algorithm);
        plan.local_training.schedule = self.schedule.clone().unwrap_or_else(default);
        let mut problems = plan.resolve();
        if plan.engine.memory_budget.is_some() && self.directory.is_none() {
            let problem = "found \"disk\", which needs a run directory; set one";
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
    /// All problems of the settings, by their keys in a spec; or the first problem of the data,
    /// with its client and row.
    pub fn build(self) -> Result<Run> {
        let plan = self.plan()?;
        match (&self.directory, self.resume) {
            (None, true) => {
                let problem = "resuming needs the directory of the run; set it with `directory`";
                return Err(Error::Request(problem.into()));
            }
            (Some(directory), false) => RunDir::require_empty(directory)?,
            _ => {}
        }
        let model = match plan.architecture.extras.evaluation_batch {
            None => self.model,
            Some(rows) => self.model.with_evaluation_batch(rows).ok_or_else(|| {
                Error::Request(format!(
                    "evaluation.batch: found {rows}, but the model determines how it is scored; \
                     change its `Network::evaluation`"
                ))
            })?,
        };
        let w0 = self.initial.params(&*model, plan.seed)?;
        let resources = Resources {
            engine: self.engine,
            directory: self.directory.as_deref(),
            ..Resources::default()
        };
        let setup = plan.setup_with_model(self.dataset, model, w0, resources)?;
        Ok(Run {
            directory: self.directory,
            resumes: self.resume,
            finishes: self.finish,
            program: self.program,
            force: self.force,
            ..Run::with_start((self.start)(&setup)?, plan, setup)
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
