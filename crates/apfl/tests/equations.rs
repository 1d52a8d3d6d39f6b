//! Whole runs against the slow float64 evaluation of `reference`: five uneven clients
//! of a table, full batches, a constant rate, twelve rounds; every loss, every accuracy
//! and the mean α of every round.

use std::fmt::Write;

use apfl::metrics::Scores;
use apfl::spec::Spec;
use apfl::training::Training;

use crate::reference::{Client, Pooled, Problem, Round};

const TOLERANCE: f64 = 2e-4;
const FEATURES: usize = 4;
const CLASSES: [&str; 3] = ["ant", "bee", "cat"];
/// (training, validation) examples of the clients.
const SIZES: [(usize, usize); 5] = [(7, 3), (12, 4), (20, 6), (33, 9), (5, 2)];

/// Numbers in −1 … 1 with seven binary digits: exact in f32, f64 and in the CSV.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        // Knuth's MMIX generator.
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((self.0 >> 33) % 257) as f64 / 128.0 - 1.0
    }
}

/// Clients whose inputs and labelling rules differ.
fn clients() -> Vec<Client> {
    let mut numbers = Numbers(3);
    let mut examples = |i: usize, count: usize| -> Vec<_> {
        let one = |k: usize| {
            let x: Vec<f64> = (0..FEATURES)
                .map(|j| numbers.next() + if j == i % FEATURES { 0.5 } else { 0.0 })
                .collect();
            let rule = [x[0] + x[1], x[i % FEATURES] - x[2], 0.5 * x[3] + 0.25];
            let best = (0..3).max_by(|a, b| rule[*a].total_cmp(&rule[*b]));
            // One label in seven is off, so that no loss can vanish.
            let y = best.expect("three rules");
            (x, if k % 7 == 6 { (y + 1) % 3 } else { y })
        };
        (0..count).map(one).collect()
    };
    let client = |(i, (train, valid)): (usize, (usize, usize))| Client {
        train: examples(i, train),
        valid: examples(i, valid),
    };
    SIZES.into_iter().enumerate().map(client).collect()
}

/// The clients as a table, their rows interleaved.
fn csv(clients: &[Client]) -> String {
    let mut text = String::from("x0,site,x1,kind,x2,split,x3\n");
    for k in 0.. {
        let before = text.len();
        for (i, client) in clients.iter().enumerate() {
            for (split, examples) in [("train", &client.train), ("valid", &client.valid)] {
                if let Some((x, y)) = examples.get(k) {
                    let class = CLASSES[*y];
                    let [a, b, c, d] = x[..] else {
                        panic!("four features")
                    };
                    writeln!(text, "{a},site-{i},{b},{class},{c},{split},{d}").unwrap();
                }
            }
        }
        if text.len() == before {
            break;
        }
    }
    text
}

/// A .safetensors file of a network's layers, written byte by byte.
fn safetensors(widths: &[usize], params: &[f64]) -> Vec<u8> {
    let mut header = Vec::new();
    let mut start = 0;
    for (k, pair) in widths.windows(2).enumerate() {
        let (ins, outs) = (pair[0], pair[1]);
        for (name, shape, count) in [
            ("weight", format!("[{ins},{outs}]"), ins * outs),
            ("bias", format!("[{outs}]"), outs),
        ] {
            let end = start + 4 * count;
            header.push(format!(
                r#""layer{}.{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{start},{end}]}}"#,
                k + 1
            ));
            start = end;
        }
    }
    let header = format!("{{{}}}", header.join(","));
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    for p in params {
        bytes.extend_from_slice(&(*p as f32).to_le_bytes());
    }
    bytes
}

pub fn problem(hidden: &[usize]) -> Problem {
    let clients = clients();
    let widths = [&[FEATURES], hidden, &[CLASSES.len()]].concat();
    let count: usize = widths.windows(2).map(|w| w[0] * w[1] + w[1]).sum();
    let mut numbers = Numbers(8);
    let start = |_| match hidden {
        [] => 0.0,
        _ => numbers.next() / 2.0,
    };
    Problem {
        w0: (0..count).map(start).collect(),
        weights: vec![1.0; clients.len()],
        widths,
        l2: 0.01,
        clients,
        rate: 0.25,
        steps: 7,
        rounds: 12,
    }
}

/// Trains with the library and compares with `expected`.
pub fn agree(problem: &Problem, algorithm: &str, weights: &str, expected: Vec<Round>) {
    let dir = tempfile::tempdir().unwrap();
    let (table, start) = (
        dir.path().join("table.csv"),
        dir.path().join("w0.safetensors"),
    );
    std::fs::write(&table, csv(&problem.clients)).unwrap();
    std::fs::write(&start, safetensors(&problem.widths, &problem.w0)).unwrap();
    let hidden = &problem.widths[1..problem.widths.len() - 1];
    let model = match hidden {
        [] => "kind = 'logistic'".to_string(),
        _ => format!(
            "kind = 'mlp'\nhidden = {hidden:?}\ninit = '{}'",
            start.display()
        ),
    };
    let spec = format!(
        "algorithm = {algorithm}
         [data]
         kind = 'table'
         path = '{}'
         client = 'site'
         label = 'kind'
         split = 'split'
         [model]
         {model}
         l2 = {}
         [federation]
         weights = '{weights}'
         [training]
         rounds = {}
         local_steps = {}
         batch = 'full'
         learning_rate = {}
         schedule = 'constant'",
        table.display(),
        problem.l2,
        problem.rounds,
        problem.steps,
        problem.rate
    );
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    for (r, expected) in expected.iter().enumerate() {
        let record = training.next_round().unwrap().expect("a round more");
        let scores = record.scores.expect("every round is evaluated");
        let place = format!("{algorithm}, round {}", r + 1);
        compare(
            &format!("{place}, shared"),
            &scores.shared,
            &expected.shared,
        );
        compare(
            &format!("{place}, localized"),
            &scores.localized,
            &expected.localized,
        );
        compare(
            &format!("{place}, personal"),
            &scores.personal,
            &expected.personal,
        );
        let alpha = record.mixing.map(|spread| spread.mean);
        match (alpha, expected.mean_alpha) {
            (None, None) => {}
            (Some(found), Some(expected)) if (found - expected).abs() <= TOLERANCE => {}
            other => panic!("{place}: mean α (found, expected) = {other:?}"),
        }
    }
    assert!(training.next_round().unwrap().is_none());
}

fn compare(place: &str, found: &Scores, expected: &Pooled) {
    for (split, found, (loss, accuracy)) in [
        ("train", found.train, expected[0]),
        ("valid", found.valid, expected[1]),
    ] {
        let accuracy_found = found.accuracy.expect("a classifier");
        assert!(
            (found.loss - loss).abs() <= TOLERANCE
                && (accuracy_found - accuracy).abs() <= TOLERANCE,
            "{place}, {split}: found loss {} and accuracy {accuracy_found}, expected {loss} and {accuracy}",
            found.loss
        );
    }
}

#[test]
fn fedavg() {
    let p = problem(&[]);
    agree(&p, "{ kind = 'fedavg' }", "uniform", p.fedavg());
}

#[test]
fn fedavg_weighted_by_examples() {
    let mut p = problem(&[]);
    p.weights = SIZES.iter().map(|(train, _)| *train as f64).collect();
    agree(&p, "{ kind = 'fedavg' }", "examples", p.fedavg());
}

#[test]
fn local() {
    let p = problem(&[]);
    agree(&p, "{ kind = 'local' }", "uniform", p.local());
}

#[test]
fn apfl_with_a_quarter() {
    let p = problem(&[]);
    let algorithm = "{ kind = 'apfl', mixing = { fixed = 0.25 } }";
    agree(&p, algorithm, "uniform", p.apfl(0.25, false));
}

#[test]
fn apfl_with_one() {
    let p = problem(&[]);
    let algorithm = "{ kind = 'apfl', mixing = { fixed = 1 } }";
    agree(&p, algorithm, "uniform", p.apfl(1.0, false));
}

#[test]
fn adaptive_apfl() {
    let p = problem(&[]);
    for alpha in [0.01, 0.5] {
        let expected = p.apfl(alpha, true);
        // A comparison of α's that never move would show nothing.
        let last = expected[11].mean_alpha.expect("APFL has an α");
        assert!((last - alpha).abs() > 0.005, "α barely moved: {last}");
        let algorithm = format!("{{ kind = 'apfl', mixing = {{ adaptive = {alpha} }} }}");
        agree(&p, &algorithm, "uniform", expected);
    }
}

#[test]
fn networks_from_a_file() {
    let p = problem(&[6, 5]);
    agree(&p, "{ kind = 'fedavg' }", "uniform", p.fedavg());
    let fixed = "{ kind = 'apfl', mixing = { fixed = 0.25 } }";
    agree(&p, fixed, "uniform", p.apfl(0.25, false));
    let adaptive = "{ kind = 'apfl', mixing = { adaptive = 0.5 } }";
    agree(&p, adaptive, "uniform", p.apfl(0.5, true));
}
