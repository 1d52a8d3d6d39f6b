//! Several runs side by side.

use apfl::metrics::{Score, Scores};
use toml::{Table, Value};

use super::curves::{logarithmic_where_wide, measure_axis, points};
use super::html::{Cell, charts, figure, link, remark, table, words};
use super::page::anchor;
use super::read::Run;
use super::scores::{MODELS, cell, measure, measured};
use crate::chart::{Axis, Chart, Series, shortened, style};
use crate::output::duration;

/// The table of all runs and their curves over each other.
pub fn compare(runs: &[Run]) -> String {
    let keys = differing(runs);
    let mut html = String::from("<section><h2>Comparison</h2>\n");
    html.push_str(&remark(&match keys.is_empty() {
        true => "The runs have one spec.".to_string(),
        false => format!("The specs differ in {}.", keys.join(", ")),
    }));
    let mut head = vec!["run".to_string()];
    head.extend(keys.iter().cloned());
    head.push("rounds".into());
    head.extend(MODELS.iter().map(|m| format!("{} valid", m.name)));
    let last = ["worst decile", "personal train loss", "mean α", "time"];
    head.extend(last.map(String::from));
    let rows = runs.iter().enumerate();
    let rows = rows.map(|(k, run)| row(k, run, &keys)).collect();
    html.push_str(&table(&head, rows));
    html.push_str(&remark(
        "Scores are the final ones, pooled over the clients that delivery reached; the worst \
         decile is of the personal models' validation; – where a run is not finished or has none.",
    ));
    html.push_str(&charts(&overlays(runs)));
    html.push_str("</section>\n");
    html
}

fn row(k: usize, run: &Run, keys: &[String]) -> Vec<Cell> {
    let mut row = vec![link(&run.name, &anchor(k))];
    for key in keys {
        row.push(words(
            run.key(key).map_or("–".into(), |v| shortened(&v, 60)),
        ));
    }
    let done = run.rounds.last().map_or(0, |r| r.round);
    row.push(words(match &run.summary {
        Some(_) => done.to_string(),
        None => format!("{done}, unfinished"),
    }));
    match run.summary.as_ref().and_then(|s| s.models.as_ref()) {
        Some(models) => {
            row.extend((MODELS.iter()).map(|m| cell(&(m.over)(models).pooled.valid)));
            row.push(cell(&models.personal.worst_decile.valid));
            row.push(figure(Some(models.personal.pooled.train.loss)));
        }
        None => row.extend((0..5).map(|_| words("–"))),
    }
    let mixing = run.summary.as_ref().and_then(|s| s.mixing);
    row.push(figure(mixing.map(|m| m.mean)));
    row.push(words(duration(run.rounds.iter().map(|r| r.seconds).sum())));
    row
}

fn overlays(runs: &[Run]) -> Vec<Chart> {
    type Split = fn(&Scores) -> Score;
    let (train, valid): (Split, Split) = (|s| s.train, |s| s.valid);
    let mut shown = Vec::new();
    let lines = |of: &dyn Fn(&Run) -> Vec<(f64, f64)>| -> Vec<Series> {
        let each = runs.iter().enumerate().map(|(k, run)| {
            let series = Series::line(&run.name, colour(k), of(run));
            let second = k / (style::COLOURS - 1) % 2 == 1;
            if second { series.dashed() } else { series }
        });
        each.filter(|series| !series.points.is_empty()).collect()
    };
    for what in ["accuracy", "rmse"] {
        for (name, of) in [
            (MODELS[2].name, MODELS[2].of),
            (MODELS[0].name, MODELS[0].of),
        ] {
            shown.push(Chart {
                title: format!("{name} model, validation {what}"),
                x: Axis::new("round"),
                y: measure_axis(what),
                series: lines(&|run| match measured(run) == what {
                    true => points(&run.rounds, |r| measure(&valid(&of(r.scores.as_ref()?)))),
                    false => Vec::new(),
                }),
            });
        }
    }
    shown.push(logarithmic_where_wide(Chart {
        title: "personal model, training loss".into(),
        x: Axis::new("round"),
        y: Axis::new("loss"),
        series: lines(&|run| {
            points(&run.rounds, |r| {
                Some(train(&r.scores.as_ref()?.personal).loss)
            })
        }),
    }));
    shown.push(Chart {
        title: "mean α of the cohort".into(),
        x: Axis::new("round"),
        y: Axis::new("α"),
        series: lines(&|run| points(&run.rounds, |r| Some(r.mixing.as_ref()?.mean))),
    });
    shown.retain(|chart| !chart.series.is_empty());
    shown
}

/// Grey is left to what is for comparison only.
fn colour(k: usize) -> usize {
    k % (style::COLOURS - 1)
}

/// The keys in which the specs differ, but for those that never change a result.
fn differing(runs: &[Run]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let of_many_kinds = |table: &str| {
        let kind = |run: &Run| run.key(&format!("{table}.kind"));
        runs.iter().any(|run| kind(run) != kind(&runs[0]))
    };
    for run in runs {
        collect("", &run.spec, &mut keys);
    }
    let differs = |key: &String| {
        let mut values: Vec<Option<String>> = runs.iter().map(|run| run.key(key)).collect();
        // Another kind of data has other keys: the kind says it all.
        if key
            .match_indices('.')
            .any(|(dot, _)| of_many_kinds(&key[..dot]))
        {
            values.retain(Option::is_some);
        }
        values.windows(2).any(|pair| pair[0] != pair[1])
    };
    let silent = |key: &String| key.starts_with("engine.") || key.starts_with("checkpoint.");
    keys.retain(|key| differs(key) && !silent(key));
    keys
}

/// Every key that is not a table, in the order of the spec, each once.
fn collect(path: &str, table: &Table, keys: &mut Vec<String>) {
    for (name, value) in table {
        let key = match path {
            "" => name.clone(),
            path => format!("{path}.{name}"),
        };
        match value {
            Value::Table(inner) => collect(&key, inner, keys),
            _ if keys.contains(&key) => {}
            _ => keys.push(key),
        }
    }
}
