//! A figure or table of the paper: what is run, what is claimed, what is drawn.

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

/// A figure or a table.
#[derive(Clone, Debug)]
pub struct Item {
    /// As it is asked for.
    pub name: &'static str,
    /// What it is.
    pub title: &'static str,
    /// Its spec.
    pub preset: &'static str,
    /// Names and overrides of its runs; those of APFL begin with `apfl`.
    pub runs: Vec<(String, Vec<String>)>,
    /// Variants of APFL that are tried where a claim fails: what to call them, overrides.
    pub variants: &'static [(&'static str, &'static str)],
    /// The verdicts.
    pub claims: fn(&Results) -> Result<Vec<Claim>>,
    /// Pictures by name, as SVG.
    pub figures: fn(&Results) -> Result<Pictures>,
    /// Tables by name; the first row is the head.
    pub tables: fn(&Results) -> Result<Tables>,
    /// Whether verdicts over all clients are compared with those over the last cohort.
    pub both: bool,
    /// What a reader should know.
    pub remarks: &'static [&'static str],
}

/// The authors' released code, for models where mixing logits is mixing parameters.
pub const LINEAR_VARIANTS: &[(&str, &str)] =
    &[("preset = \"fedtorch\"", "algorithm.preset=fedtorch")];

/// For the others.
pub const VARIANTS: &[(&str, &str)] = &[
    ("preset = \"fedtorch\"", "algorithm.preset=fedtorch"),
    ("mix = \"logits\"", "algorithm.mix=logits"),
];

impl Item {
    /// Whether it is one of the paper's, and so of `all`.
    pub fn of_the_paper(&self) -> bool {
        !matches!(
            self.name,
            "robustness" | "privacy" | "fedrep" | "pfllib" | "heart"
        )
    }
}

/// All of them, in the paper's order, and what stands beside them.
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

/// A run's name and its overrides.
pub fn run(name: impl Into<String>, set: &[&str]) -> (String, Vec<String>) {
    let set = set.iter().map(|pair| (*pair).to_owned()).collect();
    (name.into(), set)
}

/// Curves of a measure over the rounds.
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

/// Training loss above, validation accuracy below, a column for each group of tracks.
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

/// One row a track: the last round over the clients drawn then, and delivery over all.
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
