//! Generated images for benchmarks without a data set.

use std::sync::Arc;

use apfl::data::{
    Dataset, Examples, Features, InMemory, Normalization, Scaling, Schema, Shard, Targets, Task,
};
use apfl::rng::{Purpose, Stream, stream};
use rand::RngExt;

/// Training examples per client: MNIST's 600 less a fifth held out.
const EXAMPLES: usize = 480;

/// All classes, and classes per client.
const CLASSES: u32 = 10;
const CLIENT_CLASSES: u32 = 2;

/// Generates grey 28×28 images with MNIST's 81% zeros: every class has a blob, and an image has
/// most of its pixels.
pub fn digits(clients: usize) -> Arc<dyn Dataset> {
    let pixel = |class: u32, k: usize, rng: &mut Stream| {
        let (row, column) = (k / 28, k % 28);
        let angle = f64::from(class) * std::f64::consts::TAU / f64::from(CLASSES);
        let (y, x) = (13.5 + 2.5 * angle.sin(), 13.5 + 2.5 * angle.cos());
        let distance = (row as f64 - y).hypot(column as f64 - x);
        if distance < 8.0 && rng.random_bool(0.74) {
            rng.random_range(1..=255)
        } else {
            0
        }
    };
    images(clients, vec![1, 28, 28], &[(0.1307, 0.3081)], pixel)
}

/// Generates colour 32×32 images of random pixels, without zeros to skip.
pub fn photographs(clients: usize) -> Arc<dyn Dataset> {
    let channels = [(0.4914, 0.2023), (0.4822, 0.1994), (0.4465, 0.2010)];
    let pixel = |_: u32, _: usize, rng: &mut Stream| rng.random();
    images(clients, vec![3, 32, 32], &channels, pixel)
}

fn images(
    clients: usize,
    shape: Vec<usize>,
    channels: &[(f64, f64)],
    pixel: impl Fn(u32, usize, &mut Stream) -> u8,
) -> Arc<dyn Dataset> {
    let width = shape.iter().product();
    let scaling = Arc::new(Scaling::normalized(channels));
    let examples = |client: usize, count: usize, rng: &mut Stream| {
        let class =
            |k: usize| (client as u32 * CLIENT_CLASSES + k as u32 % CLIENT_CLASSES) % CLASSES;
        let labels: Vec<u32> = (0..count).map(class).collect();
        let mut bytes = Vec::with_capacity(count * width);
        for class in &labels {
            bytes.extend((0..width).map(|k| pixel(*class, k, rng)));
        }
        let features = Features::Bytes(bytes, scaling.clone());
        Examples::new(width, features, Targets::Classes(labels))
    };
    let shard = |client: usize| {
        let rng = &mut stream(1, Purpose::Synthesis, 0, client as u64);
        let train = examples(client, EXAMPLES, rng);
        let valid = examples(client, EXAMPLES / 4, rng);
        Arc::new(Shard::new(client.to_string(), train, valid))
    };
    Arc::new(InMemory {
        schema: Schema {
            shape,
            features: Vec::new(),
            task: Task::Classification {
                classes: (0..CLASSES).map(|class| class.to_string()).collect(),
            },
            normalization: Normalization::Bytes {
                channels: scaling.channels.clone(),
            },
        },
        shards: (0..clients).map(shard).collect(),
        files: Vec::new(),
        assignment: None,
        notes: Vec::new(),
    })
}
