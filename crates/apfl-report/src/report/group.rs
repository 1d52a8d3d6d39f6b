//! Runs that differ in their seeds alone, as one.

use std::collections::BTreeMap;
use std::path::PathBuf;

use apfl::error::Result;
use apfl::training::RoundRecord;

use super::curves::points;
use super::html::{Cell, words};
use super::read::Run;
use crate::statistics::Sample;

/// Runs of one spec but for the seed; at least one.
pub struct Group {
    /// What they have in common.
    pub name: String,
    /// The runs.
    pub runs: Vec<Run>,
}

impl Group {
    /// A run by itself.
    pub fn of_one(run: Run) -> Self {
        Self {
            name: run.name.clone(),
            runs: vec![run],
        }
    }

    /// Reads the runs of a group.
    pub fn open(name: &str, directories: &[PathBuf]) -> Result<Self> {
        let runs = directories.iter().map(|path| Run::open(path));
        Ok(Self {
            name: name.into(),
            runs: runs.collect::<Result<_>>()?,
        })
    }

    /// The run that stands for them where one must.
    pub fn first(&self) -> &Run {
        &self.runs[0]
    }

    /// A number of theirs over the seeds.
    pub fn sample(&self, pick: impl Fn(&Run) -> Option<f64>) -> Option<Sample> {
        Sample::of(self.runs.iter().filter_map(pick))
    }

    /// (round, mean over the seeds) where all have a value, and the range around it where
    /// there are several.
    pub fn curve(&self, pick: impl Fn(&RoundRecord) -> Option<f64>) -> Curve {
        let mut values: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for run in &self.runs {
            for (round, value) in points(&run.rounds, &pick) {
                values.entry(round as u64).or_default().push(value);
            }
        }
        values.retain(|_, of| of.len() == self.runs.len());
        let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
        let range = |of: &[f64]| {
            let low = of.iter().copied().fold(f64::INFINITY, f64::min);
            (low, of.iter().copied().fold(f64::NEG_INFINITY, f64::max))
        };
        Curve {
            points: values.iter().map(|(k, of)| (*k as f64, mean(of))).collect(),
            band: (self.runs.len() > 1).then(|| values.values().map(|of| range(of)).collect()),
        }
    }
}

/// A curve of means, and the range around it.
pub struct Curve {
    pub points: Vec<(f64, f64)>,
    pub band: Option<Vec<(f64, f64)>>,
}

/// A number over seeds in a table: shares in percent.
pub fn cell(sample: Option<Sample>, share: bool) -> Cell {
    match sample {
        None => words("–"),
        Some(sample) if share => words(sample.percent()),
        Some(sample) => words(sample.number()),
    }
}
