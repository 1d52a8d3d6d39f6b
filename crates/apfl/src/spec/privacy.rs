//! What privacy asks of the rest of a spec: only what there is a proof for.

use super::Plan;
use crate::aggregation::Aggregation;
use crate::algorithm::AlgorithmSpec;
use crate::algorithm::apfl::Options;
use crate::model::Normalization;
use crate::privacy::Level;
use crate::settings::Problems;
use crate::training::Weights;

/// Algorithms whose update is one model, and whose shared path depends on nothing else that
/// clients send.
const BY_CLIENT: [&str; 6] = ["apfl", "fedavg", "fedprox", "ditto", "fedper", "fedrep"];
/// Those of them whose clients move w by the site's plain step and by nothing else, so that it is
/// the private one.
const BY_EXAMPLE: [&str; 2] = ["apfl", "fedavg"];

/// Notes what does not go together.
pub(super) fn check(plan: &Plan, problems: &mut Problems) {
    let Some(settings) = plan.privacy else {
        return;
    };
    let key = "federation.privacy";
    let level = settings.level;
    let mut refuse = |why: String| {
        problems.note(
            key,
            format!("found level = \"{}\", but {why}", level.word()),
        )
    };
    let kind = plan.algorithm.kind();
    let known: &[&str] = match level {
        Level::Client => &BY_CLIENT,
        Level::Example => &BY_EXAMPLE,
    };
    if !known.contains(&kind) {
        refuse(format!(
            "there is no proof of it for algorithm.kind = \"{kind}\", whose clients send more than \
             one model or move it in other ways; use {}",
            known.join(" · ")
        ));
    }
    if plan.aggregation != Aggregation::Mean {
        refuse(format!(
            "federation.aggregation = \"{}\" is no sum: how far one client moves it is not known; \
             use mean",
            plan.aggregation
        ));
    }
    if plan.weights == Weights::Examples {
        refuse(
            "federation.weights = \"examples\" lets one of them change everybody's weight; use uniform"
                .into(),
        );
    }
    if plan.algorithm.agnostic() {
        refuse("algorithm.agnostic sends losses and weighs clients by them, without noise".into());
    }
    if matches!(plan.algorithm, AlgorithmSpec::Averaged(_)) {
        refuse("algorithm.output = \"averaged\" sends a second vector, without noise".into());
    }
    if plan.theory().is_some() {
        refuse("the constants of training.schedule are measured on the data, without noise".into());
    }
    let choosing = plan.algorithm.choosing();
    if choosing.is_some_and(|choosing| choosing.prior != 0.0) {
        refuse(
            "algorithm.mixing.chosen adds up the clients' losses without noise; with prior = 0 every \
             client chooses alone"
                .into(),
        );
    }
    if plan.class_weights {
        refuse(
            "training.class_weights = \"balanced\" follows from the federation's class counts, \
             without noise"
                .into(),
        );
    }
    if level == Level::Example {
        if plan.local_training.momentum != 0.0 {
            refuse("training.momentum has no private steps; use 0".into());
        }
        if plan.algorithm.choosing().is_some() {
            refuse("algorithm.mixing.chosen has no private steps; use a fixed or learned α".into());
        }
        let options = plan.algorithm.apfl().map(|apfl| apfl.options);
        if options.is_some_and(|options| options != Options::PAPER) {
            refuse("of APFL's options only the paper's have private steps".into());
        }
        if plan.architecture.extras.norm == Some(Normalization::Batch) {
            refuse(
                "model.norm = \"batch\" lets every example change the gradients of those beside it; \
                 use \"layer\" or \"none\""
                    .into(),
            );
        }
        if plan.architecture.kind() == "cnn" {
            refuse(
                "the norms of examples' gradients are known of dense layers alone; use model.kind = \
                 \"linear\" or \"mlp\""
                    .into(),
            );
        }
    }
}
