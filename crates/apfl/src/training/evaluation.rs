//! The loss of the personal models after a round, pooled over a fixed set of clients, by which
//! training stops.

use super::round::Trained;
use super::{EvaluationRows, Setup, Training};
use crate::choice::Pass;
use crate::error::Result;
use crate::rng::{Purpose, stream};

/// A sum of losses over rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PooledLoss {
    sum: f64,
    rows: u64,
}

impl PooledLoss {
    fn mean(self) -> f64 {
        self.sum / self.rows as f64
    }
}

impl Setup {
    /// Returns the rows by which this training stops: those that its pass holds out, if it does.
    pub(crate) fn evaluation_rows(&self) -> EvaluationRows {
        match self.context.pass {
            Some(Pass::HeldOut(_) | Pass::Probe) => EvaluationRows::HeldOut,
            Some(Pass::Last) | None => EvaluationRows::Valid,
        }
    }

    /// Returns whether every client is in every cohort.
    fn samples_all(&self) -> bool {
        self.privacy.is_none() && self.cohort_size() == self.context.dataset.clients()
    }

    /// Returns the honest clients that have validation rows; with sampling, as many of them as a
    /// cohort has, by the seed.
    fn fixed_cohort(&self) -> Vec<usize> {
        let dataset = &self.context.dataset;
        let counts = |k: &usize| !self.attackers.has(*k) && dataset.sizes(*k).1 > 0;
        let all: Vec<usize> = (0..dataset.clients()).filter(counts).collect();
        let size = self.cohort_size().min(all.len());
        // No round is 0.
        let mut rng = stream(self.context.seed, Purpose::Cohort, 0, 0);
        let sampled = rand::seq::index::sample(&mut rng, all.len(), size);
        let mut cohort: Vec<usize> = sampled.into_iter().map(|k| all[k]).collect();
        cohort.sort_unstable();
        cohort
    }
}

impl Training {
    /// Returns the pooled loss of a round, if all clients took part and were scored.
    pub(super) fn pooled_loss(&self, trained: &Trained, scored: bool) -> Option<PooledLoss> {
        if !scored || !self.setup.samples_all() {
            return None;
        }
        if self.setup.evaluation_rows() == EvaluationRows::Valid {
            let valid = trained.personal.sum.valid;
            let (sum, rows) = (valid.loss, valid.examples);
            return Some(PooledLoss { sum, rows });
        }
        let sums = trained.candidates.iter().map(|(sum, _)| *sum);
        let dataset = &self.setup.context.dataset;
        let held_out = |k: &usize| dataset.whole_sizes(*k).0 - dataset.sizes(*k).0;
        Some(PooledLoss {
            sum: sums.reduce(f64::min)?,
            rows: trained.honest.iter().map(|k| held_out(k) as u64).sum(),
        })
    }

    /// Returns the mean loss of the personal models after the last round: of those of that round
    /// if all clients take part, else of those that a fixed set of clients would have after a
    /// local round. With candidates it is the loss of the best one. `None` if the round is not
    /// evaluated.
    pub(crate) fn evaluation(&mut self) -> Result<Option<f64>> {
        if !self.evaluates(self.round) {
            return Ok(None);
        }
        if self.setup.samples_all() {
            return Ok(self.evaluated.map(PooledLoss::mean));
        }
        let rows = self.setup.evaluation_rows();
        let held_out = self.losses_on(rows, &self.setup.fixed_cohort())?;
        let mut total = crate::choice::HeldOut::default();
        held_out.values().for_each(|own| total.add(own));
        let least = total.means().into_iter().reduce(f64::min);
        Ok(least.filter(|_| total.rows > 0))
    }
}
