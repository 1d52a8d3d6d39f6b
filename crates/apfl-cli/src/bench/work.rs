//! What is measured: an algorithm's rounds on a model, or a model's steps alone.

use std::sync::Arc;

use apfl::data::Dataset;
use apfl::error::{Error, Result};
use apfl::settings::nearest;
use apfl::spec::{Plan, Spec};

use super::images;

/// An algorithm, and the gradients that one of its local steps takes.
const ALGORITHMS: [(&str, u64, &str); 5] = [
    ("apfl", 2, "{ kind = 'apfl', mixing = { adaptive = 0.5 } }"),
    ("fedavg", 1, "{ kind = 'fedavg' }"),
    ("scaffold", 1, "{ kind = 'scaffold' }"),
    ("perfedavg", 2, "{ kind = 'perfedavg' }"),
    ("pfedme", 5, "{ kind = 'pfedme' }"),
];

/// A model, the clients and the local steps it is measured with: as many as the paper's,
/// but ten for the CNN, whose rounds would take minutes.
const MODELS: [(&str, usize, u64, &str); 3] = [
    ("logistic", 100, 10, "{ kind = 'logistic' }"),
    ("mlp", 100, 20, "{ kind = 'mlp' }"),
    ("cnn", 10, 10, "{ kind = 'cnn', channels = [32, 64] }"),
];

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Work {
    /// Of the algorithm; `None`: steps alone.
    algorithm: Option<(&'static str, u64, &'static str)>,
    model: (&'static str, usize, u64, &'static str),
}

impl Work {
    /// Everything there is to measure.
    pub fn all() -> Vec<Self> {
        let algorithms = || ALGORITHMS.into_iter().map(Some).chain([None]);
        let with = |model| algorithms().map(move |algorithm| Self { algorithm, model });
        MODELS.into_iter().flat_map(with).collect()
    }

    /// The work of that name.
    pub fn named(name: &str) -> Result<Self> {
        let all = Self::all();
        if let Some(work) = all.iter().find(|work| work.name() == name) {
            return Ok(*work);
        }
        let names: Vec<String> = all.iter().map(Self::name).collect();
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}", names.join(", ")),
        };
        Err(Error::Request(format!("no work '{name}'; {hint}")))
    }

    /// Its name.
    pub fn name(&self) -> String {
        let algorithm = self.algorithm.map_or("step", |(name, ..)| name);
        format!("{algorithm}-{}", self.model.0)
    }

    /// Whether it is steps of a model alone.
    pub fn is_step(&self) -> bool {
        self.algorithm.is_none()
    }

    /// Gradients of one local step.
    pub fn gradients(&self) -> u64 {
        self.algorithm.map_or(1, |(_, gradients, _)| gradients)
    }

    /// Client-steps of one round.
    pub fn steps(&self) -> u64 {
        self.model.1 as u64 * self.model.2
    }

    /// What is to run, and on which data.
    pub fn plan(&self, batch: usize, threads: usize) -> Result<(Plan, Arc<dyn Dataset>, String)> {
        let (model, clients, steps, settings) = self.model;
        let mut spec = Spec::parse("")?;
        let algorithm = self.algorithm.map_or("{ kind = 'fedavg' }", |(.., a)| a);
        for pair in [
            format!("algorithm={algorithm}"),
            format!("model={settings}"),
            format!("training.local_steps={steps}"),
            format!("training.batch={batch}"),
            "training.rounds=1000000".into(),
            // A rate at which nothing blows up however long it runs.
            "training.learning_rate=0.01".into(),
            "evaluation.every=1000000".into(),
            format!("engine.threads={threads}"),
        ] {
            spec.set(&pair)?;
        }
        if model == "cnn" {
            let made = "made images of 3×32×32".to_string();
            return Ok((spec.plan()?, images::photographs(clients), made));
        }
        let mut real = spec.clone();
        real.set("data={ kind = 'mnist', partition = { kind = 'stripe', classes = 2 } }")?;
        real.set(&format!("data.clients={clients}"))?;
        let plan = real.plan()?;
        if let Ok(dataset) = plan.data.load() {
            return Ok((plan, dataset, "MNIST".into()));
        }
        let made = "made images of 28×28".to_string();
        Ok((spec.plan()?, images::digits(clients), made))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_work_has_a_name_and_a_plan() {
        assert_eq!(Work::all().len(), 18);
        for work in Work::all() {
            assert_eq!(Work::named(&work.name()).unwrap(), work);
        }
        let error = Work::named("apfl-mpl").unwrap_err().to_string();
        assert!(error.contains("did you mean 'apfl-mlp'?"), "{error}");
    }
}
