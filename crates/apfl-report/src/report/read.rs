//! Reads run directories, finished or not.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::{Path, PathBuf};

use apfl::data::{Normalization, Schema, Task};
use apfl::error::{Error, Result};
use apfl::metrics::ByModel;
use apfl::run::run_dir::{ClientRecord, Environment, Summary};
use apfl::training::RoundRecord;
use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::Table;

use crate::chart::shortened;

/// The most characters of a client's name.
const MAX_NAME: usize = 60;

/// Represents a run directory.
pub struct Run {
    /// The directory's name, or its path if several runs have the same name.
    pub name: String,
    path: PathBuf,
    /// The text of the resolved spec.
    pub spec_text: String,
    /// The resolved spec.
    pub spec: Table,
    /// The environment in which it ran.
    pub environment: Option<Environment>,
    /// The classes' names; empty for regression, or if the run has not come so far.
    pub classes: Vec<String>,
    /// The description of a table's preparation.
    pub prepared: Option<String>,
    /// The records of its rounds, in order.
    pub rounds: Vec<RoundRecord>,
    /// The finalized clients.
    pub clients: Vec<ClientRecord>,
    /// The summary, if the run is finished.
    pub summary: Option<Summary>,
}

impl Run {
    /// Reads a run directory.
    pub fn open(path: &Path) -> Result<Self> {
        let spec_file = path.join("spec.toml");
        let missing = |what: &str| {
            Error::data(format!(
                "{}: {what}; give a run directory, such as `apfl run` prints",
                path.display()
            ))
        };
        if !path.is_dir() {
            return Err(missing("is not a readable directory"));
        }
        let Some(spec_text) = text(&spec_file)? else {
            return Err(missing("there is no spec.toml in it"));
        };
        let spec = spec_text
            .parse()
            .map_err(|e: toml::de::Error| Error::in_file(&spec_file, e.message()))?;
        let summary: Option<Summary> = json(&path.join("summary.json"))?;
        let schema: Option<Schema> = json(&path.join("schema.json"))?;
        let finished = summary.is_some();
        let mut clients = Vec::new();
        let file = path.join("clients.jsonl");
        lines(&file, finished, |_, mut client: ClientRecord| {
            // Scores are those of honest clients, so attackers are left out.
            if !client.attacker {
                client.client = shortened(&client.client, MAX_NAME);
                clients.push(without_matrices(client));
            }
            Ok(())
        })?;
        let (mut last, mut rounds) = (0, Vec::new());
        lines(
            &path.join("rounds.jsonl"),
            finished,
            |line, record: RoundRecord| {
                // Scores are optional, so invalid ones would pass for absent.
                let line: Value = serde_json::from_slice(line).map_err(|e| e.to_string())?;
                if line.get("shared").is_some() && record.scores.is_none() {
                    return Err(
                        "expected scores of the shared, localized and personal model".into(),
                    );
                }
                if record.round <= last {
                    return Err(format!("round {} comes after round {last}", record.round));
                }
                last = record.round;
                rounds.push(record);
                Ok(())
            },
        )?;
        Ok(Self {
            name: name_of(path),
            path: path.into(),
            spec_text,
            spec,
            environment: json(&path.join("environment.json"))?,
            prepared: schema.as_ref().and_then(|s| match &s.normalization {
                Normalization::Prepared(preparation) => Some(preparation.describe()),
                _ => None,
            }),
            classes: match schema.map(|s| s.task) {
                Some(Task::Classification { classes }) => classes,
                _ => Vec::new(),
            },
            rounds,
            clients,
            summary,
        })
    }

    /// Returns the value of a key of the spec, such as `algorithm.kind`, as text.
    pub fn key(&self, path: &str) -> Option<String> {
        let mut table = &self.spec;
        let (tables, key) = path.rsplit_once('.').unwrap_or(("", path));
        for name in tables.split('.').filter(|t| !t.is_empty()) {
            table = table.get(name)?.as_table()?;
        }
        let value = table.get(key)?;
        Some(value.as_str().map_or(value.to_string(), str::to_string))
    }
}

/// Replaces names that several runs have by the runs' paths.
pub fn make_names_unique(runs: &mut [Run]) {
    let names: Vec<String> = runs.iter().map(|r| r.name.clone()).collect();
    for run in runs {
        if names.iter().filter(|n| **n == run.name).count() > 1 {
            run.name = run.path.display().to_string();
        }
    }
}

fn name_of(path: &Path) -> String {
    let whole = fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let name = whole.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File {
        path,
        action: "read",
        source,
    }
}

fn text(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound && path.parent().is_some_and(Path::is_dir) => {
            Ok(None)
        }
        Err(e) => Err(unreadable(path)(e)),
    }
}

fn json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let parse = |text: String| serde_json::from_str(&text).map_err(|e| Error::in_file(path, e));
    text(path)?.map(parse).transpose()
}

/// Removes the confusion matrices, which the report does not show per client.
fn without_matrices(mut client: ClientRecord) -> ClientRecord {
    let ByModel {
        shared,
        localized,
        personal,
    } = &mut client.scores;
    let models = [shared, localized, personal];
    for scores in models.into_iter().chain(&mut client.alone) {
        scores.valid.confusion = None;
        scores
            .test
            .iter_mut()
            .for_each(|test| test.confusion = None);
    }
    client
}

/// Reads records, one per line, and passes each to `see` with its line. The file of a finished run must be complete;
/// that of an unfinished run may be missing or end within a line.
fn lines<T: DeserializeOwned>(
    path: &Path,
    finished: bool,
    mut see: impl FnMut(&[u8], T) -> std::result::Result<(), String>,
) -> Result<()> {
    let file = match File::open(path) {
        Err(e) if e.kind() == ErrorKind::NotFound && !finished => return Ok(()),
        file => file.map_err(unreadable(path))?,
    };
    let mut file = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if file
            .read_until(b'\n', &mut line)
            .map_err(unreadable(path))?
            == 0
        {
            break;
        }
        match serde_json::from_slice(&line) {
            Err(_) if !finished && !line.ends_with(b"\n") => break,
            read => read.map_err(|e| e.to_string()),
        }
        .and_then(|record| see(&line, record))
        .map_err(|e| Error::in_file(path, format!("line {number}: {e}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(number: u64) -> String {
        format!(
            "{{\"round\":{number},\"step\":1,\"cohort\":1,\"seconds\":1,\"bytes_up\":1,\"bytes_down\":1}}\n"
        )
    }

    fn open(rounds: &str, summary: bool) -> Result<Run> {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
        put("spec.toml", "seed = 1\n[algorithm]\nkind = 'apfl'\n");
        put("rounds.jsonl", rounds);
        if summary {
            put("clients.jsonl", "");
            let text = "{\"rounds\":2,\"clients\":0,\"fingerprint\":\"f\",\"seconds\":1}";
            put("summary.json", text);
        }
        Run::open(directory.path())
    }

    #[test]
    fn a_torn_last_line_is_left_out_of_an_unfinished_run_only() {
        let torn = round(1) + "{\"round\":2,\"st";
        assert_eq!(open(&torn, false).unwrap().rounds.len(), 1);
        let error = open(&torn, true).err().unwrap().to_string();
        assert!(error.contains("rounds.jsonl: line 2"), "{error}");
        // A complete but invalid line is an error in any run.
        let error = open(&format!("{torn}\n"), false).err().unwrap();
        assert!(error.to_string().contains("line 2"), "{error}");
    }

    #[test]
    fn wrong_scores_and_wrong_order_are_errors() {
        let scored = round(1).replace("\"step\"", "\"shared\":{\"train\":5},\"step\"");
        let error = open(&scored, false).err().unwrap().to_string();
        assert!(
            error.contains("line 1") && error.contains("scores"),
            "{error}"
        );
        let error = open(&(round(2) + &round(1)), false).err().unwrap();
        assert!(error.to_string().contains("round 1 comes after round 2"));
    }

    #[test]
    fn keys_are_found_by_path() {
        let run = open("", false).unwrap();
        assert_eq!(run.key("algorithm.kind").unwrap(), "apfl");
        assert_eq!(run.key("seed").unwrap(), "1");
        assert_eq!(run.key("data.kind"), None);
    }
}
