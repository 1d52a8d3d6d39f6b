//! `apfl evaluate`: scores a run's models on labelled rows.

use apfl::data::{Examples, Features};
use apfl::error::{Error, Result};
use apfl::metrics::{Assessment, FinalScore, Finals, Scoring, Tally};
use apfl::run::run_dir::FinishedRun;
use serde::Serialize;

use crate::args;
use crate::output::{columns, print, print_json};
use crate::served::{Served, print_notes, read, table_of};

/// Represents the output of `--json`.
#[derive(Serialize)]
struct Document {
    model: String,
    clients: Vec<Scores>,
    total: Scores,
}

#[derive(Serialize)]
struct Scores {
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    rows: u64,
    /// Whether the run does not know the client, so that the shared model was used.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    unknown: bool,
    #[serde(flatten)]
    scores: FinalScore,
}

/// Scores every client's rows with its model, and all rows together.
pub fn evaluate(args: &args::Evaluate) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let label = match table_of(&run) {
        Some(table) => table.label.clone(),
        None => "label".into(),
    };
    let client = args.client.as_deref().or(run.site.as_deref());
    let rows = read(&run, &args.input, client, Some(&label), &[])?;
    let Some(targets) = rows.targets.clone().filter(|targets| !targets.is_empty()) else {
        return Err(Error::in_file(
            &args.input,
            "expected at least one row after the header, found none",
        ));
    };
    let served = Served::new(&run, &rows, args.model, client)?;
    let width: usize = run.schema.shape.iter().product();
    let all = Examples::new(width, Features::Floats(rows.x.clone()), targets);
    let scoring = Scoring {
        classes: run.schema.task.classes(),
        unit: run
            .schema
            .label_scale()
            .map_or(1.0, |scale| scale.deviation),
        tested: false,
    };
    let mut total = (Tally::default(), Assessment::default());
    let mut clients = Vec::new();
    let score = |(tally, assessed): &(Tally, Assessment)| {
        let mut finals = Finals::default();
        finals.tallies.valid = *tally;
        finals.valid = assessed.clone();
        scoring.scores(&finals).valid
    };
    for ((model, indices), (client, unknown)) in served.groups.iter().zip(&served.names) {
        let one = model.assess(&all.gathered(indices))?;
        total.0.add(&one.0);
        total.1.add(&one.1);
        clients.push(Scores {
            client: client.clone(),
            rows: one.0.examples,
            unknown: *unknown,
            scores: score(&one),
        });
    }
    // With one group of rows the total is its exact score.
    let total_scores = match &mut clients[..] {
        [only] => only.scores.clone(),
        _ => score(&total),
    };
    clients.retain(|line| line.client.is_some());
    let document = Document {
        model: format!("{:?}", args.model).to_lowercase(),
        clients,
        total: Scores {
            client: None,
            rows: total.0.examples,
            unknown: false,
            scores: total_scores,
        },
    };
    if args.json {
        print_json(&document)?
    } else {
        print(&text(&document))?
    }
    print_notes(&run, &rows, &served);
    Ok(())
}

fn text(document: &Document) -> String {
    let measures = match document.total.scores.rmse {
        None => &[
            "loss",
            "accuracy",
            "balanced_accuracy",
            "f1",
            "auc",
            "brier",
        ][..],
        Some(_) => &["loss", "rmse", "mae", "r2"][..],
    };
    let mut head = vec![document.model.clone(), "rows".into()];
    head.extend(measures.iter().map(|name| name.replace('_', " ")));
    let mut rows = vec![head];
    for line in document.clients.iter().chain([&document.total]) {
        let name = match (&line.client, line.unknown) {
            (None, _) => "total".into(),
            (Some(client), false) => client.clone(),
            (Some(client), true) => format!("{client} (shared)"),
        };
        let mut row = vec![name, line.rows.to_string()];
        row.extend(measures.iter().map(|name| match line.scores.get(name) {
            Some(value) if name.ends_with("accuracy") => format!("{:.2}%", 100.0 * value),
            Some(value) => format!("{value:.4}"),
            None => "–".into(),
        }));
        rows.push(row);
    }
    columns(&rows)
}
