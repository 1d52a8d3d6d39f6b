//! Dense networks on every way a batch can come in, against sums in f64.

use std::sync::Arc;

use apfl::data::{Examples, Features, Scaling, Targets};
use apfl::model::mlp::Mlp;
use apfl::model::{Loss, Model, Workspace};
use apfl::params::mix;
use apfl::rng::{Purpose, Stream, stream};
use rand::RngExt;

struct Case {
    loss: Loss,
    planes: usize,
    inputs: usize,
    hidden: Vec<usize>,
    outputs: usize,
    rows: usize,
    /// How likely a byte of a column that varies is zero.
    zeros: f64,
}

fn cases() -> Vec<Case> {
    let case = |loss, planes, inputs, hidden: &[usize], outputs, rows| Case {
        loss,
        planes,
        inputs,
        hidden: hidden.to_vec(),
        outputs,
        rows,
        zeros: 0.5,
    };
    // Mostly zeros into a wide layer: columns of an odd number, of several planes, more
    // rows than a mask has bits, outputs that end within a vector and at one, and more of
    // them than registers.
    let sparse = |planes, inputs, hidden: &[usize], rows| Case {
        zeros: 0.9,
        ..case(Loss::Softmax, planes, inputs, hidden, 3, rows)
    };
    vec![
        sparse(1, 57, &[200], 20),
        sparse(3, 33, &[64, 70], 7),
        sparse(2, 40, &[67, 80], 65),
        sparse(1, 12, &[300], 32),
        sparse(1, 9, &[96], 1),
        // Outputs below, at and above a vector and half of one; rows and inputs that fill
        // no tile; a single row, whose columns are all constant.
        case(Loss::Softmax, 1, 40, &[], 10, 20),
        case(Loss::Softmax, 3, 33, &[], 8, 7),
        case(Loss::Softmax, 1, 900, &[], 10, 21),
        case(Loss::Softmax, 1, 45, &[], 13, 18),
        case(Loss::Softmax, 1, 21, &[], 16, 1),
        case(Loss::Softmax, 1, 300, &[17, 33], 16, 23),
        case(Loss::Softmax, 2, 50, &[200, 5, 9], 3, 11),
        case(Loss::Softmax, 1, 21, &[40], 62, 1),
        case(Loss::Logistic, 1, 30, &[], 1, 9),
        case(Loss::SquaredError, 1, 5, &[7], 2, 13),
    ]
}

/// Bytes of which about half of the columns are the same in all rows, and the same as
/// numbers.
fn examples(case: &Case, rng: &mut Stream) -> (Examples, Examples) {
    let mut bytes = vec![0u8; case.rows * case.inputs];
    for j in 0..case.inputs {
        let constant: bool = rng.random();
        let value = rng.random();
        for r in 0..case.rows {
            let zero = rng.random_bool(case.zeros);
            let other = if zero { 0 } else { rng.random() };
            let constant = constant && case.zeros < 0.6;
            bytes[r * case.inputs + j] = if constant { value } else { other };
        }
    }
    let scaling = Scaling {
        channels: (0..case.planes)
            .map(|k| (0.004 + 0.001 * k as f32, -0.4 + 0.1 * k as f32))
            .collect(),
    };
    let mut numbers = vec![0.0; bytes.len()];
    scaling.apply(&bytes, case.inputs, &mut numbers);
    let classes = match case.loss {
        Loss::Logistic => 2,
        _ => case.outputs as u32,
    };
    let targets = (0..case.rows).map(|_| rng.random_range(0..classes));
    let targets = Targets::Classes(targets.collect());
    (
        Examples::new(
            case.inputs,
            Features::Bytes(bytes, Arc::new(scaling)),
            targets.clone(),
        ),
        Examples::new(case.inputs, Features::Floats(numbers), targets),
    )
}

fn model(case: &Case, l2: f32) -> Mlp {
    Mlp::new(case.inputs, &case.hidden, case.outputs, case.loss, l2)
}

/// The gradient by the chain rule, sum by sum, from ∂loss/∂outputs.
fn slow_gradient(
    model: &dyn Model,
    case: &Case,
    at: &[f32],
    x: &[f32],
    delta: &[f32],
) -> (Vec<f64>, Vec<f64>) {
    let mut widths = vec![case.inputs];
    widths.extend(&case.hidden);
    widths.push(case.outputs);
    let tensors = &model.layout().tensors;
    let mut layers = vec![x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>()];
    for k in 0..widths.len() - 1 {
        let (w, b) = (&at[tensors[2 * k].range()], &at[tensors[2 * k + 1].range()]);
        let before = &layers[k];
        let mut y = Vec::new();
        for r in 0..case.rows {
            for o in 0..widths[k + 1] {
                let terms = (0..widths[k])
                    .map(|i| before[r * widths[k] + i] * f64::from(w[i * widths[k + 1] + o]));
                let z = f64::from(b[o]) + terms.sum::<f64>();
                y.push(if k + 2 < widths.len() { z.max(0.0) } else { z });
            }
        }
        layers.push(y);
    }
    let mut gradient = vec![0.0; at.len()];
    let mut delta: Vec<f64> = delta.iter().map(|d| f64::from(*d)).collect();
    for k in (0..widths.len() - 1).rev() {
        let (inputs, outputs) = (widths[k], widths[k + 1]);
        let w = &at[tensors[2 * k].range()];
        let mut back = vec![0.0; case.rows * inputs];
        for r in 0..case.rows {
            for o in 0..outputs {
                let d = delta[r * outputs + o];
                gradient[tensors[2 * k + 1].offset + o] += d;
                for i in 0..inputs {
                    let x = layers[k][r * inputs + i];
                    gradient[tensors[2 * k].offset + i * outputs + o] += x * d;
                    if x > 0.0 {
                        back[r * inputs + i] += d * f64::from(w[i * outputs + o]);
                    }
                }
            }
        }
        delta = back;
    }
    (layers.pop().unwrap(), gradient)
}

#[test]
fn bytes_and_numbers_give_the_gradient_of_plain_sums() {
    for (k, case) in cases().iter().enumerate() {
        let model: &dyn Model = &model(case, 0.0);
        let mut rng = stream(21, Purpose::Theory, k as u64, 0);
        let (bytes, numbers) = examples(case, &mut rng);
        let Features::Floats(x) = numbers.features() else {
            panic!("numbers are expected");
        };
        let at = model.layout().uniform(&mut rng);
        // A workspace that has seen another batch of the same shape.
        let mut ws = Workspace::default();
        let other = examples(case, &mut rng).0;
        model.forward(&at, &other.all(), &mut ws);
        for examples in [&bytes, &numbers, &bytes] {
            let mut gradient = model.layout().zeros();
            model.gradient(&at, &examples.all(), &mut ws, &mut gradient);
            let (outputs, expected) = slow_gradient(model, case, &at, x, &ws.delta);
            for (ours, expected) in ws.outputs.iter().zip(&outputs) {
                assert!((f64::from(*ours) - expected).abs() < 3e-6, "case {k}");
            }
            for tensor in &model.layout().tensors {
                let expected = &expected[tensor.range()];
                let scale = expected.iter().fold(0.0f64, |m, w| m.max(w.abs()));
                for (ours, expected) in gradient[tensor.range()].iter().zip(expected) {
                    let gap = (f64::from(*ours) - expected).abs();
                    assert!(gap <= 1e-5 * scale, "case {k}, {}: {gap}", tensor.name);
                }
            }
        }
    }
}

#[test]
fn a_copy_of_the_point_or_of_the_mixture_gives_the_same_bits() {
    let cases = cases();
    let cases = cases.iter().flat_map(|case| [(case, 0.05), (case, 0.0)]);
    for (k, (case, l2)) in cases.enumerate() {
        let model: &dyn Model = &model(case, l2);
        let mut rng = stream(22, Purpose::Theory, k as u64, 0);
        let (bytes, numbers) = examples(case, &mut rng);
        let w = model.layout().uniform(&mut rng);
        let v = model.layout().uniform(&mut rng);
        for examples in [&bytes, &numbers] {
            let batch = examples.all();
            let mut ws = Workspace::default();
            let (mut one, mut two) = (w.clone(), w.clone());
            let a = model.descend(None, &mut one, 0.1, &batch, &mut ws);
            let b = model.descend(Some(&w), &mut two, 0.1, &batch, &mut ws);
            assert!(a == b && one == two && one != w, "case {k}");

            let mut v_bar = w.clone();
            mix(&mut v_bar, 0.3, &v, &w);
            let (mut one, mut two) = (v.clone(), v.clone());
            let a = model.descend_mixed(0.3, &mut one, &w, 0.1, &batch, &mut ws);
            let b = model.descend(Some(&v_bar), &mut two, 0.1, &batch, &mut ws);
            assert!(a == b && one == two && one != v, "case {k}");

            let (mut v1, mut w1) = (v.clone(), w.clone());
            let both = model.descend_both(0.3, (&mut v1, &mut w1), (0.1, 0.2), &batch, &mut ws);
            let mut w2 = w.clone();
            let own = model.descend(None, &mut w2, 0.2, &batch, &mut ws);
            assert!(
                both == (a, own) && v1 == one && w1 == w2 && w2 != w,
                "case {k}"
            );
        }
    }
}

#[test]
fn the_penalty_pulls_at_the_point_of_the_gradient() {
    // f = ½λ‖·‖² alone where δ = 0: squared error with the target met is not at hand, so
    // compare two penalties: the difference of the steps is rate·λ·point.
    for (k, case) in cases().iter().enumerate() {
        let mut rng = stream(23, Purpose::Theory, k as u64, 0);
        let (bytes, _) = examples(case, &mut rng);
        let (free, tied): (&dyn Model, &dyn Model) = (&model(case, 0.0), &model(case, 0.5));
        let point = free.layout().uniform(&mut rng);
        let start = free.layout().uniform(&mut rng);
        let mut ws = Workspace::default();
        let (mut one, mut two) = (start.clone(), start.clone());
        free.descend(Some(&point), &mut one, 0.25, &bytes.all(), &mut ws);
        tied.descend(Some(&point), &mut two, 0.25, &bytes.all(), &mut ws);
        for ((one, two), point) in one.iter().zip(&two).zip(&point) {
            assert!((one - two - 0.125 * point).abs() < 1e-6, "case {k}");
        }
    }
}
