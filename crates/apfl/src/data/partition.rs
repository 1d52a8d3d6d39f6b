//! How examples fall on clients, and which of them a client holds out.
//!
//! Everything here depends on the data's seed alone.

use rand::seq::SliceRandom;

use crate::rng::{Purpose, stream};

/// Which of a client's `m` examples are for training and which for validation:
/// ⌈share·m⌉ are held out, drawn at random, both lists in ascending order.
pub fn hold_out(m: usize, share: f64, seed: u64, client: u64) -> (Vec<u32>, Vec<u32>) {
    let held = held_out(m, share);
    let mut order: Vec<u32> = (0..m as u32).collect();
    order.shuffle(&mut stream(seed, Purpose::Split, 0, client));
    let (mut valid, mut train) = (order[..held].to_vec(), order[held..].to_vec());
    valid.sort_unstable();
    train.sort_unstable();
    (train, valid)
}

/// ⌈share·m⌉. A product that is whole but for rounding (0.07·100) counts as whole.
pub fn held_out(m: usize, share: f64) -> usize {
    let exact = share * m as f64;
    let whole = exact.round();
    let held = if (exact - whole).abs() < 1e-9 * exact.max(1.0) {
        whole
    } else {
        exact.ceil()
    };
    (held as usize).min(m)
}

/// Random parts of equal size; the first `rows % clients` have one more.
pub fn iid(rows: usize, clients: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut order: Vec<u32> = (0..rows as u32).collect();
    order.shuffle(&mut stream(seed, Purpose::Partition, 0, 0));
    let mut rest = order.as_slice();
    (0..clients)
        .map(|c| {
            let size = rows / clients + usize::from(c < rows % clients);
            let (part, left) = rest.split_at(size);
            rest = left;
            part.to_vec()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_held_out_is_rounded_up() {
        assert_eq!(held_out(10, 0.2), 2);
        assert_eq!(held_out(11, 0.2), 3);
        assert_eq!(held_out(1, 0.2), 1);
        assert_eq!(held_out(600, 0.2), 120);
        assert_eq!(held_out(100, 0.07), 7); // 7.000000000000001 in f64
    }

    #[test]
    fn training_and_validation_are_disjoint_and_cover_all() {
        let (train, valid) = hold_out(23, 0.2, 5, 3);
        let mut all = [train.clone(), valid.clone()].concat();
        all.sort_unstable();
        assert_eq!(all, (0..23).collect::<Vec<u32>>());
        assert_eq!(valid.len(), 5);
        assert_eq!(hold_out(23, 0.2, 5, 3), (train, valid));
        assert_ne!(hold_out(23, 0.2, 6, 3).1, hold_out(23, 0.2, 5, 3).1);
    }

    #[test]
    fn iid_parts_are_disjoint_equal_and_cover_all() {
        let parts = iid(23, 4, 1);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [6, 6, 6, 5]);
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(all, (0..23).collect::<Vec<u32>>());
    }
}
