//! The benchmarks: an algorithm's rounds on a model, or a model's steps alone.

use std::sync::Arc;

use apfl::algorithm::AlgorithmSpec;
use apfl::data::Dataset;
use apfl::error::{Error, Result};
use apfl::model::Shape;
use apfl::settings::nearest;
use apfl::spec::{Plan, Spec};

use super::images;

/// Returns a model's number of clients and local steps: the paper's, but ten of each for the
/// CNN, whose rounds would take minutes.
fn scale(model: &str) -> (usize, u64) {
    match model {
        "mlp" => (100, 20),
        "cnn" => (10, 10),
        _ => (100, 10),
    }
}

/// Non-default settings by kind of algorithm or model.
const SETTINGS: [(&str, &str); 2] = [
    ("apfl", "algorithm.mixing={ adaptive = 0.5 }"),
    ("cnn", "model.channels=[32, 64]"),
];

/// Represents a benchmark.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Benchmark {
    /// The kind of the algorithm; `None` for steps alone.
    algorithm: Option<&'static str>,
    /// The kind of the model.
    model: &'static str,
}

impl Benchmark {
    /// Returns all benchmarks: every algorithm with every model it supports, and every model's
    /// steps.
    fn all() -> Vec<Self> {
        let kinds = AlgorithmSpec::KINDS.iter().map(|kind| Some(kind.name));
        let algorithms = || kinds.clone().chain([None]);
        let with = |model| algorithms().map(move |algorithm| Self { algorithm, model });
        let models = Shape::KINDS.iter().map(|kind| kind.name);
        let fits = |benchmark: &Self| benchmark.spec(1, 1).is_ok_and(|spec| spec.plan().is_ok());
        models.flat_map(with).filter(fits).collect()
    }

    /// Returns the default benchmarks: all except local training, whose steps are FedAvg's.
    pub fn defaults() -> Vec<Self> {
        let all = Self::all().into_iter();
        all.filter(|benchmark| benchmark.algorithm != Some("local"))
            .collect()
    }

    /// Finds a benchmark by its name.
    pub fn named(name: &str) -> Result<Self> {
        let all = Self::all();
        if let Some(benchmark) = all.iter().find(|benchmark| benchmark.name() == name) {
            return Ok(*benchmark);
        }
        let names: Vec<String> = all.iter().map(Self::name).collect();
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}", names.join(", ")),
        };
        Err(Error::Request(format!("no benchmark '{name}'; {hint}")))
    }

    /// Returns the name, such as `apfl-mlp` or `step-cnn`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.algorithm.unwrap_or("step"), self.model)
    }

    /// Returns whether the benchmark takes steps of a model alone.
    pub fn is_step(&self) -> bool {
        self.algorithm.is_none()
    }

    /// Returns the number of clients per round.
    pub fn clients(&self) -> u64 {
        scale(self.model).0 as u64
    }

    /// Returns the number of client-steps per round.
    pub fn steps(&self) -> u64 {
        let (clients, steps) = scale(self.model);
        clients as u64 * steps
    }

    /// Returns the spec without its data.
    fn spec(&self, batch: usize, threads: usize) -> Result<Spec> {
        let (_, steps) = scale(self.model);
        let algorithm = self.algorithm.unwrap_or("fedavg");
        let mut spec = Spec::parse("")?;
        for pair in [
            format!("algorithm.kind={algorithm}"),
            format!("model.kind={}", self.model),
            format!("training.local_steps={steps}"),
            format!("training.batch={batch}"),
            "training.rounds=1000000".into(),
            // A rate that does not diverge in a long run.
            "training.learning_rate=0.01".into(),
            "evaluation.every=1000000".into(),
            format!("engine.threads={threads}"),
        ] {
            spec.set(&pair)?;
        }
        for (kind, pair) in SETTINGS {
            if kind == algorithm || kind == self.model {
                spec.set(pair)?;
            }
        }
        Ok(spec)
    }

    /// Returns the plan, the data set, and the description of the data.
    pub fn plan(&self, batch: usize, threads: usize) -> Result<(Plan, Arc<dyn Dataset>, String)> {
        let (clients, _) = scale(self.model);
        let spec = self.spec(batch, threads)?;
        if self.model == "cnn" {
            let data = "generated images of 3×32×32".to_string();
            return Ok((spec.plan()?, images::photographs(clients), data));
        }
        let mut real = spec.clone();
        real.set("data={ kind = 'mnist', partition = { kind = 'stripe', classes = 2 } }")?;
        real.set(&format!("data.clients={clients}"))?;
        let plan = real.plan()?;
        if let Ok(dataset) = plan.data.load() {
            return Ok((plan, dataset, "MNIST".into()));
        }
        let data = "generated images of 28×28".to_string();
        Ok((spec.plan()?, images::digits(clients), data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_benchmark_has_a_name_and_a_plan() {
        for benchmark in Benchmark::all() {
            assert_eq!(Benchmark::named(&benchmark.name()).unwrap(), benchmark);
            let plan = benchmark.spec(20, 1).unwrap().plan().unwrap();
            assert_eq!(plan.architecture.kind(), benchmark.model);
            let algorithm = benchmark.algorithm.unwrap_or("fedavg");
            assert_eq!(plan.algorithm.kind(), algorithm);
        }
        // Every setting belongs to a kind that exists.
        let names: Vec<String> = Benchmark::all().iter().map(Benchmark::name).collect();
        for (kind, _) in SETTINGS {
            assert!(names.iter().any(|name| name.split('-').any(|k| k == kind)));
        }
        assert!(
            !Benchmark::defaults()
                .iter()
                .any(|w| w.name().starts_with("local"))
        );
        let error = Benchmark::named("apfl-mpl").unwrap_err().to_string();
        assert!(error.contains("did you mean 'apfl-mlp'?"), "{error}");
    }
}
