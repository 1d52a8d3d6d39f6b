//! The section on final scores; the three models and their measures.

use apfl::metrics::{ByModel, FinalScore, FinalScores, OverClients, Score, Scores};
use apfl::run::run_dir::Summary;

use super::html::{Cell, number_cell, percent_cell, text_cell};
use super::read::Run;

/// Represents one of the three models: its name, its colour, and functions that select it.
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Its colour in every chart.
    pub colour: usize,
    /// Selects its scores.
    pub of: fn(&ByModel<Scores>) -> Scores,
    /// Selects its summary.
    pub over: fn(&ByModel<OverClients>) -> &OverClients,
    /// Selects its final scores.
    pub last: fn(&ByModel<FinalScores>) -> &FinalScores,
}

/// The three models in drawing order.
pub const MODELS: [Model; 3] = [
    Model {
        name: "shared",
        colour: 1,
        of: |t| t.shared,
        over: |t| &t.shared,
        last: |t| &t.shared,
    },
    Model {
        name: "localized",
        colour: 2,
        of: |t| t.localized,
        over: |t| &t.localized,
        last: |t| &t.localized,
    },
    Model {
        name: "personal",
        colour: 0,
        of: |t| t.personal,
        over: |t| &t.personal,
        last: |t| &t.personal,
    },
];

/// Returns the accuracy, or the root mean squared error of a regression.
pub fn measure(score: &Score) -> Option<f64> {
    score.accuracy.or(score.rmse)
}

/// Returns the name of the measure: `accuracy` or `rmse`.
pub fn measure_name(run: &Run) -> &'static str {
    let scored = run.rounds.iter().find_map(|r| r.scores);
    let round = scored.map(|s| s.shared.train);
    let first = round.or(run.clients.first().map(|c| c.scores.shared.train));
    if first.is_some_and(|train| train.accuracy.is_none()) {
        "rmse"
    } else {
        "accuracy"
    }
}

/// Creates a cell with the measure.
pub fn cell(score: &Score) -> Cell {
    match score.accuracy {
        Some(accuracy) => percent_cell(Some(accuracy)),
        None => number_cell(score.rmse.filter(|x| x.is_finite())),
    }
}

/// Tabulates the final scores of the models and baselines.
pub fn table(summary: &Summary, measure_name: &str) -> String {
    let Some(models) = &summary.models else {
        let none = "No client was finalized (delivery.clients), so there are no final scores.";
        return super::html::remark(none);
    };
    let splits: [(&str, Split); 3] = [
        ("validation", |s| Some(s.valid.score)),
        ("test", |s| s.test.as_ref().map(|test| test.score)),
        ("training", |s| Some(s.train)),
    ];
    let mut html = String::new();
    for (name, split) in splits {
        if split(&models.shared.pooled).is_none() {
            continue;
        }
        let split = |s: &FinalScores| split(s).unwrap_or(s.train);
        let head = [
            name,
            "loss",
            measure_name,
            "mean",
            "± std",
            "worst decile",
            "worst client",
        ];
        let mut rows = Vec::new();
        let three = MODELS.iter().map(|m| (m.name, (m.over)(models)));
        let own = [
            ("alone", &summary.alone),
            ("alone, tuned", &summary.baseline),
        ];
        let own = own
            .iter()
            .filter_map(|(name, over)| Some((*name, over.as_ref()?)));
        for (model, over) in three.chain(own) {
            let pooled = split(&over.pooled);
            let mut row = vec![
                text_cell(model),
                number_cell(Some(pooled.loss)),
                cell(&pooled),
            ];
            row.extend([&over.mean, &over.std, &over.worst_decile].map(|s| cell(&split(s))));
            row.push(cell(&worst(over, split)));
            rows.push(row);
        }
        if let Some(majority) = summary.majority.filter(|_| name == "validation") {
            rows.push(vec![
                text_cell("majority class"),
                text_cell(""),
                percent_cell(Some(majority)),
            ]);
        }
        if let Some(mean) = summary.client_mean.filter(|_| name == "validation") {
            rows.push(vec![
                text_cell("client's mean"),
                text_cell(""),
                number_cell(Some(mean.rmse)),
            ]);
        }
        html.push_str(&super::html::table(&head.map(String::from), rows));
    }
    html.push_str(&details(models, summary.alone.as_ref()));
    html + &super::html::remark(
        "Loss and the column after it are pooled over all examples; mean, deviation, worst \
         decile (the mean of the worst tenth) and worst are over clients.",
    )
}

/// Selects a split of final scores, if there is one.
type Split = fn(&FinalScores) -> Option<Score>;

/// Tabulates the other final scores, pooled.
fn details(models: &ByModel<OverClients>, alone: Option<&OverClients>) -> String {
    type DetailedSplit = fn(&FinalScores) -> Option<&FinalScore>;
    let splits: [(&str, DetailedSplit); 2] = [
        ("validation", |s| Some(&s.valid)),
        ("test", |s| s.test.as_ref()),
    ];
    let mut html = String::new();
    for (name, split) in splits {
        let Some(detail) = split(&models.shared.pooled).and_then(|s| s.detail) else {
            continue;
        };
        let mut head = vec![format!("{name}, pooled")];
        head.extend(detail.named().iter().map(|(n, ..)| n.replace('_', " ")));
        let row = |(model, over): (&str, &OverClients)| {
            let of = split(&over.pooled).and_then(|s| s.detail);
            let values = of.map_or(Vec::new(), |d| d.named());
            let mut row = vec![text_cell(model)];
            row.extend(values.iter().map(|(_, value, _)| number_cell(*value)));
            row
        };
        let three = MODELS.iter().map(|m| (m.name, (m.over)(models)));
        let all = three.chain(alone.map(|over| ("alone", over)));
        html.push_str(&super::html::table(&head, all.map(row).collect()));
    }
    html
}

/// Returns the worst client's score: lowest accuracy or highest error.
pub fn worst(over: &OverClients, split: impl Fn(&FinalScores) -> Score) -> Score {
    match split(&over.min).accuracy {
        Some(_) => split(&over.min),
        None => split(&over.max),
    }
}
