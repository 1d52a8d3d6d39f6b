//! Tables of the paper: a column a model, with its printed loss and accuracy.

use super::item::Tables;
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Claim, Verdict};
use crate::statistics::Sample;

/// A column of a table: a track, and the paper's (loss, its spread, accuracy in percent, its
/// spread).
pub struct Column {
    /// Which model.
    pub track: Track,
    /// What the paper prints.
    pub paper: [f64; 4],
}

/// A column of that name, run and model, with what the paper prints.
pub fn column(name: &str, run: &str, model: Model, colour: usize, paper: [f64; 4]) -> Column {
    Column {
        track: track(name, run, model, colour),
        paper,
    }
}

/// Paper and ours, cell by cell, and ours over the rounds.
pub fn tables(results: &Results, name: &str, columns: &[Column], at: &[u64]) -> Tables {
    let mut rows = vec![
        [
            "model",
            "train loss: paper",
            "ours",
            "validation: paper",
            "ours",
            "ours, all clients",
        ]
        .map(String::from)
        .to_vec(),
    ];
    for Column { track, paper } in columns {
        let (loss, accuracy) = (Measure::TrainLoss, Measure::ValidAccuracy);
        rows.push(vec![
            track.name.clone(),
            format!("{} ± {}", paper[0], paper[1]),
            results.last(track, loss).sample().number(),
            format!("{:.2} ± {:.2}%", paper[2], paper[3]),
            results.last(track, accuracy).sample().percent(),
            results.delivered(track, accuracy).sample().percent(),
        ]);
    }
    // Rounds that were run, and the last.
    let last = columns
        .first()
        .map_or(0, |column| results.rounds(&column.track.run));
    let mut at: Vec<u64> = at.iter().copied().filter(|round| *round < last).collect();
    at.push(last);
    let mut over = vec![vec!["model".to_string(), "measure".into()]];
    over[0].extend(at.iter().map(|round| format!("round {round}")));
    for Column { track, .. } in columns {
        for (measure, what) in [
            (Measure::TrainLoss, "train loss"),
            (Measure::ValidAccuracy, "validation"),
        ] {
            let shown = |sample: Sample| match measure {
                Measure::ValidAccuracy => sample.percent(),
                _ => sample.number(),
            };
            let cell = |round: &u64| shown(results.at(track, measure, *round).sample());
            let mut row = vec![track.name.clone(), what.into()];
            row.extend(at.iter().map(cell));
            over.push(row);
        }
    }
    vec![(name.into(), rows), (format!("{name}-over-rounds"), over)]
}

/// Whether every cell is within the sum of both spreads of the paper's.
pub fn within(claim: &str, results: &Results, columns: &[Column]) -> Claim {
    let (mut near, mut all, mut farthest) = (0, 0, (0.0, String::new(), None));
    for Column { track, paper } in columns {
        let cells = [
            (Measure::TrainLoss, "loss", paper[0], paper[1]),
            (
                Measure::ValidAccuracy,
                "accuracy",
                paper[2] / 100.0,
                paper[3] / 100.0,
            ),
        ];
        for (measure, what, mean, spread) in cells {
            let ours = results.last(track, measure).sample();
            let allowed = spread + ours.deviation.unwrap_or(0.0);
            let off = (ours.mean - mean).abs();
            all += 1;
            near += usize::from(off <= allowed);
            let far = off / allowed.max(1e-12);
            if far > farthest.0 {
                let name = format!("{} {what}", track.name);
                farthest = (
                    far,
                    format!("{name}: {mean:.4} there, {} here", ours.number()),
                    ours.deviation,
                );
            }
        }
    }
    Claim {
        claim: claim.into(),
        paper: "its own table".into(),
        ours: format!("{near} of {all} cells; farthest: {}", farthest.1),
        spread: farthest.2,
        verdict: match near == all {
            true => Verdict::Holds,
            false => Verdict::Fails,
        },
        about_apfl: true,
        note: None,
    }
}
