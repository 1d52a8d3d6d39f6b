//! The front door: a run of one's own data and model, without a spec.

use std::path::PathBuf;
use std::sync::Arc;

use toml::{Table, Value};

use super::{Program, Run, Start, start_of};
use crate::aggregation::{Aggregation, ServerOptimizer};
use crate::algorithm::extensions::choosing;
use crate::algorithm::{Algorithm, AlgorithmSpec, AlgorithmVisitor, Apfl, Properties};
use crate::choice::Choosing;
use crate::data::Dataset;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::params::Params;
use crate::rng::{Purpose, stream};
use crate::schedule::Schedule;
use crate::spec::{Plan, PlannedSchedule, Resources, Spec, objections};
use crate::store::run_dir::RunDir;
use crate::training::{DeliverTo, Weights};

/// A run in the making. What is not said has the default of a spec; [`RunBuilder::build`]
/// checks all of it, and the data, before anything is done.
pub struct RunBuilder {
    dataset: Arc<dyn Dataset>,
    model: Arc<dyn Model>,
    algorithm: AnyAlgorithm,
    initial: Option<Params>,
    schedule: Option<Schedule>,
    aggregation: Aggregation,
    server: ServerOptimizer,
    directory: Option<PathBuf>,
    resume: bool,
    force: bool,
    program: Program,
    spec: Spec,
}

/// An algorithm whose type is known no more.
struct AnyAlgorithm {
    words: String,
    properties: Properties,
    choosing: Option<Choosing>,
    start: Start,
}

impl AnyAlgorithm {
    fn new<A: Algorithm>(algorithm: A) -> Self {
        Self {
            words: format!("{algorithm:?}"),
            properties: algorithm.properties(),
            choosing: choosing(&algorithm).cloned(),
            start: start_of(algorithm),
        }
    }
}

impl Run {
    /// A run of that model on that data: by default adaptive APFL from α⁰ = 0.01.
    pub fn builder(dataset: Arc<dyn Dataset>, model: Arc<dyn Model>) -> RunBuilder {
        RunBuilder {
            dataset,
            model,
            algorithm: AnyAlgorithm::new(Apfl::adaptive(0.01)),
            initial: None,
            schedule: None,
            aggregation: Aggregation::Mean,
            server: ServerOptimizer::Mean,
            directory: None,
            resume: false,
            force: false,
            program: Program::default(),
            spec: Spec::default(),
        }
    }
}

impl RunBuilder {
    /// The algorithm: one of the library's, or one's own.
    pub fn algorithm<A: Algorithm>(mut self, algorithm: A) -> Self {
        self.algorithm = AnyAlgorithm::new(algorithm);
        self
    }

    /// The algorithm of a spec.
    pub fn algorithm_of(self, spec: AlgorithmSpec) -> Self {
        struct Into(RunBuilder);
        impl AlgorithmVisitor for Into {
            type Out = RunBuilder;
            fn visit<A: Algorithm>(self, algorithm: A) -> RunBuilder {
                self.0.algorithm(algorithm)
            }
        }
        spec.accept(Into(self))
    }

    fn set(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.spec.put(key, value.into());
        self
    }

    fn unset(mut self, key: &str) -> Self {
        self.spec.take(key);
        self
    }

    /// Everything random in training: w⁰, cohorts, batches. Default: 1.
    pub fn seed(self, seed: u64) -> Self {
        self.set("seed", whole(seed))
    }

    /// Rounds to train. Default: 100.
    pub fn rounds(self, rounds: u64) -> Self {
        self.set("training.rounds", whole(rounds))
    }

    /// τ: local steps of every client in a round. Default: 10.
    pub fn local_steps(self, steps: u64) -> Self {
        self.unset("training.local_epochs")
            .set("training.local_steps", whole(steps))
    }

    /// Passes over a client's examples in a round, instead of a number of steps.
    pub fn local_epochs(self, epochs: u64) -> Self {
        self.unset("training.local_steps")
            .set("training.local_epochs", whole(epochs))
    }

    /// Examples a step. Default: 50.
    pub fn batch(self, examples: usize) -> Self {
        self.set("training.batch", whole(examples as u64))
    }

    /// Every step sees all of the client's training examples.
    pub fn full_batch(self) -> Self {
        self.set("training.batch", "full")
    }

    /// η. Default: 0.1.
    pub fn learning_rate(self, rate: f64) -> Self {
        self.set("training.learning_rate", rate)
    }

    /// How the learning rate changes. Default: 1% less a round.
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        self.schedule = Some(schedule);
        self
    }

    /// K/n: the share of the clients drawn each round. Default: 1.
    pub fn participation(self, share: f64) -> Self {
        self.set("federation.participation", share)
    }

    /// How updates are weighted. Default: all alike.
    pub fn weights(self, weights: Weights) -> Self {
        let word = match weights {
            Weights::Uniform => "uniform",
            Weights::Examples => "examples",
        };
        self.set("federation.weights", word)
    }

    /// How updates become one model. Default: the mean.
    pub fn aggregation(mut self, rule: Aggregation) -> Self {
        self.aggregation = rule;
        self
    }

    /// How the server moves its model to the cohort's. Default: there at once.
    pub fn server(mut self, optimizer: ServerOptimizer) -> Self {
        self.server = optimizer;
        self
    }

    /// β of the clients' momentum, which starts anew in every round. Default: 0.
    pub fn momentum(self, beta: f64) -> Self {
        self.set("training.momentum", beta)
    }

    /// Leaves a client whose loss is not finite out of the round, instead of ending the run.
    pub fn skip_nonfinite(self, skip: bool) -> Self {
        let word = if skip { "skip" } else { "stop" };
        self.set("training.on_nonfinite", word)
    }

    /// Rounds between evaluations. Default: 1.
    pub fn evaluate_every(self, rounds: u64) -> Self {
        self.set("evaluation.every", whole(rounds))
    }

    /// Who gets a last local round, scores and a model at the end. Default: all.
    pub fn deliver_to(self, who: DeliverTo) -> Self {
        let word = match who {
            DeliverTo::All => "all",
            DeliverTo::Drawn => "drawn",
            DeliverTo::None => "none",
        };
        self.set("delivery.clients", word)
    }

    /// Whether to keep the clients' models. Default: yes.
    pub fn keep_models(self, keep: bool) -> Self {
        self.set("delivery.keep", keep)
    }

    /// w⁰. Default: the model's own ([`Network::initial`](crate::model::Network::initial)).
    pub fn initial(mut self, params: Params) -> Self {
        self.initial = Some(params);
        self
    }

    /// Threads. Default: one per core. No number of them changes a bit of the result.
    pub fn threads(self, threads: usize) -> Self {
        self.set("engine.threads", whole(threads as u64))
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

    /// What `environment.json` says the run was made by. Default: this library.
    pub fn program(mut self, program: Program) -> Self {
        self.program = program;
        self
    }

    /// Rounds between checkpoints; 0: only at the end. Default: 10.
    pub fn checkpoint_every(self, rounds: u64) -> Self {
        self.set("checkpoint.every", whole(rounds))
    }

    /// Keeps client memories beyond so many megabytes in a file of the run directory, which
    /// must be given.
    pub fn memories_on_disk(self, budget_mb: u64) -> Self {
        self.set("engine.memory", "disk")
            .set("engine.budget_mb", whole(budget_mb))
    }

    /// Checks settings, model and data. An error names the key, the client or the row.
    pub fn build(self) -> Result<Run> {
        let mut plan = self.spec.plan()?;
        plan.aggregation = self.aggregation;
        plan.server = self.server;
        if let Some(schedule) = self.schedule {
            plan.pace.schedule = PlannedSchedule::Known(schedule);
        }
        self.require_sense(&plan)?;
        let mut rng = stream(plan.seed, Purpose::Init, 0, 0);
        let w0 = self
            .initial
            .unwrap_or_else(|| self.model.network().initial(&mut rng));
        let mut spec = plan.resolved.clone();
        describe(&mut spec, "data", [("clients", self.dataset.clients())]);
        describe(&mut spec, "model", [("parameters", w0.len())]);
        describe(
            &mut spec,
            "algorithm",
            [("settings", self.algorithm.words.as_str())],
        );
        if let Some(schedule) = self.schedule {
            nested(&mut spec, "training", "schedule", format!("{schedule:?}"));
        }
        let rule = format!("{:?}", self.aggregation);
        nested(&mut spec, "federation", "aggregation", rule);
        let optimizer = format!("{:?}", self.server);
        nested(&mut spec, "federation", "server", optimizer);

        match (&self.directory, self.resume) {
            (None, true) => {
                let problem = "to resume a run, give the directory it is in";
                return Err(Error::Request(problem.into()));
            }
            (Some(directory), false) => RunDir::require_empty(directory)?,
            _ => {}
        }
        let on = Resources {
            directory: self.directory.as_deref(),
            ..Resources::default()
        };
        let mut setup = plan.setup_with_model(self.dataset, self.model, w0, on)?;
        setup.world.pass = self.algorithm.choosing.as_ref().and_then(Choosing::single);
        Ok(Run {
            setup,
            start: self.algorithm.start,
            choosing: self.algorithm.choosing,
            personal_form: self.algorithm.properties.personal,
            spec,
            checkpoint_every: plan.checkpoint_every,
            directory: self.directory,
            resumes: self.resume,
            program: self.program,
            force: self.force,
        })
    }
}

impl RunBuilder {
    /// An error where settings do not go together: what a spec would be refused for.
    fn require_sense(&self, plan: &Plan) -> Result<()> {
        let AnyAlgorithm {
            properties, words, ..
        } = &self.algorithm;
        let rule = self.aggregation != Aggregation::Mean;
        let objections = objections(properties, "the algorithm", plan);
        let examples = plan.weights == Weights::Examples;
        let without_directory = plan.engine.memory_budget.is_some() && self.directory.is_none();
        let problem = match &properties.problem {
            Some(problem) => Some(format!("{words}: {problem}")),
            None if rule && properties.beyond_rules.is_some() => properties
                .beyond_rules
                .map(|why| format!("aggregation: found {}, but {why}", self.aggregation)),
            None if rule && (examples || properties.weighs_clients) => Some(format!(
                "aggregation: found {}, which counts every client alike; use uniform weights and \
                 an algorithm that does not weigh clients",
                self.aggregation
            )),
            None if examples && properties.weighs_clients => {
                Some("weights: by examples, but the algorithm weighs the clients by itself".into())
            }
            None if properties.needs_theory && self.schedule.and_then(|s| s.shift()).is_none() => {
                Some(format!(
                    "{words}: it needs a shift of its own, or a theorem's schedule that has one"
                ))
            }
            None if !objections.is_empty() => {
                let one = |(key, problem): &(&str, String)| format!("{key}: {problem}");
                let all: Vec<String> = objections.iter().map(one).collect();
                Some(all.join("; "))
            }
            None if self.server.problem().is_some() => self.server.problem(),
            None if without_directory => {
                Some("memories can be on disk only in a run directory: give one".into())
            }
            None => self.schedule.and_then(|schedule| schedule.problem()),
        };
        problem.map_or(Ok(()), |problem| Err(Error::Request(problem)))
    }
}

/// A whole number as TOML has it; one that is too large is refused when the plan is made.
fn whole(n: u64) -> Value {
    i64::try_from(n).map_or(Value::Float(n as f64), Value::Integer)
}

/// Replaces a table of a spec by words about what was given from outside.
fn describe<const N: usize, V: IntoValue>(spec: &mut Table, table: &str, facts: [(&str, V); N]) {
    let mut words = Table::new();
    words.insert("kind".into(), "own".into());
    for (key, value) in facts {
        words.insert(key.into(), value.into_value());
    }
    spec.insert(table.into(), words.into());
}

fn nested(spec: &mut Table, table: &str, key: &str, value: String) {
    if let Some(Value::Table(table)) = spec.get_mut(table) {
        table.insert(key.into(), value.into());
    }
}

trait IntoValue {
    fn into_value(self) -> Value;
}

impl IntoValue for usize {
    fn into_value(self) -> Value {
        whole(self as u64)
    }
}

impl IntoValue for &str {
    fn into_value(self) -> Value {
        self.into()
    }
}

impl std::fmt::Debug for RunBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunBuilder")
            .field("clients", &self.dataset.clients())
            .field("parameters", &self.model.layout().len())
            .field("algorithm", &self.algorithm.words)
            .field("spec", &self.spec)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}
