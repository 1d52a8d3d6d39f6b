//! Assigns rows to clients and splits them into training, validation and test rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::partition::{Assignment, Partition, digest_of_labels, hold_out_parts};
use super::{Common, Examples, InMemory, Schema, Shard, SourceFile};
use crate::error::{Error, Result};

/// Clients with fewer validation examples are left out.
const MIN_VALIDATION: usize = 2;

/// Represents the rows of one client.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientRows {
    /// The client's name.
    pub name: String,
    /// Rows for training.
    pub train: Vec<u32>,
    /// Rows for validation.
    pub valid: Vec<u32>,
    /// Rows for a test.
    pub test: Vec<u32>,
}

/// Represents the rows of all clients.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignedRows {
    /// The clients that take part.
    pub clients: Vec<ClientRows>,
    /// Messages for the user, such as clients left out.
    pub notes: Vec<String>,
    /// The partition's assignment, if any, including clients that are left out.
    pub assignment: Option<Assignment>,
}

impl AssignedRows {
    /// Builds the data set from all examples.
    pub(super) fn gather(
        self,
        all: &Examples,
        schema: Schema,
        mut files: Vec<SourceFile>,
    ) -> InMemory {
        let shard = |client_rows: ClientRows| {
            Arc::new(Shard {
                train: all.gathered(&client_rows.train),
                valid: all.gathered(&client_rows.valid),
                test: all.gathered(&client_rows.test),
                name: client_rows.name,
            })
        };
        files.extend(self.assignment.as_ref().and_then(|d| d.file.clone()));
        InMemory {
            schema,
            shards: self.clients.into_iter().map(shard).collect(),
            files,
            notes: self.notes,
            assignment: self.assignment,
        }
    }
}

/// Groups rows by owner, in the order of the owners' numbers.
pub(super) fn group_by_owner(
    owners: &[i64],
    name: impl Fn(i64) -> String,
) -> Vec<(String, Vec<u32>)> {
    let mut rows: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (row, owner) in owners.iter().enumerate() {
        rows.entry(*owner).or_default().push(row as u32);
    }
    rows.into_iter()
        .map(|(id, rows)| (name(id), rows))
        .collect()
}

/// Splits the rows of the data's own clients. Clients with fewer than `data.min_examples` examples,
/// fewer than 2 for validation or none for training are left out. `is_validation` is the data's own
/// split, if it has one.
pub(super) fn by_owner(
    owners: Vec<(String, Vec<u32>)>,
    is_validation: Option<&[bool]>,
    common: &Common,
) -> Result<AssignedRows> {
    let count = owners.len();
    let (mut clients, mut small, mut unscorable) = (Vec::new(), 0, 0);
    for (client, (name, rows)) in owners.into_iter().enumerate() {
        if rows.len() < common.min_examples {
            small += 1;
            continue;
        }
        let [train, valid, test] = match is_validation {
            Some(is_validation) => {
                let (train, valid) = rows.iter().partition(|row| !is_validation[**row as usize]);
                [train, valid, Vec::new()]
            }
            None => split(&rows, common, client),
        };
        if valid.len() < MIN_VALIDATION || train.is_empty() {
            unscorable += 1;
            continue;
        }
        clients.push(ClientRows {
            name,
            train,
            valid,
            test,
        });
    }
    let mut notes = small_clients_note(small, count, common);
    if unscorable > 0 {
        notes.push(format!(
            "{unscorable} of {count} clients have fewer than {MIN_VALIDATION} validation \
             examples or none for training and are left out"
        ));
    }
    if clients.is_empty() {
        return Err(Error::data(format!(
            "data: none of the {count} clients can take part: {}",
            notes.join("; ")
        )));
    }
    Ok(AssignedRows {
        clients,
        notes,
        assignment: None,
    })
}

/// Assigns rows by a partition. Every client must have training and validation rows.
pub(super) fn by_partition(
    partition: &Partition,
    labels: &[u32],
    classes: usize,
    common: &Common,
) -> Result<AssignedRows> {
    let assignment = partition.assign(labels, classes, digest_of_labels(labels), common.seed)?;
    let (mut clients, mut small) = (Vec::new(), 0);
    for (client, (name, rows)) in assignment.clients.iter().enumerate() {
        if rows.len() < common.min_examples {
            small += 1;
            continue;
        }
        let [train, valid, test] = split(rows, common, client);
        if train.is_empty() || valid.is_empty() {
            return Err(Error::data(format!(
                "client '{name}' has {} of {} examples, {} for training and {} for validation; \
                 lower data.clients, change data.validation, or raise data.min_examples to leave \
                 such clients out",
                rows.len(),
                labels.len(),
                train.len(),
                valid.len()
            )));
        }
        clients.push(ClientRows {
            name: name.clone(),
            train,
            valid,
            test,
        });
    }
    let mut notes = assignment.notes.clone();
    notes.extend(small_clients_note(small, assignment.clients.len(), common));
    if clients.is_empty() {
        return Err(Error::data(format!(
            "data.min_examples: no client has {} examples or more",
            common.min_examples
        )));
    }
    Ok(AssignedRows {
        clients,
        notes,
        assignment: Some(assignment),
    })
}

/// Assigns the training images, which come first, by a partition. The validation images of a class
/// are assigned in client order, in proportion to the clients' training images of that class.
pub(super) fn by_partition_with_validation(
    partition: &Partition,
    labels: &[u32],
    classes: usize,
    is_validation: &[bool],
    common: &Common,
) -> Result<AssignedRows> {
    let trained = is_validation
        .iter()
        .take_while(|validation| !**validation)
        .count();
    let (first, last) = labels.split_at(trained);
    let assignment = partition.assign(first, classes, digest_of_labels(first), common.seed)?;
    let mut owners = assignment.clients.clone();
    for class in 0..classes as u32 {
        let counts: Vec<usize> = (owners.iter())
            .map(|(_, rows)| rows.iter().filter(|row| labels[**row as usize] == class))
            .map(|rows| rows.filter(|row| !is_validation[**row as usize]).count())
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
            owners[0].1.extend(&rows); // a class without training images, which is refused later
        }
    }
    let mut assigned = by_owner(owners, Some(is_validation), common)?;
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

fn small_clients_note(small: usize, count: usize, common: &Common) -> Vec<String> {
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
        let is_validation: Vec<bool> = (0..11).map(|row| [5, 9, 10].contains(&row)).collect();
        let names = |id: i64| ["a", "b", "c"][id as usize].to_string();
        let assigned = by_owner(
            group_by_owner(&owners, names),
            Some(&is_validation),
            &common,
        )
        .unwrap();
        let client_rows = ClientRows {
            name: "c".into(),
            train: vec![6, 7, 8],
            valid: vec![9, 10],
            test: vec![],
        };
        assert_eq!(assigned.clients, [client_rows]);
        assert_eq!(assigned.notes.len(), 2);
        assert!(assigned.notes[0].starts_with("1 of 3 clients have fewer than 3"));
        assert!(assigned.notes[1].starts_with("1 of 3 clients have fewer than 2 validation"));
    }
}
