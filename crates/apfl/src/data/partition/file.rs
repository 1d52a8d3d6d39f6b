//! A partition in a file: JSON with the number of examples, the checksums of the data
//! it was made for, and every client's name and rows.

use std::collections::HashSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Dealing;
use crate::data::{SourceFile, folder};
use crate::error::Result;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    /// The format's version.
    partition: u32,
    examples: usize,
    /// SHA-256 of the data's files, in order.
    data: Vec<String>,
    clients: Vec<Client>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Client {
    name: String,
    rows: Vec<u32>,
}

/// The text of a partition's file, one line a client. `files` are the data set's.
pub fn to_json(dealing: &Dealing, files: &[SourceFile]) -> String {
    // A file that the partition came from is not the data that it is of.
    let data = files
        .iter()
        .filter(|file| dealing.file.as_ref() != Some(file));
    let checksums: Vec<&str> = data.map(|file| file.sha256.as_str()).collect();
    let line = |(name, rows): &(String, Vec<u32>)| {
        let client = Client {
            name: name.clone(),
            rows: rows.clone(),
        };
        serde_json::to_string(&client).expect("plain JSON")
    };
    let clients: Vec<String> = dealing.clients.iter().map(line).collect();
    format!(
        "{{\"partition\": 1, \"examples\": {},\n\"data\": {},\n\"clients\": [\n{}\n]}}\n",
        dealing.examples,
        serde_json::to_string(&checksums).expect("plain JSON"),
        clients.join(",\n")
    )
}

/// Reads a partition of `examples` examples of that data, and checks all of it.
pub fn parse(
    bytes: &[u8],
    examples: usize,
    data: &[SourceFile],
) -> std::result::Result<Dealing, String> {
    let written: Written = serde_json::from_slice(bytes)
        .map_err(|e| format!("is not a partition that `apfl data inspect --save` wrote: {e}"))?;
    if written.partition != 1 {
        return Err(format!(
            "is of version {}, this program reads version 1",
            written.partition
        ));
    }
    if written.examples != examples {
        return Err(format!(
            "was made for {} examples, the data has {examples}",
            written.examples
        ));
    }
    if !written.data.iter().eq(data.iter().map(|file| &file.sha256)) {
        return Err(
            "was made for other data: the checksums differ; make it again with \
                    `apfl data inspect --save`"
                .into(),
        );
    }
    if written.clients.is_empty() {
        return Err("has no clients".into());
    }
    let mut names = HashSet::new();
    let mut taken = vec![false; examples];
    for Client { name, rows } in &written.clients {
        if name.is_empty() || !names.insert(name.as_str()) {
            return Err(format!("names the client '{name}' twice, or not at all"));
        }
        for row in rows {
            match taken.get_mut(*row as usize) {
                Some(taken) if !*taken => *taken = true,
                Some(_) => return Err(format!("gives example {row} to two clients")),
                None => {
                    return Err(format!(
                        "gives client '{name}' example {row}; there are {examples}, from 0"
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
    Ok(Dealing {
        examples,
        clients: written.clients.into_iter().map(client).collect(),
        notes,
        file: None,
    })
}

/// Reads the file.
pub(super) fn read(path: &Path, examples: usize, data: &[SourceFile]) -> Result<Dealing> {
    let (bytes, file) = folder::read(path)?;
    let dealing = parse(&bytes, examples, data).map_err(|e| folder::wrong(path, e))?;
    Ok(Dealing {
        file: Some(file),
        ..dealing
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dealing() -> Dealing {
        Dealing {
            examples: 4,
            clients: vec![("a".into(), vec![2, 0]), ("b \"c\"".into(), vec![1])],
            notes: vec!["1 of 4 examples belong to no client".into()],
            file: None,
        }
    }

    fn data(sha256: &str) -> Vec<SourceFile> {
        vec![SourceFile {
            path: "x".into(),
            sha256: sha256.into(),
        }]
    }

    #[test]
    fn a_partition_comes_back() {
        let text = to_json(&dealing(), &data("00"));
        assert_eq!(parse(text.as_bytes(), 4, &data("00")), Ok(dealing()));
    }

    #[test]
    fn a_wrong_partition_is_refused() {
        let text = to_json(&dealing(), &data("00"));
        let error = |text: &str, data: &[SourceFile]| parse(text.as_bytes(), 4, data).unwrap_err();
        assert!(error(&text, &data("01")).contains("checksums differ"));
        assert!(error(&text.replace("[1]", "[0]"), &data("00")).contains("two clients"));
        assert!(error(&text.replace("[1]", "[4]"), &data("00")).contains("there are 4"));
        assert!(error(&text.replace("\": 4", "\": 5"), &data("00")).contains("for 5 examples"));
        assert!(error(&text[..text.len() - 3], &data("00")).contains("is not a partition"));
    }
}
