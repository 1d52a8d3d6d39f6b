//! Clients and what each of them trains on and holds out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::partition::{Assignment, Partition, digest_of_labels, hold_out_parts};
use super::{Common, Examples, InMemory, Schema, Shard, SourceFile};
use crate::error::{Error, Result};

/// Writers with fewer validation examples are left out: one example tells nothing.
const FEWEST_VALIDATION: usize = 2;

/// The rows of one client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientRows {
    /// The client's name.
    pub name: String,
    /// What it trains on.
    pub train: Vec<u32>,
    /// What it holds out.
    pub valid: Vec<u32>,
    /// What it holds out for a test.
    pub test: Vec<u32>,
}

/// All clients' rows.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedRows {
    /// The clients that take part.
    pub parts: Vec<ClientRows>,
    /// What a user should be told, such as clients left out.
    pub notes: Vec<String>,
    /// The partition, where there was one, before small clients were left out.
    pub assignment: Option<Assignment>,
}

impl AssignedRows {
    /// The data set, gathered client by client from all examples.
    pub(super) fn gather(
        self,
        all: &Examples,
        schema: Schema,
        mut files: Vec<SourceFile>,
    ) -> InMemory {
        let shard = |part: ClientRows| {
            Arc::new(Shard {
                train: all.gathered(&part.train),
                valid: all.gathered(&part.valid),
                test: all.gathered(&part.test),
                name: part.name,
            })
        };
        files.extend(self.assignment.as_ref().and_then(|d| d.file.clone()));
        InMemory {
            schema,
            shards: self.parts.into_iter().map(shard).collect(),
            files,
            notes: self.notes,
            assignment: self.assignment,
        }
    }
}

/// Rows by owner, in the order of the owners' numbers.
pub(super) fn grouped(owners: &[i64], name: impl Fn(i64) -> String) -> Vec<(String, Vec<u32>)> {
    let mut rows: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (row, owner) in owners.iter().enumerate() {
        rows.entry(*owner).or_default().push(row as u32);
    }
    rows.into_iter()
        .map(|(id, rows)| (name(id), rows))
        .collect()
}

/// The data's own clients. Those with fewer than `data.min_examples` examples, fewer
/// than 2 for validation or none for training are left out. `held` is the data's own
/// split, where it has one.
pub(super) fn by_owner(
    owners: Vec<(String, Vec<u32>)>,
    held: Option<&[bool]>,
    common: &Common,
) -> Result<AssignedRows> {
    let count = owners.len();
    let (mut parts, mut small, mut unscorable) = (Vec::new(), 0, 0);
    for (client, (name, rows)) in owners.into_iter().enumerate() {
        if rows.len() < common.min_examples {
            small += 1;
            continue;
        }
        let [train, valid, test] = match held {
            Some(held) => {
                let (train, valid) = rows.iter().partition(|row| !held[**row as usize]);
                [train, valid, Vec::new()]
            }
            None => split(&rows, common, client),
        };
        if valid.len() < FEWEST_VALIDATION || train.is_empty() {
            unscorable += 1;
            continue;
        }
        parts.push(ClientRows {
            name,
            train,
            valid,
            test,
        });
    }
    let mut notes = too_small(small, count, common);
    if unscorable > 0 {
        notes.push(format!(
            "{unscorable} of {count} clients have fewer than {FEWEST_VALIDATION} validation \
             examples or none for training and are left out"
        ));
    }
    if parts.is_empty() {
        return Err(Error::data(format!(
            "data: not one of {count} clients is left: {}",
            notes.join("; ")
        )));
    }
    Ok(AssignedRows {
        parts,
        notes,
        assignment: None,
    })
}

/// Clients made by a partition. Everyone must be able to train and to validate.
pub(super) fn by_partition(
    partition: &Partition,
    labels: &[u32],
    classes: usize,
    common: &Common,
) -> Result<AssignedRows> {
    let assignment = partition.assign(labels, classes, digest_of_labels(labels), common.seed)?;
    let (mut parts, mut small) = (Vec::new(), 0);
    for (client, (name, rows)) in assignment.clients.iter().enumerate() {
        if rows.len() < common.min_examples {
            small += 1;
            continue;
        }
        let [train, valid, test] = split(rows, common, client);
        if train.is_empty() || valid.is_empty() {
            return Err(Error::data(format!(
                "client '{name}' gets {} of {} examples, {} to train on and {} to hold out; \
                 fewer data.clients, another data.validation, or data.min_examples to leave such \
                 clients out",
                rows.len(),
                labels.len(),
                train.len(),
                valid.len()
            )));
        }
        parts.push(ClientRows {
            name: name.clone(),
            train,
            valid,
            test,
        });
    }
    let mut notes = assignment.notes.clone();
    notes.extend(too_small(small, assignment.clients.len(), common));
    if parts.is_empty() {
        return Err(Error::data(format!(
            "data.min_examples: no client has {} examples or more",
            common.min_examples
        )));
    }
    Ok(AssignedRows {
        parts,
        notes,
        assignment: Some(assignment),
    })
}

/// Clients made by a partition of the images that are not `held`, which come first. Of the
/// held images of a class everybody gets the share that it has of those to train on, in the
/// order of the clients.
pub(super) fn by_partition_and_held(
    partition: &Partition,
    labels: &[u32],
    classes: usize,
    held: &[bool],
    common: &Common,
) -> Result<AssignedRows> {
    let trained = held.iter().take_while(|held| !**held).count();
    let (first, last) = labels.split_at(trained);
    let assignment = partition.assign(first, classes, digest_of_labels(first), common.seed)?;
    let mut owners = assignment.clients.clone();
    for class in 0..classes as u32 {
        let counts: Vec<usize> = (owners.iter())
            .map(|(_, rows)| rows.iter().filter(|row| labels[**row as usize] == class))
            .map(|rows| rows.filter(|row| !held[**row as usize]).count())
            .collect();
        let total: usize = counts.iter().sum();
        let rows: Vec<u32> = (trained as u32..)
            .zip(last)
            .filter(|(_, label)| **label == class)
            .map(|(row, _)| row)
            .collect();
        let (mut before, mut given) = (0, 0);
        for ((_, own), count) in owners.iter_mut().zip(&counts) {
            before += count;
            let until = rows.len() * before / total.max(1);
            own.extend(&rows[given..until]);
            given = until;
        }
        if total == 0 && !rows.is_empty() {
            owners[0].1.extend(&rows); // a class that nobody trains on: refused later, by name
        }
    }
    let mut assigned = by_owner(owners, Some(held), common)?;
    assigned
        .notes
        .splice(0..0, assignment.notes.iter().cloned());
    assigned.assignment = Some(assignment);
    Ok(assigned)
}

fn split(rows: &[u32], common: &Common, client: usize) -> [Vec<u32>; 3] {
    let shares = [common.validation, common.test];
    let parts = hold_out_parts(rows.len(), shares, common.seed, client as u64);
    parts.map(|part| part.iter().map(|k| rows[*k as usize]).collect())
}

fn too_small(small: usize, count: usize, common: &Common) -> Vec<String> {
    if small == 0 {
        return Vec::new();
    }
    vec![format!(
        "{small} of {count} clients have fewer than {} examples and are left out",
        common.min_examples
    )]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_clients_are_left_out_and_counted() {
        let common = Common {
            seed: 1,
            validation: 0.2,
            test: 0.0,
            min_examples: 3,
        };
        // 'a' has 2 rows, 'b' 4 rows of which one is held out, 'c' 5 with two.
        let owners = [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2];
        let held: Vec<bool> = (0..11).map(|row| [5, 9, 10].contains(&row)).collect();
        let names = |id: i64| ["a", "b", "c"][id as usize].to_string();
        let assigned = by_owner(grouped(&owners, names), Some(&held), &common).unwrap();
        let part = ClientRows {
            name: "c".into(),
            train: vec![6, 7, 8],
            valid: vec![9, 10],
            test: vec![],
        };
        assert_eq!(assigned.parts, [part]);
        assert_eq!(assigned.notes.len(), 2);
        assert!(assigned.notes[0].starts_with("1 of 3 clients have fewer than 3"));
        assert!(assigned.notes[1].starts_with("1 of 3 clients have fewer than 2 validation"));
    }
}
