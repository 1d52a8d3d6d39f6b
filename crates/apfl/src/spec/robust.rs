//! What aggregation rules and attacks ask of the rest of a spec.

use crate::aggregation::Aggregation;
use crate::settings::Problems;
use crate::training::Weights;

use super::Plan;

/// Notes what does not go together.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    let rule = plan.aggregation;
    if rule != Aggregation::Mean {
        refuse(plan, "federation.aggregation", &rule.to_string(), problems);
        let mut problem = |why: &str| {
            let message = format!("found \"{rule}\", but {why}");
            problems.note("federation.aggregation", message);
        };
        if plan.algorithm.agnostic() {
            problem("algorithm.agnostic weighs the clients by itself and needs the mean");
        }
        if plan.theory().is_some() {
            problem("the theorems of training.schedule are about the mean");
        }
        if plan.weights == Weights::Examples {
            problem(
                "it counts clients, not examples: a client could claim any weight; \
                 use federation.weights = \"uniform\"",
            );
        }
    }
    if let Some(attack) = plan.attack {
        refuse(plan, "federation.attack", attack.kind(), problems);
    }
}

/// Refuses algorithms whose updates are more than one model, or none.
fn refuse(plan: &Plan, key: &str, found: &str, problems: &mut Problems) {
    if let Some(why) = plan.algorithm.properties().aggregator_problem {
        problems.note(key, format!("found \"{found}\", but {why}"));
    }
}
