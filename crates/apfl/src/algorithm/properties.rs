//! What the rest of a spec, and a measurement, must know of an algorithm.

use crate::local_client::ModelForm;

/// What the rest of a spec, and a measurement, must know of an algorithm with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Why its settings cannot be run; `None`: they can.
    pub problem: Option<String>,
    /// What stands out among its settings, to be read behind its kind, such as
    /// ` (α = 0.5), averaged`.
    pub details: String,
    /// What the shared, the localized and the personal model are, as the help says it.
    pub models: [&'static str; 3],
    /// The form of the personal models.
    pub personal: ModelForm,
    /// Why aggregation rules and attacks cannot act on its updates; `None`: they can.
    pub beyond_rules: Option<&'static str>,
    /// Why optimizers of the server cannot act on its shared model; `None`: they can.
    pub beyond_optimizers: Option<&'static str>,
    /// Whether `training.learning_rate` and its schedule do not apply.
    pub own_rates: bool,
    /// The key of its rate: what a fair comparison chooses the best value of.
    pub rate_key: &'static str,
    /// The largest learning rate with which it makes sense.
    pub most_rate: Option<f64>,
    /// Whether its rounds have numbers of local steps of their own.
    pub own_steps: bool,
    /// Whether its local steps know `training.momentum`.
    pub momentum: bool,
    /// Whether every client must take part in every round, all with the same weight.
    pub everybody: bool,
    /// The key and the number of the layers that are shared, or not shared, where only some
    /// layers are.
    pub layers: Option<(&'static str, usize)>,
    /// Whether the server weighs clients by itself.
    pub weighs_clients: bool,
    /// The geometric schedule that a spec has where it does not say: (factor, per what).
    pub usual_decay: (f64, &'static str),
    /// Gradients that one local step takes.
    pub gradients: u64,
    /// Whether it takes its constants from a theorem's schedule.
    pub needs_theory: bool,
}

impl Default for Properties {
    /// FedAvg's, but for momentum, which an algorithm must know of.
    fn default() -> Self {
        Self {
            problem: None,
            details: String::new(),
            models: ["w", "wᵢ after the local steps", "the same"],
            personal: ModelForm::Parameters,
            beyond_rules: None,
            beyond_optimizers: None,
            own_rates: false,
            rate_key: "training.learning_rate",
            most_rate: None,
            own_steps: false,
            momentum: false,
            everybody: false,
            layers: None,
            weighs_clients: false,
            usual_decay: (0.99, "round"),
            gradients: 1,
            needs_theory: false,
        }
    }
}
