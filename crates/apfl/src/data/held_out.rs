//! Holds out a part of every client's training rows, for choices among models that were not trained
//! on them.

use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;

use super::partition::Assignment;
use super::{Dataset, Examples, Schema, Shard, SourceFile};
use crate::error::Result;
use crate::rng::{Purpose, stream};

/// Selects the rows that are held out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOutRows {
    /// The run's seed.
    pub seed: u64,
    /// The number of parts that a client's rows are divided into.
    pub folds: u64,
    /// The part that is held out, from 1.
    pub part: u64,
    /// The share of the rows that is held out if there is one part.
    pub share: f64,
}

impl HeldOutRows {
    /// Returns how many of a client's `m` rows are held out. A single row is always for training.
    ///
    /// Rows go to the parts in turn, beginning with a random part, so that parts differ by at most
    /// one row and small clients do not all hold out rows in the first passes.
    pub fn count(&self, client: usize, m: usize) -> usize {
        match self.folds {
            _ if m < 2 => 0,
            1 => ((self.share * m as f64).ceil() as usize).clamp(1, m - 1),
            folds => {
                let first = self.first(client);
                (0..m as u64)
                    .filter(|j| (j + first) % folds == self.part - 1)
                    .count()
            }
        }
    }

    fn first(&self, client: usize) -> u64 {
        stream(self.seed, Purpose::HeldOut, 0, client as u64).random_range(0..self.folds)
    }

    /// Returns the training rows and the held-out rows of a client, both ascending.
    pub fn split(&self, client: usize, m: usize) -> (Vec<u32>, Vec<u32>) {
        let mut rng = stream(self.seed, Purpose::HeldOut, 0, client as u64);
        let first: u64 = rng.random_range(0..self.folds);
        let mut order: Vec<u32> = (0..m as u32).collect();
        order.shuffle(&mut rng);
        let count = self.count(client, m);
        let is_held_out = |j: usize| match self.folds {
            _ if m < 2 => false,
            1 => j < count,
            folds => (j as u64 + first) % folds == self.part - 1,
        };
        let (mut train, mut held_out) = (Vec::with_capacity(m - count), Vec::with_capacity(count));
        for (j, row) in order.into_iter().enumerate() {
            if is_held_out(j) {
                held_out.push(row)
            } else {
                train.push(row)
            }
        }
        train.sort_unstable();
        held_out.sort_unstable();
        (train, held_out)
    }
}

/// Returns the data without the held-out rows, which [`Dataset::held_out`] returns.
pub fn without_held_out(data: Arc<dyn Dataset>, rows: HeldOutRows) -> Arc<dyn Dataset> {
    Arc::new(WithoutHeldOut { data, rows })
}

struct WithoutHeldOut {
    data: Arc<dyn Dataset>,
    rows: HeldOutRows,
}

impl Dataset for WithoutHeldOut {
    fn schema(&self) -> &Schema {
        self.data.schema()
    }
    fn clients(&self) -> usize {
        self.data.clients()
    }
    fn name(&self, client: usize) -> String {
        self.data.name(client)
    }
    fn sizes(&self, client: usize) -> (usize, usize) {
        let (train, valid) = self.data.sizes(client);
        (train - self.rows.count(client, train), valid)
    }
    fn test_size(&self, client: usize) -> usize {
        self.data.test_size(client)
    }
    fn whole_sizes(&self, client: usize) -> (usize, usize) {
        self.data.whole_sizes(client)
    }
    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let mut shard = (*self.data.shard(client)?).clone();
        let (train, _) = self.rows.split(client, shard.train.len());
        shard.train = shard.train.gathered(&train);
        Ok(Arc::new(shard))
    }
    fn is_local(&self, client: usize) -> bool {
        self.data.is_local(client)
    }
    fn held_out(&self, client: usize) -> Result<Option<Arc<Examples>>> {
        let shard = self.data.shard(client)?;
        let (_, held_out) = self.rows.split(client, shard.train.len());
        Ok(Some(Arc::new(shard.train.gathered(&held_out))))
    }
    fn is_generated(&self) -> bool {
        self.data.is_generated()
    }
    fn files(&self) -> Vec<SourceFile> {
        self.data.files()
    }
    fn assignment(&self) -> Option<&Assignment> {
        self.data.assignment()
    }
    fn notes(&self) -> Vec<String> {
        self.data.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(folds: u64, part: u64) -> HeldOutRows {
        HeldOutRows {
            seed: 7,
            folds,
            part,
            share: 0.2,
        }
    }

    #[test]
    fn every_row_is_held_out_once() {
        for m in [0usize, 1, 2, 3, 5, 12, 101] {
            for client in [0, 1, 8] {
                let mut seen = vec![0; m];
                let mut sizes = Vec::new();
                for k in 1..=5 {
                    let (train, held_out) = part(5, k).split(client, m);
                    assert_eq!(held_out.len(), part(5, k).count(client, m));
                    let mut all = [&train[..], &held_out[..]].concat();
                    all.sort_unstable();
                    assert_eq!(all, (0..m as u32).collect::<Vec<_>>());
                    assert!(m == 0 || !train.is_empty());
                    held_out.iter().for_each(|row| seen[*row as usize] += 1);
                    sizes.push(held_out.len());
                }
                // A single row is never held out.
                assert!(
                    seen.iter().all(|n| *n == usize::from(m > 1)),
                    "{m}: {seen:?}"
                );
                let (most, least) = (sizes.iter().max().unwrap(), sizes.iter().min().unwrap());
                assert!(most - least <= 1);
            }
        }
    }

    #[test]
    fn one_part_has_its_share() {
        for (m, count) in [(1, 0), (2, 1), (3, 1), (5, 1), (6, 2), (10, 2), (11, 3)] {
            assert_eq!(part(1, 1).count(0, m), count, "{m}");
            assert_eq!(part(1, 1).split(0, m).1.len(), count, "{m}");
        }
    }
}
