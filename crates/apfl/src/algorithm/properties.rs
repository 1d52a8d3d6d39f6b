//! Properties of algorithms that other settings and measurements depend on.

use crate::local_client::ModelForm;

/// Properties of an algorithm with its settings, which other settings and measurements depend on.
#[derive(Clone, Debug, PartialEq)]
pub struct Properties {
    /// Why the settings cannot be run; `None`: they can.
    pub problem: Option<String>,
    /// The notable settings, to be read after the kind, such as ` (α = 0.5), averaged`.
    pub details: String,
    /// What the shared, the localized and the personal model are, as in the help.
    pub models: [&'static str; 3],
    /// The form of the personal models.
    pub personal: ModelForm,
    /// Why aggregators and attacks cannot act on the updates; `None`: they can.
    pub aggregator_problem: Option<&'static str>,
    /// Why server optimizers cannot act on the shared model; `None`: they can.
    pub optimizer_problem: Option<&'static str>,
    /// Whether `training.learning_rate` and its schedule do not apply.
    pub own_rates: bool,
    /// The key of the learning rate, which a fair comparison tunes.
    pub rate_key: &'static str,
    /// The largest learning rate that makes sense.
    pub max_learning_rate: Option<f64>,
    /// Whether the algorithm sets the number of local steps of each round itself.
    pub own_steps: bool,
    /// Whether the local steps apply `training.momentum`.
    pub momentum: bool,
    /// Whether every client must take part in every round, with equal weights.
    pub full_participation: bool,
    /// The key and the number of shared (or private) layers, if only some layers are shared.
    pub layers: Option<(&'static str, usize)>,
    /// Whether the server chooses the clients' weights.
    pub weighs_clients: bool,
    /// The default geometric schedule: (factor, per what).
    pub default_decay: (f64, &'static str),
    /// The number of gradients per local step.
    pub gradients: u64,
    /// Whether the constants come from a theorem's schedule.
    pub needs_theory: bool,
}

impl Default for Properties {
    /// Returns FedAvg's properties, but without momentum, which an algorithm must implement.
    fn default() -> Self {
        Self {
            problem: None,
            details: String::new(),
            models: ["w", "wᵢ after the local steps", "the same"],
            personal: ModelForm::Parameters,
            aggregator_problem: None,
            optimizer_problem: None,
            own_rates: false,
            rate_key: "training.learning_rate",
            max_learning_rate: None,
            own_steps: false,
            momentum: false,
            full_participation: false,
            layers: None,
            weighs_clients: false,
            default_decay: (0.99, "round"),
            gradients: 1,
            needs_theory: false,
        }
    }
}
