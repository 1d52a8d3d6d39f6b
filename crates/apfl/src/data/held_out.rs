//! Data with a part of every client's training rows held out, for choices that are to be made
//! on rows that nothing was trained on.

use std::sync::Arc;

use rand::RngExt;
use rand::seq::SliceRandom;

use super::partition::Assignment;
use super::{Dataset, Examples, Schema, Shard, SourceFile};
use crate::error::Result;
use crate::rng::{Purpose, stream};

/// Which rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldOutRows {
    /// The seed of training.
    pub seed: u64,
    /// Into how many parts a client's rows are dealt.
    pub folds: u64,
    /// Which of them is held out, from 1.
    pub part: u64,
    /// With one part: the share of the rows that it has.
    pub share: f64,
}

impl HeldOutRows {
    /// How many of a client's `m` rows are held out. A single row is always trained on.
    ///
    /// Rows are dealt in turn, beginning with a part of the client's own, so that parts differ
    /// by one row at most and small clients do not all hold out in the first passes.
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

    /// The rows of a client that are trained on and those held out, both ascending.
    pub fn split(&self, client: usize, m: usize) -> (Vec<u32>, Vec<u32>) {
        let mut rng = stream(self.seed, Purpose::HeldOut, 0, client as u64);
        let first: u64 = rng.random_range(0..self.folds);
        let mut order: Vec<u32> = (0..m as u32).collect();
        order.shuffle(&mut rng);
        let count = self.count(client, m);
        let held = |j: usize| match self.folds {
            _ if m < 2 => false,
            1 => j < count,
            folds => (j as u64 + first) % folds == self.part - 1,
        };
        let (mut rest, mut out) = (Vec::with_capacity(m - count), Vec::with_capacity(count));
        for (j, row) in order.into_iter().enumerate() {
            if held(j) {
                out.push(row)
            } else {
                rest.push(row)
            }
        }
        rest.sort_unstable();
        out.sort_unstable();
        (rest, out)
    }
}

/// The data without those rows; [`Dataset::held_out`] has them.
pub fn without_held_out(whole: Arc<dyn Dataset>, out: HeldOutRows) -> Arc<dyn Dataset> {
    Arc::new(WithoutHeldOut { whole, out })
}

struct WithoutHeldOut {
    whole: Arc<dyn Dataset>,
    out: HeldOutRows,
}

impl Dataset for WithoutHeldOut {
    fn schema(&self) -> &Schema {
        self.whole.schema()
    }
    fn clients(&self) -> usize {
        self.whole.clients()
    }
    fn name(&self, client: usize) -> String {
        self.whole.name(client)
    }
    fn sizes(&self, client: usize) -> (usize, usize) {
        let (train, valid) = self.whole.sizes(client);
        (train - self.out.count(client, train), valid)
    }
    fn test_size(&self, client: usize) -> usize {
        self.whole.test_size(client)
    }
    fn whole_sizes(&self, client: usize) -> (usize, usize) {
        self.whole.whole_sizes(client)
    }
    fn shard(&self, client: usize) -> Result<Arc<Shard>> {
        let mut shard = (*self.whole.shard(client)?).clone();
        let (rest, _) = self.out.split(client, shard.train.len());
        shard.train = shard.train.gathered(&rest);
        Ok(Arc::new(shard))
    }
    fn holds(&self, client: usize) -> bool {
        self.whole.holds(client)
    }
    fn held_out(&self, client: usize) -> Result<Option<Arc<Examples>>> {
        let shard = self.whole.shard(client)?;
        let (_, out) = self.out.split(client, shard.train.len());
        Ok(Some(Arc::new(shard.train.gathered(&out))))
    }
    fn is_generated(&self) -> bool {
        self.whole.is_generated()
    }
    fn files(&self) -> Vec<SourceFile> {
        self.whole.files()
    }
    fn assignment(&self) -> Option<&Assignment> {
        self.whole.assignment()
    }
    fn notes(&self) -> Vec<String> {
        self.whole.notes()
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
                    let (rest, out) = part(5, k).split(client, m);
                    assert_eq!(out.len(), part(5, k).count(client, m));
                    let mut all = [&rest[..], &out[..]].concat();
                    all.sort_unstable();
                    assert_eq!(all, (0..m as u32).collect::<Vec<_>>());
                    assert!(m == 0 || !rest.is_empty());
                    out.iter().for_each(|row| seen[*row as usize] += 1);
                    sizes.push(out.len());
                }
                // A single row is never held out: there would be nothing to train on.
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
