//! Partitions of examples among clients, and the split of a client's examples.
//!
//! Everything here depends only on the data and its seed.

use std::path::PathBuf;

use rand::seq::SliceRandom;

use super::SourceFile;
use crate::digest::sha256_of;
use crate::error::Result;
use crate::rng::{Purpose, stream};
use crate::settings::{Inner, Kind, Section, Setting, Whole, at_least, registry};

mod dirichlet;
mod file;
mod iid;
mod shards;
mod stripe;

pub use file::{checksum, parse, to_json};

/// A kind of partition, with the function that reads the rest of `data.partition`.
pub type PartitionKind = Kind<fn(&mut Section<'_>) -> Partition>;

/// The setting `clients` of data without client names, in the same table as the partition.
pub(super) const CLIENTS: Setting<Whole> =
    Setting::number("clients", 100, at_least(1).to(10_000_000))
        .symbol("n")
        .help("how many clients the examples are assigned to");

/// The setting `partition` of data without client names.
pub(super) const PARTITION: Setting<Inner> =
    Setting::table("partition", "a kind, or a table of one")
        .help("how the examples are assigned to clients")
        .usually("`\"stripe\"`")
        .example("\"stripe\"");

const CLASSES: Setting<Whole> = Setting::number("classes", 2, at_least(1).to(100_000))
    .help("blocks or shards; clients have about as many classes");

registry! {
    Partition, PartitionKind:
    Stripe = stripe::KIND,
    Shards = shards::KIND,
    Dirichlet = dirichlet::KIND,
    Iid = iid::KIND,
    File = file::KIND,
}

/// Represents a rule that assigns examples to clients.
#[derive(Clone, Debug, PartialEq)]
pub enum Partition {
    /// Slice c of each of `classes` blocks of the sorted examples goes to client c.
    Stripe {
        /// The number of blocks; clients have about as many classes.
        classes: usize,
        /// The number of clients.
        clients: usize,
    },
    /// Every client has `classes` random shards of the sorted examples.
    Shards {
        /// The shards per client; clients have about as many classes.
        classes: usize,
        /// The number of clients.
        clients: usize,
    },
    /// Each class is divided among the clients by shares from a Dirichlet distribution.
    Dirichlet {
        /// The distribution's parameter: small is uneven.
        concentration: f64,
        /// The number of clients.
        clients: usize,
    },
    /// Random parts of equal size.
    Iid {
        /// The number of clients.
        clients: usize,
    },
    /// As listed in a file.
    File(PathBuf),
}

/// Represents the assignment of examples to clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Assignment {
    /// The number of examples, assigned or not.
    pub examples: usize,
    /// Every client's name and rows.
    pub clients: Vec<(String, Vec<u32>)>,
    /// Messages for the user, such as examples left over.
    pub notes: Vec<String>,
    /// The file that it was read from.
    pub file: Option<SourceFile>,
    /// The digest of the labels, in the examples' order.
    pub labels_digest: String,
}

impl Assignment {
    /// Creates an assignment to clients that are named by their numbers.
    fn numbered(examples: usize, rows: Vec<Vec<u32>>, notes: Vec<String>) -> Self {
        let named = |(client, rows): (usize, Vec<u32>)| (client.to_string(), rows);
        Self {
            examples,
            clients: rows.into_iter().enumerate().map(named).collect(),
            notes,
            file: None,
            labels_digest: String::new(),
        }
    }
}

/// Returns the digest of labels in the examples' order, which identifies the data of a partition
/// whatever its files are.
pub(super) fn digest_of_labels<T: ToString>(labels: &[T]) -> String {
    let lines: Vec<String> = labels.iter().map(T::to_string).collect();
    sha256_of(lines.join("\n").as_bytes())
}

impl Partition {
    /// Reads `data.partition` and `data.clients`.
    pub fn read(s: &mut Section<'_>, default: &str) -> Self {
        // `partition = "iid"` is short for `partition = { kind = "iid" }`.
        s.expand_kind("partition");
        let mut partition = s.section("partition", |s| {
            let kind = s.pick_or("kind", default, Self::KINDS);
            (kind.value)(s)
        });
        // `clients` is in [data], beside the partition.
        match &mut partition {
            Partition::Stripe { clients, .. }
            | Partition::Shards { clients, .. }
            | Partition::Dirichlet { clients, .. }
            | Partition::Iid { clients } => {
                *clients = s.get(&CLIENTS) as usize;
            }
            Partition::File(_) => {
                if s.take("clients").is_some() {
                    s.problem(
                        "clients",
                        "the partition's file names the clients; leave it out",
                    );
                }
            }
        }
        partition
    }

    /// Assigns examples with these labels; a partition file must have been made for
    /// `labels_digest`.
    pub fn assign(
        &self,
        labels: &[u32],
        classes: usize,
        labels_digest: String,
        seed: u64,
    ) -> Result<Assignment> {
        let assignment = match self {
            Partition::Stripe { classes, clients } => stripe::assign(labels, *classes, *clients),
            Partition::Shards { classes, clients } => {
                shards::assign(labels, *classes, *clients, seed)
            }
            Partition::Dirichlet {
                concentration,
                clients,
            } => dirichlet::assign(labels, classes, *concentration, *clients, seed),
            Partition::Iid { clients } => iid::assign(labels.len(), *clients, seed),
            Partition::File(path) => file::read(path, labels.len(), &labels_digest),
        }?;
        Ok(Assignment {
            labels_digest,
            ..assignment
        })
    }
}

/// The number of clients until [`Partition::read`] has read it.
const UNSET: usize = 0;

/// Returns the rows sorted by label; equal labels keep the order of the rows.
fn sorted_by_label(labels: &[u32]) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..labels.len() as u32).collect();
    rows.sort_by_key(|row| labels[*row as usize]);
    rows
}

/// Returns a note about examples that no client has.
fn remainder_note(assigned: usize, of: usize) -> Vec<String> {
    match of - assigned {
        0 => Vec::new(),
        left => vec![format!(
            "{left} of {of} examples are left over, because all clients have the same number"
        )],
    }
}

/// Splits a client's `m` examples at random into training and ⌈share·m⌉ validation examples, both
/// ascending.
pub fn hold_out(m: usize, share: f64, seed: u64, client: u64) -> (Vec<u32>, Vec<u32>) {
    let [train, valid, _] = hold_out_parts(m, [share, 0.0], seed, client);
    (train, valid)
}

/// Splits a client's `m` examples at random into training, ⌈validation·m⌉ validation and ⌈test·m⌉
/// test examples, all ascending. The validation examples are those of [`hold_out`].
pub fn hold_out_parts(m: usize, shares: [f64; 2], seed: u64, client: u64) -> [Vec<u32>; 3] {
    let valid = held_out_count(m, shares[0]);
    let test = held_out_count(m, shares[1]).min(m - valid);
    let mut order: Vec<u32> = (0..m as u32).collect();
    order.shuffle(&mut stream(seed, Purpose::Split, 0, client));
    let mut part = vec![0; m];
    for (place, k) in order[..valid + test].iter().enumerate() {
        part[*k as usize] = if place < valid { 1 } else { 2 };
    }
    [0, 1, 2].map(|wanted| {
        (0..m as u32)
            .filter(|k| part[*k as usize] == wanted)
            .collect()
    })
}

/// Returns ⌈share·m⌉; a product that is an integer but for rounding (0.07·100) counts as one.
pub fn held_out_count(m: usize, share: f64) -> usize {
    let exact = share * m as f64;
    let whole = exact.round();
    let held = if (exact - whole).abs() < 1e-9 * exact.max(1.0) {
        whole
    } else {
        exact.ceil()
    };
    (held as usize).min(m)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Problems;

    #[test]
    fn the_share_held_out_is_rounded_up() {
        assert_eq!(held_out_count(10, 0.2), 2);
        assert_eq!(held_out_count(11, 0.2), 3);
        assert_eq!(held_out_count(1, 0.2), 1);
        assert_eq!(held_out_count(600, 0.2), 120);
        assert_eq!(held_out_count(100, 0.07), 7); // 7.000000000000001 in f64
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

    fn of_ten_clients(example: &str) -> Partition {
        let given = format!("partition = {example}\nclients = 10");
        let mut problems = Problems::default();
        let given = toml::from_str(&given).unwrap();
        Partition::read(&mut Section::new("data", given, &mut problems), "iid")
    }

    /// For every kind, no example is assigned twice, and a note counts unassigned ones.
    #[test]
    fn every_kind_is_disjoint_and_notes_what_is_left_over() {
        let labels: Vec<u32> = (0..1013).map(|row| row * 7 % 10).collect();
        let examples = Partition::KINDS.iter().flat_map(|kind| kind.examples);
        for partition in examples.map(|example| of_ten_clients(example)) {
            if let Partition::File(_) = partition {
                continue; // its rows are the file's
            }
            let assign = |seed| partition.assign(&labels, 10, "x".into(), seed).unwrap();
            let assignment = assign(4);
            let mut all: Vec<u32> = assignment
                .clients
                .iter()
                .flat_map(|c| c.1.clone())
                .collect();
            let left = 1013 - all.len();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 1013 - left, "{}", partition.kind());
            let note = format!("{left} of 1013");
            let noted = assignment
                .notes
                .iter()
                .any(|found| found.starts_with(&note));
            assert_eq!(noted, left > 0, "{}", partition.kind());
            // ⌊⌊1013/3⌋/10⌋ = 33 a slice, 990 in all; ⌊1013/30⌋ = 33 a shard, likewise.
            if let Partition::Stripe { .. } | Partition::Shards { .. } = partition {
                assert_eq!(left, 23);
            }
            assert_eq!(assignment, assign(4));
        }
    }
}
