//! A spec that was checked: everything a run needs but the data itself.

use std::path::Path;
use std::sync::Arc;

use toml::{Table, Value};

use super::{
    PlannedEngine, PlannedLocalTraining, PlannedSchedule, PlannedSites, Spec, checks, engine,
    evaluation, federation, fits, theory, training,
};
use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::{AlgorithmSpec, LocalOnly, layers};
use crate::attack::{Attack, Attackers};
use crate::choice::Choosing;
use crate::clients::RunContext;
use crate::data::{Dataset, Source};
use crate::engine::EngineKind;
use crate::error::{Error, Result};
use crate::files::tensors;
use crate::local_client::LocalWork;
use crate::model::weighted::{Weighted, balanced};
use crate::model::{Architecture, Augment, Model, Normalization};
use crate::params::Params;
use crate::privacy::PrivacySettings;
use crate::rng::{Purpose, stream};
use crate::schedule::{Schedule, Theory};
use crate::settings::{Declaration, Problems, Section, Setting, Settings, Whole, at_least};
use crate::training::{FinalizedClients, Setup, Weights};

/// The longest header of a safetensors file that readers take, and what a tensor's entry has
/// beside its name in the layout: the client's, its shape and its place.
const MOST_HEADER: usize = 100_000_000;
const TENSOR_ENTRY: usize = 80;

const SEED: Setting<Whole> = Setting::number("seed", 1, at_least(0).to(i64::MAX as u64))
    .help("everything random follows from this number");

/// What stands in no table.
pub(super) const ROOT: &[&dyn Declaration] = &[&SEED, &super::authors::PRESET];

/// What is true of a model whose rows depend on each other.
pub const BATCH_STATISTICS: &str = "model.norm = \"batch\" takes the statistics of the batch in \
    evaluation too, as the authors' code does: a prediction depends on the rows beside it, and of \
    one row alone nothing is left; use \"layer\" for a model that is to be served";

/// A spec that was checked: everything a run needs but the data itself.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Plan {
    /// The spec with every default spelled out; it runs again to the same result, and without
    /// `engine` and `checkpoint` it is what binds a checkpoint to its run.
    pub resolved: Table,
    /// Everything random.
    pub seed: u64,
    /// Where the data comes from.
    pub data: Source,
    /// The model, before the data's width is known.
    pub architecture: Architecture,
    /// The algorithm.
    pub algorithm: AlgorithmSpec,
    /// K/n
    pub participation: f64,
    /// How updates are weighted.
    pub weights: Weights,
    /// How updates become one model.
    pub aggregation: Aggregation,
    /// How the server moves its model.
    pub server: ServerOptimizer,
    /// What some clients do to the shared model.
    pub attack: Option<Attack>,
    /// What is protected, and how well.
    pub privacy: Option<PrivacySettings>,
    /// The sites that clients live at, where they do.
    pub sites: Option<PlannedSites>,
    /// Rounds to train.
    pub rounds: u64,
    /// How clients train.
    pub local_training: PlannedLocalTraining,
    /// Whether rare classes count for more in training.
    pub class_weights: bool,
    /// Whether a client whose loss is not finite is left out of the round instead of
    /// ending the run.
    pub skip_nonfinite: bool,
    /// Rounds between evaluations.
    pub evaluate_every: u64,
    /// Who gets a model at the end.
    pub finalized_clients: FinalizedClients,
    /// Whether to keep the clients' models.
    pub keep_models: bool,
    /// Rounds between checkpoints; 0: only at the end and on a signal.
    pub checkpoint_every: u64,
    /// Where clients are to live.
    pub engine: PlannedEngine,
    /// What a user should be told of the spec, such as keys that are not used.
    pub notes: Vec<String>,
}

/// What a plan is carried out with.
#[derive(Clone, Debug, Default)]
pub struct Resources<'a> {
    /// The engine.
    pub engine: EngineKind,
    /// Threads instead of the plan's.
    pub threads: Option<usize>,
    /// The run directory, where memories may live on disk; without one they live in RAM.
    pub directory: Option<&'a Path>,
}

impl Settings for Plan {
    /// Binds every table of a spec. Data and model are only read: in the other direction their
    /// tables stay as they are.
    fn settings(&mut self, s: &mut Section<'_>) {
        s.field(&SEED, &mut self.seed);
        if s.reads() {
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
        s.section("algorithm", |s| self.algorithm.settings(s));
        s.section("federation", |s| federation::bind(self, s));
        s.section("training", |s| training::bind(self, s));
        evaluation::bind(self, s);
        engine::bind(self, s);
        if self.architecture.extras.norm == Some(Normalization::Batch) {
            self.notes.push(BATCH_STATISTICS.into());
        }
    }
}

impl Plan {
    /// Returns a plan to be read into.
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
            local_training: PlannedLocalTraining {
                work: LocalWork::Steps(0),
                batch: None,
                learning_rate: 0.0,
                schedule: Schedule::Constant.into(),
                momentum: 0.0,
            },
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

    /// Returns the plan of a spec that says nothing, for data and a model of the caller's own.
    pub(crate) fn of_own(dataset: &dyn Dataset, model: &dyn Model) -> Self {
        let default = Spec::default().plan();
        let mut plan = default.expect("the defaults go together");
        let layout = model.layout();
        plan.data = Source::Own;
        plan.architecture = Architecture::own(model, layers::starts(layout).len());
        let own = |key: &str, value: usize| {
            let value = Value::from(value as i64);
            Table::from_iter([("kind".to_string(), "own".into()), (key.to_string(), value)])
        };
        let mut of_model = own("parameters", layout.len());
        plan.architecture.describe(&mut of_model);
        let of_data = own("clients", dataset.clients());
        plan.resolved.insert("data".into(), of_data.into());
        plan.resolved.insert("model".into(), of_model.into());
        plan
    }

    /// Checks a plan that was made of typed values as a spec is checked, and writes the resolved
    /// spec that it has. Returns everything wrong with it.
    pub(crate) fn resolve(&mut self) -> Problems {
        let mut problems = Problems::default();
        let mut root = Section::written(&mut problems);
        self.settings(&mut root);
        fits::check(self, root.problems());
        self.resolved = root.finish();
        problems
    }

    /// Loads the data and builds the model, for this process alone.
    pub fn setup(&self) -> Result<Setup> {
        self.setup_with(self.data.load()?, Resources::default())
    }

    /// The same with data of the caller's own, whatever `[data]` says, and what it is to be
    /// carried out with.
    pub fn setup_with(&self, dataset: Arc<dyn Dataset>, on: Resources<'_>) -> Result<Setup> {
        let model: Arc<dyn Model> = Arc::from(self.architecture.build(dataset.schema())?);
        let w0 = self.initial(&*model)?;
        self.setup_with_model(dataset, model, w0, on)
    }

    /// The same with a model of the caller's own and its w⁰, whatever `[model]` says.
    pub fn setup_with_model(
        &self,
        dataset: Arc<dyn Dataset>,
        mut model: Arc<dyn Model>,
        w0: Params,
        on: Resources<'_>,
    ) -> Result<Setup> {
        if self.class_weights {
            let weights = balanced(&class_counts(&*dataset)?);
            model = Arc::new(Weighted { model, weights });
        }
        checks::check(&*dataset, &*model)?;
        checks::start(&w0, model.layout().len())?;
        let attackers = Attackers::sample(self.attack, dataset.clients(), self.seed);
        let dataset = attackers.poison(dataset)?;
        let mut notes = self.notes.clone();
        notes.extend(dataset.notes());
        notes.extend(attackers.note(dataset.clients()));
        notes.extend(self.too_many_tensors(&*dataset, &*model));
        let local_training = match &self.local_training.schedule {
            PlannedSchedule::Known(schedule) => self.local_training.with(*schedule),
            PlannedSchedule::Theory(theory) => {
                let (schedule, said) = theory::resolve(self, theory, &*dataset, &*model, &w0)?;
                notes.push(said);
                self.local_training.with(schedule)
            }
        };
        let context = RunContext {
            seed: self.seed,
            model,
            w0: Arc::new(w0),
            local_training,
            skip_nonfinite: self.skip_nonfinite,
            private: None,
            seldom: self.participation * (self.rounds as f64) < 0.5,
            pass: self.algorithm.choosing().and_then(Choosing::single),
            dataset,
        };
        let setup = Setup {
            context: on.engine.own(context)?,
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
            engine: on.engine,
            threads: on.threads.unwrap_or(self.engine.threads),
            home: self.engine.home(on.directory),
            notes,
            choices: Default::default(),
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

    /// What a user should know before so many models are kept that their file's header is
    /// beyond what readers of the format take.
    fn too_many_tensors(&self, dataset: &dyn Dataset, model: &dyn Model) -> Option<String> {
        let receivers = match self.finalized_clients {
            FinalizedClients::None => 0,
            _ => dataset.clients(),
        };
        let of_one = model
            .layout()
            .tensors
            .iter()
            .map(|t| t.name.len() + TENSOR_ENTRY);
        let bytes = receivers.saturating_mul(of_one.sum());
        (self.keep_models && bytes > MOST_HEADER).then(|| {
            format!(
                "{receivers} clients' models make a header of about {} MB in models/*.safetensors; \
                 other readers of the format stop at 100 MB: delivery.keep = false, or \
                 delivery.clients = \"drawn\" or \"none\", keeps fewer",
                bytes / 1_000_000
            )
        })
    }

    /// w⁰ of a model: as `model.init` says.
    pub fn initial(&self, model: &dyn Model) -> Result<Params> {
        Ok(match self.architecture.init.as_str() {
            "zeros" => model.layout().zeros(),
            "uniform" => model
                .layout()
                .uniform(&mut stream(self.seed, Purpose::Init, 0, 0)),
            path => {
                let path = Path::new(path);
                let params = tensors::read_one(path, model.layout(), "")?;
                checks::start(&params, params.len()).map_err(|e| Error::in_file(path, e))?;
                params
            }
        })
    }

    /// The theorem whose schedule the run has, if any.
    pub fn theory(&self) -> Option<&Theory> {
        match &self.local_training.schedule {
            PlannedSchedule::Known(_) => None,
            PlannedSchedule::Theory(theory) => Some(theory),
        }
    }

    /// The resolved spec as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string(&self.resolved).expect("a table of plain values is TOML")
    }
}

/// The federation's training examples of every class.
fn class_counts(dataset: &dyn Dataset) -> Result<Vec<u64>> {
    if dataset.schema().task.classes() == 0 {
        return Err(Error::Request(
            "training.class_weights: found \"balanced\", but the data's task is regression, which \
             has no classes; use \"none\""
                .into(),
        ));
    }
    dataset.class_counts()
}
