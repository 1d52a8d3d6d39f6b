//! Tests of the dense kernels on every vector width of this CPU against plain sums.

use pulp::{Scalar, Simd};

use super::add::Add;
use super::hidden::{self, Rectified, mark};
use super::point::{Place, Point};
use super::propagate::Propagate;
use super::rows::{Input, LayerRows};
use super::sparse;
use super::update::Update;
use crate::data::{Batch, FeatureView as Features, Labels, Scaling};
use crate::model::Step;

/// Calls `test` with scalar arithmetic and with the vectors of x86-64-v3 and v4.
fn on_every_width(test: impl Fn(&dyn Fn(Kernel<'_>))) {
    test(&|kernel| kernel.run(Scalar::new()));
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use pulp::x86::{V3, V4};
        if let Some(simd) = V3::try_new() {
            test(&|kernel| kernel.run(simd));
        }
        if let Some(simd) = V4::try_new() {
            test(&|kernel| kernel.run(simd));
        }
    }
}

enum Kernel<'a> {
    Add(Add<'a>),
    Update(Update<'a>),
    Propagate(Propagate<'a>),
    SparseForward(sparse::Forward<'a>),
    SparseUpdate(sparse::Update<'a>),
    HiddenPropagate(hidden::Propagate<'a>),
    HiddenUpdate(hidden::Update<'a>),
}

impl Kernel<'_> {
    /// Runs the kernel as the passes do, so that it is compiled once.
    fn run<S: Simd>(self, simd: S) {
        match self {
            Kernel::Add(work) => simd.vectorize(work),
            Kernel::Update(work) => simd.vectorize(work),
            Kernel::Propagate(work) => simd.vectorize(work),
            Kernel::SparseForward(work) => simd.vectorize(work),
            Kernel::SparseUpdate(work) => simd.vectorize(work),
            Kernel::HiddenPropagate(work) => simd.vectorize(work),
            Kernel::HiddenUpdate(work) => simd.vectorize(work),
        }
    }
}

/// Returns numbers in ±1 without a pattern.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let one = |k: usize| ((k * 7919 + seed * 104_729) % 2003) as f32 / 1001.0 - 1.0;
    (0..count).map(one).collect()
}

fn assert_near(ours: &[f32], expected: &[f64], what: &str) {
    assert_eq!(ours.len(), expected.len());
    for (k, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let gap = (f64::from(*ours) - expected).abs();
        assert!(
            gap < 2e-5,
            "{what}: expected {expected} at {k}, found {ours}"
        );
    }
}

const ALPHA: f32 = 0.25;
const STEP: Step = Step {
    scale: -0.5,
    decay: 0.125,
};

/// Returns a layer at a mixture: v, w, αv + (1−α)w.
fn layer(inputs: usize, outputs: usize) -> (Vec<f32>, Vec<f32>, Vec<f64>) {
    let count = (inputs + 1) * outputs;
    let (v, w) = (numbers(count, 1), numbers(count, 2));
    let mixed = |(v, w): (&f32, &f32)| 0.25 * f64::from(*v) + 0.75 * f64::from(*w);
    let point = v.iter().zip(&w).map(mixed).collect();
    (v, w, point)
}

/// Returns x·W, plus b if `bias`, by plain sums.
fn slow_forward(x: &[f32], point: &[f64], inputs: usize, bias: bool) -> Vec<f64> {
    let outputs = point.len() / (inputs + 1);
    let mut y = Vec::new();
    for x in x.chunks_exact(inputs) {
        for o in 0..outputs {
            let b = if bias {
                point[inputs * outputs + o]
            } else {
                0.0
            };
            let terms = x.iter().enumerate();
            let terms = terms.map(|(j, x)| f64::from(*x) * point[j * outputs + o]);
            y.push(b + terms.sum::<f64>());
        }
    }
    y
}

/// Returns v − decay·point + scale·xᵀδ for the weights, and v for the bias.
fn slow_update(x: &[f32], v: &[f32], point: &[f64], delta: &[f32], inputs: usize) -> Vec<f64> {
    let outputs = point.len() / (inputs + 1);
    let mut into: Vec<f64> = v.iter().map(|v| f64::from(*v)).collect();
    for j in 0..inputs {
        for o in 0..outputs {
            let rows = x.chunks_exact(inputs).zip(delta.chunks_exact(outputs));
            let sum: f64 = rows.map(|(x, d)| f64::from(x[j]) * f64::from(d[o])).sum();
            let at = j * outputs + o;
            into[at] += -0.125 * point[at] - 0.5 * sum;
        }
    }
    into
}

#[test]
fn dense_passes_are_plain_sums_on_every_width() {
    for (inputs, outputs, n) in [(13, 9, 12), (7, 40, 3), (4, 67, 21)] {
        let (v, w, point) = layer(inputs, outputs);
        let x = numbers(n * inputs, 3);
        let delta = numbers(n * outputs, 4);
        let columns: Vec<u32> = (0..inputs as u32).collect();
        on_every_width(|run| {
            let at = Point::Mixture {
                alpha: ALPHA,
                v: &v,
                w: &w,
            };
            let mut y = vec![0.0; n * outputs];
            run(Kernel::Add(Add {
                x: &x,
                columns: &columns,
                layer: at,
                inputs,
                y: &mut y,
            }));
            assert_near(&y, &slow_forward(&x, &point, inputs, false), "forward");

            let mut back = vec![0.0; n * inputs];
            run(Kernel::Propagate(Propagate {
                layer: at,
                inputs,
                delta: &delta,
                back: &mut back,
                scratch: &mut Vec::new(),
            }));
            // δ·Wᵀ is the forward pass of the transposed matrix.
            let transposed =
                (0..outputs * inputs).map(|k| point[k % inputs * outputs + k / inputs]);
            let mut transposed: Vec<f64> = transposed.collect();
            transposed.resize((outputs + 1) * inputs, 0.0);
            assert_near(
                &back,
                &slow_forward(&delta, &transposed, outputs, false),
                "back",
            );

            let mut into = v.clone();
            run(Kernel::Update(Update {
                place: Place::Mixed(ALPHA, &w),
                into: &mut into,
                outputs,
                inputs,
                step: STEP,
                rows: LayerRows::dense(&x, &columns),
                delta: &delta,
                scratch: &mut Vec::new(),
            }));
            assert_near(
                &into,
                &slow_update(&x, &v, &point, &delta, inputs),
                "update",
            );
        });
    }
}

#[test]
fn sparse_passes_are_plain_sums_on_every_width() {
    for (planes, inputs, outputs, n) in [(1, 9, 64, 12), (3, 15, 67, 35), (1, 4, 240, 2)] {
        let (v, w, point) = layer(inputs, outputs);
        let delta = numbers(n * outputs, 4);
        let byte = |k: usize| {
            if k.is_multiple_of(5) {
                (k * 31 % 251) as u8
            } else {
                0
            }
        };
        let bytes: Vec<u8> = (0..n * inputs).map(byte).collect();
        let channel = |k: usize| (0.004, -0.4 + 0.2 * k as f32);
        let scaling = Scaling {
            channels: (0..planes).map(channel).collect(),
        };
        let mut x = vec![0.0; bytes.len()];
        scaling.apply(&bytes, inputs, &mut x);
        let batch = Batch {
            number: 0,
            mask: 0,
            width: inputs,
            rows: Features::Bytes(&bytes, &scaling),
            targets: Labels::Classes(&[]),
        };
        let mut input = Input::default();
        input.prepare(&batch, true);
        let sparse = input.rows(&batch).sparse.expect("four of five are zero");
        on_every_width(|run| {
            let mut y = Vec::new();
            run(Kernel::SparseForward(sparse::Forward {
                sparse,
                layer: Point::Mixture {
                    alpha: ALPHA,
                    v: &v,
                    w: &w,
                },
                y: &mut y,
                scratch: &mut Vec::new(),
            }));
            assert_near(&y, &slow_forward(&x, &point, inputs, true), "forward");

            let mut into = v.clone();
            run(Kernel::SparseUpdate(sparse::Update {
                sparse,
                place: Place::Mixed(ALPHA, &w),
                into: &mut into,
                step: STEP,
                delta: &delta,
                scratch: &mut Vec::new(),
            }));
            assert_near(
                &into,
                &slow_update(&x, &v, &point, &delta, inputs),
                "update",
            );
        });
    }
}

#[test]
fn rectified_passes_are_plain_sums_on_every_width() {
    // More rows than a mask has bits, and rows of W that do not fit into registers.
    for (inputs, outputs, n) in [(6, 64, 3), (5, 70, 33), (4, 230, 20)] {
        let (v, w, point) = layer(inputs, outputs);
        let mut x = numbers(n * inputs, 3);
        super::relu(&mut x);
        let delta = numbers(n * outputs, 4);
        let mut masks = Vec::new();
        mark(&x, inputs, &mut masks);
        let rows = Rectified {
            x: &x,
            masks: &masks,
        };
        assert!(x.contains(&0.0));
        let mut expected = Vec::new();
        for (x, delta) in x.chunks_exact(inputs).zip(delta.chunks_exact(outputs)) {
            for (j, x) in x.iter().enumerate() {
                let w = &point[j * outputs..][..outputs];
                let sum: f64 = w.iter().zip(delta).map(|(w, d)| w * f64::from(*d)).sum();
                expected.push(if *x > 0.0 { sum } else { 0.0 });
            }
        }
        let moved = slow_update(&x, &v, &point, &delta, inputs);
        on_every_width(|run| {
            let mut back = vec![9.0; n * inputs];
            run(Kernel::HiddenPropagate(hidden::Propagate {
                rows,
                layer: Point::Mixture {
                    alpha: ALPHA,
                    v: &v,
                    w: &w,
                },
                inputs,
                delta: &delta,
                back: &mut back,
                scratch: &mut Vec::new(),
            }));
            assert_near(&back, &expected, "back to rectified rows");
            let mut into = v.clone();
            run(Kernel::HiddenUpdate(hidden::Update {
                rows,
                place: Place::Mixed(ALPHA, &w),
                into: &mut into,
                inputs,
                step: STEP,
                delta: &delta,
                scratch: &mut Vec::new(),
            }));
            assert_near(&into, &moved, "update by rectified rows");
        });
    }
}
