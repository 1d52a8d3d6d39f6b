//! `apfl sweep`: a grid over any keys and seeds.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use apfl::error::{Error, Result};
use apfl::spec::Spec;
use apfl::store::write_atomically;
use serde::Serialize;

use crate::args::{self, read_spec};
use crate::grid::{Cell, Done, Grid, Outcome};
use crate::output::{columns, print, print_json, tell};
use crate::report;
use crate::run::new_directory;
use crate::signals::stop_on_signal;
use crate::statistics::Sample;
use crate::table;

/// The most runs that a sweep's report shows.
const REPORTED: usize = 24;

/// A key and the values it takes.
struct Over {
    key: String,
    values: Vec<String>,
}

/// Runs the grid and shows one table.
pub fn run(args: &args::Sweep) -> Result<ExitCode> {
    let spec = read_spec(Some(&args.spec), &args.overrides)?;
    let overs = args
        .over
        .iter()
        .map(|text| parse(text))
        .collect::<Result<Vec<_>>>()?;
    if let Some(best) = &args.best
        && !overs.iter().any(|over| over.key == *best)
    {
        let keys: Vec<&str> = overs.iter().map(|over| over.key.as_str()).collect();
        return Err(Error::Request(format!(
            "--best {best}: there is no --over with that key; there are {}",
            keys.join(", ")
        )));
    }
    check(&overs, args)?;
    let seed = spec.plan()?.seed;
    let combinations = product(&overs);
    let mut cells = Vec::new();
    for values in &combinations {
        for k in 0..args.seeds {
            cells.push(cell(&spec, &overs, values, seed + k)?);
        }
    }
    let out = match &args.out {
        Some(out) => out.clone(),
        None => {
            let stem = args.spec.file_stem().unwrap_or_default().to_string_lossy();
            new_directory(&format!("{stem}-sweep"))?
        }
    };
    let stop = stop_on_signal()?;
    let grid = Grid {
        out: &out,
        threads: args.threads,
        quiet: args.quiet,
        stop: &stop,
        checksums: Default::default(),
    };
    let outcomes = grid.run(&cells)?;
    let lines: Vec<Line> = combinations
        .into_iter()
        .zip(outcomes.chunks(args.seeds as usize))
        .map(|(values, outcomes)| Line::of(&overs, values, outcomes, args.by.as_deref()))
        .collect();
    let failed: Vec<String> = lines.iter().flat_map(|line| line.failed.clone()).collect();
    let lines = match &args.best {
        Some(best) => best_of(
            lines,
            overs.iter().position(|o| o.key == *best).unwrap_or(0),
        ),
        None => lines,
    };
    let keys: Vec<&str> = overs.iter().map(|over| over.key.as_str()).collect();
    let rows = shown_rows(&keys, &lines);
    write_atomically(
        &out.join("sweep.csv"),
        table::csv(&plain_rows(&keys, &lines)),
    )?;
    write_atomically(&out.join("sweep.md"), table::markdown(&rows))?;
    // One run of every line is enough to look at; the tables have all seeds.
    let shown = lines.iter().filter_map(|line| line.runs.first());
    let shown: Vec<PathBuf> = shown.take(REPORTED).map(PathBuf::from).collect();
    if !shown.is_empty() {
        report::write(&shown, &out.join("report.html"))?;
    }
    for failure in &failed {
        tell(format!("a run failed: {failure}"));
    }
    if args.json {
        print_json(&lines)?;
    } else if !args.quiet {
        let best = args.best.as_ref().map_or(String::new(), |best| {
            format!(
                "\n{best}: the value whose personal models validate best, for each line; the others \
                 were run too\n"
            )
        });
        print(&format!("{}{best}\n{}\n", columns(&rows), out.display()))?;
    }
    // Rates that blow up are what --best is there to sort out.
    let shown_failed = lines.iter().any(|line| !line.failed.is_empty());
    Ok(
        match shown_failed || (args.best.is_none() && !failed.is_empty()) {
            true => ExitCode::FAILURE,
            false => ExitCode::SUCCESS,
        },
    )
}

/// Keys that would be set twice.
fn check(overs: &[Over], args: &args::Sweep) -> Result<()> {
    if args
        .over
        .iter()
        .any(|text| text.trim_start().starts_with("seed="))
    {
        return Err(Error::Request(
            "--over seed=…: --seeds N runs the seeds seed, seed+1, …; --set seed=K says the first"
                .into(),
        ));
    }
    for (k, over) in overs.iter().enumerate() {
        if overs[..k].iter().any(|other| other.key == over.key) {
            let key = &over.key;
            return Err(Error::Request(format!(
                "--over {key}: is there twice; give all its values at once"
            )));
        }
    }
    Ok(())
}

fn cell(spec: &Spec, overs: &[Over], values: &[String], seed: u64) -> Result<Cell> {
    let mut spec = spec.clone();
    let mut name = Vec::new();
    for (over, value) in overs.iter().zip(values) {
        spec.set(&format!("{}={value}", over.key))?;
        let last = over.key.rsplit('.').next().unwrap_or(&over.key);
        name.push(match last {
            "kind" => value.clone(),
            last => format!("{last}={value}"),
        });
    }
    spec.set(&format!("seed={seed}"))?;
    name.push(format!("seed={seed}"));
    Cell::new(&name.join(","), &spec)
}

/// `key=v1,v2,…`; commas within braces, brackets and quotes belong to a value.
fn parse(text: &str) -> Result<Over> {
    let wrong = |what: &str| Error::Request(format!("--over {text}: {what}"));
    let (key, list) = text
        .split_once('=')
        .ok_or_else(|| wrong("expected key=value,value,…, such as algorithm.kind=apfl,fedavg"))?;
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
        return Err(wrong("a value is empty"));
    }
    let mut seen = std::collections::HashSet::new();
    if let Some(twice) = values.iter().find(|value| !seen.insert(*value)) {
        return Err(wrong(&format!("the value {twice} is there twice")));
    }
    Ok(Over {
        key: key.trim().into(),
        values,
    })
}

/// All combinations, the last key running fastest.
fn product(overs: &[Over]) -> Vec<Vec<String>> {
    overs.iter().fold(vec![Vec::new()], |combinations, over| {
        let with = |values: Vec<String>| {
            let next = over.values.iter().cloned();
            next.map(move |value| [values.clone(), vec![value]].concat())
        };
        combinations.into_iter().flat_map(with).collect()
    })
}

/// One combination, over its seeds.
#[derive(Clone, Serialize)]
struct Line {
    /// The keys of the grid and their values here.
    set: BTreeMap<String, String>,
    #[serde(skip)]
    values: Vec<String>,
    runs: Vec<String>,
    failed: Vec<String>,
    shared: Option<Sample>,
    localized: Option<Sample>,
    personal: Option<Sample>,
    train_loss: Option<Sample>,
    mixing: Option<Sample>,
    /// The score that is shown.
    by: String,
    /// Whether larger scores are better: accuracy, and not rmse.
    accuracy: bool,
}

impl Line {
    fn of(overs: &[Over], values: Vec<String>, outcomes: &[Outcome], by: Option<&str>) -> Self {
        let done: Vec<&Done> = outcomes.iter().flatten().collect();
        let models = || done.iter().filter_map(|run| run.summary.models.as_ref());
        let regression = models().any(|m| m.personal.pooled.train.accuracy.is_none());
        let by = by.unwrap_or(if regression { "rmse" } else { "accuracy" });
        let score = |m: &apfl::metrics::OverClients| m.pooled.valid.get(by);
        let mixing = done.iter().filter_map(|run| run.summary.mixing.as_ref());
        let keys = overs.iter().map(|over| over.key.clone());
        Self {
            set: keys.zip(values.iter().cloned()).collect(),
            values,
            runs: done
                .iter()
                .map(|run| run.dir.display().to_string())
                .collect(),
            failed: outcomes
                .iter()
                .filter_map(|o| o.as_ref().err().cloned())
                .collect(),
            shared: Sample::of(models().filter_map(|m| score(&m.shared))),
            localized: Sample::of(models().filter_map(|m| score(&m.localized))),
            personal: Sample::of(models().filter_map(|m| score(&m.personal))),
            train_loss: Sample::of(models().map(|m| m.personal.pooled.train.loss)),
            mixing: Sample::of(mixing.map(|spread| spread.mean)),
            accuracy: !["loss", "brier", "rmse", "mae"].contains(&by),
            by: by.into(),
        }
    }

    /// What the best is chosen by: no failed run, then the personal models' validation.
    fn merit(&self) -> f64 {
        match (&self.personal, self.failed.is_empty()) {
            (Some(score), true) if self.accuracy => score.mean,
            (Some(score), true) => -score.mean,
            _ => f64::NEG_INFINITY,
        }
    }
}

/// For every combination of the other keys the line that validates best.
fn best_of(lines: Vec<Line>, key: usize) -> Vec<Line> {
    let others = |line: &Line| {
        let mut values = line.values.clone();
        values.remove(key);
        values
    };
    let mut best: Vec<Line> = Vec::new();
    for line in lines {
        match best.iter_mut().find(|other| others(other) == others(&line)) {
            Some(other) if line.merit() > other.merit() => *other = line,
            Some(_) => {}
            None => best.push(line),
        }
    }
    best
}

fn shown_rows(keys: &[&str], lines: &[Line]) -> Vec<Vec<String>> {
    let mut heads: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let what = lines.first().map_or("accuracy", |line| line.by.as_str());
    heads.extend(["shared", "localized", "personal"].map(|m| format!("{m} valid {what}")));
    heads.extend(["personal train loss".into(), "α".into()]);
    let score = |s: &Option<Sample>, line: &Line| match s {
        None if line.failed.is_empty() => "–".into(),
        None => "failed".into(),
        Some(s) if line.by.ends_with("accuracy") => s.percent(),
        Some(s) => s.number(),
    };
    let mut rows = vec![heads];
    for line in lines {
        let mut row = line.values.clone();
        row.extend([&line.shared, &line.localized, &line.personal].map(|s| score(s, line)));
        row.push(line.train_loss.as_ref().map_or("–".into(), Sample::number));
        row.push(line.mixing.as_ref().map_or("–".into(), Sample::number));
        rows.push(row);
    }
    rows
}

/// The same as bare numbers.
fn plain_rows(keys: &[&str], lines: &[Line]) -> Vec<Vec<String>> {
    let mut heads: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    for name in ["shared", "localized", "personal", "train_loss", "mixing"] {
        heads.extend([name.to_string(), format!("{name}_sd")]);
    }
    heads.extend(["runs".to_string(), "failed".into()]);
    let mut rows = vec![heads];
    for line in lines {
        let mut row = line.values.clone();
        for s in [
            &line.shared,
            &line.localized,
            &line.personal,
            &line.train_loss,
            &line.mixing,
        ] {
            row.push(s.as_ref().map_or(String::new(), |s| s.mean.to_string()));
            let deviation = s.as_ref().and_then(|s| s.deviation);
            row.push(deviation.map_or(String::new(), |d| d.to_string()));
        }
        row.extend([line.runs.len().to_string(), line.failed.len().to_string()]);
        rows.push(row);
    }
    rows
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
        for wrong in ["training.rounds", "a=1,,2", "a=1,1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_key_runs_fastest() {
        let over = |key: &str, values: &[&str]| Over {
            key: key.into(),
            values: values.iter().map(|v| (*v).into()).collect(),
        };
        let all = product(&[over("a", &["1", "2"]), over("b", &["x", "y"])]);
        assert_eq!(all, [["1", "x"], ["1", "y"], ["2", "x"], ["2", "y"]]);
    }
}
