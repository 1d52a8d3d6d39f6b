//! Final scores of clients and their summary.

use std::ops::Deref;

use serde::{Deserialize, Serialize};

use super::assessment::{Assessment, Detail};
use super::{Score, Tallies, Tally, mean};

/// A final score: loss, accuracy and more.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalScore {
    /// Loss and accuracy.
    #[serde(flatten)]
    pub score: Score,
    /// More scores; absent in runs of an earlier format.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// Confusion matrix: number of examples by true class (rows) and predicted class (columns).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confusion: Option<Vec<Vec<u64>>>,
    /// Per tenth of the probability: examples, mean probability, share of correct predictions.
    /// Only for scores pooled over clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<(u64, f64, f64)>,
}

impl Deref for FinalScore {
    type Target = Score;
    fn deref(&self) -> &Score {
        &self.score
    }
}

impl FinalScore {
    /// Returns a score by its name: loss, accuracy, rmse, or one of [`Detail`].
    pub fn get(&self, name: &str) -> Option<f64> {
        let value = match name {
            "loss" => Some(self.loss),
            "accuracy" => self.accuracy,
            "rmse" => self.rmse,
            name => self.detail.and_then(|detail| detail.get(name)),
        };
        value.filter(|x| x.is_finite())
    }
}

/// A model's final scores.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FinalScores {
    /// On training examples.
    pub train: Score,
    /// On held-out examples.
    pub valid: FinalScore,
    /// On test examples, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub test: Option<FinalScore>,
}

/// A client's sums, from which its final scores are computed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Finals {
    /// Loss and hits on training and validation examples.
    pub tallies: Tallies,
    /// Loss and hits on test examples.
    pub tested: Tally,
    /// Further sums on validation examples.
    pub valid: Assessment,
    /// Further sums on test examples.
    pub test: Assessment,
}

/// Settings for computing scores from sums.
#[derive(Clone, Copy, Debug, PartialEq)]
#[doc(hidden)]
pub struct Scoring {
    /// Number of classes; 0 for regression.
    pub classes: usize,
    /// The value of 1 in the label's own units.
    pub unit: f64,
    /// Whether there are test examples.
    pub tested: bool,
}

impl Scoring {
    fn score(&self, tally: &Tally, assessment: &Assessment) -> FinalScore {
        FinalScore {
            score: tally.score(self.classes == 0),
            detail: Some(assessment.detail(self.classes, self.unit)),
            confusion: assessment.confusion_matrix(self.classes),
            calibration: Vec::new(),
        }
    }

    /// Returns the scores of a client.
    pub fn scores(&self, finals: &Finals) -> FinalScores {
        FinalScores {
            train: finals.tallies.train.score(self.classes == 0),
            valid: self.score(&finals.tallies.valid, &finals.valid),
            test: self
                .tested
                .then(|| self.score(&finals.tested, &finals.test)),
        }
    }
}

/// One model's scores summarized over all finalized clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverClients {
    /// Over all examples of all clients.
    pub pooled: FinalScores,
    /// The plain mean of the clients' scores.
    pub mean: FinalScores,
    /// Their standard deviation (population).
    pub std: FinalScores,
    /// The mean of the worst ⌈n/10⌉ clients, per score: lowest accuracy, highest loss or error.
    pub worst_decile: FinalScores,
    /// The minimum over clients, per score: lowest accuracy, and lowest loss.
    pub min: FinalScores,
    /// The maximum over clients, per score.
    pub max: FinalScores,
}

/// Accumulates one model's sums over all clients, and every score of each client.
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct FinalsAccumulator {
    sum: Finals,
    clients: usize,
    train: ScoreColumns,
    valid: ScoreColumns,
    test: ScoreColumns,
}

impl FinalsAccumulator {
    /// Adds a client.
    pub fn add(&mut self, client: &Finals, scoring: &Scoring) {
        self.sum.tallies.add(&client.tallies);
        self.sum.tested.add(&client.tested);
        self.sum.valid.add(&client.valid);
        self.sum.test.add(&client.test);
        self.clients += 1;
        let regression = scoring.classes == 0;
        let Finals { tallies, .. } = client;
        self.train.add(&tallies.train.score(regression), None);
        let detail = |assessment: &Assessment| assessment.detail(scoring.classes, scoring.unit);
        let (score, valid) = (tallies.valid.score(regression), detail(&client.valid));
        self.valid.add(&score, Some(valid));
        if scoring.tested {
            let (score, test) = (client.tested.score(regression), detail(&client.test));
            self.test.add(&score, Some(test));
        }
    }

    /// Returns the sums over validation examples.
    pub fn valid(&self) -> &Assessment {
        &self.sum.valid
    }

    /// Returns the summary; `None` without clients. A client without test (or validation)
    /// examples is left out of their mean, deviation, decile, minimum and maximum.
    pub(crate) fn summarize(&self, scoring: &Scoring) -> Option<OverClients> {
        if self.clients == 0 {
            return None;
        }
        let mut pooled = scoring.scores(&self.sum);
        pooled.valid.calibration = calibration(&self.sum.valid);
        if let Some(test) = &mut pooled.test {
            test.calibration = calibration(&self.sum.test);
        }
        let over = |f: &dyn Fn(&[f64], bool) -> f64| FinalScores {
            train: self.train.over(f).score,
            valid: self.valid.over(f),
            test: scoring.tested.then(|| self.test.over(f)),
        };
        Some(OverClients {
            pooled,
            mean: over(&|x, _| mean(x)),
            std: over(&|x, _| {
                let m = mean(x);
                mean(&x.iter().map(|x| (x - m).powi(2)).collect::<Vec<_>>()).sqrt()
            }),
            worst_decile: over(&|x, high_is_good| {
                let mut x = x.to_vec();
                x.sort_by(f64::total_cmp);
                if !high_is_good {
                    x.reverse();
                }
                mean(&x[..x.len().div_ceil(10)])
            }),
            min: over(&|x, _| x.iter().copied().fold(f64::INFINITY, f64::min)),
            max: over(&|x, _| x.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
        })
    }
}

/// The clients' scores on one part of their examples: for each score its finite values, in client
/// order. A million clients need 8 MB per score.
#[derive(Clone, Debug, Default)]
struct ScoreColumns {
    loss: Vec<f64>,
    accuracy: Vec<f64>,
    rmse: Vec<f64>,
    /// A detail with the names of the scores in `details`.
    named: Option<Detail>,
    details: Vec<Vec<f64>>,
}

impl ScoreColumns {
    /// Adds a client.
    fn add(&mut self, score: &Score, detail: Option<Detail>) {
        let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
        self.loss.extend(finite(Some(score.loss)));
        self.accuracy.extend(finite(score.accuracy));
        self.rmse.extend(finite(score.rmse));
        let Some(detail) = detail else { return };
        let named = detail.named();
        self.named = Some(detail);
        self.details.resize(named.len(), Vec::new());
        for (column, (_, value, _)) in self.details.iter_mut().zip(named) {
            column.extend(finite(value));
        }
    }

    /// Applies `f(values, whether high is good)` to every score that some client has.
    fn over(&self, f: &dyn Fn(&[f64], bool) -> f64) -> FinalScore {
        let known = |values: &[f64], high_is_good: bool| {
            (!values.is_empty()).then(|| f(values, high_is_good))
        };
        let detail = self.named.map(|detail| {
            let columns = detail.named().into_iter().zip(&self.details);
            let each: Vec<Option<f64>> = columns
                .map(|((_, _, high_is_good), column)| known(column, high_is_good))
                .collect();
            detail.with_scores(&each)
        });
        FinalScore {
            score: Score {
                loss: known(&self.loss, false).unwrap_or(f64::NAN),
                accuracy: known(&self.accuracy, true),
                rmse: known(&self.rmse, false),
            },
            detail,
            confusion: None,
            calibration: Vec::new(),
        }
    }
}

fn calibration(sums: &Assessment) -> Vec<(u64, f64, f64)> {
    let bins = sums.calibration.iter().filter(|(n, ..)| *n > 0);
    let share = |&(n, p, so): &(u64, f64, u64)| (n, p / n as f64, so as f64 / n as f64);
    bins.map(share).collect()
}
