//! The results of a sweep: one per combination of values, over its seeds.

use std::collections::BTreeMap;

use apfl::metrics::{ByModel, FinalScore, FinalScores, OverClients};
use apfl_paper::grid::{CompletedRun, Outcome};
use apfl_report::ERRORS;
use apfl_report::statistics::Sample;
use serde::Serialize;

/// Represents the results of one combination of values over its seeds.
#[derive(Clone, Serialize)]
pub struct Combination {
    /// The keys of the grid with this combination's values.
    set: BTreeMap<String, String>,
    #[serde(skip)]
    values: Vec<String>,
    #[serde(skip)]
    names: Vec<String>,
    #[serde(skip)]
    completed: Vec<CompletedRun>,
    /// The run directories.
    pub runs: Vec<String>,
    /// The errors of failed runs.
    pub failed: Vec<String>,
    shared: Option<Sample>,
    localized: Option<Sample>,
    personal: Option<Sample>,
    train_loss: Option<Sample>,
    mixing: Option<Sample>,
    /// The personal models' validation score, by which `--best` ranks.
    chosen_by: Option<Sample>,
    /// The name of the shown score.
    by: String,
    /// The split of the shown score: `test` if the runs have test examples, else `valid`.
    #[serde(rename = "part")]
    split: &'static str,
    /// Whether it has the best validation score among those that differ only in `--best`'s key.
    pub best: bool,
}

/// Returns the scores on a split.
fn on<'a>(scores: &'a FinalScores, split: &str) -> Option<&'a FinalScore> {
    match split {
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

impl Combination {
    /// Summarizes the outcomes of a combination's runs.
    pub fn of(keys: &[&str], values: Vec<String>, outcomes: &[Outcome], by: Option<&str>) -> Self {
        let completed: Vec<CompletedRun> = outcomes.iter().flatten().cloned().collect();
        let models = || {
            completed
                .iter()
                .filter_map(|run| run.summary.models.as_ref())
        };
        let regression = models().any(|m| m.personal.pooled.train.accuracy.is_none());
        let by = by.unwrap_or(if regression { "rmse" } else { "accuracy" });
        let tested = models().count() > 0 && models().all(|m| m.personal.pooled.test.is_some());
        let split = if tested { "test" } else { "valid" };
        let score = |pick: Pick, split: &'static str| {
            Sample::of(models().filter_map(|m| on(&pick(m).pooled, split)?.get(by)))
        };
        let mixing = completed
            .iter()
            .filter_map(|run| run.summary.mixing.as_ref());
        Self {
            set: keys
                .iter()
                .map(|key| (*key).to_owned())
                .zip(values.iter().cloned())
                .collect(),
            names: keys.iter().map(|key| (*key).to_owned()).collect(),
            values,
            runs: completed
                .iter()
                .map(|d| d.dir.display().to_string())
                .collect(),
            failed: outcomes
                .iter()
                .filter_map(|o| o.as_ref().err().cloned())
                .collect(),
            shared: score(MODELS[0].1, split),
            localized: score(MODELS[1].1, split),
            personal: score(MODELS[2].1, split),
            chosen_by: score(MODELS[2].1, "valid"),
            split,
            train_loss: Sample::of(models().map(|m| m.personal.pooled.train.loss)),
            mixing: Sample::of(mixing.map(|mixing| mixing.spread.mean)),
            by: by.into(),
            best: false,
            completed,
        }
    }

    /// Returns the name, such as `kind=apfl, rate=0.1`.
    pub fn name(&self) -> String {
        let last = |key: &str| key.rsplit('.').next().unwrap_or(key).to_owned();
        let pairs = self.names.iter().zip(&self.values);
        let pairs: Vec<String> = pairs.map(|(k, v)| format!("{}={v}", last(k))).collect();
        if pairs.is_empty() {
            "the spec".into()
        } else {
            pairs.join(", ")
        }
    }

    /// Returns what `--best` ranks by: the personal models' validation score, if no run failed.
    fn merit(&self) -> f64 {
        match (&self.chosen_by, self.failed.is_empty()) {
            (Some(score), true) if ERRORS.contains(&self.by.as_str()) => -score.mean,
            (Some(score), true) => score.mean,
            _ => f64::NEG_INFINITY,
        }
    }
}

/// Marks the best value of a key for every combination of the other keys.
pub fn mark_best(combinations: &mut [Combination], key: usize) {
    let others = |combination: &Combination| {
        let mut values = combination.values.clone();
        values.remove(key);
        values
    };
    let mut best: Vec<usize> = Vec::new();
    for k in 0..combinations.len() {
        let rival = best
            .iter_mut()
            .find(|j| others(&combinations[**j]) == others(&combinations[k]));
        match rival {
            Some(j) if combinations[k].merit() > combinations[*j].merit() => *j = k,
            Some(_) => {}
            None => best.push(k),
        }
    }
    best.into_iter().for_each(|k| combinations[k].best = true);
}

/// Returns the shown split: `test` if any combination has it, as failed ones have no scores.
pub fn split_of(combinations: &[Combination]) -> &'static str {
    if combinations
        .iter()
        .any(|combination| combination.split == "test")
    {
        "test"
    } else {
        "valid"
    }
}

/// Returns the table of means and deviations over seeds, with the best marked.
pub fn shown_rows(keys: &[&str], combinations: &[Combination]) -> Vec<Vec<String>> {
    let mut heads: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    let what = combinations
        .first()
        .map_or("accuracy", |combination| combination.by.as_str());
    let split = split_of(combinations);
    heads.extend(MODELS.map(|(name, _)| format!("{name} {split} {what}")));
    heads.extend(["personal train loss".into(), "α".into()]);
    let some_best = combinations.iter().any(|combination| combination.best)
        && !combinations.iter().all(|combination| combination.best);
    if some_best {
        heads.push("best".into());
    }
    let score = |s: &Option<Sample>, combination: &Combination| match s {
        None if combination.failed.is_empty() => "–".into(),
        None => "failed".into(),
        Some(s) if combination.by.ends_with("accuracy") => s.percent(),
        Some(s) => s.number(),
    };
    let mut rows = vec![heads];
    for combination in combinations {
        let mut row = combination.values.clone();
        row.extend(
            [
                &combination.shared,
                &combination.localized,
                &combination.personal,
            ]
            .map(|s| score(s, combination)),
        );
        row.push(
            combination
                .train_loss
                .as_ref()
                .map_or("–".into(), Sample::number),
        );
        row.push(
            combination
                .mixing
                .as_ref()
                .map_or("–".into(), Sample::number),
        );
        if some_best {
            row.push(if combination.best { "yes" } else { "" }.into());
        }
        rows.push(row);
    }
    rows
}

/// Returns the table of all runs: one row per combination and seed.
pub fn seed_rows(keys: &[&str], combinations: &[Combination]) -> Vec<Vec<String>> {
    let what = combinations
        .first()
        .map_or("accuracy", |combination| combination.by.as_str());
    let mut heads: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
    heads.push("seed".into());
    let split = split_of(combinations);
    let named = |name: &str, what: &str| match split {
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
    for combination in combinations {
        for run in &combination.completed {
            let mut row = combination.values.clone();
            row.push(run.seed.to_string());
            for (_, pick) in MODELS {
                let model = run.summary.models.as_ref().map(pick);
                let numbers = model.map(|over| {
                    let pooled = on(&over.pooled, split);
                    let worst = on(&over.worst_decile, split);
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
            row.push(number(run.summary.mixing.map(|mixing| mixing.spread.mean)));
            row.push(combination.best.to_string());
            row.push(run.dir.display().to_string());
            rows.push(row);
        }
    }
    rows
}
