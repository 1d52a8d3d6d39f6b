//! The three models and their measures.

use apfl::metrics::{ByModel, FinalScore, FinalScores, OverClients, Score, Scores};
use apfl::run::run_dir::Summary;

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
    pub over: fn(&ByModel<OverClients>) -> &OverClients,
    /// Takes its final scores.
    pub last: fn(&ByModel<FinalScores>) -> &FinalScores,
}

/// The three, in the order they are drawn.
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

/// Accuracy, or the root mean squared error of a regression.
pub fn measure(score: &Score) -> Option<f64> {
    score.accuracy.or(score.rmse)
}

/// What is measured: `accuracy`, or `rmse`.
pub fn measured(run: &Run) -> &'static str {
    let scored = run.rounds.iter().find_map(|r| r.scores);
    let round = scored.map(|s| s.shared.train);
    let first = round.or(run.clients.first().map(|c| c.scores.shared.train));
    if first.is_some_and(|train| train.accuracy.is_none()) {
        "rmse"
    } else {
        "accuracy"
    }
}

/// A measure in a table.
pub fn cell(score: &Score) -> Cell {
    match score.accuracy {
        Some(accuracy) => share(Some(accuracy)),
        None => figure(score.rmse.filter(|x| x.is_finite())),
    }
}

/// The final numbers of the three models, and the baseline beside them.
pub fn table(summary: &Summary, measured: &str) -> String {
    let Some(models) = &summary.models else {
        let none = "No client was delivered to (delivery.clients), so there are no final scores.";
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
            measured,
            "mean",
            "± std",
            "worst decile",
            "worst client",
        ];
        let mut rows = Vec::new();
        let three = MODELS.iter().map(|m| (m.name, (m.over)(models)));
        for (model, over) in three.chain(summary.alone.iter().map(|over| ("alone", over))) {
            let pooled = split(&over.pooled);
            let mut row = vec![words(model), figure(Some(pooled.loss)), cell(&pooled)];
            row.extend([&over.mean, &over.std, &over.worst_decile].map(|s| cell(&split(s))));
            row.push(cell(&worst(over, split)));
            rows.push(row);
        }
        if let Some(majority) = summary.majority.filter(|_| name == "validation") {
            rows.push(vec![
                words("majority class"),
                words(""),
                share(Some(majority)),
            ]);
        }
        if let Some(baseline) = summary.baseline.filter(|_| name == "validation") {
            rows.push(vec![
                words("client's mean"),
                words(""),
                figure(Some(baseline.rmse)),
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

/// A part of some final scores, where there is one.
type Split = fn(&FinalScores) -> Option<Score>;

/// The other final scores, pooled.
fn details(models: &ByModel<OverClients>, alone: Option<&OverClients>) -> String {
    type Part = fn(&FinalScores) -> Option<&FinalScore>;
    let parts: [(&str, Part); 2] = [
        ("validation", |s| Some(&s.valid)),
        ("test", |s| s.test.as_ref()),
    ];
    let mut html = String::new();
    for (name, part) in parts {
        let Some(detail) = part(&models.shared.pooled).and_then(|s| s.detail) else {
            continue;
        };
        let mut head = vec![format!("{name}, pooled")];
        head.extend(detail.named().iter().map(|(n, ..)| n.replace('_', " ")));
        let row = |(model, over): (&str, &OverClients)| {
            let of = part(&over.pooled).and_then(|s| s.detail);
            let values = of.map_or(Vec::new(), |d| d.named());
            let mut row = vec![words(model)];
            row.extend(values.iter().map(|(_, value, _)| figure(*value)));
            row
        };
        let three = MODELS.iter().map(|m| (m.name, (m.over)(models)));
        let all = three.chain(alone.map(|over| ("alone", over)));
        html.push_str(&super::html::table(&head, all.map(row).collect()));
    }
    html
}

/// The worst client: lowest accuracy, highest error.
pub fn worst(over: &OverClients, split: impl Fn(&FinalScores) -> Score) -> Score {
    match split(&over.min).accuracy {
        Some(_) => split(&over.min),
        None => split(&over.max),
    }
}
