//! The convolutional network against a slow one in f64 that shares no code with it.

use apfl::data::{Examples, Features, Normalization, Scaling, Schema, Targets, Task};
use apfl::local_client::{LocalClient, LocalTraining, LocalWork, Predictor, Scratch};
use apfl::model::cnn::{Cnn, Widths};
use apfl::model::{Augment, Extras, Loss, Model, Workspace};
use apfl::rng::{Purpose, Stream, stream};
use apfl::schedule::Schedule;
use apfl::spec::Spec;
use rand::RngExt;
use std::sync::Arc;

const CLASSES: usize = 4;

struct Case {
    shape: [usize; 3],
    widths: Widths,
    images: usize,
}

fn cases() -> Vec<Case> {
    let case = |shape, channels, kernel, dense, images| Case {
        shape,
        widths: Widths {
            channels,
            kernel,
            dense,
        },
        images,
    };
    vec![
        // Each below, at and above a vector's width; sizes that pooling cuts off.
        case([1, 16, 16], [3, 4], 5, 6, 3),
        case([1, 17, 21], [20, 17], 5, 5, 2),
        case([3, 19, 16], [16, 33], 5, 9, 2),
        case([2, 11, 10], [33, 50], 3, 7, 3),
        case([1, 22, 22], [2, 3], 7, 4, 2),
        case([5, 4, 6], [7, 8], 1, 3, 4),
    ]
}

fn model(case: &Case, l2: f32) -> Cnn {
    let none = Extras::NONE;
    Cnn::new(&case.shape, case.widths, CLASSES, Loss::Softmax, l2, none).unwrap()
}

fn examples(case: &Case, rng: &mut Stream) -> Examples {
    let width: usize = case.shape.iter().product();
    let mut x = vec![0.0f32; case.images * width];
    let mut y = vec![0; case.images];
    x.fill_with(|| rng.random_range(-1.0..1.5));
    y.fill_with(|| rng.random_range(0..CLASSES as u32));
    Examples::new(width, Features::Floats(x), Targets::Classes(y))
}

/// relu(conv) pooled, for an image at [(y·width + x)·channels + c]; `near` becomes the
/// smallest distance to a kink: of the winner to zero, or to the next of its window.
pub fn slow_conv(
    x: &[f64],
    [inputs, height, width]: [usize; 3],
    w: &[f64],
    b: &[f64],
    k: usize,
    near: &mut f64,
) -> (Vec<f64>, [usize; 3]) {
    let outputs = b.len();
    let (rows, columns) = ((height + 1 - k) / 2, (width + 1 - k) / 2);
    let mut out = vec![0.0; rows * columns * outputs];
    for (r, c, o) in (0..rows)
        .flat_map(|r| (0..columns).map(move |c| (r, c)))
        .flat_map(|(r, c)| (0..outputs).map(move |o| (r, c, o)))
    {
        let mut window = Vec::new();
        for (dy, dx) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut sum = b[o];
            for i in 0..k {
                for j in 0..k {
                    for ch in 0..inputs {
                        let pixel = (2 * r + dy + i) * width + 2 * c + dx + j;
                        sum += w[((o * k + i) * k + j) * inputs + ch] * x[pixel * inputs + ch];
                    }
                }
            }
            window.push(sum);
        }
        window.sort_by(f64::total_cmp);
        *near = near.min(window[3].abs());
        if window[3] > 0.0 {
            *near = near.min(window[3] - window[2]);
        }
        out[(r * columns + c) * outputs + o] = window[3].max(0.0);
    }
    (out, [outputs, rows, columns])
}

pub fn slow_dense(x: &[f64], w: &[f64], b: &[f64]) -> Vec<f64> {
    let out = b.len();
    let unit = |o: usize| b[o] + (0..x.len()).map(|i| x[i] * w[i * out + o]).sum::<f64>();
    (0..out).map(unit).collect()
}

/// The outputs of every image and the distance to the nearest kink.
fn slow_outputs(model: &dyn Model, case: &Case, at: &[f64], x: &[f32]) -> (Vec<Vec<f64>>, f64) {
    let t = |k: usize| &at[model.layout().tensors[k].range()];
    let [channels, height, width] = case.shape;
    let mut near = f64::INFINITY;
    let mut outputs = Vec::new();
    for image in x.chunks_exact(channels * height * width) {
        let plane = height * width;
        let pixels: Vec<f64> = (0..image.len())
            .map(|j| f64::from(image[j % channels * plane + j / channels]))
            .collect();
        let k = case.widths.kernel;
        let (y, shape) = slow_conv(&pixels, case.shape, t(0), t(1), k, &mut near);
        let (y, _) = slow_conv(&y, shape, t(2), t(3), k, &mut near);
        let h = slow_dense(&y, t(4), t(5));
        near = h.iter().fold(near, |near, h| near.min(h.abs()));
        let h: Vec<f64> = h.into_iter().map(|h| h.max(0.0)).collect();
        outputs.push(slow_dense(&h, t(6), t(7)));
    }
    (outputs, near)
}

fn slow_loss(outputs: &[Vec<f64>], classes: &[u32]) -> f64 {
    let one =
        |(z, y): (&Vec<f64>, &u32)| z.iter().map(|z| z.exp()).sum::<f64>().ln() - z[*y as usize];
    outputs.iter().zip(classes).map(one).sum::<f64>() / outputs.len() as f64
}

fn floats(examples: &Examples) -> &[f32] {
    match examples.features() {
        Features::Floats(x) => x,
        Features::Bytes(..) => panic!("numbers are expected"),
    }
}

fn classes(examples: &Examples) -> &[u32] {
    match examples.targets() {
        Targets::Classes(y) => y,
        Targets::Values(_) => panic!("classes are expected"),
    }
}

#[test]
fn outputs_and_gradient_agree_with_the_slow_network() {
    const L2: f32 = 0.01;
    for (k, case) in cases().iter().enumerate() {
        let model: &dyn Model = &model(case, L2);
        let mut rng = stream(11, Purpose::Theory, k as u64, 0);
        let mut ws = Workspace::default();
        // Draw until no unit is so near a kink that f32 could take another side.
        let (examples, at, at64) = loop {
            let examples = examples(case, &mut rng);
            let at = model.layout().uniform(&mut rng);
            let at64: Vec<f64> = at.iter().map(|a| f64::from(*a)).collect();
            let near = slow_outputs(model, case, &at64, floats(&examples)).1;
            if near > 2e-6 {
                break (examples, at, at64);
            }
        };
        let (x, y) = (floats(&examples), classes(&examples));
        let (slow, _) = slow_outputs(model, case, &at64, x);
        let mut grad = model.layout().zeros();
        let loss = model.gradient(&at, &examples.all(), &mut ws, &mut grad);
        assert!((loss - slow_loss(&slow, y)).abs() < 1e-6, "case {k}");
        for (fast, slow) in ws.outputs.iter().zip(slow.iter().flatten()) {
            assert!((f64::from(*fast) - slow).abs() < 2e-6, "case {k}");
        }
        for tensor in &model.layout().tensors {
            let step = 5e-8;
            let mut compared = Vec::new();
            for _ in 0..tensor.len().min(30) {
                let j = tensor.offset + rng.random_range(0..tensor.len());
                let side = |h: f64| {
                    let mut moved = at64.clone();
                    moved[j] += h;
                    slow_loss(&slow_outputs(model, case, &moved, x).0, y)
                };
                let slope = (side(step) - side(-step)) / (2.0 * step);
                let expected = slope + f64::from(L2) * at64[j];
                compared.push((f64::from(grad[j]), expected));
            }
            let scale = compared.iter().fold(0.0f64, |m, (_, w)| m.max(w.abs()));
            for (ours, expected) in compared {
                assert!(
                    (ours - expected).abs() <= 1e-5 * scale + 2e-8,
                    "case {k}, {}: {ours} but the slope is {expected}, scale {scale}",
                    tensor.name
                );
            }
        }
    }
}

#[test]
fn a_copy_of_the_point_gives_the_same_bits_and_a_dirty_workspace_none_other() {
    for (k, case) in cases().iter().enumerate() {
        let model: &dyn Model = &model(case, 0.1);
        let mut rng = stream(12, Purpose::Theory, k as u64, 0);
        let examples = examples(case, &mut rng);
        let start = model.layout().uniform(&mut rng);
        let mut dirty = Workspace::default();
        model.forward(&start, &examples.batch(0, 1), &mut dirty);
        let (mut one, mut two) = (start.clone(), start.clone());
        let batch = examples.all();
        let a = model.descend(None, &mut one, 0.3, &batch, &mut dirty);
        let b = model.descend(
            Some(&start),
            &mut two,
            0.3,
            &batch,
            &mut Workspace::default(),
        );
        assert_eq!(a, b);
        assert!(one == two, "case {k}");
        assert!(one != start, "case {k}");
    }
}

#[test]
fn bytes_give_what_their_numbers_give() {
    let case = &cases()[2];
    let model: &dyn Model = &model(case, 0.0);
    let mut rng = stream(13, Purpose::Theory, 0, 0);
    let width: usize = case.shape.iter().product();
    let bytes: Vec<u8> = (0..2 * width).map(|_| rng.random()).collect();
    let scaling = Scaling {
        channels: vec![(0.01, -0.5), (0.02, 0.25), (0.005, 1.0)],
    };
    let plane = width / 3;
    let numbers = bytes.iter().enumerate().map(|(j, b)| {
        let (scale, shift) = scaling.channels[j % width / plane];
        f32::from(*b) * scale + shift
    });
    let targets = Targets::Classes(vec![0, 3]);
    let numbers = Examples::new(width, Features::Floats(numbers.collect()), targets.clone());
    let bytes = Examples::new(width, Features::Bytes(bytes, Arc::new(scaling)), targets);
    let at = model.layout().uniform(&mut rng);
    let (mut one, mut two) = (at.clone(), at.clone());
    let mut ws = Workspace::default();
    model.descend(Some(&at), &mut one, 0.1, &numbers.all(), &mut ws);
    model.descend(Some(&at), &mut two, 0.1, &bytes.all(), &mut ws);
    assert_eq!(one, two);
}

fn built(spec: &str, shape: &[usize]) -> Result<Vec<(String, Vec<usize>)>, String> {
    let plan = Spec::parse(spec)
        .unwrap()
        .plan()
        .map_err(|e| e.to_string())?;
    let schema = Schema {
        task: Task::Classification {
            classes: (0..10).map(|k| k.to_string()).collect(),
        },
        features: Vec::new(),
        shape: shape.to_vec(),
        normalization: Normalization::None,
    };
    let model = plan
        .architecture
        .build(&schema)
        .map_err(|e| e.to_string())?;
    let tensors = &model.layout().tensors;
    Ok(tensors
        .iter()
        .map(|t| (t.name.clone(), t.shape.clone()))
        .collect())
}

#[test]
fn a_spec_says_cnn() {
    let tensors = built("[model]\nkind = 'cnn'", &[1, 28, 28]).unwrap();
    let shapes: Vec<&[usize]> = tensors.iter().map(|(_, shape)| &shape[..]).collect();
    // 28 → 24 → 12 → 8 → 4; 4·4·50 = 800
    assert_eq!(
        shapes,
        [
            &[20, 5, 5, 1][..],
            &[20],
            &[50, 5, 5, 20],
            &[50],
            &[800, 512],
            &[512],
            &[512, 10],
            &[10]
        ]
    );
    assert_eq!(tensors[2].0, "conv2.weight");
    // The smallest image of kernel 5: 16 → 12 → 6 → 2 → 1.
    assert!(built("[model]\nkind = 'cnn'", &[3, 16, 16]).is_ok());
    let small = built("[model]\nkind = 'cnn'", &[3, 16, 15]).unwrap_err();
    assert!(
        small.contains("at least 16×16, but the data's are 16×15"),
        "{small}"
    );
    let flat = built("[model]\nkind = 'cnn'", &[784]).unwrap_err();
    assert!(flat.contains("examples of shape [784]"), "{flat}");
    let wrong = "[model]\nkind = 'cnn'\nchannels = [20]\nkernel = 0\nnorm = 'row'";
    let wrong = built(wrong, &[1, 28, 28]).unwrap_err();
    for key in [
        "model.channels: found [20]",
        "model.kernel: found 0",
        "model.norm: found \"row\"",
    ] {
        assert!(wrong.contains(key), "{wrong}");
    }
}

#[test]
fn training_images_are_changed_and_others_are_not() {
    let case = &cases()[0];
    let widths = case.widths;
    let network = |augment| {
        let extras = Extras {
            augment,
            ..Extras::NONE
        };
        Cnn::new(&case.shape, widths, CLASSES, Loss::Softmax, 0.0, extras).unwrap()
    };
    let model: &dyn Model = &network(Augment::Train);
    let mut rng = stream(14, Purpose::Theory, 0, 0);
    let examples = examples(case, &mut rng);
    let at = model.layout().uniform(&mut rng);
    let local_training = LocalTraining {
        work: LocalWork::Steps(1),
        batch: None,
        learning_rate: 0.1,
        schedule: Schedule::Constant,
        momentum: 0.0,
    };
    let mut scratch = Scratch::default();
    let mut loss = |augmenting: Option<u64>| {
        let order = stream(1, Purpose::Batches, 1, 0);
        let mut client = LocalClient::new(model, &examples, local_training, 1, order, &mut scratch);
        if let Some(round) = augmenting {
            client = client.with_augmentation(stream(1, Purpose::Augmentation, round, 0));
        }
        client.next_batch();
        client.gradient(&at, &mut model.layout().zeros())
    };
    let plain = loss(None);
    assert_ne!(loss(Some(1)), plain);
    assert_ne!(loss(Some(1)), loss(Some(2)));
    assert_eq!(loss(Some(1)), loss(Some(1)));
    // Scores are taken of the images as they are.
    let tally = scratch.tally(model, &Predictor::At(&at), &examples);
    assert!((tally.loss / tally.examples as f64 - plain).abs() < 1e-6);
    // With "all" also those of scores are changed, in the same way whenever they are taken.
    let model = network(Augment::All);
    let changed = scratch.tally(&model, &Predictor::At(&at), &examples);
    assert_ne!(changed.loss, tally.loss);
    assert_eq!(
        changed,
        scratch.tally(&model, &Predictor::At(&at), &examples)
    );
    let losses = scratch.losses(&model, &Predictor::At(&at), &examples);
    assert!((losses.iter().sum::<f64>() - changed.loss).abs() < 1e-9);
}
