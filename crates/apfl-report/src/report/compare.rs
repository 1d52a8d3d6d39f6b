//! The comparison of several runs.

use apfl::metrics::{ByModel, OverClients, Score, Scores};
use apfl::training::RoundRecord;
use toml::{Table, Value};

use super::curves::{logarithmic_where_wide, measure_axis};
use super::group::{Curve, Group, sample_cell};
use super::html::{Cell, charts, link_cell, remark, table, text_cell};
use super::page::anchor;
use super::read::Run;
use super::scores::{MODELS, measure, measure_name};
use crate::chart::{Axis, Chart, Series, shortened, style};
use crate::format::duration;

/// The scores of which less is better.
pub const ERRORS: [&str; 4] = ["loss", "brier", "rmse", "mae"];

/// Sorts runs by a validation score of their personal models, best first, those without it last.
pub fn rank(groups: &mut [Group], by: &str) {
    let merit = |group: &Group| {
        let score = group.sample(|run| models(run)?.personal.pooled.valid.get(by));
        score.map_or(f64::NEG_INFINITY, |score| {
            if ERRORS.contains(&by) {
                -score.mean
            } else {
                score.mean
            }
        })
    };
    groups.sort_by(|a, b| merit(b).total_cmp(&merit(a)));
}

/// Shows the table of all runs with a validation score, and their curves.
pub fn compare(groups: &[Group], by: Option<&str>) -> String {
    let keys = differing(groups);
    let seeds = groups.iter().any(|group| group.runs.len() > 1);
    let mut html = String::from("<section><h2>Comparison</h2>\n");
    html.push_str(&remark(&if keys.is_empty() {
        "All runs have the same spec.".to_string()
    } else {
        format!("The specs differ in {}.", keys.join(", "))
    }));
    let mut head = vec!["run".to_string()];
    head.extend(keys.iter().cloned());
    if seeds {
        head.push("seeds".into());
    }
    head.push("rounds".into());
    let score = by.map_or(String::new(), |by| format!(" {by}"));
    head.extend(MODELS.iter().map(|m| format!("{} valid{score}", m.name)));
    let last = ["worst decile", "personal train loss", "mean α", "time"];
    head.extend(last.map(String::from));
    let rows = groups.iter().enumerate();
    let rows = rows
        .map(|(k, group)| row(k, group, &keys, seeds, by))
        .collect();
    html.push_str(&table(&head, rows));
    html.push_str(&remark(
        "Final scores, pooled over all finalized clients; the worst decile is that of the personal \
         models on validation. –: the run is not finished or has no such score.",
    ));
    if seeds {
        html.push_str(&remark(
            "Over several seeds: mean ± standard deviation; charts show the mean and the range of \
             all seeds. Below, the first seed of each line in detail.",
        ));
    }
    html.push_str(&charts(&overlays(groups)));
    html.push_str("</section>\n");
    html
}

fn row(k: usize, group: &Group, keys: &[String], seeds: bool, by: Option<&str>) -> Vec<Cell> {
    let first = group.first();
    let by = by.unwrap_or_else(|| measure_name(first));
    let mut row = vec![link_cell(&group.name, &anchor(k))];
    for key in keys {
        row.push(text_cell(
            first.key(key).map_or("–".into(), |v| shortened(&v, 60)),
        ));
    }
    if seeds {
        row.push(text_cell(group.runs.len().to_string()));
    }
    let done = first.rounds.last().map_or(0, |r| r.round);
    row.push(text_cell(match &first.summary {
        Some(_) => done.to_string(),
        None => format!("{done}, unfinished"),
    }));
    let share = by.ends_with("accuracy");
    for m in &MODELS {
        let score = group.sample(|run| (m.over)(models(run)?).pooled.valid.get(by));
        row.push(sample_cell(score, share));
    }
    let worst = group.sample(|run| models(run)?.personal.worst_decile.valid.get(by));
    row.push(sample_cell(worst, share));
    let loss = group.sample(|run| Some(models(run)?.personal.pooled.train.loss));
    row.push(sample_cell(loss, false));
    let mixing = group.sample(|run| Some(run.summary.as_ref()?.mixing?.spread.mean));
    row.push(sample_cell(mixing, false));
    let rounds = group.runs.iter().flat_map(|run| &run.rounds);
    row.push(text_cell(duration(rounds.map(|r| r.seconds).sum())));
    row
}

/// Returns a run's final scores.
fn models(run: &Run) -> Option<&ByModel<OverClients>> {
    run.summary.as_ref()?.models.as_ref()
}

fn overlays(groups: &[Group]) -> Vec<Chart> {
    type Split = fn(&Scores) -> Score;
    let (train, valid): (Split, Split) = (|s| s.train, |s| s.valid);
    let mut shown = Vec::new();
    let lines = |of: &dyn Fn(&Group) -> Option<Curve>| -> Vec<Series> {
        let each = groups.iter().enumerate().filter_map(|(k, group)| {
            let curve = of(group)?;
            let mut series = Series::line(&group.name, colour(k), curve.points);
            if let Some(band) = curve.band {
                series = series.with_band(band);
            }
            let second = k / (style::COLOURS - 1) % 2 == 1;
            Some(if second { series.dashed() } else { series })
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
                series: lines(&|group| {
                    let pick = |r: &RoundRecord| measure(&valid(&of(r.scores.as_ref()?)));
                    (measure_name(group.first()) == what).then(|| group.curve(pick))
                }),
            });
        }
    }
    shown.push(logarithmic_where_wide(Chart {
        title: "personal model, training loss".into(),
        x: Axis::new("round"),
        y: Axis::new("loss"),
        series: lines(&|group| {
            Some(group.curve(|r| Some(train(&r.scores.as_ref()?.personal).loss)))
        }),
    }));
    shown.push(Chart {
        title: "mean α of the cohort".into(),
        x: Axis::new("round"),
        y: Axis::new("α"),
        series: lines(&|group| Some(group.curve(|r| Some(r.mixing.as_ref()?.mean)))),
    });
    shown.retain(|chart| !chart.series.is_empty());
    shown
}

/// Returns the colour of a run; grey is reserved for comparison.
fn colour(k: usize) -> usize {
    k % (style::COLOURS - 1)
}

/// Returns the keys in which the specs differ, except those that never change a result.
fn differing(groups: &[Group]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    let runs: Vec<&Run> = groups.iter().map(Group::first).collect();
    let of_many_kinds = |table: &str| {
        let kind = |run: &Run| run.key(&format!("{table}.kind"));
        runs.iter().any(|run| kind(run) != kind(runs[0]))
    };
    for run in &runs {
        collect("", &run.spec, &mut keys);
    }
    let differs = |key: &String| {
        let mut values: Vec<Option<String>> = runs.iter().map(|run| run.key(key)).collect();
        // Another kind has other keys; then only the kind is listed.
        if key
            .match_indices('.')
            .any(|(dot, _)| of_many_kinds(&key[..dot]))
        {
            values.retain(Option::is_some);
        }
        values.windows(2).any(|pair| pair[0] != pair[1])
    };
    let ignored = |key: &String| key.starts_with("engine.") || key.starts_with("checkpoint.");
    keys.retain(|key| differs(key) && !ignored(key));
    keys
}

/// Collects every key that is not a table, in the order of the spec, each once.
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
