//! The order in which examples are sampled.

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::rng::Stream;

/// Samples batches from a set of rows without replacement. A used-up permutation is replaced
/// by a fresh one; its last short batch is kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    rows: Vec<u32>,
    order: Vec<u32>,
    at: usize,
}

impl Sampler {
    /// Removes all rows and resets the position.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.order.clear();
        self.at = 0;
    }

    /// Replaces the rows to sample from.
    pub fn fill(&mut self, rows: impl IntoIterator<Item = u32>) {
        self.clear();
        self.rows.extend(rows);
    }

    /// Returns the rows to sample from.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Returns the number of rows to sample from.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns a Poisson sample, which may be empty: every row with probability `rate`, in order.
    pub fn poisson_sample(&mut self, rate: f64, rng: &mut Stream) -> &[u32] {
        let Self { rows, order, at } = self;
        order.clear();
        order.extend(rows.iter().filter(|_| rng.random_bool(rate)));
        *at = order.len();
        order
    }

    /// Returns the next `size` rows; all rows in order if `size` is `None` or not below their number.
    pub fn next_batch(&mut self, size: Option<usize>, rng: &mut Stream) -> &[u32] {
        let m = self.rows.len();
        let Some(size) = size.filter(|size| *size < m) else {
            return &self.rows;
        };
        if self.at >= self.order.len() {
            self.order.clear();
            self.order.extend_from_slice(&self.rows);
            self.order.shuffle(rng);
            self.at = 0;
        }
        let start = self.at;
        self.at = (start + size).min(m);
        &self.order[start..self.at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::{Purpose, stream};

    #[test]
    fn a_pass_has_every_row_once_and_keeps_the_short_batch() {
        let mut rng = stream(1, Purpose::Batches, 1, 0);
        let mut sampler = Sampler::default();
        sampler.fill([3, 5, 8, 13, 21]);
        for _ in 0..3 {
            let mut pass = Vec::new();
            for size in [2, 2, 1] {
                let sampled = sampler.next_batch(Some(2), &mut rng);
                assert_eq!(sampled.len(), size);
                pass.extend_from_slice(sampled);
            }
            pass.sort_unstable();
            assert_eq!(pass, [3, 5, 8, 13, 21]);
        }
        assert_eq!(sampler.next_batch(None, &mut rng), [3, 5, 8, 13, 21]);
        assert_eq!(sampler.next_batch(Some(5), &mut rng), [3, 5, 8, 13, 21]);
    }
}
