//! One gradient with its update, and a forward pass, of the three models: `cargo bench -p apfl`.

use std::hint::black_box;
use std::sync::Arc;

use apfl::data::{Examples, Features, Scaling, Targets};
use apfl::model::cnn::{Cnn, Widths};
use apfl::model::mlp::Mlp;
use apfl::model::{Loss, Model, Workspace};
use apfl::rng::{Purpose, stream};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::RngExt;

/// Byte images of which a share is not zero, as digits (0.19) or photographs (1) have it.
fn images(rows: usize, width: usize, share: f64, channels: &[(f64, f64)]) -> Examples {
    let mut rng = stream(1, Purpose::Synthesis, 0, 0);
    let mut pixel = || match rng.random_bool(share) {
        true => rng.random_range(1..=255u8),
        false => 0,
    };
    let bytes = (0..rows * width).map(|_| pixel()).collect();
    let labels = (0..rows as u32).map(|k| k % 10).collect();
    let features = Features::Bytes(bytes, Arc::new(Scaling::normalized(channels)));
    Examples::new(width, features, Targets::Classes(labels))
}

fn models() -> Vec<(&'static str, Box<dyn Model>, Examples)> {
    let digits = || images(256, 784, 0.19, &[(0.1307, 0.3081)]);
    let colours = [(0.4914, 0.2023), (0.4822, 0.1994), (0.4465, 0.2010)];
    let widths = Widths {
        channels: [32, 64],
        kernel: 5,
        dense: 512,
    };
    let cnn = Cnn::new(&[3, 32, 32], widths, 10, Loss::Softmax, 0.0, false);
    vec![
        ("logistic", Box::new(Mlp::logistic(784, 10, 1e-4)), digits()),
        (
            "mlp",
            Box::new(Mlp::new(784, &[200, 200], 10, Loss::Softmax, 0.0)),
            digits(),
        ),
        (
            "cnn",
            Box::new(cnn.expect("images large enough")),
            images(256, 3072, 1.0, &colours),
        ),
    ]
}

fn kernels(c: &mut Criterion) {
    for (name, model, examples) in models() {
        let mut group = c.benchmark_group(name);
        let rng = &mut stream(1, Purpose::Init, 0, 0);
        let mut x = model.layout().uniform(rng);
        let (v, w) = (x.clone(), x.clone());
        let mut ws = Workspace::default();
        for rows in [20, 50] {
            let batch = examples.batch(0, rows);
            group.throughput(Throughput::Elements(rows as u64));
            group.bench_function(format!("descend/{rows}"), |b| {
                b.iter(|| model.descend(None, black_box(&mut x), 1e-6, &batch, &mut ws));
            });
            let mut v = v.clone();
            group.bench_function(format!("descend at a mixture/{rows}"), |b| {
                let v = black_box(&mut v);
                b.iter(|| model.descend_mixed(0.5, v, &w, 1e-6, &batch, &mut ws));
            });
            let mut w = w.clone();
            group.bench_function(format!("descend at both/{rows}"), |b| {
                let (v, w) = (black_box(&mut v), black_box(&mut w));
                b.iter(|| model.descend_both(0.5, (v, w), (1e-6, 1e-6), &batch, &mut ws));
            });
        }
        let batch = examples.batch(0, 256);
        group.throughput(Throughput::Elements(256));
        group.bench_function("forward/256", |b| {
            b.iter(|| model.forward(black_box(&w), &batch, &mut ws));
        });
        group.finish();
    }
}

criterion_group!(benches, kernels);
criterion_main!(benches);
