//! The order in which examples are drawn.

use rand::RngExt;
use rand::seq::SliceRandom;

use crate::rng::Stream;

/// Draws batches from some rows without replacement: a fresh permutation whenever the
/// last one is used up, its short last batch kept.
#[derive(Clone, Debug, Default)]
pub(super) struct Sampler {
    rows: Vec<u32>,
    order: Vec<u32>,
    at: usize,
}

impl Sampler {
    /// Forgets its rows and where it was.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.order.clear();
        self.at = 0;
    }

    /// Draws from those rows from now on.
    pub fn fill(&mut self, rows: impl IntoIterator<Item = u32>) {
        self.clear();
        self.rows.extend(rows);
    }

    /// The rows it draws from.
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// How many rows it draws from.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Every row with that probability, in order: a Poisson sample, which may be empty.
    pub fn draw_each(&mut self, rate: f64, rng: &mut Stream) -> &[u32] {
        let Self { rows, order, at } = self;
        order.clear();
        order.extend(rows.iter().filter(|_| rng.random_bool(rate)));
        *at = order.len();
        order
    }

    /// The next `size` rows; `None`, or more than there are: all of them, in order.
    pub fn draw(&mut self, size: Option<usize>, rng: &mut Stream) -> &[u32] {
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
    fn every_row_comes_once_a_pass_and_the_short_batch_is_kept() {
        let mut rng = stream(1, Purpose::Batches, 1, 0);
        let mut sampler = Sampler::default();
        sampler.fill([3, 5, 8, 13, 21]);
        for _ in 0..3 {
            let mut pass = Vec::new();
            for size in [2, 2, 1] {
                let sampled = sampler.draw(Some(2), &mut rng);
                assert_eq!(sampled.len(), size);
                pass.extend_from_slice(sampled);
            }
            pass.sort_unstable();
            assert_eq!(pass, [3, 5, 8, 13, 21]);
        }
        assert_eq!(sampler.draw(None, &mut rng), [3, 5, 8, 13, 21]);
        assert_eq!(sampler.draw(Some(5), &mut rng), [3, 5, 8, 13, 21]);
    }
}
