//! Tables of the paper: one column per model, with the printed loss and accuracy.

use apfl_report::statistics::Sample;

use super::item::Tables;
use super::results::{Measure, Model, Results, Track, track};
use super::verdict::{Check, Claim};

/// Represents a column of a table.
pub struct Column {
    /// The model's track.
    pub track: Track,
    /// The paper's loss, its spread, accuracy in percent, its spread; `None` for our own columns.
    pub paper: Option<[f64; 4]>,
}

/// Represents how a table is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// As the paper's text describes it.
    Text,
    /// As the authors' released code does it.
    Authors,
}

/// Both settings.
pub const SETTINGS: [Setting; 2] = [Setting::Text, Setting::Authors];

impl Setting {
    /// Returns the name of a run in this setting.
    pub fn run(self, name: &str) -> String {
        match self {
            Setting::Text => name.into(),
            Setting::Authors => format!("{name}, authors"),
        }
    }

    /// Describes the setting.
    pub fn describe(self) -> &'static str {
        match self {
            Setting::Text => "as the text has it",
            Setting::Authors => "as the authors' code has it",
        }
    }

    /// Labels a claim that was judged by this setting's runs.
    pub fn label(self, mut claim: Claim) -> Claim {
        if self == Setting::Authors {
            claim.claim = format!("{} — {}", claim.claim, self.describe());
            claim.about_apfl = false;
        }
        claim
    }
}

/// Returns every run in both settings.
pub fn in_both(runs: Vec<(String, Vec<String>)>) -> Vec<(String, Vec<String>)> {
    let authors = runs.iter().map(|(name, set)| {
        let mut set = set.clone();
        set.push("preset=authors".into());
        (Setting::Authors.run(name), set)
    });
    let authors: Vec<_> = authors.collect();
    runs.into_iter().chain(authors).collect()
}

/// The mixing of [`chosen`]: one pass with a quarter of the rows held out, as clients have
/// hundreds of rows. With a fifth, the last of table 2's 20 steps would have a batch of 4 rows.
pub const CHOSEN: &str =
    "algorithm.mixing={ chosen = [0, 0.1, 0.25, 0.5, 0.75, 1], folds = 1, aside = 0.25 }";

/// Returns the column of the chosen α, which is not in the paper and part of no claim.
pub fn chosen() -> Column {
    Column {
        track: track("APFL chosen (ours)", "chosen", Model::Personal, 7),
        paper: None,
    }
}

/// Creates a column with the paper's numbers.
pub fn column(name: &str, run: &str, model: Model, colour: usize, paper: [f64; 4]) -> Column {
    Column {
        track: track(name, run, model, colour),
        paper: Some(paper),
    }
}

impl Column {
    /// Returns the track of the column's runs in a setting.
    pub fn track_in(&self, setting: Setting) -> Track {
        Track {
            run: setting.run(&self.track.run),
            ..self.track.clone()
        }
    }

    /// Returns the paper's mean and spread of a measure.
    fn cell(&self, measure: Measure) -> Option<(f64, f64)> {
        let [loss, of_loss, percent, of_percent] = self.paper?;
        Some(match measure {
            Measure::ValidAccuracy => (percent / 100.0, of_percent / 100.0),
            _ => (loss, of_loss),
        })
    }
}

/// Returns the sum of the spreads of two cells of the paper if they differ by no more than that.
fn about_equal(a: &Column, b: &Column, measure: Measure) -> Option<f64> {
    let (a, b) = (a.cell(measure)?, b.cell(measure)?);
    let spreads = a.1 + b.1;
    ((a.0 - b.0).abs() <= spreads).then_some(spreads)
}

/// Checks that every `low` column is below every `high` one in a setting, or about equal where the
/// paper's cells differ by no more than their spreads.
pub fn each_below(
    (results, setting): (&Results, Setting),
    columns: &[Column],
    measure: Measure,
    low: &[usize],
    high: &[usize],
) -> Vec<Check> {
    let value = |k: &usize| results.last(&columns[*k].track_in(setting), measure);
    let pairs = low.iter().flat_map(|l| high.iter().map(move |h| (l, h)));
    let check = |(l, h): (&usize, &usize)| match about_equal(&columns[*l], &columns[*h], measure) {
        Some(tolerance) => Check::about_equal_or_below(&value(l), &value(h), tolerance),
        None => Check::below(&value(l), &value(h)),
    };
    pairs.map(check).collect()
}

/// Tabulates the paper and both settings, the settings over the rounds, and the number of cells
/// near the paper's.
pub fn tables(results: &Results, name: &str, columns: &[Column], at: &[u64]) -> Tables {
    let (loss, accuracy) = (Measure::TrainLoss, Measure::ValidAccuracy);
    let mut rows = vec![vec!["model".to_string()]];
    for what in ["train loss", "validation"] {
        rows[0].push(format!("{what}: paper"));
        rows[0].extend(SETTINGS.map(|setting| setting.describe().to_string()));
    }
    for column in columns {
        let [of_loss, of_accuracy] = match column.paper {
            Some(p) => [
                format!("{} ± {}", p[0], p[1]),
                format!("{:.2} ± {:.2}%", p[2], p[3]),
            ],
            None => ["–", "–"].map(String::from),
        };
        let ours = |measure| {
            SETTINGS.map(|setting| {
                let sample = results.last(&column.track_in(setting), measure).sample();
                shown(sample, measure)
            })
        };
        let mut row = vec![column.track.name.clone(), of_loss];
        row.extend(ours(loss));
        row.push(of_accuracy);
        row.extend(ours(accuracy));
        rows.push(row);
    }
    // The rounds that were run, and the last one.
    let last = columns
        .first()
        .map_or(0, |column| results.rounds(&column.track.run));
    let mut at: Vec<u64> = at.iter().copied().filter(|round| *round < last).collect();
    at.push(last);
    let mut over = vec![vec![
        "setting".to_string(),
        "model".into(),
        "measure".into(),
    ]];
    over[0].extend(at.iter().map(|round| format!("round {round}")));
    for setting in SETTINGS {
        for column in columns {
            let track = column.track_in(setting);
            for (measure, what) in [(loss, "train loss"), (accuracy, "validation")] {
                let cell =
                    |round: &u64| shown(results.at(&track, measure, *round).sample(), measure);
                let mut row = vec![setting.describe().into(), track.name.clone(), what.into()];
                row.extend(at.iter().map(cell));
                over.push(row);
            }
        }
    }
    let heads = ["setting", "cells near the paper's", "farthest"];
    let mut near = vec![heads.map(String::from).to_vec()];
    near.extend(SETTINGS.map(|setting| near_cells(results, setting, columns)));
    vec![
        (name.into(), rows),
        (format!("{name}-over-rounds"), over),
        (format!("{name}-cells"), near),
    ]
}

fn shown(sample: Sample, measure: Measure) -> String {
    match measure {
        Measure::ValidAccuracy => sample.percent(),
        _ => sample.number(),
    }
}

/// Counts the cells within the sum of the paper's spread and the larger of both spreads, and names
/// the farthest cell. This is not a verdict.
fn near_cells(results: &Results, setting: Setting, columns: &[Column]) -> Vec<String> {
    let (mut near, mut all, mut farthest) = (0, 0, (0.0, String::new()));
    for column in columns {
        for measure in [Measure::TrainLoss, Measure::ValidAccuracy] {
            let Some((mean, spread)) = column.cell(measure) else {
                continue;
            };
            let ours = results.last(&column.track_in(setting), measure).sample();
            let allowed = spread + ours.deviation.unwrap_or(0.0).max(spread);
            let off = (ours.mean - mean).abs();
            all += 1;
            near += usize::from(off <= allowed);
            if off / allowed > farthest.0 {
                let paper = match measure {
                    Measure::ValidAccuracy => format!("{:.2}%", 100.0 * mean),
                    _ => mean.to_string(),
                };
                let ours_shown = shown(ours, measure);
                let name = &column.track.name;
                farthest = (
                    off / allowed,
                    format!("{name}: {paper} there, {ours_shown} here"),
                );
            }
        }
    }
    vec![
        setting.describe().into(),
        format!("{near} of {all}"),
        farthest.1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 98.10 ± .10 and 97.86 ± .09 differ by .24, more than .19; 98.10 ± .10 and 98.04 ± .08 do
    /// not: .06 is less than .18.
    #[test]
    fn cells_within_the_papers_spreads_are_about_equal() {
        let of = |p| column("", "", Model::Personal, 0, p);
        let [adaptive, three_quarters, half] = [
            of([0.004, 0.0008, 98.10, 0.10]),
            of([0.002, 0.0001, 97.86, 0.09]),
            of([0.004, 0.0004, 98.04, 0.08]),
        ];
        let accuracy = Measure::ValidAccuracy;
        assert_eq!(about_equal(&adaptive, &three_quarters, accuracy), None);
        let points = 100.0 * about_equal(&adaptive, &half, accuracy).unwrap();
        assert!((points - 0.18).abs() < 1e-12, "{points}");
        let loss = Measure::TrainLoss;
        assert_eq!(about_equal(&adaptive, &three_quarters, loss), None);
        assert_eq!(about_equal(&chosen(), &half, accuracy), None);
    }
}
