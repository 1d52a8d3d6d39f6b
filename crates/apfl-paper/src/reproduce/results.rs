//! The results of an item's runs, by name and seed.

use std::collections::{BTreeMap, BTreeSet};

use apfl::metrics::{ByModel, Scores};
use apfl::training::RoundRecord;
use apfl_report::chart::Series;
use apfl_report::statistics::Sample;

use super::verdict::Values;
use crate::grid::CompletedRun;

/// Selects one of the three models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The server's model.
    Shared,
    /// A client's copy of the shared model after its local steps.
    Localized,
    /// The model that serves the client.
    Personal,
}

impl Model {
    /// Selects this model's value.
    pub fn of<T>(self, three: &ByModel<T>) -> &T {
        match self {
            Model::Shared => &three.shared,
            Model::Localized => &three.localized,
            Model::Personal => &three.personal,
        }
    }
}

/// Selects one of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Loss on training examples.
    TrainLoss,
    /// Loss on validation examples.
    ValidLoss,
    /// Accuracy on validation examples.
    ValidAccuracy,
}

impl Measure {
    fn of(self, scores: &Scores) -> f64 {
        match self {
            Measure::TrainLoss => scores.train.loss,
            Measure::ValidLoss => scores.valid.loss,
            Measure::ValidAccuracy => scores.valid.accuracy.unwrap_or(f64::NAN),
        }
    }
}

/// Represents a curve of a figure: one model of one run, with the paper's name.
#[derive(Clone, Debug)]
pub struct Track {
    /// The paper's name.
    pub name: String,
    /// The run.
    pub run: String,
    /// The model.
    pub model: Model,
    /// The colour in figures.
    pub colour: usize,
}

/// Creates a track.
pub fn track(name: &str, run: impl Into<String>, model: Model, colour: usize) -> Track {
    Track {
        name: name.into(),
        run: run.into(),
        model,
        colour,
    }
}

/// Represents the results of an item's runs.
#[derive(Clone, Default)]
pub struct Results {
    runs: BTreeMap<String, Vec<CompletedRun>>,
    /// Whether [`Results::last`] returns the scores of finalization, over all clients.
    all_clients: bool,
}

impl Results {
    /// Adds the runs of a name, by seed.
    pub fn insert(&mut self, name: &str, runs: Vec<CompletedRun>) {
        self.runs.insert(name.into(), runs);
    }

    /// Returns the runs of a name, by seed.
    pub fn runs(&self, name: &str) -> &[CompletedRun] {
        self.runs.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns a number of every seed's run; NaN if missing.
    fn by_seed(&self, track: &Track, value: impl Fn(&CompletedRun) -> Option<f64>) -> Values {
        let runs = self.runs(&track.run).iter();
        Values {
            name: track.name.clone(),
            by_seed: runs.map(|run| value(run).unwrap_or(f64::NAN)).collect(),
        }
    }

    /// Returns a score in the last evaluated round up to `round`, over that round's clients.
    pub fn at(&self, track: &Track, measure: Measure, round: u64) -> Values {
        let value = |run: &CompletedRun| {
            let scored = |r: &&RoundRecord| r.scores.is_some() && r.round <= round;
            let record = run.rounds.iter().rev().find(scored)?;
            Some(measure.of(track.model.of(record.scores.as_ref()?)))
        };
        self.by_seed(track, value)
    }

    /// Returns a score in the last round, over that round's clients.
    pub fn last(&self, track: &Track, measure: Measure) -> Values {
        if self.all_clients {
            self.finalized(track, measure)
        } else {
            self.at(track, measure, u64::MAX)
        }
    }

    /// Returns the largest score of all evaluated rounds, each over that round's clients.
    pub fn best(&self, track: &Track, measure: Measure) -> Values {
        self.by_seed(track, |run: &CompletedRun| {
            let scores = run.rounds.iter().filter_map(|r| r.scores.as_ref());
            scores
                .map(|scores| measure.of(track.model.of(scores)))
                .reduce(f64::max)
        })
    }

    /// Returns the same results with the scores of finalization, over all clients, as last scores.
    pub fn over_all_clients(&self) -> Self {
        Self {
            all_clients: true,
            ..self.clone()
        }
    }

    /// Returns the number of rounds of a name's runs.
    pub fn rounds(&self, name: &str) -> u64 {
        let last = |run: &CompletedRun| run.rounds.last().map(|record| record.round);
        self.runs(name).iter().filter_map(last).max().unwrap_or(0)
    }

    /// Returns the commits of the programs that trained the runs.
    pub fn commits(&self) -> BTreeSet<String> {
        let runs = self.runs.values().flatten();
        runs.map(|run| run.commit.clone()).collect()
    }

    /// Returns [`Results::last`] of several tracks.
    pub fn all(&self, tracks: &[Track], measure: Measure) -> Vec<Values> {
        tracks
            .iter()
            .map(|track| self.last(track, measure))
            .collect()
    }

    /// Returns a score after finalization, over all clients.
    pub fn finalized(&self, track: &Track, measure: Measure) -> Values {
        let value = |run: &CompletedRun| {
            let models = run.summary.models.as_ref()?;
            let pooled = &track.model.of(models).pooled;
            Some(match measure {
                Measure::TrainLoss => pooled.train.loss,
                Measure::ValidLoss => pooled.valid.loss,
                Measure::ValidAccuracy => pooled.valid.accuracy?,
            })
        };
        self.by_seed(track, value)
    }

    /// Draws a score over the rounds: the mean over seeds ± one deviation.
    pub fn curve(&self, track: &Track, measure: Measure) -> Series {
        let mut by_round: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for record in self.runs(&track.run).iter().flat_map(|run| &run.rounds) {
            if let Some(scores) = &record.scores {
                let value = measure.of(track.model.of(scores));
                by_round.entry(record.round).or_default().push(value);
            }
        }
        let samples = by_round
            .into_iter()
            .filter_map(|(round, values)| Some((round as f64, Sample::of(values.into_iter())?)));
        banded(
            &track.name,
            track.colour,
            samples.collect(),
            track.model == Model::Localized,
        )
    }
}

/// Draws a line of means ± one deviation.
pub fn banded(name: &str, colour: usize, samples: Vec<(f64, Sample)>, dashed: bool) -> Series {
    let points = samples
        .iter()
        .map(|(x, sample)| (*x, sample.mean))
        .collect();
    let line = Series::line(name, colour, points);
    let around = |(_, s): &(f64, Sample)| {
        let deviation = s.deviation.unwrap_or(0.0);
        (s.mean - deviation, s.mean + deviation)
    };
    let line = if samples.iter().any(|(_, s)| s.deviation.is_some()) {
        line.with_band(samples.iter().map(around).collect())
    } else {
        line
    };
    if dashed { line.dashed() } else { line }
}
