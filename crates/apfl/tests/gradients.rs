//! Every model and every loss against central differences of a slow float64 evaluation,
//! which is written here with plain loops and shares nothing with the library.

use std::sync::Arc;

use apfl::data::{Examples, Features, Scaling, Targets};
use apfl::model::mlp::Mlp;
use apfl::model::{Loss, Model, Workspace};
use apfl::params::{Params, axpy, dot_difference, mix};
use apfl::rng::{Purpose, Stream, stream};
use proptest::prelude::*;
use rand::RngExt;

/// Distance to the nearest kink (of ReLU or the hinge) that a case must keep, so that
/// neither a difference step nor f32 rounding crosses it.
const MARGIN: f64 = 1e-4;
const H: f64 = 1e-6;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Goal {
    Softmax,
    Logistic,
    SquaredHinge,
    Classes,
    Values,
}

impl Goal {
    fn loss(self) -> Loss {
        match self {
            Goal::Softmax => Loss::Softmax,
            Goal::Logistic => Loss::Logistic,
            Goal::SquaredHinge => Loss::SquaredHinge,
            Goal::Classes | Goal::Values => Loss::SquaredError,
        }
    }
}

#[derive(Clone, Debug)]
struct Case {
    goal: Goal,
    inputs: usize,
    hidden: Vec<usize>,
    classes: usize,
    rows: usize,
    l2: f32,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let goal = prop::sample::select(vec![
        Goal::Softmax,
        Goal::Logistic,
        Goal::SquaredHinge,
        Goal::Classes,
        Goal::Values,
    ]);
    (
        goal,
        1..8usize,
        prop::collection::vec(1..9usize, 0..3),
        2..6usize,
        1..13usize,
        0.001..0.5f32,
        any::<u64>(),
    )
        .prop_map(|(goal, inputs, hidden, classes, rows, l2, seed)| Case {
            classes: match goal {
                Goal::Logistic | Goal::SquaredHinge => 2,
                Goal::Values => 0,
                _ => classes,
            },
            goal,
            inputs,
            hidden,
            rows,
            l2,
            seed,
        })
}

impl Case {
    fn random(&self) -> Stream {
        stream(self.seed, Purpose::Theory, 0, 0)
    }

    fn outputs(&self) -> usize {
        match self.goal {
            Goal::Softmax | Goal::Classes => self.classes,
            _ => 1,
        }
    }

    fn widths(&self) -> Vec<usize> {
        [vec![self.inputs], self.hidden.clone(), vec![self.outputs()]].concat()
    }

    fn model(&self) -> Box<dyn Model> {
        let loss = self.goal.loss();
        let model = Mlp::new(self.inputs, &self.hidden, self.outputs(), loss, self.l2);
        Box::new(model)
    }

    fn params(&self, rng: &mut Stream) -> Params {
        let widths = self.widths();
        let count: usize = widths.windows(2).map(|w| w[0] * w[1] + w[1]).sum();
        (0..count).map(|_| rng.random_range(-1.0..1.0)).collect()
    }

    fn targets(&self, rng: &mut Stream) -> Targets {
        match self.goal {
            Goal::Values => Targets::Values(
                (0..self.rows)
                    .map(|_| rng.random_range(-2.0..2.0))
                    .collect(),
            ),
            _ => {
                let classes = self.classes as u32;
                Targets::Classes(
                    (0..self.rows)
                        .map(|_| rng.random_range(0..classes))
                        .collect(),
                )
            }
        }
    }

    fn floats(&self, rng: &mut Stream) -> Vec<f32> {
        (0..self.rows * self.inputs)
            .map(|_| rng.random_range(-1.5..1.5))
            .collect()
    }

    /// f at `at`: the mean loss, the ℓ2 term, and the distance to the nearest kink.
    fn slow(&self, at: &[f64], x: &[f32], targets: &Targets) -> (f64, f64, f64) {
        let widths = self.widths();
        let mut margin = f64::INFINITY;
        let mut sum = 0.0;
        for row in 0..self.rows {
            let mut layer: Vec<f64> = (0..self.inputs)
                .map(|j| f64::from(x[row * self.inputs + j]))
                .collect();
            let mut offset = 0;
            for k in 1..widths.len() {
                let mut next = vec![0.0; widths[k]];
                for o in 0..widths[k] {
                    next[o] = at[offset + widths[k - 1] * widths[k] + o];
                    for i in 0..widths[k - 1] {
                        next[o] += layer[i] * at[offset + i * widths[k] + o];
                    }
                }
                offset += widths[k - 1] * widths[k] + widths[k];
                if k < widths.len() - 1 {
                    for z in &mut next {
                        margin = margin.min(z.abs());
                        *z = z.max(0.0);
                    }
                }
                layer = next;
            }
            let z = layer;
            let class = |row: usize| match targets {
                Targets::Classes(c) => c[row] as usize,
                Targets::Values(_) => panic!("no classes here"),
            };
            let sign = |row: usize| if class(row) == 1 { 1.0 } else { -1.0 };
            sum += match self.goal {
                Goal::Softmax => {
                    let total: f64 = z.iter().map(|z| z.exp()).sum();
                    total.ln() - z[class(row)]
                }
                Goal::Logistic => (1.0 + (-sign(row) * z[0]).exp()).ln(),
                Goal::SquaredHinge => {
                    let gap: f64 = 1.0 - sign(row) * z[0];
                    margin = margin.min(gap.abs());
                    if gap > 0.0 { gap * gap } else { 0.0 }
                }
                Goal::Classes => {
                    let mut squares = 0.0;
                    for (k, z) in z.iter().enumerate() {
                        let expected = if k == class(row) { 1.0 } else { 0.0 };
                        squares += (z - expected) * (z - expected);
                    }
                    squares / 2.0
                }
                Goal::Values => match targets {
                    Targets::Values(t) => (z[0] - f64::from(t[row])).powi(2) / 2.0,
                    Targets::Classes(_) => panic!("no values here"),
                },
            };
        }
        let squares: f64 = at.iter().map(|p| p * p).sum();
        let penalty = f64::from(self.l2) / 2.0 * squares;
        (sum / self.rows as f64, penalty, margin)
    }
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(250) })]

    #[test]
    fn gradients_are_central_differences(case in cases()) {
        let rng = &mut case.random();
        let (at, x, targets) = (case.params(rng), case.floats(rng), case.targets(rng));
        let mut point = wide(&at);
        let (loss, _, margin) = case.slow(&point, &x, &targets);
        prop_assume!(margin > MARGIN);

        let examples = Examples::new(case.inputs, Features::Floats(x.clone()), targets.clone());
        let mut grad = vec![7.0; at.len()]; // what was there before must not matter
        let found =
            case.model().gradient(&at, &examples.all(), &mut Workspace::default(), &mut grad);
        prop_assert!((found - loss).abs() <= 1e-5 * loss.max(1.0), "loss {found}, not {loss}");

        let largest = grad.iter().fold(0.1, |top: f64, g| top.max(f64::from(g.abs())));
        for k in 0..at.len() {
            let mut f = |shift: f64| {
                point[k] = f64::from(at[k]) + shift;
                let (loss, penalty, _) = case.slow(&point, &x, &targets);
                loss + penalty
            };
            let difference = (f(H) - f(-H)) / (2.0 * H);
            point[k] = f64::from(at[k]);
            let error = (f64::from(grad[k]) - difference).abs();
            prop_assert!(
                error <= 1e-5 * largest,
                "parameter {k}: gradient {}, difference {difference}", grad[k]
            );
        }
    }

    /// Invariant 5: d/dα f(αv + (1−α)w) = ⟨v−w, ∇f(v̄)⟩.
    #[test]
    fn the_slope_along_the_mixing_is_a_central_difference(case in cases(), alpha in 0.05..0.95f32) {
        let rng = &mut case.random();
        let (v, w) = (case.params(rng), case.params(rng));
        let (x, targets) = (case.floats(rng), case.targets(rng));
        let f = |alpha: f64| {
            let mixed: Vec<f64> = v
                .iter()
                .zip(&w)
                .map(|(v, w)| alpha * f64::from(*v) + (1.0 - alpha) * f64::from(*w))
                .collect();
            case.slow(&mixed, &x, &targets)
        };
        let (at, h) = (f64::from(alpha), H);
        prop_assume!(f(at).2 > MARGIN);
        let ((above, penalty_above, _), (below, penalty_below, _)) = (f(at + h), f(at - h));
        let difference = (above + penalty_above - below - penalty_below) / (2.0 * h);

        let mut v_bar = vec![0.0; v.len()];
        mix(&mut v_bar, alpha, &v, &w);
        let mut grad = vec![0.0; v.len()];
        let examples = Examples::new(case.inputs, Features::Floats(x.clone()), targets.clone());
        case.model().gradient(&v_bar, &examples.all(), &mut Workspace::default(), &mut grad);
        let slope = dot_difference(&v, &w, &grad);
        let scale: f64 = v.iter().zip(&w).zip(&grad).map(|((v, w), g)| f64::from((v - w) * g).abs()).sum();
        prop_assert!((slope - difference).abs() <= 1e-5 * scale.max(0.1), "{slope}, not {difference}");
    }

    #[test]
    fn descending_is_the_gradient_and_a_step(case in cases(), rate in 0.001..1.0f32) {
        let rng = &mut case.random();
        let (at, elsewhere) = (case.params(rng), case.params(rng));
        let examples =
            Examples::new(case.inputs, Features::Floats(case.floats(rng)), case.targets(rng));
        let (model, batch) = (case.model(), examples.all());
        let ws = &mut Workspace::default();
        let mut grad = vec![0.0; at.len()];
        let loss = model.gradient(&at, &batch, ws, &mut grad);

        // Plain SGD, at the point itself or at an equal copy: equal bits.
        let (mut itself, mut copied) = (at.clone(), at.clone());
        prop_assert_eq!(model.descend(None, &mut itself, rate, &batch, ws), loss);
        prop_assert_eq!(model.descend(Some(&at), &mut copied, rate, &batch, ws), loss);
        prop_assert_eq!(bits(&itself), bits(&copied));

        // At one point, moving another: what APFL does to v.
        let mut moved = elsewhere.clone();
        model.descend(Some(&at), &mut moved, rate, &batch, ws);
        let largest = grad.iter().fold(1.0, |top: f32, g| top.max(g.abs()));
        for (start, found) in [(at, itself), (elsewhere, moved)] {
            let mut expected = start;
            axpy(&mut expected, -rate, &grad);
            for (expected, found) in expected.iter().zip(&found) {
                prop_assert!((expected - found).abs() <= 2e-6 * largest, "{found}, not {expected}");
            }
        }
    }

    #[test]
    fn bytes_are_the_numbers_they_stand_for(case in cases(), channels in 1..4usize) {
        let case = Case { inputs: case.inputs * channels, ..case };
        let rng = &mut case.random();
        let (at, targets) = (case.params(rng), case.targets(rng));
        let bytes: Vec<u8> = (0..case.rows * case.inputs).map(|_| rng.random()).collect();
        let pairs: Vec<(f32, f32)> = (0..channels)
            .map(|_| (rng.random_range(0.001..0.02), rng.random_range(-1.0..1.0)))
            .collect();
        // A row holds its channels one after the other.
        let plane = case.inputs / channels;
        let mut floats = Vec::new();
        for row in 0..case.rows {
            for j in 0..case.inputs {
                let (scale, shift) = pairs[j / plane];
                floats.push(f32::from(bytes[row * case.inputs + j]) * scale + shift);
            }
        }
        let scaling = Arc::new(Scaling { channels: pairs });
        let of = |features| Examples::new(case.inputs, features, targets.clone());
        let (as_bytes, as_floats) = (of(Features::Bytes(bytes, scaling)), of(Features::Floats(floats)));
        let model = case.model();
        let pass = |examples: &Examples| {
            let ws = &mut Workspace::default();
            let mut grad = vec![0.0; at.len()];
            let loss = model.gradient(&at, &examples.all(), ws, &mut grad);
            let mut moved = at.clone();
            model.descend(None, &mut moved, 0.1, &examples.all(), ws);
            (loss, [grad, moved].concat())
        };
        // Bytes go through kernels of their own: the same numbers, summed in another order.
        let ((loss, found), (expected_loss, expected)) = (pass(&as_bytes), pass(&as_floats));
        prop_assert!((loss - expected_loss).abs() <= 1e-5 * expected_loss.max(1.0));
        let largest = expected.iter().fold(1.0, |top: f32, x| top.max(x.abs()));
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert!((found - expected).abs() <= 2e-5 * largest, "{} {}", found, expected);
        }
    }
}
