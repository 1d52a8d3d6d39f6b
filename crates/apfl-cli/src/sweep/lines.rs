//! The lines of a sweep: one combination of values over its seeds.

use std::collections::BTreeMap;

use apfl::metrics::{ByModel, FinalScore, FinalScores, OverClients};
use apfl_paper::grid::{Done, Outcome};
use apfl_report::ERRORS;
use apfl_report::statistics::Sample;
use serde::Serialize;

/// One combination, over its seeds.
#[derive(Clone, Serialize)]
pub struct Line {
    /// The keys of the grid and their values here.
    set: BTreeMap<String, String>,
    #[serde(skip)]
    values: Vec<String>,
    #[serde(skip)]
    names: Vec<String>,
    #[serde(skip)]
    done: Vec<Done>,
    /// The directories of its runs.
    pub runs: Vec<String>,
    /// Why those that failed did.
    pub failed: Vec<String>,
    shared: Option<Sample>,
    localized: Option<Sample>,
    personal: Option<Sample>,
    train_loss: Option<Sample>,
    mixing: Option<Sample>,
    /// The personal models' score on validation examples, which the best is chosen by.
    chosen_by: Option<Sample>,
    /// The score that is shown.
    by: String,
    /// The examples it is of: `test` where the runs have such a part, else `valid`.
    part: &'static str,
    /// Whether it validates best of those that differ in one key alone.
    pub best: bool,
}

/// The scores on a part.
fn on<'a>(scores: &'a FinalScores, part: &str) -> Option<&'a FinalScore> {
    match part {
        "test" => scores.test.as_ref(),
        _ => Some(&scores.valid),
    }
}

type Pick = fn(&ByModel<OverClients>) -> &OverClients;
const MODELS: [(&str, Pick); 3] = [
    ("shared", |m| &m.shared),
    ("localized", |m| &m.localized),
    ("personal", |m| &m.personal),
];

impl Line {
    /// The line of a combination, from what became of its runs.
    pub fn of(keys: &[&str], values: Vec<String>, outcomes: &[Outcome], by: Option<&str>) -> Self {
        let done: Vec<Done> = outcomes.iter().flatten().cloned().collect();
        let models = || done.iter().filter_map(|run| run.summary.models.as_ref());
        let regression = models().any(|m| m.personal.pooled.train.accuracy.is_none());
        let by = by.unwrap_or(if regression { "rmse" } else { "accuracy" });
        let tested = models().count() > 0 && models().all(|m| m.personal.pooled.test.is_some());
        let part = if tested { "test" } else { "valid" };
        let score = |pick: Pick, part: &'static str| {
            Sample::of(models().filter_map(|m| on(&pick(m).pooled, part)?.get(by)))
        };
        let mixing = done.iter().filter_map(|run| run.summary.mixing.as_ref());
        Self {
            set: keys
                .iter()
                .map(|key| (*key).to_owned())
                .zip(values.iter().cloned())
                .collect(),
            names: keys.iter().map(|key| (*key).to_owned()).collect(),
            values,
            runs: done.iter().map(|d| d.dir.display().to_string()).collect(),
            failed: outcomes
                .iter()
                .filter_map(|o| o.as_ref().err().cloned())
                .collect(),
            shared: score(MODELS[0].1, part),
            localized: score(MODELS[1].1, part),
            personal: score(MODELS[2].1, part),
            chosen_by: score(MODELS[2].1, "valid"),
            part,
            train_loss: Sample::of(models().map(|m| m.personal.pooled.train.loss)),
            mixing: Sample::of(mixing.map(|spread| spread.mean)),
            by: by.into(),
            best: false,
            done,
        }
    }

    /// The combination in words: `kind=apfl, rate=0.1`.
    pub fn name(&self) -> String {
        let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
        let words = self.names.iter().zip(&self.values);
        let words: Vec<String> = words.map(|(k, v)| format!("{}={v}", last(k))).collect();
        if words.is_empty() {
            "the spec".into()
        } else {
            words.join(", ")
        }
    }

    /// What the best is chosen by: no failed run, then the personal models' validation.
    fn merit(&self) -> f64 {
        match (&self.chosen_by, self.failed.is_empty()) {
            (Some(score), true) if ERRORS.contains(&self.by.as_str()) => -score.mean,
            (Some(score), true) => score.mean,
            _ => f64::NEG_INFINITY,
        }
    }
}

/// Marks for every combination of the other keys the line that validates best.
pub fn mark_best(lines: &mut [Line], key: usize) {
    let others = |line: &Line| {
        let mut values = line.values.clone();
        values.remove(key);
        values
    };
    let mut best: Vec<usize> = Vec::new();
    for k in 0..lines.len() {
        let rival = best
            .iter_mut()
            .find(|j| others(&lines[**j]) == others(&lines[k]));
        match rival {
            Some(j) if lines[k].merit() > lines[*j].merit() => *j = k,
            Some(_) => {}
            None => best.push(k),
        }
    }
    best.into_iter().for_each(|k| lines[k].best = true);
}

/// The part that is shown: `test` if one of the lines has it, for a line that failed has none.
pub fn part_of(lines: &[Line]) -> &'static str {
    if lines.iter().any(|line| line.part == "test") {
        "test"
    } else {
        "valid"
    }
}

/// Means and deviations over seeds, for people; a best line is marked.
pub fn shown_rows(keys: &[&str], lines: &[Line]) -> Vec<Vec<String>> {
    let mut heads: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let what = lines.first().map_or("accuracy", |line| line.by.as_str());
    let part = part_of(lines);
    heads.extend(MODELS.map(|(name, _)| format!("{name} {part} {what}")));
    heads.extend(["personal train loss".into(), "α".into()]);
    let some_best = lines.iter().any(|line| line.best) && !lines.iter().all(|line| line.best);
    if some_best {
        heads.push("best".into());
    }
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
        if some_best {
            row.push(if line.best { "yes" } else { "" }.into());
        }
        rows.push(row);
    }
    rows
}

/// Every run by itself as bare numbers: a row for every combination and seed.
pub fn seed_rows(keys: &[&str], lines: &[Line]) -> Vec<Vec<String>> {
    let what = lines.first().map_or("accuracy", |line| line.by.as_str());
    let mut heads: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    heads.push("seed".into());
    let part = part_of(lines);
    let named = |name: &str, what: &str| match part {
        "test" => format!("{name}_test_{what}"),
        _ => format!("{name}_{what}"),
    };
    for (name, _) in MODELS {
        heads.extend([
            named(name, "loss"),
            named(name, what),
            named(name, "worst_decile"),
        ]);
    }
    heads.extend(["valid", "train_loss", "mixing", "best", "run"].map(String::from));
    let number = |x: Option<f64>| x.map_or(String::new(), |x| x.to_string());
    let mut rows = vec![heads];
    for line in lines {
        for run in &line.done {
            let mut row = line.values.clone();
            row.push(run.seed.to_string());
            for (_, pick) in MODELS {
                let model = run.summary.models.as_ref().map(pick);
                let numbers = model.map(|over| {
                    let pooled = on(&over.pooled, part);
                    let worst = on(&over.worst_decile, part);
                    [
                        pooled.map(|score| score.loss),
                        pooled.and_then(|score| score.get(what)),
                        worst.and_then(|score| score.get(what)),
                    ]
                });
                row.extend(match numbers {
                    Some(numbers) => numbers.map(number),
                    None => Default::default(),
                });
            }
            let models = run.summary.models.as_ref();
            row.push(number(
                models.and_then(|m| m.personal.pooled.valid.get(what)),
            ));
            row.push(number(models.map(|m| m.personal.pooled.train.loss)));
            row.push(number(run.summary.mixing.as_ref().map(|a| a.mean)));
            row.push(line.best.to_string());
            row.push(run.dir.display().to_string());
            rows.push(row);
        }
    }
    rows
}
