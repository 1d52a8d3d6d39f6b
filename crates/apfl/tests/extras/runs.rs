//! Runs of models with normalization and dropout: same bits, same paths, and their scores.

use apfl::data::{Examples, Features, Targets};
use apfl::local_client::{Predictor, Scratch};
use apfl::model::mlp::Mlp;
use apfl::model::{Extras, Loss, Network, Normalization, Workspace};
use apfl::rng::{Purpose, stream};
use apfl::spec::{Resources, Spec};
use apfl::training::Training;

use super::numbers;

const MLP: &str =
    "model = { kind = 'mlp', hidden = [12, 9], norm = 'batch', dropout = 0.25, head_bias = false }";

fn spec(more: &str) -> Spec {
    let text = format!(
        "{MLP}\n{more}\n[data]\nclients = 5\nmax_examples = 80\n[training]\nrounds = 3\nbatch = 16\n\
         [evaluation]\nbatch = 16"
    );
    Spec::parse(&text).unwrap()
}

/// Fingerprint, shared model and the scores of the last round.
fn outcome(spec: &Spec, threads: usize) -> (String, Vec<f32>, String) {
    let plan = spec.plan().unwrap();
    let on = Resources {
        threads: Some(threads),
        ..Resources::default()
    };
    let setup = plan.setup_with(plan.data.load().unwrap(), on).unwrap();
    let mut training = Training::new(setup, &plan.algorithm).unwrap();
    let mut last = None;
    while let Some(record) = training.next_round().unwrap() {
        last = record.scores;
    }
    let fingerprint = training.fingerprint().unwrap();
    (
        format!("{fingerprint:?}"),
        training.shared().to_vec(),
        format!("{last:?}"),
    )
}

#[test]
fn threads_change_no_bit() {
    for algorithm in ["apfl", "perfedavg', variant = 'authors"] {
        let spec = spec(&format!("algorithm = {{ kind = '{algorithm}' }}"));
        let one = outcome(&spec, 1);
        assert_eq!(one, outcome(&spec, 3), "{algorithm}");
        assert_eq!(one, outcome(&spec, 1), "{algorithm}");
    }
}

/// Invariant 1 with masks: the batch has them, whoever sees it, so w is FedAvg's to the bit.
#[test]
fn the_shared_path_is_fedavgs() {
    let of = |algorithm: &str| {
        let mut spec = spec(&format!("algorithm = {algorithm}"));
        spec.set("training.schedule=constant").unwrap();
        outcome(&spec, 1).1
    };
    let fedavg = of("{ kind = 'fedavg' }");
    for mixing in ["{ fixed = 0.5 }", "{ adaptive = 0.3 }"] {
        assert_eq!(fedavg, of(&format!("{{ mixing = {mixing} }}")));
        let authors = format!("{{ mixing = {mixing}, preset = 'authors' }}");
        assert_eq!(fedavg, of(&authors));
    }
}

/// v's network drops outputs in round 1 and then no more, w's always does.
#[test]
fn v_drops_nothing_from_round_two_on() {
    let of = |v_dropout: &str, rounds: u64| {
        let mut spec = spec(&format!(
            "algorithm = {{ mixing = {{ fixed = 0.5 }}, mix = 'logits', v_dropout = '{v_dropout}' }}"
        ));
        spec.set(&format!("training.rounds={rounds}")).unwrap();
        outcome(&spec, 1)
    };
    assert_eq!(of("always", 1), of("first-round", 1));
    let (always, first) = (of("always", 2), of("first-round", 2));
    assert_eq!(always.1, first.1);
    assert_ne!(always.0, first.0);
}

fn scored(norm: Option<Normalization>, evaluation_batch: Option<usize>) -> f64 {
    let extras = Extras {
        norm,
        evaluation_batch,
        ..Extras::NONE
    };
    let model = Mlp::with_extras(6, &[9], 4, Loss::Softmax, 0.0, extras);
    let mut rng = stream(9, Purpose::Theory, 0, 0);
    let at = numbers(model.layout().len(), &mut rng);
    let features = Features::Floats(numbers(6 * 50, &mut rng));
    let examples = Examples::new(
        6,
        features,
        Targets::Classes((0..50).map(|k| k % 4).collect()),
    );
    let mut scratch = Scratch::default();
    let predictor = Predictor::At(&at);
    let loss = scratch.tally(&model, &predictor, &examples).loss;
    let rows: f64 = scratch.losses(&model, &predictor, &examples).iter().sum();
    assert!((loss - rows).abs() < 1e-9);
    loss
}

/// Batches matter where rows depend on each other, and nowhere else.
#[test]
fn the_batch_of_evaluation_matters_to_batch_statistics_alone() {
    for norm in [None, Some(Normalization::Layer)] {
        assert!((scored(norm, None) - scored(norm, Some(7))).abs() < 1e-4);
    }
    let batch = Some(Normalization::Batch);
    assert!((scored(batch, Some(7)) - scored(batch, None)).abs() > 1e-3);
    // All rows in one batch, in whatever order, are all rows in one batch.
    assert!((scored(batch, Some(50)) - scored(batch, None)).abs() < 1e-4);
}

/// Clients whose rows lie sorted alike do not share an order: two that differ in their first row
/// alone would else agree on the 40 rows of the batches without it.
#[test]
fn every_client_is_scored_in_an_order_of_its_own() {
    let extras = Extras {
        norm: Some(Normalization::Batch),
        evaluation_batch: Some(10),
        ..Extras::NONE
    };
    let model = Mlp::with_extras(6, &[9], 4, Loss::Softmax, 0.0, extras);
    let mut rng = stream(11, Purpose::Theory, 0, 0);
    let at = numbers(model.layout().len(), &mut rng);
    let rows = numbers(6 * 50, &mut rng);
    let losses = |first: f32| {
        let mut rows = rows.clone();
        rows[0] = first;
        let classes = Targets::Classes((0..50).map(|k| k / 25).collect());
        let examples = Examples::new(6, Features::Floats(rows), classes);
        Scratch::default().losses(&model, &Predictor::At(&at), &examples)
    };
    let (one, other) = (losses(0.5), losses(-0.5));
    assert_eq!(one, losses(0.5), "one client always has the same");
    let equal = one.iter().zip(&other).filter(|(a, b)| a == b).count();
    assert!(equal < 10, "{equal} of 50 rows");
}

/// With batch statistics one row alone is x̂ = 0: its outputs are those of the shifts.
#[test]
fn of_one_row_nothing_is_left() {
    let extras = Extras {
        norm: Some(Normalization::Batch),
        ..Extras::NONE
    };
    let model = Mlp::with_extras(6, &[9], 4, Loss::Softmax, 0.0, extras);
    let mut rng = stream(10, Purpose::Theory, 0, 0);
    let at = numbers(model.layout().len(), &mut rng);
    let outputs = |x: Vec<f32>| {
        let one = Examples::new(6, Features::Floats(x), Targets::Classes(vec![0]));
        let mut ws = Workspace::default();
        model.forward(&at, &one.all(), &mut ws);
        ws.outputs
    };
    assert_eq!(outputs(vec![0.5; 6]), outputs(vec![-3.0; 6]));
}
