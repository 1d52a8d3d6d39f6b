//! The section on single clients.

use apfl::metrics::FinalScores;
use apfl::run::run_dir::ClientRecord;

use super::curves::measure_axis;
use super::html::{charts, heading, number_cell, percent_cell, remark, table, text_cell};
use super::read::Run;
use super::scores::{self, MODELS, measure, measure_name};
use crate::chart::{Axis, Chart, GREY, Series, number};

/// The most dots in a chart; of more clients, evenly spaced ones are drawn.
const MAX_DOTS: usize = 2000;

/// The number of clients in the table of the worst.
const WORST: usize = 10;

/// Compares models per client, and lists the worst and all clients.
pub fn clients(run: &Run) -> String {
    if run.clients.is_empty() {
        return String::new();
    }
    let mut shown = vec![against(run, "shared"), against(run, "majority")];
    shown.retain(|chart| !chart.series[0].points.is_empty());
    if let Some(chart) = deciles(run) {
        shown.push(chart);
    }
    let stride = run.clients.len().div_ceil(MAX_DOTS);
    let omitted = match stride {
        1 => String::new(),
        n => format!(" Every {n}th client is drawn."),
    };
    heading("The clients")
        + &remark(&format!(
            "Each dot is a client, on its validation examples after finalization.{omitted} Worst \
             decile: the mean of the worst tenth of the clients."
        ))
        + &charts(&shown)
        + &worst(run)
        + &all_clients(run)
        + &confusion(run)
        + &calibration(run)
}

/// The most clients in the table of all.
const MAX_LISTED: usize = 2000;

/// Lists every client's scores in a table that can be sorted.
fn all_clients(run: &Run) -> String {
    let regression = measure_name(run) == "rmse";
    let measures: &[&str] = if regression {
        &["loss", "rmse", "mae", "r2"]
    } else {
        &[
            "loss",
            "accuracy",
            "balanced_accuracy",
            "f1",
            "auc",
            "brier",
        ]
    };
    let tested = run.clients.iter().any(|c| c.scores.personal.test.is_some());
    let part = if tested { "test" } else { "valid" };
    let mut head = vec![
        "client".to_string(),
        "train".into(),
        part.into(),
        "α".into(),
    ];
    for model in &MODELS {
        let named = measures
            .iter()
            .map(|m| format!("{} {}", model.name, m.replace('_', " ")));
        head.extend(named);
    }
    let rows = run.clients.iter().take(MAX_LISTED).map(|c| {
        let rows = c
            .examples
            .test
            .filter(|_| tested)
            .unwrap_or(c.examples.valid);
        let mut row = vec![
            text_cell(&c.client),
            text_cell(c.examples.train.to_string()),
            text_cell(rows.to_string()),
            number_cell(c.alpha()),
        ];
        for model in &MODELS {
            let scores = (model.last)(&c.scores);
            let score = scores
                .test
                .as_ref()
                .filter(|_| tested)
                .unwrap_or(&scores.valid);
            row.extend(measures.iter().map(|name| number_cell(score.get(name))));
        }
        row
    });
    let table = table(&head, rows.collect()).replace("<table>", "<table class=\"sortable\">");
    let more = if run.clients.len() > MAX_LISTED {
        format!(" (the first {MAX_LISTED})")
    } else {
        String::new()
    };
    format!(
        "<details><summary>All clients{more}; click on a column to sort</summary>{table}</details>\n"
    )
}

/// Tabulates the personal models' predictions by class, over all clients.
fn confusion(run: &Run) -> String {
    let pooled = run.summary.as_ref().and_then(|s| s.models.as_ref());
    let Some(pooled) = pooled.map(|m| &m.personal.pooled) else {
        return String::new();
    };
    let (part, score) = match &pooled.test {
        Some(test) => ("test", test),
        None => ("validation", &pooled.valid),
    };
    let Some(matrix) = score.confusion.as_ref().filter(|m| m.len() <= 20) else {
        return String::new();
    };
    let class = |k: usize| run.classes.get(k).cloned().unwrap_or(k.to_string());
    let mut head = vec![format!(
        "{part} examples: class, and predictions of the personal models"
    )];
    head.extend((0..matrix.len()).map(class));
    let rows = matrix.iter().enumerate().map(|(k, counts)| {
        let mut row = vec![text_cell(class(k))];
        row.extend(counts.iter().map(|n| text_cell(n.to_string())));
        row
    });
    table(&head, rows.collect())
}

/// Draws the calibration of the models, over all clients.
fn calibration(run: &Run) -> String {
    let Some(models) = run.summary.as_ref().and_then(|s| s.models.as_ref()) else {
        return String::new();
    };
    let points = |over: &apfl::metrics::OverClients| -> Vec<(f64, f64)> {
        let score = over.pooled.test.as_ref().unwrap_or(&over.pooled.valid);
        score
            .calibration
            .iter()
            .map(|(_, predicted, observed)| (*predicted, *observed))
            .collect()
    };
    let mut series: Vec<Series> = (MODELS.iter())
        .map(|m| Series::line(m.name, m.colour, points((m.over)(models))))
        .filter(|series| !series.points.is_empty())
        .collect();
    if series.is_empty() {
        return String::new();
    }
    series.push(Series::line("", GREY, vec![(0.0, 0.0), (1.0, 1.0)]).dashed());
    let axis = |label: &str| Axis {
        label: label.into(),
        range: Some((-0.03, 1.03)),
        ..measure_axis("accuracy")
    };
    charts(&[Chart {
        title: "calibration".into(),
        x: axis("predicted probability"),
        y: axis("observed share"),
        series,
    }])
}

/// Draws a dot per client: its personal model against its shared one or its commonest class.
fn against(run: &Run, what: &str) -> Chart {
    let name = measure_name(run);
    let regression = name == "rmse";
    let (mut points, mut tips) = (Vec::new(), Vec::new());
    let stride = run.clients.len().div_ceil(MAX_DOTS).max(1);
    for client in run.clients.iter().step_by(stride) {
        let x = match what {
            "shared" => measure(&client.scores.shared.valid),
            _ => client.majority,
        };
        if let (Some(x), Some(y)) = (x, measure(&client.scores.personal.valid)) {
            points.push((x, y));
            tips.push(tip(client));
        }
    }
    let all = points.iter().flat_map(|p| [p.0, p.1]);
    let most = all.filter(|v| v.is_finite()).fold(0.0, f64::max);
    let end = if regression { most } else { 1.0 };
    let axis = |label: String| Axis {
        label,
        range: Some((-0.03 * end, 1.03 * end)).filter(|_| end > 0.0),
        ..measure_axis(name)
    };
    let x = match what {
        "shared" => axis(format!("shared model's {name}")),
        _ => axis("always the client's commonest class".into()),
    };
    Chart {
        title: match what {
            "shared" => "personal against shared",
            _ => "personal against a constant prediction",
        }
        .into(),
        x,
        y: axis(format!("personal model's {name}")),
        series: vec![
            Series::dots("", 0, points).with_tips(tips),
            Series::line("", GREY, vec![(0.0, 0.0), (end, end)]).dashed(),
        ],
    }
}

fn tip(client: &ClientRecord) -> String {
    let mut text = client.client.clone();
    for model in &MODELS {
        let score = (model.last)(&client.scores).valid.score;
        let value = match score.accuracy {
            Some(accuracy) => format!("{:.2}%", 100.0 * accuracy),
            None => score.rmse.map_or("–".into(), number),
        };
        text.push_str(&format!("\n{} {value}", model.name));
    }
    if let Some(alpha) = client.alpha() {
        text.push_str(&format!("\nα {alpha:.3}"));
    }
    let n = &client.examples;
    text + &format!("\n{} + {} examples", n.train, n.valid)
}

/// Draws pooled, mean, worst decile and worst client of the three models.
fn deciles(run: &Run) -> Option<Chart> {
    let models = run.summary.as_ref()?.models.as_ref()?;
    let names = ["pooled", "mean", "worst 10%", "worst"];
    let what = measure_name(run);
    let valid = |s: &FinalScores| s.valid.score;
    let series = MODELS.iter().map(|model| {
        let over = (model.over)(models);
        let worst = scores::worst(over, valid);
        let all = [&over.pooled, &over.mean, &over.worst_decile].map(valid);
        let all = [all[0], all[1], all[2], worst];
        let each = all.iter().enumerate();
        let points = each.filter_map(|(k, s)| Some((k as f64, measure(s)?)));
        Series::bars(model.name, model.colour, points.collect())
    });
    Some(Chart {
        title: format!("validation {what} over clients"),
        x: Axis::names("", &names.map(String::from)),
        y: measure_axis(what),
        series: series.collect(),
    })
}

fn worst(run: &Run) -> String {
    let regression = measure_name(run) == "rmse";
    let badness = |c: &ClientRecord| {
        let value = measure(&c.scores.personal.valid).unwrap_or(0.0);
        if regression { -value } else { value }
    };
    let mut sorted: Vec<&ClientRecord> = run.clients.iter().collect();
    sorted.sort_by(|a, b| badness(a).total_cmp(&badness(b)));
    sorted.truncate(WORST);
    let head = [
        "worst served",
        "train",
        "valid",
        "rounds",
        "α",
        "shared",
        "localized",
        "personal",
        "majority class",
    ];
    let rows = sorted.into_iter().map(|c| {
        let mut row = vec![
            text_cell(&c.client),
            text_cell(c.examples.train.to_string()),
            text_cell(c.examples.valid.to_string()),
            text_cell(c.rounds.to_string()),
            number_cell(c.alpha()),
        ];
        row.extend(
            MODELS
                .iter()
                .map(|m| scores::cell(&(m.last)(&c.scores).valid)),
        );
        row.push(percent_cell(c.majority));
        row
    });
    table(&head.map(String::from), rows.collect())
}
