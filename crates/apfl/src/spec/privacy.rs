//! Requirements of privacy on the rest of a spec: only combinations with a proof are allowed.

use super::Plan;
use crate::aggregation::Aggregation;
use crate::algorithm::AlgorithmSpec;
use crate::algorithm::apfl::Options;
use crate::model::Normalization;
use crate::privacy::Level;
use crate::settings::Problems;
use crate::training::Weights;

/// Algorithms whose update is one model, and whose shared model depends on nothing else that
/// clients send.
const BY_CLIENT: [&str; 6] = ["apfl", "fedavg", "fedprox", "ditto", "fedper", "fedrep"];
/// Algorithms of `BY_CLIENT` whose clients update w only by the plain step, which is the private one.
const BY_EXAMPLE: [&str; 2] = ["apfl", "fedavg"];

/// Reports settings that cannot be combined with privacy.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    let Some(settings) = plan.privacy else {
        return;
    };
    let key = "federation.privacy";
    let level = settings.level;
    let mut refuse = |why: String| {
        problems.note(
            key,
            format!("found level = \"{}\", but {why}", level.name()),
        )
    };
    let kind = plan.algorithm.kind();
    let known: &[&str] = match level {
        Level::Client => &BY_CLIENT,
        Level::Example => &BY_EXAMPLE,
    };
    if !known.contains(&kind) {
        refuse(format!(
            "there is no privacy proof for algorithm.kind = \"{kind}\", whose clients send more \
             than one model or update it in other ways; use {}",
            known.join(" · ")
        ));
    }
    if plan.aggregation != Aggregation::Mean {
        refuse(format!(
            "federation.aggregation = \"{}\" is not a sum, so the influence of one client is not \
             bounded; use \"mean\"",
            plan.aggregation
        ));
    }
    if plan.weights == Weights::Examples {
        refuse(
            "federation.weights = \"examples\" lets one example change everybody's weight; use \
             \"uniform\""
                .into(),
        );
    }
    if plan.algorithm.agnostic() {
        refuse("algorithm.agnostic sends losses without noise and weights clients by them".into());
    }
    if matches!(plan.algorithm, AlgorithmSpec::Averaged(_)) {
        refuse("algorithm.output = \"averaged\" sends a second vector, without noise".into());
    }
    if plan.theory().is_some() {
        refuse("the constants of training.schedule are measured on the data without noise".into());
    }
    let choosing = plan.algorithm.choosing();
    if choosing.is_some_and(|choosing| choosing.prior != 0.0) {
        refuse(
            "algorithm.mixing.chosen adds up the clients' losses without noise; use prior = 0, with \
             which every client chooses alone"
                .into(),
        );
    }
    if plan.stop.is_some() {
        refuse(
            "training.stop ends training and picks a round by losses without noise; remove it"
                .into(),
        );
    }
    if plan.class_weights {
        refuse(
            "training.class_weights = \"balanced\" is computed from the federation's class counts \
             without noise; use \"none\""
                .into(),
        );
    }
    if level == Level::Example {
        if plan.local_training.momentum != 0.0 {
            refuse("training.momentum has no private step; use 0".into());
        }
        if plan.algorithm.choosing().is_some() {
            refuse("algorithm.mixing.chosen has no private step; use a fixed or learned α".into());
        }
        let options = plan.algorithm.apfl().map(|apfl| apfl.options);
        if options.is_some_and(|options| options != Options::PAPER) {
            refuse("only the paper's options of APFL have private steps; remove the others".into());
        }
        if plan.architecture.extras.norm == Some(Normalization::Batch) {
            refuse(
                "model.norm = \"batch\" lets every example change the gradients of the others in its \
                 batch; use \"layer\" or \"none\""
                    .into(),
            );
        }
        if plan.architecture.kind() == "cnn" {
            refuse(
                "the norms of examples' gradients are available only for dense layers; use \
                 model.kind = \"linear\" or \"mlp\""
                    .into(),
            );
        }
    }
}
