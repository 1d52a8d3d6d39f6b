//! `iid`: random parts of equal size.

use rand::seq::SliceRandom;

use super::{Assignment, Partition, PartitionKind, UNSET};
use crate::error::{Error, Result};
use crate::rng::{Purpose, stream};
use crate::settings::Kind;

pub(super) const KIND: PartitionKind = Kind {
    name: "iid",
    about: "random parts of equal size",
    settings: &[],
    examples: &["{ kind = 'iid' }"],
    value: |_| Partition::Iid { clients: UNSET },
};

/// Assigns random parts; the first `rows % clients` have one example more.
pub(super) fn assign(rows: usize, clients: usize, seed: u64) -> Result<Assignment> {
    if clients > rows {
        return Err(Error::data(format!(
            "{rows} examples are too few for {clients} clients (data.clients)"
        )));
    }
    let mut order: Vec<u32> = (0..rows as u32).collect();
    order.shuffle(&mut stream(seed, Purpose::Partition, 0, 0));
    let mut rest = order.as_slice();
    let part = |c: usize| {
        let size = rows / clients + usize::from(c < rows % clients);
        let (part, left) = rest.split_at(size);
        rest = left;
        part.to_vec()
    };
    Ok(Assignment::numbered(
        rows,
        (0..clients).map(part).collect(),
        Vec::new(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_but_for_one() {
        let assignment = assign(23, 4, 1).unwrap();
        let sizes: Vec<usize> = assignment.clients.iter().map(|c| c.1.len()).collect();
        assert_eq!(sizes, [6, 6, 6, 5]);
        assert_ne!(assignment, assign(23, 4, 2).unwrap());
        assert!(assign(3, 4, 1).is_err());
    }
}
