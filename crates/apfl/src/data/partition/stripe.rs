//! `stripe`, the partition of the APFL authors' experiments.

use super::{
    Assignment, CLASSES, Partition, PartitionKind, UNSET, remainder_note, sorted_by_label,
};
use crate::error::{Error, Result};
use crate::settings::Kind;

pub(super) const KIND: PartitionKind = Kind {
    name: "stripe",
    about: "one slice of each of `classes` blocks of the sorted examples for every client",
    settings: &[&CLASSES],
    examples: &["{ kind = 'stripe', classes = 3 }"],
    value: |s| Partition::Stripe {
        classes: s.get(&CLASSES) as usize,
        clients: UNSET,
    },
};

/// Cuts the examples, sorted by label, into `classes` equal blocks and assigns slice c of every
/// block to client c. With 2 blocks of MNIST and 100 clients that is 2×300 digits, of two classes
/// for most clients.
pub(super) fn assign(labels: &[u32], classes: usize, clients: usize) -> Result<Assignment> {
    let sorted = sorted_by_label(labels);
    let block = labels.len() / classes;
    let slice = block / clients;
    if slice == 0 {
        return Err(Error::data(format!(
            "{} examples are too few for {clients} clients (data.clients) with a slice of each \
             of {classes} blocks (data.partition.classes)",
            labels.len()
        )));
    }
    let of_client = |c: usize| {
        let slices = (0..classes).map(|b| &sorted[b * block + c * slice..][..slice]);
        slices.flatten().copied().collect()
    };
    Ok(Assignment::numbered(
        labels.len(),
        (0..clients).map(of_client).collect(),
        remainder_note(classes * clients * slice, labels.len()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_c_takes_slice_c_of_every_block() {
        // Sorted by label, ties in order: rows 1 3 5 7 | 0 2 4 6.
        let labels = [1, 0, 1, 0, 1, 0, 1, 0];
        let assignment = assign(&labels, 2, 2).unwrap();
        let rows: Vec<_> = assignment.clients.into_iter().map(|c| c.1).collect();
        assert_eq!(rows, [[1, 3, 0, 2], [5, 7, 4, 6]]);
        assert!(assign(&labels, 2, 5).is_err());
    }
}
