//! Measures how often `apfl advise` is right, on simulated federations with known gains.
//!
//! Each federation has 20 dimensions and two classes. `friends` share one model and have 30
//! training rows each; `strangers` have a model each and 320 training rows. All get as many
//! further rows to measure on as the second argument says. The true gain of a client is measured
//! on thousands of fresh rows, against the client's own tuned fit. The output is the coverage of the 95% intervals and the
//! number of wrong verdicts.
//!
//! ```text
//! cargo run --release -p apfl --example coverage -- 200 120    # federations (4), measuring rows (120)
//! ```

use std::path::Path;
use std::sync::Arc;

use apfl::advise::{Advice, Verdict};
use apfl::clients::tuned;
use apfl::rng::{Purpose, Stream, stream};
use apfl::{Apfl, Examples, InMemory, Mlp, Result, Run, TrainedModel, WhichModel};
use rand::RngExt;
use rand_distr::StandardNormal;

const DIMENSIONS: usize = 20;
const TRUTH_ROWS: usize = 4000;
const FRIENDS: usize = 12;

/// Samples rows of a client and their classes: x ~ N(0, I), P(y = 1) = 1/(1 + exp(−⟨θ, x⟩)).
fn rows(theta: &[f32], count: usize, rng: &mut Stream) -> Result<Examples> {
    let mut x = Vec::with_capacity(count * DIMENSIONS);
    let mut y = Vec::with_capacity(count);
    for _ in 0..count {
        let row: Vec<f32> = (0..DIMENSIONS)
            .map(|_| rng.sample(StandardNormal))
            .collect();
        let z: f32 = row.iter().zip(theta).map(|(x, t)| x * t).sum();
        y.push(u32::from(rng.random::<f32>() < 1.0 / (1.0 + (-z).exp())));
        x.extend(row);
    }
    Examples::classes(DIMENSIONS, x, y)
}

fn theta(rng: &mut Stream) -> Vec<f32> {
    let normal = |_| rng.sample::<f32, _>(StandardNormal) * 0.6;
    (0..DIMENSIONS).map(normal).collect()
}

/// Returns the mean loss of a model on some rows.
fn loss(model: &TrainedModel, examples: &Examples) -> Result<f64> {
    let apfl::data::Features::Floats(x) = examples.features() else {
        unreachable!("made above");
    };
    let apfl::data::Targets::Classes(y) = examples.targets() else {
        unreachable!("made above");
    };
    let mut sum = 0.0;
    for (prediction, y) in model.predict(x)?.into_iter().zip(y) {
        if let apfl::Prediction::Class { scores, .. } = prediction {
            sum -= scores[*y as usize].max(1e-12).ln();
        }
    }
    Ok(sum / y.len() as f64)
}

/// Counts over federations.
#[derive(Default)]
struct Counts {
    intervals: usize,
    covered: usize,
    totals: usize,
    totals_covered: usize,
    helped: usize,
    harmed: usize,
    wrong: usize,
    clients: usize,
}

impl Counts {
    fn print(&self, group: &str) {
        let share = |part: usize, of: usize| 100.0 * part as f64 / of.max(1) as f64;
        println!(
            "{group:<10} {:>7} {:>12.1}% {:>10} {:>7} {:>8} {:>14}",
            self.clients,
            share(self.covered, self.intervals),
            self.helped,
            self.harmed,
            self.wrong,
            match self.totals {
                0 => "–".to_string(),
                n => format!("{:.1}%", share(self.totals_covered, n)),
            }
        );
    }
}

/// Simulates one federation. Returns the share of wrong verdicts among those given, which the
/// Benjamini–Hochberg procedure keeps below 5% on average.
fn federation(
    (seed, measuring): (u64, usize),
    friends: &mut Counts,
    strangers: &mut Counts,
    iid: bool,
) -> Result<f64> {
    let mut rng = stream(seed, Purpose::Synthesis, 0, u64::from(iid));
    let common = theta(&mut rng);
    let mut data = InMemory::classes((0..DIMENSIONS).map(|k| format!("x{k}")), ["no", "yes"]);
    let mut truths = Vec::new();
    let clients = if iid { FRIENDS } else { FRIENDS + 3 };
    for client in 0..clients {
        let friend = client < FRIENDS;
        let own = if friend {
            common.clone()
        } else {
            theta(&mut rng)
        };
        // Strangers have more to learn from.
        let count = if friend { 30 } else { 320 } + measuring;
        let share = measuring as f64 / count as f64;
        let name = format!("{}-{client}", if friend { "friend" } else { "stranger" });
        data.add(&name, rows(&own, count, &mut rng)?, share)?;
        truths.push((name, friend, rows(&own, TRUTH_ROWS, &mut rng)?));
    }
    let model = Mlp::logistic(DIMENSIONS, 2, 1e-3);
    let (shards, schema) = (data.shards.clone(), data.schema.clone());
    let network = Arc::new(model.clone());
    let run = Run::builder(data, model)
        .algorithm(Apfl::chosen([0.0, 0.25, 0.5, 0.75, 1.0]))
        .seed(seed)
        .rounds(30)
        .evaluate_every(30)
        .build()?
        .train()?;
    let advice = Advice::of(Path::new("."), &run.summary, &run.clients()?)?;
    let (mut weighted, mut all) = (0.0, 0.0);
    let (mut given, mut given_wrong) = (0.0, 0.0);
    let clients = advice.clients.iter().zip(&shards);
    for ((client, shard), (name, friend, fresh)) in clients.zip(&truths) {
        assert_eq!(&client.client, name);
        let baseline = tuned::fit(&*network, &shard.train).expect("the model is linear");
        let baseline = TrainedModel::new(network.clone(), baseline, schema.clone())?;
        let personal = run.model(WhichModel::Personal, name)?;
        let truth = loss(&baseline, fresh)? - loss(&personal, fresh)?;
        weighted += client.rows as f64 * truth;
        all += client.rows as f64;
        let counts = if *friend {
            &mut *friends
        } else {
            &mut *strangers
        };
        counts.clients += 1;
        if let Some([low, high]) = client.interval {
            counts.intervals += 1;
            counts.covered += usize::from((low..=high).contains(&truth));
        }
        counts.helped += usize::from(client.verdict == Verdict::Helps);
        counts.harmed += usize::from(client.verdict == Verdict::Harms);
        let is_wrong = match client.verdict {
            Verdict::Helps => truth <= 0.0,
            Verdict::Harms => truth >= 0.0,
            Verdict::Undecided => false,
        };
        counts.wrong += usize::from(is_wrong);
        given += f64::from(u8::from(client.verdict != Verdict::Undecided));
        given_wrong += f64::from(u8::from(is_wrong));
    }
    if let Some([low, high]) = advice.total.interval {
        friends.totals += 1;
        friends.totals_covered += usize::from((low..=high).contains(&(weighted / all)));
    }
    Ok(given_wrong / given.max(1.0))
}

/// Simulates as many federations as the first argument says.
pub fn main() -> Result<()> {
    let argument = |k: usize| std::env::args().nth(k).and_then(|n| n.parse().ok());
    let federations = argument(1).unwrap_or(4);
    let measuring = argument(2).unwrap_or(120);
    let (mut friends, mut strangers, mut iid) =
        (Counts::default(), Counts::default(), Counts::default());
    let mut wrong = [0.0; 2];
    for seed in 1..=federations {
        wrong[0] += federation(
            (seed, measuring as usize),
            &mut friends,
            &mut strangers,
            false,
        )?;
        wrong[1] += federation(
            (seed, measuring as usize),
            &mut iid,
            &mut Counts::default(),
            true,
        )?;
    }
    println!(
        "{federations} federations; {:<10} {:>7} {:>13} {:>10} {:>7} {:>8} {:>14}",
        "", "clients", "intervals", "helps", "harms", "wrong", "total covered"
    );
    friends.print("friends");
    strangers.print("strangers");
    iid.print("iid");
    let [mixed, alike] = wrong.map(|sum| 100.0 * sum / federations as f64);
    println!(
        "share of wrong verdicts among those given, mean over federations: {mixed:.1}%, iid {alike:.1}%"
    );
    Ok(())
}
