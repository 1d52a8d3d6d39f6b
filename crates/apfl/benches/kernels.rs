//! One gradient with its update, and a forward pass, of the three models: `cargo bench -p apfl`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use apfl::data::{Examples, Features, Scaling, Targets};
use apfl::model::cnn::{Cnn, Widths};
use apfl::model::mlp::Mlp;
use apfl::model::{CacheLines, Extras, Loss, Model, Workspace};
use apfl::rng::{Purpose, stream};
use rand::RngExt;

#[global_allocator]
static MEMORY: CacheLines = CacheLines;

/// Byte images of which a share is not zero, as digits (0.19) or photographs (1) have it.
fn images(rows: usize, width: usize, share: f64, channels: &[(f64, f64)]) -> Examples {
    let mut rng = stream(1, Purpose::Synthesis, 0, 0);
    let mut pixel = || {
        if rng.random_bool(share) {
            rng.random_range(1..=255u8)
        } else {
            0
        }
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
    let cnn = Cnn::new(&[3, 32, 32], widths, 10, Loss::Softmax, 0.0, Extras::NONE);
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

/// Prints the time of one call: the median of thirty samples of some ten milliseconds each, and how
/// far the quickest and the slowest quarter lie apart.
fn time<T>(name: &str, rows: usize, mut call: impl FnMut() -> T) {
    let mut sample = |calls: u32| {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        start.elapsed() / calls
    };
    let once = sample(3).max(Duration::from_nanos(1));
    let calls = (Duration::from_millis(10).div_duration_f64(once) as u32).max(1);
    let mut samples: Vec<Duration> = (0..30).map(|_| sample(calls)).collect();
    samples.sort();
    let micros = |at: usize| samples[at].as_secs_f64() * 1e6;
    println!(
        "{name:32} {:10.2} us  (quarters {:.2} to {:.2}), {:8.0} rows/ms",
        micros(15),
        micros(7),
        micros(22),
        rows as f64 * 1e3 / micros(15)
    );
}

fn main() {
    for (name, model, examples) in models() {
        let rng = &mut stream(1, Purpose::Init, 0, 0);
        let mut x = model.layout().uniform(rng);
        let (v, w) = (x.clone(), x.clone());
        let mut ws = Workspace::default();
        for rows in [20, 50] {
            let batch = examples.batch(0, rows);
            time(&format!("{name}/descend/{rows}"), rows, || {
                model.descend(None, black_box(&mut x), 1e-6, &batch, &mut ws)
            });
            let (mut v, mut w) = (v.clone(), w.clone());
            time(&format!("{name}/descend at a mixture/{rows}"), rows, || {
                model.descend_mixed(0.5, black_box(&mut v), &w, 1e-6, &batch, &mut ws)
            });
            time(&format!("{name}/descend at both/{rows}"), rows, || {
                let both = (black_box(&mut v[..]), black_box(&mut w[..]));
                model.descend_both(0.5, both, (1e-6, 1e-6), &batch, &mut ws)
            });
        }
        let batch = examples.batch(0, 256);
        time(&format!("{name}/forward/256"), 256, || {
            model.forward(black_box(&w), &batch, &mut ws);
        });
    }
}
