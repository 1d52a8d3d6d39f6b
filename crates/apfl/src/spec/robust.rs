//! Requirements of aggregators and attacks on the rest of a spec.

use crate::aggregation::Aggregation;
use crate::settings::Problems;
use crate::training::Weights;

use super::Plan;

/// Reports settings that cannot be combined with the aggregator or the attack.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    let aggregator = plan.aggregation;
    if aggregator != Aggregation::Mean {
        let found = aggregator.to_string();
        require_one_model(plan, "federation.aggregation", &found, problems);
        let mut problem = |why: &str| {
            let message = format!("found \"{aggregator}\", but {why}");
            problems.note("federation.aggregation", message);
        };
        if plan.algorithm.agnostic() {
            problem("algorithm.agnostic sets the clients' weights and needs the mean");
        }
        if plan.theory().is_some() {
            problem("the theorems of training.schedule assume the mean; use \"mean\"");
        }
        if plan.weights == Weights::Examples {
            problem(
                "it counts clients, not examples, since a client could claim any weight; use \
                 federation.weights = \"uniform\"",
            );
        }
    }
    if let Some(attack) = plan.attack {
        require_one_model(plan, "federation.attack", attack.kind(), problems);
    }
}

/// Reports an algorithm whose update is not exactly one model.
fn require_one_model(plan: &Plan, key: &str, found: &str, problems: &mut Problems) {
    if let Some(why) = plan.algorithm.properties().aggregator_problem {
        problems.note(key, format!("found \"{found}\", but {why}"));
    }
}
