//! The ledger of releases, for noise that is not reproducible.
//!
//! With noise from the operating system, a round that is repeated after a resume is another
//! release. So every round is recorded durably before any of it is computed, and entries are never
//! removed. ε counts entries, not rounds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rng::system_stream;

/// A round that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Release {
    /// The pass of a choice; 0 is the last or only one.
    pub pass: u64,
    /// The round; 0 if it is unknown, because the entry was torn. Then the entry counts, and for
    /// every client, but is no round to continue from.
    pub round: u64,
    /// The sampled clients, if the operating system sampled them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<Vec<usize>>,
}

/// Writes an entry durably.
#[doc(hidden)]
pub type PersistRelease = Box<dyn FnMut(&Release) -> Result<()> + Send>;

/// All releases of a run, including those of its passes and of earlier processes.
#[derive(Default)]
#[doc(hidden)]
pub struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: Vec<Release>,
    /// The last entry of every pass and round, which the run continues from.
    last: BTreeMap<(u64, u64), usize>,
    persist: Option<PersistRelease>,
}

impl Inner {
    fn push(&mut self, release: Release) {
        if release.round > 0 {
            self.last
                .insert((release.pass, release.round), self.entries.len());
        }
        self.entries.push(release);
    }
}

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether entries are written durably.
    pub(crate) fn is_durable(&self) -> bool {
        self.inner().persist.is_some()
    }

    /// Continues with the entries of earlier processes; `persist` writes new ones.
    pub fn resume(&self, entries: Vec<Release>, persist: PersistRelease) {
        let mut inner = self.inner();
        *inner = Inner::default();
        entries.into_iter().for_each(|release| inner.push(release));
        inner.persist = Some(persist);
    }

    /// Records a round before any of it is computed. Given q, samples each of n clients with
    /// that probability by the operating system's randomness.
    pub fn record(&self, pass: u64, round: u64, sampling: Option<(f64, usize)>) -> Result<()> {
        let cohort = sampling.map(|(q, n)| {
            let mut rng = system_stream();
            (0..n).filter(|_| q >= 1.0 || rng.random_bool(q)).collect()
        });
        let release = Release {
            pass,
            round,
            cohort,
        };
        let mut inner = self.inner();
        if let Some(persist) = &mut inner.persist {
            persist(&release)?;
        }
        inner.push(release);
        Ok(())
    }

    /// Returns the sampled clients of the last entry of a round; none without an entry.
    pub fn cohort(&self, pass: u64, round: u64) -> Vec<usize> {
        let inner = self.inner();
        let entry = inner.last.get(&(pass, round)).map(|k| &inner.entries[*k]);
        entry
            .and_then(|release| release.cohort.clone())
            .unwrap_or_default()
    }

    /// Returns the number of entries.
    pub fn count(&self) -> u64 {
        self.inner().entries.len() as u64
    }

    /// Returns the rounds of all releases besides those that the run continues from, which are
    /// the last entries of the pass up to `round`. 0 is an unknown round.
    pub(crate) fn extra_rounds(&self, pass: u64, round: u64) -> Vec<u64> {
        let inner = self.inner();
        let is_current = |k: usize, entry: &Release| {
            let last = inner.last.get(&(pass, entry.round));
            entry.pass == pass && entry.round <= round && last == Some(&k)
        };
        let entries = inner.entries.iter().enumerate();
        let extra = entries.filter(|(k, entry)| !is_current(*k, entry));
        extra.map(|(_, entry)| entry.round).collect()
    }

    /// Returns the number of entries without effect on the model of a round: of repeated rounds
    /// and of later ones.
    pub fn lost(&self, pass: u64, round: u64) -> u64 {
        let inner = self.inner();
        let later = inner.last.range((pass, round + 1)..(pass + 1, 0)).count();
        (inner.entries.len() - inner.last.len() + later) as u64
    }

    /// Returns an error if a round up to `rounds` has no entry.
    pub(crate) fn require(&self, pass: u64, rounds: u64) -> Result<()> {
        let inner = self.inner();
        let missing = (1..=rounds).find(|round| !inner.last.contains_key(&(pass, *round)));
        match missing {
            None => Ok(()),
            Some(round) => Err(Error::Checkpoint(format!(
                "releases.jsonl has no entry of round {round}, so the privacy spent is unknown; \
                 restore the file, or begin a new run in another directory"
            ))),
        }
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds 1, 2 and 3, then 2 and 3 again: five releases, two of them repeats. The
    /// cohorts are those of the second time.
    #[test]
    fn a_round_that_is_repeated_counts_again() {
        let ledger = Ledger::default();
        for round in [1, 2, 3, 2, 3] {
            ledger.record(0, round, Some((0.5, 40))).unwrap();
        }
        assert_eq!((ledger.count(), ledger.lost(0, 3)), (5, 2));
        assert_eq!(ledger.lost(0, 1), 4);
        assert_eq!(ledger.extra_rounds(0, 3), [2, 3]);
        assert_eq!(ledger.extra_rounds(0, 1), [2, 3, 2, 3]);
        let entries = ledger.inner().entries.clone();
        assert_eq!(Some(ledger.cohort(0, 2)), entries[3].cohort);
        assert_ne!(entries[1].cohort, entries[3].cohort); // 2⁻⁴⁰
        assert!(ledger.require(0, 3).is_ok());
        assert!(ledger.require(0, 4).is_err());
        assert!(ledger.require(1, 1).is_err());
    }

    #[test]
    fn what_cannot_be_written_is_not_released() {
        let ledger = Ledger::default();
        ledger.resume(
            Vec::new(),
            Box::new(|_| Err(Error::Checkpoint("the disk is full".into()))),
        );
        assert!(ledger.record(0, 1, None).is_err());
        assert_eq!(ledger.count(), 0);
    }
}
