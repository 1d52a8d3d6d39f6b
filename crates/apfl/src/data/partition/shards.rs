//! `shards`, the partition of McMahan et al. (2017).

use rand::seq::SliceRandom;

use super::{
    Assignment, CLASSES, Partition, PartitionKind, UNSET, remainder_note, sorted_by_label,
};
use crate::error::{Error, Result};
use crate::rng::{Purpose, stream};
use crate::settings::Kind;

pub(super) const KIND: PartitionKind = Kind {
    name: "shards",
    about: "`classes` random shards of the sorted examples for every client",
    settings: &[&CLASSES],
    examples: &["{ kind = 'shards', classes = 3 }"],
    value: |s| Partition::Shards {
        classes: s.get(&CLASSES) as usize,
        clients: UNSET,
    },
};

/// Cuts the examples, sorted by label, into clients·classes equal shards and assigns `classes`
/// random ones to every client.
pub(super) fn assign(
    labels: &[u32],
    classes: usize,
    clients: usize,
    seed: u64,
) -> Result<Assignment> {
    let sorted = sorted_by_label(labels);
    let size = labels.len() / (clients * classes);
    if size == 0 {
        return Err(Error::data(format!(
            "{} examples are too few for {clients} clients (data.clients) with {classes} shards \
             each (data.partition.classes)",
            labels.len()
        )));
    }
    let mut order: Vec<usize> = (0..clients * classes).collect();
    order.shuffle(&mut stream(seed, Purpose::Partition, 0, 1));
    let shards = |mine: &[usize]| {
        let rows = mine.iter().map(|shard| &sorted[shard * size..][..size]);
        rows.flatten().copied().collect()
    };
    Ok(Assignment::numbered(
        labels.len(),
        order.chunks_exact(classes).map(shards).collect(),
        remainder_note(clients * classes * size, labels.len()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_whole_shards() {
        // 5 classes of 8 rows, 10 shards of 4: a shard is always of one class.
        let labels: Vec<u32> = (0..40).map(|row| row % 5).collect();
        let assignment = assign(&labels, 2, 5, 3).unwrap();
        for (_, rows) in &assignment.clients {
            for shard in rows.chunks(4) {
                let class = labels[shard[0] as usize];
                assert!(shard.iter().all(|row| labels[*row as usize] == class));
            }
        }
        assert_ne!(assignment, assign(&labels, 2, 5, 4).unwrap());
        assert!(assign(&labels, 9, 5, 3).is_err());
    }
}
