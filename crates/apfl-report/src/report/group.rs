//! Groups of runs that differ only in their seeds.

use std::collections::BTreeMap;
use std::path::PathBuf;

use apfl::error::Result;
use apfl::training::RoundRecord;

use super::curves::points;
use super::html::{Cell, text_cell};
use super::read::Run;
use crate::statistics::Sample;

/// Represents one or more runs of a spec that differ only in the seed.
pub struct Group {
    /// The name of the group.
    pub name: String,
    /// The runs.
    pub runs: Vec<Run>,
}

impl Group {
    /// Creates the group of a single run.
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

    /// Returns the run that is shown in detail.
    pub fn first(&self) -> &Run {
        &self.runs[0]
    }

    /// Computes the statistics of a number over the seeds.
    pub fn sample(&self, pick: impl Fn(&Run) -> Option<f64>) -> Option<Sample> {
        Sample::of(self.runs.iter().filter_map(pick))
    }

    /// Returns (round, mean over the seeds) for rounds in which all runs have a value, with the
    /// range if there are several runs.
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

/// Represents a curve of means with its range.
pub struct Curve {
    pub points: Vec<(f64, f64)>,
    pub band: Option<Vec<(f64, f64)>>,
}

/// Creates a cell with statistics over seeds; shares in percent.
pub fn sample_cell(sample: Option<Sample>, share: bool) -> Cell {
    match sample {
        None => text_cell("–"),
        Some(sample) if share => text_cell(sample.percent()),
        Some(sample) => text_cell(sample.number()),
    }
}
