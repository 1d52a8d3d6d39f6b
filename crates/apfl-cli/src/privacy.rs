//! `apfl privacy`: computes ε from noise, sampling and steps, or the noise for an ε.

use apfl::error::{Error, Result};
use apfl::privacy::{Accountant, Cost, Mechanism, noise_for};
use serde::Serialize;

use crate::args;
use crate::output::{columns, print, print_json};

/// The number of points of the curve of ε over steps.
const POINTS: u64 = 10;

/// Represents the output of `--json`; null stands for infinity.
#[derive(Serialize)]
struct Document {
    noise: f64,
    sampling: f64,
    steps: u64,
    delta: f64,
    epsilon: Option<f64>,
    rdp: Option<f64>,
    pld: Option<f64>,
    /// The spacing of PLD's grid of losses, if it uses one.
    interval: Option<f64>,
    curve: Vec<Point>,
}

#[derive(Serialize)]
struct Point {
    steps: u64,
    epsilon: Option<f64>,
    rdp: Option<f64>,
    pld: Option<f64>,
}

fn finite(x: f64) -> Option<f64> {
    x.is_finite().then_some(x)
}

/// Computes and prints ε after the steps and on the way there.
pub fn run(args: &args::Privacy) -> Result<()> {
    let args::Privacy {
        sampling,
        steps,
        delta,
        ..
    } = *args;
    let noise = match (args.noise, args.epsilon) {
        (Some(noise), _) => noise,
        (None, Some(epsilon)) => noise_for(epsilon, sampling, steps, delta).ok_or_else(|| {
            Error::Request(format!(
                "--epsilon {epsilon}: even noise of 1e6 is not enough for {steps} steps; give a \
                 larger ε or fewer steps"
            ))
        })?,
        (None, None) => return Err(Error::Request("give --noise or --epsilon".into())),
    };
    let account = Accountant::new(Mechanism { noise, sampling }, steps, delta);
    let marks = (1..=POINTS).map(|k| (steps.saturating_mul(k) / POINTS).max(1));
    let mut marks: Vec<u64> = marks.collect();
    marks.dedup();
    let curve: Vec<(u64, Cost)> = marks.iter().map(|t| (*t, account.cost(*t))).collect();
    let (_, cost) = *curve.last().expect("the last step is a mark");
    let document = Document {
        noise,
        sampling,
        steps,
        delta,
        epsilon: finite(cost.epsilon()),
        rdp: finite(cost.rdp),
        pld: finite(cost.pld),
        interval: account.interval(),
        curve: curve
            .iter()
            .map(|(steps, cost)| Point {
                steps: *steps,
                epsilon: finite(cost.epsilon()),
                rdp: finite(cost.rdp),
                pld: finite(cost.pld),
            })
            .collect(),
    };
    if args.json {
        print_json(&document)
    } else {
        print(&text(&document))
    }
}

fn text(document: &Document) -> String {
    let shown = |x: Option<f64>| x.map_or("∞".into(), |x| format!("{x:.4}"));
    let heads = ["steps", "ε", "RDP", "PLD"].map(String::from).to_vec();
    let mut rows = vec![heads];
    for point in &document.curve {
        let Point {
            steps,
            epsilon,
            rdp,
            pld,
        } = point;
        rows.push(vec![
            steps.to_string(),
            shown(*epsilon),
            shown(*rdp),
            shown(*pld),
        ]);
    }
    let grid = match document.interval {
        Some(interval) => format!("PLD on a grid of {interval:.1e}, rounded up"),
        None => "PLD exact".into(),
    };
    format!(
        "noise σ = {:.6}, sampling q = {}, δ = {:e}: ε = {} after {} steps\n\n{}\nRDP and PLD are \
         both upper bounds ({grid}); ε is the smaller one.\n",
        document.noise,
        document.sampling,
        document.delta,
        shown(document.epsilon),
        document.steps,
        columns(&rows)
    )
}
