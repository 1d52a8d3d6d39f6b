//! `file`: a partition in JSON, with the number of examples, the digest of the labels that it was
//! made for, and every client's name and rows.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Assignment, Partition, PartitionKind};
use crate::data::folder;
use crate::digest::sha256_of;
use crate::error::{Error, Result};
use crate::settings::{Kind, Setting, Text};

const PATH: Setting<Text> = Setting::text("path", || None)
    .help("a file with the examples of each client, as `data inspect` saves it; it must be given")
    .example("\"partition.json\"")
    .required("missing: a file with the examples of each client");

pub(super) const KIND: PartitionKind = Kind {
    name: "file",
    about: "as listed in a file, which names the clients",
    settings: &[&PATH],
    examples: &["{ kind = 'file', path = 'p.json' }"],
    value: |s| Partition::File(folder::read_path(s, &PATH)),
};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PartitionFile {
    /// The format's version.
    partition: u32,
    examples: usize,
    /// SHA-256 of the labels, in the examples' order.
    labels: String,
    clients: Vec<Client>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    name: String,
    rows: Vec<u32>,
}

/// Writes an assignment as JSON, one line per client.
pub fn to_json(assignment: &Assignment) -> String {
    let line = |(name, rows): &(String, Vec<u32>)| {
        let client = Client {
            name: name.clone(),
            rows: rows.clone(),
        };
        serde_json::to_string(&client).expect("plain JSON")
    };
    let clients: Vec<String> = assignment.clients.iter().map(line).collect();
    format!(
        "{{\"partition\": 1, \"examples\": {},\n\"labels\": \"{}\",\n\"clients\": [\n{}\n]}}\n",
        assignment.examples,
        assignment.labels_digest,
        clients.join(",\n")
    )
}

/// Returns the SHA-256 of [`to_json`].
pub fn checksum(assignment: &Assignment) -> String {
    sha256_of(to_json(assignment).as_bytes())
}

/// Parses and checks the partition of `examples` examples whose labels have the digest `labels`.
pub fn parse(
    bytes: &[u8],
    examples: usize,
    labels_digest: &str,
) -> std::result::Result<Assignment, String> {
    let content: PartitionFile =
        serde_json::from_slice(bytes).map_err(|e| format!("is not a partition file: {e}"))?;
    if content.partition != 1 {
        return Err(format!(
            "has version {}; this program reads version 1",
            content.partition
        ));
    }
    if content.examples != examples {
        return Err(format!(
            "was made for {} examples; the data has {examples}",
            content.examples
        ));
    }
    if content.labels != labels_digest {
        return Err("was made for other data: the labels' checksums differ; make it again".into());
    }
    if content.clients.is_empty() {
        return Err("has no clients".into());
    }
    let mut names = HashSet::new();
    let mut taken = vec![false; examples];
    for Client { name, rows } in &content.clients {
        if name.is_empty() || !names.insert(name.as_str()) {
            return Err(format!(
                "has the client name '{name}', which is empty or occurs twice"
            ));
        }
        for row in rows {
            match taken.get_mut(*row as usize) {
                Some(taken) if !*taken => *taken = true,
                Some(_) => return Err(format!("assigns example {row} twice")),
                None => {
                    return Err(format!(
                        "assigns example {row} to client '{name}'; there are {examples}, from 0"
                    ));
                }
            }
        }
    }
    let left = taken.iter().filter(|taken| !**taken).count();
    let notes = match left {
        0 => Vec::new(),
        _ => vec![format!("{left} of {examples} examples belong to no client")],
    };
    let client = |c: Client| (c.name, c.rows);
    Ok(Assignment {
        examples,
        clients: content.clients.into_iter().map(client).collect(),
        notes,
        file: None,
        labels_digest: labels_digest.into(),
    })
}

/// Reads a partition file.
pub(super) fn read(path: &Path, examples: usize, labels_digest: &str) -> Result<Assignment> {
    let (bytes, file) = folder::read(path)?;
    let assignment = parse(&bytes, examples, labels_digest).map_err(|e| Error::in_file(path, e))?;
    Ok(Assignment {
        file: Some(file),
        ..assignment
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assignment() -> Assignment {
        Assignment {
            examples: 4,
            clients: vec![("a".into(), vec![2, 0]), ("b \"c\"".into(), vec![1])],
            notes: vec!["1 of 4 examples belong to no client".into()],
            file: None,
            labels_digest: "00".into(),
        }
    }

    #[test]
    fn a_partition_comes_back() {
        let text = to_json(&assignment());
        assert_eq!(parse(text.as_bytes(), 4, "00"), Ok(assignment()));
    }

    #[test]
    fn a_wrong_partition_is_refused() {
        let text = to_json(&assignment());
        let error =
            |text: &str, labels_digest: &str| parse(text.as_bytes(), 4, labels_digest).unwrap_err();
        assert!(error(&text, "01").contains("checksums differ"));
        assert!(error(&text.replace("[1]", "[0]"), "00").contains("example 0 twice"));
        assert!(error(&text.replace("[1]", "[4]"), "00").contains("there are 4"));
        assert!(error(&text.replace("\": 4", "\": 5"), "00").contains("for 5 examples"));
        assert!(error(&text[..text.len() - 3], "00").contains("is not a partition file"));
    }
}
