//! `apfl sweep`: trains a grid of runs over any keys and seeds.

mod combinations;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use apfl::error::{Error, Result};
use apfl::files::write_atomically;
use apfl::spec::{Spec, UNUSED};
use apfl_paper::grid::{Cell, Grid, GridOptions};
use apfl_report::table;

use crate::args::{self, read_spec};
use crate::directory::new_directory;
use crate::output::{columns, print, print_json, tell};
use crate::progress::watch_grid;
use crate::signals::stop_on_signal;
use combinations::{Combination, mark_best, seed_rows, shown_rows};

/// The most combinations in a sweep's report.
const REPORTED: usize = 24;

/// Represents an `--over`: a key and its values.
struct Over {
    key: String,
    values: Vec<String>,
}

/// Runs the grid and prints one table.
pub fn run(args: &args::Sweep) -> Result<ExitCode> {
    let spec = read_spec(Some(&args.spec), &args.overrides)?;
    let plan = spec.plan()?;
    let other_data = args.over.iter().any(|over| over.starts_with("data"));
    if let Some(by) = args.by.as_deref().filter(|_| !other_data) {
        let numbers = plan.data.is_regression();
        let of_numbers = ["rmse", "mae", "r2"].contains(&by);
        if by != "loss" && numbers != of_numbers {
            let (what, other) = if numbers {
                ("a number", "loss, rmse, mae or r2")
            } else {
                (
                    "a class",
                    "loss, accuracy, balanced_accuracy, auc, f1 or brier",
                )
            };
            return Err(Error::Request(format!(
                "--by {by}: the spec's data predicts {what}; use {other}"
            )));
        }
    }
    // What --set says is then as if the file said it: another kind drops what it does not have.
    let spec = spec.with_overrides_as_written();
    let overs = overs(args)?;
    let cells = cells(&spec, &overs, args.seeds)?;
    let keys: Vec<&str> = overs.iter().map(|over| over.key.as_str()).collect();
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let stem = args.spec.file_stem().unwrap_or_default().to_string_lossy();
            new_directory(&format!("{stem}-sweep"))?
        }
    };
    require_own(&out, &keys)?;
    let stop = stop_on_signal()?;
    let options = GridOptions {
        threads: args.threads,
        program: &crate::program(),
        stop: &stop,
        watch: &watch_grid(args.quiet),
    };
    let outcomes = Grid::new(&out, options)?.run(&cells)?;
    let mut results: Vec<Combination> = product(&overs)
        .into_iter()
        .zip(outcomes.chunks(args.seeds as usize))
        .map(|(values, outcomes)| Combination::of(&keys, values, outcomes, args.by.as_deref()))
        .collect();
    if let Some(best) = &args.best {
        let key = keys.iter().position(|key| key == best).unwrap_or(0);
        mark_best(&mut results, key);
    }
    write_atomically(
        &out.join("sweep.csv"),
        table::csv(&seed_rows(&keys, &results)),
    )?;
    write_atomically(
        &out.join("sweep.md"),
        table::markdown(&shown_rows(&keys, &results)),
    )?;
    let shown = results.iter().filter(|result| !result.runs.is_empty());
    let groups: Vec<(String, Vec<PathBuf>)> = shown
        .take(REPORTED)
        .map(|result| {
            let runs = result.runs.iter().map(PathBuf::from).collect();
            (result.name(), runs)
        })
        .collect();
    if !groups.is_empty() {
        apfl_report::write_groups(&groups, &out.join("report.html"), args.by.as_deref())?;
    }
    let failed: Vec<String> = results
        .iter()
        .flat_map(|result| result.failed.clone())
        .collect();
    for failure in &failed {
        tell(format!("a run failed: {failure}"));
    }
    let results: Vec<Combination> = if args.best.is_some() {
        results.into_iter().filter(|result| result.best).collect()
    } else {
        results
    };
    if args.json {
        print_json(&results)?;
    } else if !args.quiet {
        let rows = shown_rows(&keys, &results);
        let best = args.best.as_ref().map_or(String::new(), |best| {
            format!(
                "\n{best}: for each line the value with the best validation score of the personal \
                 models, scored on {}; sweep.csv and sweep.md have all values\n",
                match combinations::split_of(&results) {
                    "test" => "test examples, which are not used to choose",
                    _ => "the same validation examples",
                }
            )
        });
        print(&format!("{}{best}\n{}\n", columns(&rows), out.display()))?;
    }
    // With --best, failed runs (rates that diverge) are not an error unless they are shown.
    let shown_failed = results.iter().any(|result| !result.failed.is_empty());
    Ok(
        if shown_failed || (args.best.is_none() && !failed.is_empty()) {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        },
    )
}

/// Parses and checks the `--over` arguments.
fn overs(args: &args::Sweep) -> Result<Vec<Over>> {
    let overs = args.over.iter().map(|text| parse(text));
    let overs = overs.collect::<Result<Vec<_>>>()?;
    if overs.is_empty() && args.seeds == 1 {
        return Err(Error::Request(
            "there is nothing to sweep over: give --over KEY=V1,V2,… or --seeds N, or both".into(),
        ));
    }
    if let Some(best) = &args.best
        && !overs.iter().any(|over| over.key == *best)
    {
        let keys: Vec<&str> = overs.iter().map(|over| over.key.as_str()).collect();
        return Err(Error::Request(format!(
            "--best {best}: there is no --over with that key; the keys are {}",
            keys.join(", ")
        )));
    }
    check(&overs, args)?;
    Ok(overs)
}

/// Returns all runs of the grid: every combination with every seed.
///
/// # Errors
///
/// Reports the problems of all combinations together.
fn cells(spec: &Spec, overs: &[Over], seeds: u64) -> Result<Vec<Cell>> {
    let (mut cells, mut problems) = (Vec::new(), Vec::new());
    let first = spec.plan()?.seed;
    for values in product(overs) {
        for seed in (first..).take(seeds as usize) {
            match cell(spec, overs, &values, seed) {
                Ok(cell) => cells.push(cell),
                Err(error) if error.is_request() => problems.push(error.to_string()),
                Err(error) => return Err(error),
            }
        }
    }
    problems.dedup();
    let mut seen = std::collections::HashSet::new();
    problems.retain(|problem| seen.insert(problem.clone()));
    match problems.as_slice() {
        [] => Ok(cells),
        [one] => Err(Error::Request(one.clone())),
        many => Err(Error::Request(many.join("\n"))),
    }
}

/// Returns an error if a directory holds something other than this sweep.
fn require_own(out: &Path, keys: &[&str]) -> Result<()> {
    let refused = |what: String| {
        Err(Error::Request(format!(
            "--out {}: {what}; give another directory",
            out.display()
        )))
    };
    if out.join("spec.toml").exists() {
        return refused("a run was begun there".into());
    }
    let Ok(text) = std::fs::read_to_string(out.join("sweep.csv")) else {
        return Ok(());
    };
    let head = text.lines().next().unwrap_or_default();
    let swept = head.split(",seed,").next().unwrap_or_default();
    if swept == keys.join(",") || head.starts_with("seed,") && keys.is_empty() {
        Ok(())
    } else {
        refused(format!("there is a sweep over {swept}"))
    }
}

/// The alias of every algorithm's own rate: `training.learning_rate`, or `algorithm.rate` for
/// pFedMe.
const RATE: &str = "rate";

/// Returns an error if a key would be set twice.
fn check(overs: &[Over], args: &args::Sweep) -> Result<()> {
    if args
        .over
        .iter()
        .any(|text| text.trim_start().starts_with("seed="))
    {
        return Err(Error::Request(
            "--over seed=…: use --seeds N for the seeds seed, seed+1, …, and --set seed=K for the first"
                .into(),
        ));
    }
    for (k, over) in overs.iter().enumerate() {
        if overs[..k].iter().any(|other| other.key == over.key) {
            let key = &over.key;
            return Err(Error::Request(format!(
                "--over {key}: is there twice; give all values in one --over"
            )));
        }
    }
    Ok(())
}

fn cell(spec: &Spec, overs: &[Over], values: &[String], seed: u64) -> Result<Cell> {
    let mut spec = spec.clone();
    let mut name = Vec::new();
    let pairs = || overs.iter().zip(values);
    for (over, value) in pairs().filter(|(over, _)| over.key != RATE) {
        spec.set(&format!("{}={value}", over.key))?;
    }
    if let Some((_, value)) = pairs().find(|(over, _)| over.key == RATE) {
        let key = spec.plan()?.algorithm.properties().rate_key;
        spec.set(&format!("{key}={value}"))?;
    }
    for (over, value) in pairs() {
        let last = over.key.rsplit('.').next().unwrap_or(&over.key);
        name.push(match last {
            "kind" => value.clone(),
            last => format!("{last}={value}"),
        });
    }
    spec.set(&format!("seed={seed}"))?;
    name.push(format!("seed={seed}"));
    let cell = Cell::new(&name.join(","), &spec)?;
    refuse_unused(overs, &cell)?;
    Ok(cell)
}

/// Returns an error if the algorithm does not use a swept key, as all its runs would be the same.
fn refuse_unused(overs: &[Over], cell: &Cell) -> Result<()> {
    let unused = |over: &&Over| {
        let mut notes = cell.plan.notes.iter();
        notes.any(|note| match note.split_once(UNUSED) {
            Some((key, _)) => over.key == key || over.key.starts_with(&format!("{key}.")),
            None => false,
        })
    };
    let Some(over) = overs.iter().find(unused) else {
        return Ok(());
    };
    let algorithm = &cell.plan.algorithm;
    Err(Error::Request(format!(
        "--over {}: is not used by {}, so its runs would all be the same; its rate is {}; --over \
         {RATE}=… sweeps over every algorithm's own rate",
        over.key,
        algorithm.kind(),
        algorithm.properties().rate_key
    )))
}

/// Parses `key=v1,v2,…`; commas within braces, brackets and quotes belong to a value.
fn parse(text: &str) -> Result<Over> {
    let invalid = |what: &str| Error::Request(format!("--over {text}: {what}"));
    let (key, list) = text
        .split_once('=')
        .ok_or_else(|| invalid("expected key=value,value,…, such as algorithm.kind=apfl,fedavg"))?;
    let mut values = vec![String::new()];
    let (mut depth, mut quote) = (0i32, None);
    for c in list.chars() {
        match (c, quote) {
            (',', None) if depth == 0 => {
                values.push(String::new());
                continue;
            }
            ('{' | '[', None) => depth += 1,
            ('}' | ']', None) => depth -= 1,
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(q)) if c == q => quote = None,
            _ => {}
        }
        values.last_mut().expect("never empty").push(c);
    }
    let values: Vec<String> = values.iter().map(|v| v.trim().to_owned()).collect();
    if values.iter().any(String::is_empty) {
        return Err(invalid("a value is empty"));
    }
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
        return Err(invalid(&format!("the value {twice} is given twice")));
    }
    Ok(Over {
        key: key.trim().into(),
        values,
    })
}

/// Returns all combinations of values; the last key varies fastest.
fn product(overs: &[Over]) -> Vec<Vec<String>> {
    overs.iter().fold(vec![Vec::new()], |combinations, over| {
        let with = |values: Vec<String>| {
            let next = over.values.iter().cloned();
            next.map(move |value| [values.clone(), vec![value]].concat())
        };
        combinations.into_iter().flat_map(with).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_within_values_do_not_separate() {
        let over =
            parse("algorithm.mixing={ fixed = 0.5, x = [1, 2] },{ adaptive = 0.1 }, \"a,b\"");
        let over = over.unwrap();
        assert_eq!(over.key, "algorithm.mixing");
        assert_eq!(
            over.values,
            [
                "{ fixed = 0.5, x = [1, 2] }",
                "{ adaptive = 0.1 }",
                "\"a,b\""
            ]
        );
        for text in ["training.rounds", "a=1,,2", "a=1,1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_key_varies_fastest() {
        let over = |key: &str, values: &[&str]| Over {
            key: key.into(),
            values: values.iter().map(|v| (*v).into()).collect(),
        };
        let all = product(&[over("a", &["1", "2"]), over("b", &["x", "y"])]);
        assert_eq!(all, [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]);
    }
}
