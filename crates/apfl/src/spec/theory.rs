//! `schedule = { kind = "theory" }` and averaged outputs: settings and requirements.

use crate::algorithm::apfl::Mixing;
use crate::algorithm::apfl::options::Mix;
use crate::algorithm::{AlgorithmSpec, Apfl};
use crate::curvature;
use crate::error::{Error, Result};
use crate::local_client::LocalWork;
use crate::model::Model;
use crate::schedule::{Constants, Schedule, Theory};
use crate::settings::{
    Declaration, Number, Problems, Section, Setting, Whole, above_zero, at_least,
};
use crate::training::Weights;

use super::Plan;

const THEOREM: Setting<Whole> = Setting::number("theorem", 2, at_least(2).to(6))
    .with("kind = \"theory\"")
    .help("the theorem whose step sizes are used")
    .source("Theorems 2 to 6");

const NUMBER: crate::settings::Range<f64> = above_zero(f64::MIN_POSITIVE).to(1e15);

const SMOOTHNESS: Setting<Number> = Setting::optional("smoothness", NUMBER)
    .symbol("L")
    .with("kind = \"theory\"")
    .help("the smoothness")
    .usually("measured on the data");

const MU: Setting<Number> = Setting::optional("mu", NUMBER)
    .symbol("μ")
    .with("kind = \"theory\"")
    .help("for Theorems 2 to 4: the strong convexity")
    .usually("`model.l2`, for a linear model");

const SHIFT: Setting<Number> = Setting::optional("a", NUMBER)
    .symbol("a")
    .with("kind = \"theory\"")
    .help("for Theorems 2 to 4: the shift of the rates")
    .usually("follows from L, μ and τ by the theorem");

pub(super) const SETTINGS: [&dyn Declaration; 4] = [&THEOREM, &SMOOTHNESS, &MU, &SHIFT];

/// An empty theory schedule, to be filled by a reader.
pub(super) const BLANK: Theory = Theory {
    theorem: 0,
    smoothness: None,
    mu: None,
    a: None,
};

/// Binds the settings of `{ kind = "theory" }`.
pub(super) fn bind(theory: &mut Theory, s: &mut Section<'_>) {
    let mut theorem = u64::from(theory.theorem);
    s.field(&THEOREM, &mut theorem);
    theory.theorem = theorem as u8;
    s.optional_field(&SMOOTHNESS, &mut theory.smoothness);
    if theory.convex() {
        s.optional_field(&MU, &mut theory.mu);
        s.optional_field(&SHIFT, &mut theory.a);
    }
}

/// Checks the requirements of theory schedules and averaged outputs.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    if let Some(theory) = plan.theory() {
        check_schedule(plan, theory, problems);
    }
    let properties = plan.algorithm.properties();
    let needs_shift = properties.needs_theory && !plan.local_training.schedule.has_shift();
    if let AlgorithmSpec::Averaged(averaged) = &plan.algorithm {
        let Apfl { mixing, options } = averaged.apfl;
        let mut refuse = |why: &str| {
            let problem = format!("found \"averaged\", which {why}");
            problems.note("algorithm.output", problem);
        };
        if matches!(mixing, Mixing::Adaptive(_)) {
            refuse(
                "needs a fixed α, since the sum does not factor with a learned one; use mixing.fixed",
            );
        }
        if options.mix == Mix::Logits {
            refuse("averages parameters; use mix = \"parameters\"");
        }
        if plan.weights != Weights::Uniform {
            refuse("is a uniform mean over clients; use federation.weights = \"uniform\"");
        }
        if matches!(plan.local_training.work, LocalWork::Epochs(_)) {
            refuse("needs the same steps at every client; use training.local_steps");
        }
        if needs_shift {
            refuse(
                "needs the shift a of its weights (t+a)²; set algorithm.averaging_shift, or use the \
                 theory schedule of Theorem 2, 3 or 4",
            );
        }
    } else if needs_shift {
        problems.note(
            "algorithm",
            "needs a shift; set it in the algorithm, or use the theory schedule of Theorem 2, 3 or 4",
        );
    }
}

fn check_schedule(plan: &Plan, theory: &Theory, problems: &mut Problems) {
    let theorem = theory.theorem;
    if matches!(plan.local_training.work, LocalWork::Epochs(_)) {
        problems.note(
            "training.schedule",
            "the theory assumes equal steps at every client; use local_steps instead of local_epochs",
        );
    }
    let strongly_convex = plan.architecture.is_linear() && plan.architecture.l2 > 0.0;
    if theory.convex() && theory.mu.is_none() && !strongly_convex {
        problems.note(
            "training.schedule.mu",
            format!(
                "is missing: Theorem {theorem} needs a strongly convex objective, which is only \
                 known for linear models with l2 above 0 (μ = l2); set mu, or use such a model"
            ),
        );
    }
    let apfl = plan.algorithm.apfl();
    let projected = apfl.is_some_and(|apfl| apfl.options.projection.is_some());
    if theorem == 4 && !projected {
        problems.note(
            "algorithm.projection",
            "is missing: Theorem 4 needs bounded gradients; use apfl and give a radius",
        );
    }
    let properties = plan.algorithm.properties();
    if properties.own_rates || properties.own_steps {
        let kind = plan.algorithm.kind();
        let own = if properties.own_rates {
            "rates"
        } else {
            "steps"
        };
        problems.note(
            "training.schedule",
            format!("does not apply to {kind}, which has {own} of its own"),
        );
    }
    if plan.weights != Weights::Uniform {
        problems.note(
            "federation.weights",
            "found \"examples\", but the theorems assume the uniform mean; use \"uniform\"",
        );
    }
    if !theory.convex() && plan.participation != 1.0 {
        problems.note(
            "federation.participation",
            format!(
                "found {}, but Theorem {theorem} assumes that every client takes part (K = n); use 1",
                plan.participation
            ),
        );
    }
}

/// Returns the schedule and a description of its constants; those that are not given are
/// measured on the data.
///
/// # Errors
/// A smoothness that is not positive and finite.
pub(super) fn resolve(
    plan: &Plan,
    theory: &Theory,
    dataset: &dyn crate::data::Dataset,
    model: &dyn Model,
    w0: &crate::params::Params,
) -> Result<(Schedule, String)> {
    let LocalWork::Steps(tau) = plan.local_training.work else {
        unreachable!("the plan refuses local_epochs with a theory schedule")
    };
    let mu = theory.mu.unwrap_or(f64::from(model.l2()));
    let (smoothness, source) = match theory.smoothness {
        Some(given) => (given, "given".to_string()),
        // In Theorems 2 to 4, L enters η_t only through a.
        None if theory.a.is_some() => (f64::NAN, "not needed".to_string()),
        None if plan.architecture.is_linear() => {
            let bound = curvature::smoothness_of_linear(dataset, model, plan.seed)?;
            (bound, "a bound from the data".to_string())
        }
        None => {
            let (estimate, clients) =
                curvature::estimate_smoothness(dataset, model, w0, plan.seed)?;
            let source = format!("an estimate from the curvature at w⁰ of {clients} clients");
            (estimate, source)
        }
    };
    if theory.smoothness.is_none()
        && theory.a.is_none()
        && !(smoothness > 0.0 && smoothness.is_finite())
    {
        return Err(Error::data(format!(
            "training.schedule: the smoothness L measured on the data is {smoothness}; set \
             training.schedule.smoothness"
        )));
    }
    let constants = Constants {
        mu,
        smoothness,
        tau,
        steps: plan.rounds.saturating_mul(tau),
        clients: dataset.clients() as u64,
    };
    let schedule = theory.schedule(&constants);
    let description = theory.describe(&constants, &schedule, &source);
    Ok((schedule, description))
}
