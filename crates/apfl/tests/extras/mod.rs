//! Normalization, dropout, a head without a bias, and how models with them are scored: against a
//! slow float64 network with plain loops, which shares nothing with the library but the numbers of
//! a mask's stream.

mod authors;
mod runs;

use apfl::data::{Batch, Examples, Features, Targets};
use apfl::model::cnn::{Cnn, Widths};
use apfl::model::mlp::Mlp;
use apfl::model::{Extras, Loss, Model, Normalization, Workspace};
use apfl::rng::{Purpose, Stream, stream};
use rand::{Rng, RngExt};

use crate::cnn::{slow_conv, slow_dense};

pub const MASK: u64 = 77;

/// Every kind of normalization with and without dropout, and a head without a bias.
fn all_extras() -> Vec<Extras> {
    let mut all = Vec::new();
    for norm in [None, Some(Normalization::Batch), Some(Normalization::Layer)] {
        for dropout in [0.0, 0.25] {
            all.push(Extras {
                norm,
                dropout,
                head_bias: dropout == 0.0,
                ..Extras::NONE
            });
        }
    }
    all
}

/// A hidden layer's outputs: normalized, rectified, dropped. `near` becomes the smallest distance
/// to ReLU's kink.
fn slow_hidden(
    rows: &mut [Vec<f64>],
    extras: &Extras,
    [scale, shift]: [&[f64]; 2],
    (mask, layer): (u64, usize),
    near: &mut f64,
) {
    let (n, width) = (rows.len(), rows[0].len());
    let moments = |x: &[f64]| {
        let mean = x.iter().sum::<f64>() / x.len() as f64;
        let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / x.len() as f64;
        (mean, (variance + 1e-5).sqrt())
    };
    match extras.norm {
        None => (),
        Some(Normalization::Batch) => {
            for j in 0..width {
                let column: Vec<f64> = rows.iter().map(|row| row[j]).collect();
                let (mean, deviation) = moments(&column);
                (0..n).for_each(|r| {
                    rows[r][j] = scale[j] * (rows[r][j] - mean) / deviation + shift[j];
                });
            }
        }
        Some(Normalization::Layer) => {
            for row in &mut *rows {
                let (mean, deviation) = moments(row);
                (0..width).for_each(|j| {
                    row[j] = scale[j] * (row[j] - mean) / deviation + shift[j];
                });
            }
        }
    }
    let mut rng = stream(mask, Purpose::Dropout, layer as u64, 0);
    for x in rows.iter_mut().flatten() {
        *near = near.min(x.abs());
        *x = x.max(0.0);
        if mask != 0 && extras.dropout > 0.0 {
            let dropped = f64::from(rng.next_u32()) < f64::from(extras.dropout) * 2f64.powi(32);
            *x = if dropped {
                0.0
            } else {
                *x / (1.0 - f64::from(extras.dropout))
            };
        }
    }
}

/// The mean softmax loss of `at`, and the distance to the nearest kink.
fn slow_mlp(
    model: &dyn Model,
    hidden: usize,
    extras: &Extras,
    at: &[f64],
    (x, y): (&[f32], &[u32]),
    mask: u64,
) -> (f64, f64) {
    let tensor = |name: String| {
        let found = model.layout().tensors.iter().find(|t| t.name == name);
        found.map_or(&[][..], |t| &at[t.range()])
    };
    let of = |k: usize, what: &str| tensor(format!("layer{k}.{what}"));
    let mut near = f64::INFINITY;
    let row = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
    let mut rows: Vec<Vec<f64>> = x.chunks(x.len() / y.len()).map(row).collect();
    for k in 1..=hidden {
        rows.iter_mut()
            .for_each(|row| *row = slow_dense(row, of(k, "weight"), of(k, "bias")));
        let norm = [of(k, "scale"), of(k, "shift")];
        slow_hidden(&mut rows, extras, norm, (mask, k - 1), &mut near);
    }
    let head = hidden + 1;
    let none = vec![0.0; of(head, "bias").len()];
    let bias = if extras.head_bias {
        of(head, "bias")
    } else {
        &none
    };
    (slow_softmax(&rows, of(head, "weight"), bias, y), near)
}

fn slow_softmax(rows: &[Vec<f64>], weight: &[f64], bias: &[f64], y: &[u32]) -> f64 {
    let one = |(row, y): (&Vec<f64>, &u32)| {
        let z = slow_dense(row, weight, bias);
        z.iter().map(|z| z.exp()).sum::<f64>().ln() - z[*y as usize]
    };
    rows.iter().zip(y).map(one).sum::<f64>() / y.len() as f64
}

/// Every parameter's gradient against a central difference of `slow`.
fn compare(model: &dyn Model, at: &[f32], grad: &[f32], slow: impl Fn(&[f64]) -> f64, what: &str) {
    let mut point: Vec<f64> = at.iter().map(|x| f64::from(*x)).collect();
    let largest = grad
        .iter()
        .fold(0.1f64, |top, g| top.max(f64::from(g.abs())));
    for tensor in &model.layout().tensors {
        for k in tensor.range() {
            let mut side = |h: f64| {
                point[k] = f64::from(at[k]) + h;
                slow(&point)
            };
            let h = 1e-6;
            let difference = (side(h) - side(-h)) / (2.0 * h);
            point[k] = f64::from(at[k]);
            let error = (f64::from(grad[k]) - difference).abs();
            assert!(
                error <= 3e-5 * largest,
                "{what}, {}: {} but the slope is {difference}",
                tensor.name,
                grad[k]
            );
        }
    }
}

fn numbers(count: usize, rng: &mut Stream) -> Vec<f32> {
    (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
}

#[test]
fn gradients_of_the_mlp_are_central_differences() {
    for (case, extras) in all_extras().into_iter().enumerate() {
        for (widths, rows) in [(&[9usize, 5][..], 7usize), (&[33], 4), (&[], 3)] {
            let model: &dyn Model = &Mlp::with_extras(6, widths, 4, Loss::Softmax, 0.0, extras);
            let mut rng = stream(5, Purpose::Theory, case as u64, widths.len() as u64);
            let slow_at = |at: &[f64], x: &[f32], y: &[u32]| {
                slow_mlp(model, widths.len(), &extras, at, (x, y), MASK)
            };
            // Draw until nothing is so near a kink that a difference crosses it.
            let (at, x, y, loss) = loop {
                let at = numbers(model.layout().len(), &mut rng);
                let x = numbers(6 * rows, &mut rng);
                let y: Vec<u32> = (0..rows).map(|_| rng.random_range(0..4)).collect();
                let wide: Vec<f64> = at.iter().map(|x| f64::from(*x)).collect();
                let (loss, near) = slow_at(&wide, &x, &y);
                if near > 1e-4 {
                    break (at, x, y, loss);
                }
            };
            let features = Features::Floats(x.clone());
            let examples = Examples::new(6, features, Targets::Classes(y.clone()));
            let batch = Batch {
                mask: MASK,
                ..examples.all()
            };
            let (mut ws, mut grad) = (Workspace::default(), vec![7.0; at.len()]);
            let found = model.gradient(&at, &batch, &mut ws, &mut grad);
            let what = format!("{extras:?} {widths:?}");
            assert!((found - loss).abs() < 2e-5, "{what}: {found} {loss}");
            compare(model, &at, &grad, |at| slow_at(at, &x, &y).0, &what);
        }
    }
}

#[test]
fn gradients_of_the_cnn_are_central_differences() {
    let shape = [1, 10, 10];
    let widths = Widths {
        channels: [2, 3],
        kernel: 3,
        dense: 9,
    };
    for (case, extras) in all_extras().into_iter().enumerate() {
        let model: &dyn Model = &Cnn::new(&shape, widths, 4, Loss::Softmax, 0.0, extras).unwrap();
        let mut rng = stream(6, Purpose::Theory, case as u64, 0);
        let tensors = &model.layout().tensors;
        let slow = |at: &[f64], x: &[f32], y: &[u32]| {
            let tensor = |name: &str| {
                let found = tensors.iter().find(|t| t.name == name);
                found.map_or(&[][..], |t| &at[t.range()])
            };
            let mut near = f64::INFINITY;
            let mut rows = Vec::new();
            for image in x.chunks(100) {
                let image: Vec<f64> = image.iter().map(|x| f64::from(*x)).collect();
                let (w, b) = (tensor("conv1.weight"), tensor("conv1.bias"));
                let (image, pooled) = slow_conv(&image, shape, w, b, 3, &mut near);
                let (w, b) = (tensor("conv2.weight"), tensor("conv2.bias"));
                let (image, _) = slow_conv(&image, pooled, w, b, 3, &mut near);
                rows.push(slow_dense(
                    &image,
                    tensor("dense1.weight"),
                    tensor("dense1.bias"),
                ));
            }
            let norm = [tensor("dense1.scale"), tensor("dense1.shift")];
            slow_hidden(&mut rows, &extras, norm, (MASK, 0), &mut near);
            let bias: Vec<f64> = if extras.head_bias {
                tensor("dense2.bias").to_vec()
            } else {
                vec![0.0; 4]
            };
            (slow_softmax(&rows, tensor("dense2.weight"), &bias, y), near)
        };
        let (at, x, y, loss) = loop {
            let at = numbers(model.layout().len(), &mut rng);
            let x = numbers(4 * 100, &mut rng);
            let y: Vec<u32> = (0..4).map(|_| rng.random_range(0..4)).collect();
            let wide: Vec<f64> = at.iter().map(|x| f64::from(*x)).collect();
            let (loss, near) = slow(&wide, &x, &y);
            if near > 5e-5 {
                break (at, x, y, loss);
            }
        };
        let features = Features::Floats(x.clone());
        let examples = Examples::new(100, features, Targets::Classes(y.clone()));
        let batch = Batch {
            mask: MASK,
            ..examples.all()
        };
        let (mut ws, mut grad) = (Workspace::default(), vec![7.0; at.len()]);
        let found = model.gradient(&at, &batch, &mut ws, &mut grad);
        assert!((found - loss).abs() < 2e-5, "{extras:?}: {found} {loss}");
        let what = format!("{extras:?}");
        compare(model, &at, &grad, |at| slow(at, &x, &y).0, &what);
    }
}

/// The same bits at the point itself, at a copy, and at a mixture that nobody wrote down.
#[test]
fn a_mixture_gives_the_bits_of_its_numbers() {
    for extras in all_extras() {
        let model: &dyn Model = &Mlp::with_extras(6, &[9, 5], 4, Loss::Softmax, 0.01, extras);
        let mut rng = stream(7, Purpose::Theory, 0, 0);
        let (v, w) = (
            numbers(model.layout().len(), &mut rng),
            numbers(model.layout().len(), &mut rng),
        );
        let features = Features::Floats(numbers(6 * 8, &mut rng));
        let y = (0..8).map(|k| k % 4).collect();
        let examples = Examples::new(6, features, Targets::Classes(y));
        let batch = Batch {
            mask: MASK,
            ..examples.all()
        };
        let ws = &mut Workspace::default();
        let (mut here, mut there) = (w.clone(), w.clone());
        model.descend(None, &mut here, 0.3, &batch, ws);
        model.descend(Some(&w), &mut there, 0.3, &batch, ws);
        assert_eq!(here, there, "{extras:?}");
        let mut v_bar = vec![0.0; v.len()];
        apfl::params::mix(&mut v_bar, 0.3, &v, &w);
        let (mut written, mut unwritten) = (v.clone(), v.clone());
        model.descend(Some(&v_bar), &mut written, 0.3, &batch, ws);
        model.descend_mixed(0.3, &mut unwritten, &w, 0.3, &batch, ws);
        assert_eq!(written, unwritten, "{extras:?}");
    }
}

/// E[mask] = 1: over many masks a kept number's mean is the number, and p of them are 0.
#[test]
fn dropout_keeps_the_mean_and_evaluation_drops_nothing() {
    let mut zeros = 0;
    let mut sum = 0.0;
    for mask in 1..=200u64 {
        let mut x = vec![2.0f32; 100];
        apfl::model::kernels::norm::dropout(&mut x, 0.25, mask, 0);
        zeros += x.iter().filter(|x| **x == 0.0).count();
        sum += x.iter().sum::<f32>();
        assert!(x.iter().all(|x| *x == 0.0 || *x == 2.0 / 0.75));
    }
    // 20000 numbers: p within four deviations of √(pq/n) = 0.003.
    assert!((zeros as f64 / 20_000.0 - 0.25).abs() < 0.0125, "{zeros}");
    assert!((sum / 20_000.0 - 2.0).abs() < 0.04, "{sum}");
    let mut x = vec![2.0f32; 100];
    apfl::model::kernels::norm::dropout(&mut x, 0.25, 0, 0);
    assert!(x.iter().all(|x| *x == 2.0));
}

/// ‖∇ᵢ‖² without writing ∇ᵢ down, also through layer normalization, dropout and a bare head.
#[test]
fn norms_of_examples_gradients_are_those_of_explicit_ones() {
    for extras in all_extras() {
        let model: &dyn Model = &Mlp::with_extras(6, &[9, 5], 4, Loss::Softmax, 0.0, extras);
        let norms = model.example_norms();
        assert_eq!(norms.is_some(), extras.norm != Some(Normalization::Batch));
        let Some(norms) = norms else {
            continue;
        };
        let mut rng = stream(8, Purpose::Theory, 0, 0);
        let at = numbers(model.layout().len(), &mut rng);
        let features = Features::Floats(numbers(6, &mut rng));
        let examples = Examples::new(6, features, Targets::Classes(vec![2]));
        let batch = Batch {
            mask: MASK,
            ..examples.all()
        };
        let ws = &mut Workspace::default();
        let mut grad = vec![0.0; at.len()];
        model.gradient(&at, &batch, ws, &mut grad);
        let square: f64 = grad.iter().map(|g| f64::from(*g).powi(2)).sum();
        let mut squares = Vec::new();
        model.forward(&at, &batch, ws);
        model.differentiate(&batch, ws);
        norms.squared_norms(&at, &batch, ws, &mut squares);
        assert!((squares[0] / square - 1.0).abs() < 1e-4, "{extras:?}");
    }
}
