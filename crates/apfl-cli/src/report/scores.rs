//! The three models and their measures.

use apfl::metrics::{ByModel, OverClients, Score, Scores};
use apfl::store::run_dir::Summary;

use super::html::{Cell, figure, share, words};
use super::read::Run;

/// One of the three models: its name, its colour, and how to take it out of three.
pub struct Model {
    /// Its name.
    pub name: &'static str,
    /// Its colour in every chart.
    pub colour: usize,
    /// Takes its scores.
    pub of: fn(&ByModel<Scores>) -> Scores,
    /// Takes its summary.
    pub over: fn(&ByModel<OverClients>) -> OverClients,
}

/// The three, in the order they are drawn.
pub const MODELS: [Model; 3] = [
    Model {
        name: "shared",
        colour: 1,
        of: |t| t.shared,
        over: |t| t.shared,
    },
    Model {
        name: "localized",
        colour: 2,
        of: |t| t.localized,
        over: |t| t.localized,
    },
    Model {
        name: "personal",
        colour: 0,
        of: |t| t.personal,
        over: |t| t.personal,
    },
];

/// Accuracy, or the root mean squared error of a regression.
pub fn measure(score: &Score) -> Option<f64> {
    score.accuracy.or(score.rmse)
}

/// What is measured: `accuracy`, or `rmse`.
pub fn measured(run: &Run) -> &'static str {
    let scored = run.rounds.iter().find_map(|r| r.scores);
    let first = scored.or(run.clients.first().map(|c| c.scores));
    match first.is_some_and(|s| s.shared.valid.accuracy.is_none()) {
        true => "rmse",
        false => "accuracy",
    }
}

/// A measure in a table.
pub fn cell(score: &Score) -> Cell {
    match score.accuracy {
        Some(accuracy) => share(Some(accuracy)),
        None => figure(score.rmse),
    }
}

/// The final numbers of the three models, and the baseline beside them.
pub fn table(summary: &Summary, measured: &str) -> String {
    let Some(models) = &summary.models else {
        let none = "No client was delivered to (delivery.clients), so there are no final scores.";
        return super::html::remark(none);
    };
    type Split = fn(&Scores) -> Score;
    let splits: [(&str, Split); 2] = [("validation", |s| s.valid), ("training", |s| s.train)];
    let mut html = String::new();
    for (name, split) in splits {
        let head = [
            name,
            "loss",
            measured,
            "mean",
            "± std",
            "worst decile",
            "worst client",
        ];
        let mut rows = Vec::new();
        for model in &MODELS {
            let over = (model.over)(models);
            let pooled = split(&over.pooled);
            let mut row = vec![words(model.name), figure(Some(pooled.loss)), cell(&pooled)];
            row.extend([over.mean, over.std, over.worst_decile].map(|s| cell(&split(&s))));
            row.push(cell(&worst(&over, split)));
            rows.push(row);
        }
        if let Some(majority) = summary.majority.filter(|_| name == "validation") {
            rows.push(vec![
                words("majority class"),
                words(""),
                share(Some(majority)),
            ]);
        }
        html.push_str(&super::html::table(&head.map(String::from), rows));
    }
    html + &super::html::remark(
        "Loss and the column after it are pooled over all examples; mean, deviation, worst \
         decile (the mean of the worst tenth) and worst are over clients.",
    )
}

/// The worst client: lowest accuracy, highest error.
pub fn worst(over: &OverClients, split: impl Fn(&Scores) -> Score) -> Score {
    match split(&over.min).accuracy {
        Some(_) => split(&over.min),
        None => split(&over.max),
    }
}
