//! Checks of settings that depend on each other.

use super::{Plan, privacy, robust, sites, theory};
use crate::aggregation::ServerOptimizer;
use crate::model::Normalization;
use crate::settings::Problems;
use crate::training::Weights;

/// The smallest rate of a probe.
pub(crate) const LEAST_RATE: f64 = 0.001;

/// Reports all settings of a plan that cannot be combined.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    theory::check(plan, problems);
    robust::check(plan, problems);
    check_layers(plan, problems);
    check_algorithm(plan, problems);
    check_batches(plan, problems);
    privacy::check(plan, problems);
    sites::check(plan, problems);
    if plan.algorithm.agnostic() && plan.weights == Weights::Examples {
        problems.note(
            "federation.weights",
            "found \"examples\", but algorithm.agnostic sets the clients' weights; use \"uniform\"",
        );
    }
}

/// Returns the name of the algorithm in messages.
fn name(plan: &Plan) -> &'static str {
    match plan.algorithm.kind() {
        "own" => "the algorithm",
        kind => kind,
    }
}

/// Checks that the model has enough layers for an algorithm that shares some of them.
fn check_layers(plan: &Plan, problems: &mut Problems) {
    let Some((key, count)) = plan.algorithm.properties().layers else {
        return;
    };
    let shape = &plan.architecture.shape;
    let layers = shape.layers();
    if layers < 2 {
        problems.note(
            "model.kind",
            format!(
                "found \"{}\" with {layers} layer, but {} shares some layers and keeps others, so \
                 nothing would be shared; use mlp",
                shape.kind(),
                name(plan)
            ),
        );
    } else if count > layers {
        let problem = format!("found {count}, but the model has {layers} layers");
        problems.note(key, problem);
    }
}

/// Checks that batches have enough rows for batch normalization.
fn check_batches(plan: &Plan, problems: &mut Problems) {
    let extras = &plan.architecture.extras;
    if extras.norm != Some(Normalization::Batch) {
        return;
    }
    let batches = [
        ("training.batch", plan.local_training.batch),
        ("evaluation.batch", extras.evaluation_batch),
    ];
    for (key, _) in batches.iter().filter(|(_, rows)| *rows == Some(1)) {
        let problem = "found 1, but model.norm = \"batch\" needs at least two rows per batch";
        problems.note(*key, problem);
    }
}

/// Checks that a probe can find the learning rate.
fn check_auto_rate(plan: &Plan, problems: &mut Problems) {
    let properties = plan.algorithm.properties();
    let why = if !plan.auto_rate {
        return;
    } else if plan.privacy.is_some() {
        "every round of a probe is a release, which federation.privacy does not count; set a number"
            .to_string()
    } else if plan.theory().is_some() {
        "training.schedule has the rates of a theorem; remove one of them".to_string()
    } else if let Some(most) = properties
        .max_learning_rate
        .filter(|most| *most < LEAST_RATE)
    {
        format!(
            "{} allows at most {most}, which is below every rate of the probe; set a number",
            name(plan)
        )
    } else if properties.own_rates && plan.algorithm.with_own_rate(1.0).is_none() {
        format!(
            "{} has rates of its own that a probe cannot set",
            name(plan)
        )
    } else {
        return;
    };
    problems.note(
        "training.learning_rate",
        format!("found \"auto\", but {why}"),
    );
}

/// Checks the algorithm's requirements on settings other than the model.
fn check_algorithm(plan: &Plan, problems: &mut Problems) {
    let (properties, kind) = (plan.algorithm.properties(), name(plan));
    if properties.full_participation && plan.participation != 1.0 {
        let found = plan.participation;
        let problem = format!("found {found}, but {kind} needs every client in every round; use 1");
        problems.note("federation.participation", problem);
    }
    if properties.full_participation && plan.weights == Weights::Examples {
        let problem =
            format!("found \"examples\", but {kind} uses the uniform mean; use \"uniform\"");
        problems.note("federation.weights", problem);
    }
    if plan.local_training.momentum > 0.0 && !properties.momentum {
        let found = plan.local_training.momentum;
        let problem =
            format!("found {found}, but {kind} with these settings has no momentum; use 0");
        problems.note("training.momentum", problem);
    }
    check_auto_rate(plan, problems);
    if let Some(most) = properties.max_learning_rate
        && !plan.auto_rate
        && plan.local_training.learning_rate > most
    {
        problems.note(
            "training.learning_rate",
            format!(
                "found {}, allowed is at most p/λ = {most} with averaging p and pull λ; a larger \
                 rate overshoots the mean",
                plan.local_training.learning_rate
            ),
        );
    }
    if let (true, Some(why)) = (
        plan.server != ServerOptimizer::Mean,
        properties.optimizer_problem,
    ) {
        let problem = format!("found \"{}\", but {why}", plan.server.kind());
        problems.note("federation.server", problem);
    }
}
