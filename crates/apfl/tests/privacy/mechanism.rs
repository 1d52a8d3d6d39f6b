//! Clipping and noise, by numbers.

use apfl::data::Examples;
use apfl::local_client::{LocalClient, LocalTraining, LocalWork, PrivateSteps, Scratch};
use apfl::model::mlp::Mlp;
use apfl::model::{Loss, Model, Workspace};
use apfl::privacy::{NoiseSeed, PrivateSum};
use apfl::rng::{Purpose, Stream, stream};
use apfl::schedule::Schedule;
use proptest::prelude::*;
use rand::RngExt;

fn norm(x: &[f64]) -> f64 {
    x.iter().map(|x| x * x).sum::<f64>().sqrt()
}

proptest! {
    #[test]
    fn no_update_is_longer_than_the_clip(
        own in prop::collection::vec(-1e3f32..1e3, 7),
        w in prop::collection::vec(-1e3f32..1e3, 7),
        clip in 1e-3f64..1e3,
    ) {
        let mut sum = PrivateSum::new(clip, 7);
        let before = sum.add(&w, &own);
        let after = norm(sum.value());
        prop_assert!(after <= clip * (1.0 + 1e-12));
        prop_assert!((after - before.min(clip)).abs() <= 1e-9 * after.max(1.0));
        // The direction stays.
        let along: f64 = sum.value().iter().zip(own.iter().zip(&w))
            .map(|(s, (own, w))| s * (f64::from(*own) - f64::from(*w))).sum();
        prop_assert!(along >= 0.999_999 * after * before);
    }
}

/// w + (Σ + σC·N(0, 1))/D: mean 0 and deviation σC/D, within five standard errors each.
#[test]
fn noise_has_its_mean_and_variance_over_a_million_coordinates() {
    const N: usize = 1_000_000;
    let (clip, noise, denominator) = (0.5, 1.3, 4.0);
    let mut rng = stream(5, Purpose::Noise, 1, 0);
    let w = vec![0.0f32; N];
    let released = PrivateSum::new(clip, N).release(&w, noise, denominator, &mut rng);
    let deviation = noise * clip / denominator;
    let count = N as f64;
    let mean = released.iter().map(|x| f64::from(*x)).sum::<f64>() / count;
    let variance = released
        .iter()
        .map(|x| (f64::from(*x) - mean).powi(2))
        .sum::<f64>()
        / count;
    assert!(mean.abs() < 5.0 * deviation / count.sqrt(), "{mean}");
    let off = variance / (deviation * deviation) - 1.0;
    assert!(off.abs() < 5.0 * (2.0 / count).sqrt(), "{off}");
}

fn examples(n: usize, width: usize, classes: u32) -> Examples {
    let mut rng = stream(2, Purpose::Synthesis, 0, 0);
    let x = (0..n * width)
        .map(|_| rng.random_range(-2.0..2.0))
        .collect();
    let y = (0..n as u32).map(|k| k * 7 % classes).collect();
    Examples::classes(width, x, y).unwrap()
}

/// The gradient of every example by itself, written down.
fn explicit(model: &dyn Model, at: &[f32], examples: &Examples) -> Vec<Vec<f32>> {
    let mut ws = Workspace::default();
    (0..examples.len())
        .map(|k| {
            let mut gradient = model.layout().zeros();
            model.gradient(at, &examples.batch(k, 1), &mut ws, &mut gradient);
            gradient
        })
        .collect()
}

fn length(x: &[f32]) -> f64 {
    x.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn norms_by_layers_are_those_of_explicit_gradients() {
    for hidden in [&[][..], &[8], &[20, 5]] {
        let model: &dyn Model = &Mlp::new(6, hidden, 4, Loss::Softmax, 0.0);
        let at = model.layout().uniform(&mut stream(1, Purpose::Init, 0, 0));
        let examples = examples(13, 6, 4);
        let mut ws = Workspace::default();
        let batch = examples.all();
        model.forward(&at, &batch, &mut ws);
        model.differentiate(&batch, &mut ws);
        let mut squares = Vec::new();
        let norms = model.example_norms().unwrap();
        norms.squared_norms(&at, &batch, &mut ws, &mut squares);
        let gradients = explicit(model, &at, &examples);
        assert_eq!(squares.len(), gradients.len());
        for (square, gradient) in squares.iter().zip(&gradients) {
            let own = 13.0 * square.sqrt(); // δ is that of the mean
            assert!(
                (own / length(gradient) - 1.0).abs() < 1e-4,
                "{own} {}",
                length(gradient)
            );
        }
    }
}

fn local_training(batch: Option<usize>) -> LocalTraining {
    LocalTraining {
        work: LocalWork::Steps(1),
        batch,
        learning_rate: 0.5,
        schedule: Schedule::Constant,
        momentum: 0.0,
    }
}

fn noise_stream() -> Stream {
    stream(4, Purpose::Noise, 1, 0)
}

/// x ← x − η[Σ gᵢ·min(1, C/‖gᵢ‖)/B + λx], with the gradients written down.
#[test]
fn a_private_step_clips_every_example_by_itself() {
    let l2 = 0.1;
    let plain = Mlp::new(6, &[8], 4, Loss::Softmax, 0.0);
    let model: &dyn Model = &Mlp::new(6, &[8], 4, Loss::Softmax, l2);
    let at = model.layout().uniform(&mut stream(1, Purpose::Init, 0, 0));
    let examples = examples(11, 6, 4);
    let gradients = explicit(&plain, &at, &examples);
    let mut lengths: Vec<f64> = gradients.iter().map(|g| length(g)).collect();
    lengths.sort_by(f64::total_cmp);
    let clip = lengths[5]; // half of them are clipped
    let mut scratch = Scratch::default();
    let how = PrivateSteps {
        clip,
        noise: 0.0,
        noise_seed: NoiseSeed::Seed,
    };
    let rng = stream(1, Purpose::Batches, 1, 0);
    let mut client = LocalClient::new(model, &examples, local_training(None), 1, rng, &mut scratch)
        .with_privacy(Some(how), noise_stream());
    let mut x = at.clone();
    client.next_batch();
    client.descend(&mut x, 0.5);
    for (k, x) in x.iter().enumerate() {
        let sum: f64 = gradients
            .iter()
            .map(|g| f64::from(g[k]) * (clip / length(g)).min(1.0))
            .sum();
        let at = f64::from(at[k]);
        let expected = at - 0.5 * (sum / 11.0 + f64::from(l2) * at);
        assert!((f64::from(*x) - expected).abs() < 1e-5, "{x} {expected}");
    }
}

/// η·σ·C/B per coordinate, whatever the sample, which is of any size and of size B on average.
#[test]
fn private_steps_draw_poisson_samples_and_add_their_noise() {
    let model: &dyn Model = &Mlp::new(100, &[100], 4, Loss::Softmax, 0.0);
    let at = model.layout().uniform(&mut stream(1, Purpose::Init, 0, 0));
    let examples = examples(40, 100, 4);
    let stepped = |noise: f64, clip: f64, round: u64| {
        let mut scratch = Scratch::default();
        let how = PrivateSteps {
            clip,
            noise,
            noise_seed: NoiseSeed::Seed,
        };
        let rng = stream(1, Purpose::Batches, round, 0);
        let mut client = LocalClient::new(
            model,
            &examples,
            local_training(Some(10)),
            1,
            rng,
            &mut scratch,
        )
        .with_privacy(Some(how), noise_stream());
        let mut x = at.clone();
        client.next_batch();
        let size = client.on_batch(|_, batch, _| batch.len());
        client.descend(&mut x, 0.5);
        (x, size)
    };
    let (noisy, _) = stepped(2.0, 0.3, 1);
    let (silent, _) = stepped(0.0, 0.3, 1);
    let n = at.len() as f64;
    let difference = |(a, b): (&f32, &f32)| f64::from(*a) - f64::from(*b);
    let sum: f64 = noisy
        .iter()
        .zip(&silent)
        .map(|pair| difference(pair).powi(2))
        .sum();
    let deviation = 0.5 * 2.0 * 0.3 / 10.0;
    assert!((sum / n / (deviation * deviation) - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
    let sizes: Vec<usize> = (1..=400).map(|round| stepped(0.0, 1.0, round).1).collect();
    let mean = sizes.iter().sum::<usize>() as f64 / 400.0;
    // A binomial of 40 and ¼: deviation √7.5, of the mean 0.137.
    assert!((mean - 10.0).abs() < 5.0 * 0.137, "{mean}");
    assert!(sizes.iter().any(|size| *size != 10));
}
