//! Figures and tables of the paper: their runs, claims and pictures.

use apfl::error::Result;
use apfl_report::chart::{self, Axis, Chart};

use super::results::{Measure, Results, Track};
use super::verdict::Claim;
use super::{
    fig1, fig2, fig3, fig4, fig5, fig6, heart, privacy, published, robustness, table1, table2,
};

/// Pictures by name, as SVG.
pub type Pictures = Vec<(String, String)>;

/// Tables by name; the first row is the head.
pub type Tables = Vec<(String, Vec<Vec<String>>)>;

/// Represents a figure or a table.
#[derive(Clone, Debug)]
pub struct Item {
    /// The name on the command line.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The spec as TOML.
    pub preset: &'static str,
    /// The number of seeds, unless the user sets another.
    pub seeds: u64,
    /// Names and overrides of the runs; names of APFL's runs start with `apfl`.
    pub runs: Vec<(String, Vec<String>)>,
    /// Variants of APFL to try if a claim fails: names and overrides.
    pub variants: &'static [(&'static str, &'static str)],
    /// Judges the claims.
    pub claims: fn(&Results) -> Result<Vec<Claim>>,
    /// Draws the pictures.
    pub figures: fn(&Results) -> Result<Pictures>,
    /// Makes the tables.
    pub tables: fn(&Results) -> Result<Tables>,
    /// Whether verdicts over all clients are compared with those over the last cohort.
    pub compare_all_clients: bool,
    /// Remarks for the reader.
    pub remarks: &'static [&'static str],
}

/// The authors' released code, for linear models, where mixing logits is mixing parameters.
pub const LINEAR_VARIANTS: &[(&str, &str)] =
    &[("algorithm.preset = \"authors\"", "algorithm.preset=authors")];

/// The variants for other models.
pub const VARIANTS: &[(&str, &str)] = &[
    ("algorithm.preset = \"authors\"", "algorithm.preset=authors"),
    ("algorithm.mix = \"logits\"", "algorithm.mix=logits"),
];

impl Item {
    /// Returns whether the item is in the paper and so part of `all`.
    pub fn of_the_paper(&self) -> bool {
        !matches!(
            self.name,
            "robustness" | "privacy" | "fedrep" | "pfllib" | "heart"
        )
    }
}

/// Returns all items: those of the paper in its order, then the others.
pub fn items() -> Vec<Item> {
    vec![
        fig1::item(),
        fig2::item(),
        fig3::item(),
        fig4::item(),
        table1::item(),
        fig5::item(),
        table2::item(),
        fig6::item(),
        robustness::item(),
        privacy::item(),
        published::fedrep(),
        published::pfllib(),
        heart::item(),
    ]
}

/// Override of a SCAFFOLD run: the paper's localized model is the global one after τ steps of
/// local SGD, without corrections.
pub const SCAFFOLD_LOCALIZED: &str = "algorithm.localized=sgd";

/// The usual number of seeds.
pub const SEEDS: u64 = 3;

/// Returns a run's name and overrides.
pub fn run(name: impl Into<String>, set: &[&str]) -> (String, Vec<String>) {
    let set = set.iter().map(|pair| (*pair).to_owned()).collect();
    (name.into(), set)
}

/// Draws curves of a measure over the rounds.
pub fn rounds(results: &Results, title: &str, tracks: &[Track], measure: Measure) -> Chart {
    let y = match measure {
        Measure::TrainLoss => Axis::new("training loss"),
        Measure::ValidLoss => Axis::new("validation loss"),
        Measure::ValidAccuracy => Axis::percent("validation accuracy"),
    };
    Chart {
        title: title.into(),
        x: Axis::new("communication rounds"),
        y,
        series: tracks
            .iter()
            .map(|track| results.curve(track, measure))
            .collect(),
    }
}

/// Draws training loss above validation accuracy, with one column per group of tracks.
pub fn loss_and_accuracy(
    results: &Results,
    title: &str,
    groups: &[(String, Vec<Track>)],
) -> String {
    let row = |measure| {
        let chart =
            move |(name, tracks): &(String, Vec<Track>)| rounds(results, name, tracks, measure);
        groups.iter().map(chart).collect::<Vec<Chart>>()
    };
    let charts = [row(Measure::TrainLoss), row(Measure::ValidAccuracy)].concat();
    chart::panels(title, &charts, groups.len())
}

/// Tabulates, per track, the last round over its sampled clients and finalization over all clients.
pub fn last_and_finalized(results: &Results, groups: &[(String, Vec<Track>)]) -> Vec<Vec<String>> {
    let heads = [
        "data",
        "model",
        "train loss, online clients",
        "train loss, all clients",
        "validation, online clients",
        "validation, all clients",
    ];
    let mut rows = vec![heads.map(String::from).to_vec()];
    for (group, tracks) in groups {
        for track in tracks {
            let (loss, accuracy) = (Measure::TrainLoss, Measure::ValidAccuracy);
            rows.push(vec![
                group.clone(),
                track.name.clone(),
                results.last(track, loss).sample().number(),
                results.finalized(track, loss).sample().number(),
                results.last(track, accuracy).sample().percent(),
                results.finalized(track, accuracy).sample().percent(),
            ]);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::{Settings, prepare};

    /// Figure 6 has runs of two data sets, figure 4 of three with two algorithms.
    #[test]
    fn figure_6_has_ten_seeds_unless_told_otherwise() {
        let runs = |item: &str, seeds: Option<u64>, quick: bool| {
            let dir = tempfile::tempdir().unwrap();
            let settings = Settings {
                seeds,
                quick,
                variants: false,
                set: Vec::new(),
                out: dir.path().into(),
            };
            let experiments = prepare(&[item.to_owned()], &settings).unwrap();
            experiments[0].unfinished().count()
        };
        assert_eq!(runs("fig6", None, false), 2 * 10);
        assert_eq!(runs("fig6", Some(4), false), 2 * 4);
        assert_eq!(runs("fig6", None, true), 2);
        assert_eq!(runs("fig4", None, false), 3 * 2 * 3);
    }
}
