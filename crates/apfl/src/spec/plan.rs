//! The checked, typed configuration of a run.

use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value};

use super::{
    Initial, PlannedEngine, PlannedLocalTraining, PlannedSchedule, PlannedSites, Spec, Stop,
    checks, engine, evaluation, federation, fits, theory, training,
};
use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::{AlgorithmSpec, LocalOnly, layers};
use crate::attack::{Attack, Attackers};
use crate::choice::Choosing;
use crate::clients::{Rate, RunContext};
use crate::data::{Dataset, Source};
use crate::engine::EngineKind;
use crate::error::{Error, Result};
use crate::local_client::LocalWork;
use crate::model::weighted::{Weighted, balanced};
use crate::model::{Architecture, Augment, Model, Normalization};
use crate::params::Params;
use crate::privacy::PrivacySettings;
use crate::schedule::{Schedule, Theory};
use crate::settings::{Declaration, Problems, Section, Setting, Settings, Whole, at_least};
use crate::training::{FinalizedClients, Setup, Weights};

/// The longest header of a safetensors file that readers accept.
const MAX_HEADER: usize = 100_000_000;
/// Bytes of a tensor's header entry without the layer's name: the client's name, shape and offset.
const TENSOR_ENTRY: usize = 80;

const SEED: Setting<Whole> =
    Setting::number("seed", 1, at_least(0).to(i64::MAX as u64)).help("seed of all random numbers");

/// Settings outside of any table.
pub(super) const ROOT: &[&dyn Declaration] = &[&SEED, &super::authors::PRESET];

/// The note on models whose predictions depend on the other rows of a batch.
#[doc(hidden)]
pub const BATCH_STATISTICS: &str = "model.norm = \"batch\" uses the statistics of the batch in \
    evaluation too, as the authors' code does: a prediction depends on the other rows of its \
    batch, and a single row cannot be predicted; use \"layer\" for a model that is to be served";

/// Represents a checked spec: everything a run needs except the data.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The spec with every default spelled out. It runs again to the same result; without `engine`
    /// and `checkpoint` it binds a checkpoint to its run.
    pub resolved: Table,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Source of the data.
    pub data: Source,
    /// The model, before the data's width is known.
    pub architecture: Architecture,
    /// The algorithm.
    pub algorithm: AlgorithmSpec,
    /// K/n
    pub participation: f64,
    /// How updates are weighted.
    pub weights: Weights,
    /// Aggregator of updates.
    pub aggregation: Aggregation,
    /// Optimizer of the server.
    pub server: ServerOptimizer,
    /// Attack on the shared model.
    pub attack: Option<Attack>,
    /// Differential privacy.
    pub privacy: Option<PrivacySettings>,
    /// Sites of a federation; `None` for a simulation.
    pub sites: Option<PlannedSites>,
    /// Rounds to train; with `stop`, at most.
    pub rounds: u64,
    /// When training ends before its last round.
    pub stop: Option<Stop>,
    /// Local training of clients.
    pub local_training: PlannedLocalTraining,
    /// Whether a probe finds the learning rate; the algorithm and its local training then have a
    /// placeholder.
    pub auto_rate: bool,
    /// Whether rare classes count for more in training.
    pub class_weights: bool,
    /// Whether a client whose loss is not finite is left out of the round instead of
    /// ending the run.
    pub skip_nonfinite: bool,
    /// Rounds between evaluations.
    pub evaluate_every: u64,
    /// Clients that get a model at the end.
    pub finalized_clients: FinalizedClients,
    /// Whether to keep the clients' models.
    pub keep_models: bool,
    /// Rounds between checkpoints; 0: only at the end and on a signal.
    pub checkpoint_every: u64,
    /// Execution settings.
    pub engine: PlannedEngine,
    /// Messages for the user, such as keys that are not used.
    pub notes: Vec<String>,
}

/// Represents the resources that a plan runs on.
#[derive(Clone, Debug, Default)]
pub struct Resources<'a> {
    /// The engine.
    pub engine: EngineKind,
    /// Number of threads, if not the plan's.
    pub threads: Option<usize>,
    /// The run directory. Without one, client states live in RAM.
    pub directory: Option<&'a Path>,
}

impl Settings for Plan {
    /// Binds every table of a spec. The tables of data and model are only read; a section that
    /// writes keeps them as they are.
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&SEED, &mut self.seed);
        if s.is_reading() {
            let seed = self.seed;
            let (data, augment) = s.section("data", |s| {
                let augment = Augment::read(s);
                (Source::read(s, seed), augment)
            });
            self.data = data;
            self.architecture = s.section("model", Architecture::read);
            self.architecture.extras.augment = augment;
        } else {
            for key in ["data", "model"] {
                s.resolve(key, self.resolved[key].clone());
            }
        }
        let written_rates = training::written_rates(s);
        s.section("algorithm", |s| self.algorithm.settings(s));
        s.section("federation", |s| federation::bind(self, s));
        s.section("training", |s| training::bind(self, s, &written_rates));
        if let (true, Some(key)) = (self.auto_rate, self.own_rate_key()) {
            s.omit_within("algorithm", key);
        }
        evaluation::bind(self, s);
        engine::bind(self, s);
        if self.architecture.extras.norm == Some(Normalization::Batch) {
            self.notes.push(BATCH_STATISTICS.into());
        }
    }
}

impl Plan {
    /// Returns an empty plan, to be filled by a reader.
    pub(super) fn blank() -> Self {
        Self {
            resolved: Table::new(),
            seed: 0,
            data: Source::Own,
            architecture: Architecture::BLANK,
            algorithm: AlgorithmSpec::Local(LocalOnly),
            participation: 0.0,
            weights: Weights::Uniform,
            aggregation: Aggregation::Mean,
            server: ServerOptimizer::Mean,
            attack: None,
            privacy: None,
            sites: None,
            rounds: 0,
            stop: None,
            local_training: PlannedLocalTraining {
                work: LocalWork::Steps(0),
                batch: None,
                learning_rate: 0.0,
                schedule: Schedule::Constant.into(),
                momentum: 0.0,
            },
            auto_rate: false,
            class_weights: false,
            skip_nonfinite: false,
            evaluate_every: 0,
            finalized_clients: FinalizedClients::All,
            keep_models: false,
            checkpoint_every: 0,
            engine: PlannedEngine::default(),
            notes: Vec::new(),
        }
    }

    /// Returns the default plan for data and a model of the caller's own.
    pub(crate) fn for_own(dataset: &dyn Dataset, model: &dyn Model) -> Self {
        let default = Spec::default().plan();
        let mut plan = default.expect("the default spec is valid");
        let layout = model.layout();
        plan.data = Source::Own;
        plan.architecture = Architecture::own(model, layers::starts(layout).len());
        let own = |key: &str, value: usize| {
            let value = Value::from(value as i64);
            Table::from_iter([("kind".to_string(), "own".into()), (key.to_string(), value)])
        };
        let mut model_table = own("parameters", layout.len());
        plan.architecture.describe(&mut model_table);
        let data_table = own("clients", dataset.clients());
        plan.resolved.insert("data".into(), data_table.into());
        plan.resolved.insert("model".into(), model_table.into());
        plan
    }

    /// Checks a plan of typed values like a spec, writes its resolved spec and returns all
    /// problems.
    pub(crate) fn resolve(&mut self) -> Problems {
        let mut problems = Problems::default();
        let mut root = Section::writer(&mut problems);
        self.settings(&mut root);
        fits::check(self, root.problems());
        self.resolved = root.finish();
        problems
    }

    /// Returns the plan that runs one pass of a choice by itself, to the same result.
    pub(crate) fn with_pass(&self, pass: u64) -> Self {
        let mut plan = self.clone();
        if let Some(choosing) = plan.algorithm.choosing_mut() {
            choosing.pass = Some(pass);
        }
        plan.keep_models = false;
        let problems = plan.resolve();
        debug_assert!(problems.0.is_empty(), "a pass is valid where its choice is");
        plan
    }

    /// Returns the plan with this learning rate in place of "auto".
    pub(crate) fn with_rate(&self, rate: f64) -> Self {
        let mut plan = self.clone();
        plan.auto_rate = false;
        match plan.algorithm.with_own_rate(rate) {
            Some(algorithm) => plan.algorithm = algorithm,
            None => plan.local_training.learning_rate = rate,
        }
        let problems = plan.resolve();
        debug_assert!(problems.0.is_empty(), "a rate is valid where \"auto\" is");
        plan
    }

    /// Returns the key of the algorithm's own learning rate, if it has one.
    pub(crate) fn own_rate_key(&self) -> Option<&'static str> {
        let properties = self.algorithm.properties();
        let key = properties.rate_key.strip_prefix("algorithm.");
        key.filter(|_| properties.own_rates)
    }

    /// Loads the data and builds the model, for threads of this process.
    ///
    /// # Errors
    /// Data that cannot be loaded, or data and model that do not fit.
    pub fn setup(&self) -> Result<Setup> {
        self.setup_with(self.data.load()?, Resources::default())
    }

    /// Returns a setup like [`Plan::setup`], with data of the caller in place of `[data]`, and with
    /// other resources.
    ///
    /// # Errors
    /// Data and model that do not fit.
    pub fn setup_with(&self, dataset: Arc<dyn Dataset>, resources: Resources<'_>) -> Result<Setup> {
        let model: Arc<dyn Model> = Arc::from(self.architecture.build(dataset.schema())?);
        let w0 = self.initial(&*model)?;
        self.setup_with_model(dataset, model, w0, resources)
    }

    /// Returns a setup like [`Plan::setup_with`], with a model of the caller and its w⁰ in place of
    /// `[model]`.
    ///
    /// # Errors
    /// Data and model that do not fit.
    pub fn setup_with_model(
        &self,
        dataset: Arc<dyn Dataset>,
        mut model: Arc<dyn Model>,
        w0: Params,
        resources: Resources<'_>,
    ) -> Result<Setup> {
        if self.class_weights {
            let weights = balanced(&class_counts(&*dataset)?);
            model = Arc::new(Weighted { model, weights });
        }
        checks::check(&*dataset, &*model)?;
        checks::check_initial(&w0, model.layout().len())?;
        let attackers = Attackers::sample(self.attack, dataset.clients(), self.seed);
        let dataset = attackers.poison(dataset)?;
        let mut notes = self.notes.clone();
        notes.extend(dataset.notes());
        notes.extend(attackers.note(dataset.clients()));
        notes.extend(self.header_warning(&*dataset, &*model));
        let local_training = match &self.local_training.schedule {
            PlannedSchedule::Known(schedule) => self.local_training.with_schedule(*schedule),
            PlannedSchedule::Theory(theory) => {
                let (schedule, note) = theory::resolve(self, theory, &*dataset, &*model, &w0)?;
                notes.push(note);
                self.local_training.with_schedule(schedule)
            }
        };
        let context = RunContext {
            seed: self.seed,
            model,
            w0: Arc::new(w0),
            local_training,
            skip_nonfinite: self.skip_nonfinite,
            private: None,
            rarely_sampled: self.participation * (self.rounds as f64) < 0.5,
            pass: self.algorithm.choosing().and_then(Choosing::single),
            rate: if self.auto_rate {
                Rate::Unknown
            } else {
                Rate::Planned
            },
            dataset,
        };
        let setup = Setup {
            context: resources.engine.localize(context)?,
            rounds: self.rounds,
            participation: self.participation,
            weights: self.weights,
            aggregation: self.aggregation,
            server: self.server,
            attackers,
            privacy: None,
            evaluate_every: self.evaluate_every,
            finalized_clients: self.finalized_clients,
            keep_models: self.keep_models,
            engine: resources.engine,
            threads: resources.threads.unwrap_or(self.engine.threads),
            home: self.engine.state_home(resources.directory),
            notes,
        };
        let setup = setup.checked()?;
        match self.privacy {
            None => Ok(setup),
            Some(settings) => {
                let passes = self.algorithm.choosing().map_or(1, Choosing::passes);
                setup.privately(settings, passes)
            }
        }
    }

    /// Returns a warning if the run keeps so many models that readers may refuse the header of
    /// their file.
    fn header_warning(&self, dataset: &dyn Dataset, model: &dyn Model) -> Option<String> {
        let receivers = match self.finalized_clients {
            FinalizedClients::None => 0,
            _ => dataset.clients(),
        };
        let tensors = model.layout().tensors.iter();
        let per_model = tensors.map(|t| t.name.len() + TENSOR_ENTRY).sum();
        let bytes = receivers.saturating_mul(per_model);
        (self.keep_models && bytes > MAX_HEADER).then(|| {
            format!(
                "the models of {receivers} clients need a header of about {} MB in \
                 models/*.safetensors, but other readers of the format accept at most 100 MB; to \
                 keep fewer models, use delivery.keep = false, or delivery.clients = \"drawn\" or \
                 \"none\"",
                bytes / 1_000_000
            )
        })
    }

    /// Returns w⁰ of a model by `model.init`.
    ///
    /// # Errors
    /// A file that cannot be read, or does not fit the model.
    pub fn initial(&self, model: &dyn Model) -> Result<Params> {
        Initial::from_spec(&self.architecture.init).params(model, self.seed)
    }

    /// Returns the theorem whose schedule the run uses, if any.
    pub fn theory(&self) -> Option<&Theory> {
        match &self.local_training.schedule {
            PlannedSchedule::Known(_) => None,
            PlannedSchedule::Theory(theory) => Some(theory),
        }
    }

    /// Returns the resolved spec as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved).expect("a table of plain values is TOML")
    }
}

/// Returns the number of training examples of every class in the federation.
fn class_counts(dataset: &dyn Dataset) -> Result<Vec<u64>> {
    if dataset.schema().task.classes() == 0 {
        return Err(Error::Request(
            "training.class_weights: found \"balanced\", but the task of the data is regression, \
             which has no classes; use \"none\""
                .into(),
        ));
    }
    dataset.class_counts()
}
