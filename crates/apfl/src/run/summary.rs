//! Sums over finalized clients, and the summary and client records made from them.

use std::collections::BTreeMap;

use super::choice::{Choice, Choices};
use crate::choice::Choosing;
use crate::clients::Finalized;
use crate::error::Result;
use crate::metrics::{Assessment, ByModel, FinalsAccumulator, Gain, Scoring, Spread};
use crate::run::run_dir::{
    Baseline, ChosenRecord, ClientRecord, Counts, GainSplit, Prior, Summary, TotalGain,
};
use crate::training::Training;

/// Sums over finalized clients. Attackers are counted and not scored.
pub(super) struct SummarySums {
    scoring: Scoring,
    attackers: usize,
    clients: usize,
    gathered: ByModel<FinalsAccumulator>,
    alone: FinalsAccumulator,
    gains: Vec<Gain>,
    chosen: BTreeMap<String, usize>,
    mixing: Vec<f64>,
    /// Correct predictions of the commonest training class, and validation examples, per client.
    majority: Vec<(f64, f64)>,
}

impl SummarySums {
    pub(super) fn new(scoring: Scoring) -> Self {
        Self {
            scoring,
            attackers: 0,
            clients: 0,
            gathered: ByModel::default(),
            alone: FinalsAccumulator::default(),
            gains: Vec::new(),
            chosen: BTreeMap::new(),
            mixing: Vec::new(),
            majority: Vec::new(),
        }
    }

    /// Adds a client.
    pub(super) fn add(&mut self, finalized: &Finalized, choice: Option<&Choice>, attacker: bool) {
        if attacker {
            self.attackers += 1;
            return;
        }
        self.clients += 1;
        self.mixing.extend(finalized.mixing.map(f64::from));
        let valid = finalized.examples.1 as f64;
        let correct = finalized.majority.map(|share| (share * valid, valid));
        self.majority.extend(correct);
        let ByModel {
            shared,
            localized,
            personal,
        } = &finalized.finals;
        self.gathered.shared.add(shared, &self.scoring);
        self.gathered.localized.add(localized, &self.scoring);
        self.gathered.personal.add(personal, &self.scoring);
        if let Some(alone) = &finalized.alone {
            self.alone.add(alone, &self.scoring);
        }
        self.gains.extend(finalized.gain);
        if let Some(choice) = choice {
            *self.chosen.entry(choice.candidate.name()).or_default() += 1;
        }
    }

    /// Returns the summary of a training.
    pub(super) fn summary(
        self,
        training: &mut Training,
        (choosing, choices): (Option<&Choosing>, &Choices),
        skipped: &[usize],
        seconds: f64,
    ) -> Result<Summary> {
        let setup = training.setup().clone();
        let name = |client: &usize| setup.context.dataset.name(*client);
        let prior = choosing
            .filter(|_| !choices.candidates.is_empty())
            .map(|choosing| Prior::of(choices, choosing.prior));
        Ok(Summary {
            rounds: training.round(),
            skipped: skipped.iter().map(name).collect(),
            fingerprint: training.fingerprint()?,
            prior,
            privacy: training.privacy().map(|(spent, _)| spent),
            seconds: seconds + choices.seconds,
            ..self.client_summary()
        })
    }

    /// Returns the part of the summary that depends only on the clients.
    pub(super) fn client_summary(self) -> Summary {
        let over = |gathered: &FinalsAccumulator| gathered.summarize(&self.scoring);
        Summary {
            rounds: 0,
            stopped: None,
            not_converged: None,
            clients: self.clients,
            skipped: Vec::new(),
            attackers: self.attackers,
            fingerprint: String::new(),
            baseline: baseline(self.gathered.shared.valid(), &self.scoring),
            models: over(&self.gathered.shared).map(|shared| ByModel {
                shared,
                localized: over(&self.gathered.localized).expect("as many as shared"),
                personal: over(&self.gathered.personal).expect("as many as shared"),
            }),
            majority: (!self.majority.is_empty()).then(|| {
                let sum =
                    |pick: fn(&(f64, f64)) -> f64| self.majority.iter().map(pick).sum::<f64>();
                sum(|(correct, _)| *correct) / sum(|(_, valid)| *valid)
            }),
            mixing: Spread::of(&self.mixing),
            alone: over(&self.alone),
            gain: (!self.gains.is_empty()).then(|| TotalGain {
                part: if self.scoring.tested {
                    GainSplit::Test
                } else {
                    GainSplit::Valid
                },
                gain: Gain::pooled(self.gains.iter()),
            }),
            chosen: self.chosen,
            prior: None,
            privacy: None,
            seconds: 0.0,
        }
    }
}

/// Returns the validation errors of always predicting the mean of a client's training targets.
fn baseline(valid: &Assessment, scoring: &Scoring) -> Option<Baseline> {
    let values = valid.values.filter(|values| values.truth.n > 0)?;
    let n = values.truth.n as f64;
    Some(Baseline {
        rmse: scoring.unit * (values.mean_squared / n).sqrt(),
        mae: scoring.unit * values.mean_absolute / n,
    })
}

/// Returns the record of a client in `clients.jsonl`.
pub(super) fn client_record(
    finalized: &Finalized,
    chosen: Option<ChosenRecord>,
    rounds: u64,
    attacker: bool,
    scoring: &Scoring,
) -> ClientRecord {
    let mixing = finalized.mixing.map(f64::from);
    ClientRecord {
        client: finalized.name.clone(),
        examples: Counts {
            train: finalized.examples.0,
            valid: finalized.examples.1,
            test: scoring.tested.then_some(finalized.test_examples),
        },
        classes: finalized.classes.clone(),
        rounds,
        attacker,
        epsilon: None,
        mixing: (mixing.is_some() || chosen.is_some()).then_some(mixing),
        majority: finalized.majority,
        baseline: baseline(&finalized.finals.shared.valid, scoring),
        scores: finalized.finals.map(|finals| scoring.scores(finals)),
        chosen,
        alone: finalized.alone.as_ref().map(|alone| scoring.scores(alone)),
        gain: finalized.gain,
    }
}
