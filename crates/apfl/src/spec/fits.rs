//! What an algorithm asks of the rest of a spec, and what of it it does not use.

use super::Plan;
use crate::aggregation::ServerOptimizer;
use crate::algorithm::{AlgorithmSpec, Properties};
use crate::model::Over;
use crate::settings::Section;
use crate::training::Weights;

/// Notes what does not go together.
pub(super) fn check(plan: &Plan, s: &mut Section<'_>) {
    let (properties, kind) = (plan.algorithm.properties(), plan.algorithm.kind());
    let shape = &plan.architecture.shape;
    if let Some((key, count)) = properties.layers {
        let layers = shape.layers();
        if layers < 2 {
            s.problem(
                "model.kind",
                format!(
                    "found \"{}\" of {layers} layer, but {kind} shares some layers and keeps \
                     others: nothing would be shared; use mlp",
                    shape.kind()
                ),
            );
        } else if count > layers {
            let problem = format!("found {count}, but the model has {layers} layers");
            s.problem(key, problem);
        }
    }
    for (key, problem) in objections(&properties, kind, plan) {
        s.problem(key, problem);
    }
    let extras = &plan.architecture.extras;
    if extras.norm == Some(Over::Batch) {
        let batches = [
            ("training.batch", plan.pace.batch),
            ("evaluation.batch", extras.scored_in),
        ];
        for (key, _) in batches.iter().filter(|(_, rows)| *rows == Some(1)) {
            let problem =
                "found 1, but with model.norm = \"batch\" nothing is left of one row: 2 or more";
            s.problem(key, problem);
        }
    }
}

/// What an algorithm has against a plan, but for its model: key and message.
pub(crate) fn objections(
    properties: &Properties,
    kind: &str,
    plan: &Plan,
) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    if properties.everybody && plan.participation != 1.0 {
        let found = plan.participation;
        let problem = format!("found {found}, but {kind} needs every client in every round: 1");
        all.push(("federation.participation", problem));
    }
    if properties.everybody && plan.weights == Weights::Examples {
        let problem = format!("found \"examples\", but the mean of {kind} is a plain one: uniform");
        all.push(("federation.weights", problem));
    }
    if plan.pace.momentum > 0.0 && !properties.momentum {
        let found = plan.pace.momentum;
        let problem = format!("found {found}, but {kind} with these settings has none; use 0");
        all.push(("training.momentum", problem));
    }
    if let Some(most) = properties.most_rate
        && plan.pace.learning_rate > most
    {
        all.push((
            "training.learning_rate",
            format!(
                "found {}, but with averaging p and pull λ it is at most p/λ = {most}: a larger \
                 one overshoots the mean",
                plan.pace.learning_rate
            ),
        ));
    }
    if let (true, Some(why)) = (
        plan.server != ServerOptimizer::Mean,
        properties.beyond_optimizers,
    ) {
        let problem = format!("found \"{}\", but {why}", plan.server.kind());
        all.push(("federation.server", problem));
    }
    all
}

/// The keys of `[training]` that an algorithm does not use.
pub(super) fn unused(algorithm: &AlgorithmSpec) -> Vec<&'static str> {
    let properties = algorithm.properties();
    let mut keys = Vec::new();
    if properties.own_rates {
        keys.extend(["learning_rate", "schedule"]);
    }
    if properties.own_steps {
        keys.extend(["local_steps", "local_epochs"]);
    }
    keys
}

/// What an algorithm has in their place.
pub(super) fn instead(algorithm: &AlgorithmSpec) -> String {
    let properties = algorithm.properties();
    match properties.own_steps {
        true => "a number of local steps of its own for every round".into(),
        false => format!("rates of its own, such as {}", properties.rate_key),
    }
}
