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
    /// What the paper prints; nothing where the column is ours.
    pub paper: Option<[f64; 4]>,
}

/// The run of [`chosen`], of one pass with a fifth of the rows held out: clients here have
/// hundreds.
pub const CHOSEN: &str =
    "algorithm.mixing={ chosen = [0, 0.1, 0.25, 0.5, 0.75, 1], folds = 1, prior = 50 }";

/// A chosen α, which is no column of the paper's and part of no claim.
pub fn chosen() -> Column {
    Column {
        track: track("APFL chosen (ours)", "chosen", Model::Personal, 7),
        paper: None,
    }
}

/// A column of that name, run and model, with what the paper prints.
pub fn column(name: &str, run: &str, model: Model, colour: usize, paper: [f64; 4]) -> Column {
    Column {
        track: track(name, run, model, colour),
        paper: Some(paper),
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
        let [of_loss, of_accuracy] = match paper {
            Some(p) => [
                format!("{} ± {}", p[0], p[1]),
                format!("{:.2} ± {:.2}%", p[2], p[3]),
            ],
            None => ["–", "–"].map(String::from),
        };
        rows.push(vec![
            track.name.clone(),
            of_loss,
            results.last(track, loss).sample().number(),
            of_accuracy,
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
        let Some(paper) = paper else {
            continue;
        };
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
