//! What was released, where noise cannot be made again: written down before it happens.
//!
//! With noise from the operating system a round that is repeated after a resume is another
//! release: who saw both has learned from both. So every round is entered, durably, before
//! anything of it is computed, and entries are never taken back. ε counts entries, not rounds.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::RngExt;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::rng::system_stream;

/// A round that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The pass of a choice; 0: the last, or the only one.
    pub pass: u64,
    /// The round.
    pub round: u64,
    /// Who was drawn, where that is a secret of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cohort: Option<Vec<usize>>,
}

/// Makes an entry durable.
pub type Keep = Box<dyn FnMut(&Release) -> Result<()> + Send>;

/// All releases of a run, its passes and earlier lives included.
#[derive(Default)]
pub struct Ledger {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: Vec<Release>,
    /// Of every pass and round the entry that came last: the one that the run goes on from.
    last: BTreeMap<(u64, u64), usize>,
    keep: Option<Keep>,
}

impl Inner {
    fn push(&mut self, release: Release) {
        self.last
            .insert((release.pass, release.round), self.entries.len());
        self.entries.push(release);
    }
}

impl Ledger {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether entries are made durable.
    pub fn is_kept(&self) -> bool {
        self.inner().keep.is_some()
    }

    /// Takes over what was entered in earlier lives, and how entries are made durable from now
    /// on.
    pub fn go_on(&self, entries: Vec<Release>, keep: Keep) {
        let mut inner = self.inner();
        *inner = Inner::default();
        entries.into_iter().for_each(|release| inner.push(release));
        inner.keep = Some(keep);
    }

    /// Enters a round; nothing of it may be computed before. With q, every one of n clients is
    /// drawn with that probability, by the operating system.
    pub fn enter(&self, pass: u64, round: u64, sampling: Option<(f64, usize)>) -> Result<()> {
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
        if let Some(keep) = &mut inner.keep {
            keep(&release)?;
        }
        inner.push(release);
        Ok(())
    }

    /// Who was drawn when a round was last begun; nobody where it was not.
    pub fn cohort(&self, pass: u64, round: u64) -> Vec<usize> {
        let inner = self.inner();
        let entry = inner.last.get(&(pass, round)).map(|k| &inner.entries[*k]);
        entry
            .and_then(|release| release.cohort.clone())
            .unwrap_or_default()
    }

    /// All entries.
    pub fn count(&self) -> u64 {
        self.inner().entries.len() as u64
    }

    /// The rounds of all entries but one of each round of a pass up to that one: what was
    /// released beside what the run goes on from.
    pub fn beside(&self, pass: u64, round: u64) -> Vec<u64> {
        let inner = self.inner();
        let counts = |k: usize, entry: &Release| {
            entry.pass == pass && entry.round <= round && inner.last[&(pass, entry.round)] == k
        };
        let entries = inner.entries.iter().enumerate();
        let beside = entries.filter(|(k, entry)| !counts(*k, entry));
        beside.map(|(_, entry)| entry.round).collect()
    }

    /// Entries that no model came of, where a pass has come to that round: of rounds that were
    /// entered again, and of later ones.
    pub fn lost(&self, pass: u64, round: u64) -> u64 {
        let inner = self.inner();
        let later = inner.last.range((pass, round + 1)..(pass + 1, 0)).count();
        (inner.entries.len() - inner.last.len() + later) as u64
    }

    /// An error where a round up to that one is missing: what it cost is not known.
    pub fn require(&self, pass: u64, rounds: u64) -> Result<()> {
        let inner = self.inner();
        let missing = (1..=rounds).find(|round| !inner.last.contains_key(&(pass, *round)));
        match missing {
            None => Ok(()),
            Some(round) => Err(Error::Checkpoint(format!(
                "releases.jsonl has no entry of round {round}, so that what privacy has cost is not \
                 known; put the file back, or begin a new run in another directory"
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

    /// Rounds 1, 2 and 3, then 2 and 3 again: five releases, two of them repeats, and the
    /// cohorts are those of the second time.
    #[test]
    fn a_round_that_is_repeated_counts_again() {
        let ledger = Ledger::default();
        for round in [1, 2, 3, 2, 3] {
            ledger.enter(0, round, Some((0.5, 40))).unwrap();
        }
        assert_eq!((ledger.count(), ledger.lost(0, 3)), (5, 2));
        assert_eq!(ledger.lost(0, 1), 4);
        assert_eq!(ledger.beside(0, 3), [2, 3]);
        assert_eq!(ledger.beside(0, 1), [2, 3, 2, 3]);
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
        ledger.go_on(
            Vec::new(),
            Box::new(|_| Err(Error::Checkpoint("the disk is full".into()))),
        );
        assert!(ledger.enter(0, 1, None).is_err());
        assert_eq!(ledger.count(), 0);
    }
}
