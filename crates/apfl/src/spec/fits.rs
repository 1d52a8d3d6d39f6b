//! What has to go together in a plan, and what an algorithm asks of the rest of it.

use super::{Plan, privacy, robust, sites, theory};
use crate::aggregation::ServerOptimizer;
use crate::model::Normalization;
use crate::settings::Problems;
use crate::training::Weights;

/// Notes everything that does not go together, whoever made the plan.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    theory::check(plan, problems);
    robust::check(plan, problems);
    layers(plan, problems);
    objections(plan, problems);
    batches(plan, problems);
    privacy::check(plan, problems);
    sites::check(plan, problems);
    if plan.algorithm.agnostic() && plan.weights == Weights::Examples {
        problems.note(
            "federation.weights",
            "found \"examples\", but algorithm.agnostic weighs the clients by itself",
        );
    }
}

/// The algorithm, as messages name it.
fn name(plan: &Plan) -> &'static str {
    match plan.algorithm.kind() {
        "own" => "the algorithm",
        kind => kind,
    }
}

/// Algorithms that share some layers need a model of several.
fn layers(plan: &Plan, problems: &mut Problems) {
    let Some((key, count)) = plan.algorithm.properties().layers else {
        return;
    };
    let shape = &plan.architecture.shape;
    let layers = shape.layers();
    if layers < 2 {
        problems.note(
            "model.kind",
            format!(
                "found \"{}\" of {layers} layer, but {} shares some layers and keeps others: \
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

/// Statistics of a batch need several rows.
fn batches(plan: &Plan, problems: &mut Problems) {
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

/// What an algorithm has against the rest of a plan, but for its model.
fn objections(plan: &Plan, problems: &mut Problems) {
    let (properties, kind) = (plan.algorithm.properties(), name(plan));
    if properties.full_participation && plan.participation != 1.0 {
        let found = plan.participation;
        let problem = format!("found {found}, but {kind} needs every client in every round: 1");
        problems.note("federation.participation", problem);
    }
    if properties.full_participation && plan.weights == Weights::Examples {
        let problem = format!("found \"examples\", but the mean of {kind} is a plain one: uniform");
        problems.note("federation.weights", problem);
    }
    if plan.local_training.momentum > 0.0 && !properties.momentum {
        let found = plan.local_training.momentum;
        let problem = format!("found {found}, but {kind} with these settings has none; use 0");
        problems.note("training.momentum", problem);
    }
    if let Some(most) = properties.max_learning_rate
        && plan.local_training.learning_rate > most
    {
        problems.note(
            "training.learning_rate",
            format!(
                "found {}, but with averaging p and pull λ it is at most p/λ = {most}: a larger \
                 one overshoots the mean",
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
