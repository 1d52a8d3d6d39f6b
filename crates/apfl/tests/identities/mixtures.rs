//! Invariants 6 and 7: mixed parameters, mixed outputs, and how a mixture moves.

use apfl::algorithm::apfl::Mixing;
use apfl::algorithm::{Algorithm, Apfl, LocalOnly};
use apfl::data::{Examples, Features, Targets};
use apfl::local_client::{LocalClient, LocalTraining, LocalWork, Predictor, Scratch};
use apfl::model::mlp::Mlp;
use apfl::model::{Loss, Model, Workspace};
use apfl::pack::ModelOnly;
use apfl::params::{Params, dot, mix};
use apfl::rng::{Purpose, stream};
use apfl::schedule::Schedule;
use rand::RngExt;

use super::close;

/// Random examples of three classes, and two random points of the model.
fn examples_and_points(model: &dyn Model, inputs: usize) -> (Examples, Params, Params) {
    let mut rng = stream(3, Purpose::Theory, 0, 0);
    let x = (0..30 * inputs)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let y = (0..30).map(|_| rng.random_range(0..3)).collect();
    let examples = Examples::new(inputs, Features::Floats(x), Targets::Classes(y));
    let point = |rng: &mut _| model.layout().uniform(rng);
    let (v, w) = (point(&mut rng), point(&mut rng));
    (examples, v, w)
}

fn mixed(alpha: f32, v: &[f32], w: &[f32]) -> Params {
    let mut out = vec![0.0; v.len()];
    mix(&mut out, alpha, v, w);
    out
}

/// The largest difference of outputs between mixed parameters and mixed outputs.
fn mixtures_differ_by(model: &Mlp, alpha: f32) -> f32 {
    let (examples, v, w) = examples_and_points(model, 4);
    let batch = examples.all();
    let (one, other) = (&mut Workspace::default(), &mut Workspace::default());
    let parameters = Predictor::Own(mixed(alpha, &v, &w));
    let (v, w) = (&v[..], &w[..]);
    let outputs = Predictor::MixedOutputs { alpha, v, w };
    let (a, b) = (
        parameters.outputs(model, &batch, one),
        outputs.outputs(model, &batch, other),
    );
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn i06_mixing_parameters_is_mixing_outputs_for_linear_models_alone() {
    let linear = Mlp::logistic(4, 3, 0.0);
    let network = Mlp::new(4, &[8, 6], 3, Loss::Softmax, 0.0);
    for alpha in [0.0, 0.25, 0.5, 0.9, 1.0] {
        assert!(mixtures_differ_by(&linear, alpha) < 1e-6, "linear, {alpha}");
        let difference = mixtures_differ_by(&network, alpha);
        if alpha == 0.0 || alpha == 1.0 {
            assert_eq!(difference, 0.0, "network, {alpha}");
        } else {
            assert!(difference > 1e-3, "network, {alpha}: {difference}");
        }
    }
}

/// For a linear model the loss of the mixed outputs, as a function of v, w and α, has
/// the gradients that APFL uses: α∇f(v̄) for v, and ⟨v−w, ∇f(v̄)⟩ for α. The outputs'
/// side is differenced; parameters enter it only through `MixedOutputs`.
#[test]
fn i06_for_linear_models_both_mixtures_have_the_same_slopes() {
    let model: &dyn Model = &Mlp::logistic(4, 3, 0.0);
    let (examples, v, w) = examples_and_points(model, 4);
    let batch = examples.all();
    let loss = |alpha: f32, v: &[f32]| {
        let ws = &mut Workspace::default();
        let outputs = Predictor::MixedOutputs { alpha, v, w: &w };
        let outputs = outputs.outputs(model, &batch, ws).to_vec();
        model.tally(&batch, &outputs).loss / 30.0
    };
    let alpha = 0.375; // with h = 1/64, α ± h are exact
    let h = 1.0 / 64.0;
    let mut g = vec![0.0; v.len()];
    let v_bar = mixed(alpha, &v, &w);
    model.gradient(&v_bar, &batch, &mut Workspace::default(), &mut g);

    let along_alpha = (loss(alpha + h, &v) - loss(alpha - h, &v)) / f64::from(2.0 * h);
    let d: Params = v.iter().zip(&w).map(|(v, w)| v - w).collect();
    assert!((along_alpha - dot(&d, &g)).abs() < 1e-4, "{along_alpha}");
    for k in 0..v.len() {
        let at = |shift: f32| {
            let mut v = v.clone();
            v[k] += shift;
            loss(alpha, &v)
        };
        let along_v = (at(h) - at(-h)) / f64::from(2.0 * h);
        assert!(
            (along_v - f64::from(alpha * g[k])).abs() < 1e-4,
            "v[{k}]: {along_v}"
        );
    }
}

fn local_training_of(learning_rate: f64, steps: u64) -> LocalTraining {
    LocalTraining {
        work: LocalWork::Steps(steps),
        batch: Some(10),
        learning_rate,
        schedule: Schedule::Constant,
        momentum: 0.0,
    }
}

/// With τ = 1 and the same w sent every round, w is frozen as far as v can see.
#[test]
fn i07_with_the_shared_model_frozen_the_mixture_is_sgd_with_a_smaller_step() {
    let (alpha, eta) = (0.4f32, 0.5);
    let model = Mlp::new(4, &[6], 3, Loss::Softmax, 0.01);
    let (examples, w, _) = examples_and_points(&model, 4);
    let apfl = Apfl::paper(Mixing::Fixed(alpha));
    let sent = ModelOnly { model: w.clone() };
    let (mut state, mut plain) = (apfl.join(&w), LocalOnly.join(&w));
    let small = f64::from(alpha) * f64::from(alpha) * eta;
    let mut scratch = Scratch::default();
    for round in 1..=40 {
        let rng = || stream(1, Purpose::Batches, round, 0);
        let mut client = LocalClient::new(
            &model,
            &examples,
            local_training_of(eta, 1),
            round,
            rng(),
            &mut scratch,
        );
        apfl.local_round(&sent, &mut state, &mut client);
        let mut client = LocalClient::new(
            &model,
            &examples,
            local_training_of(small, 1),
            round,
            rng(),
            &mut scratch,
        );
        LocalOnly.local_round(&(), &mut plain, &mut client);
        let v_bar = mixed(alpha, &state.v, &w);
        assert!(close(&v_bar, &plain.model, 1e-5), "round {round}");
    }
    assert!(!close(&plain.model, &w, 0.05), "it went somewhere");
}
