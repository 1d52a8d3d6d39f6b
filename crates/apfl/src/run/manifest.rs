//! The manifest of a checkpoint: its files and the identity of its run.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toml::Table;

use crate::digest::{hex, sha256_of_file};
use crate::error::{Error, Result, at};
use crate::files::archive::ArchivePart;
use crate::files::atomic::write_privately;
use crate::run::stop::Losses;
use crate::spec::{changed_rounds, differences};
use crate::training::Recorded;

/// The format of checkpoints and of the run directory around them.
pub const FORMAT: u32 = 2;

/// The identity of a run, which its checkpoints must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Identity {
    /// The resolved spec.
    #[serde(with = "as_toml")]
    pub spec: Table,
    /// A digest of the data.
    pub data: String,
    /// The SHA-256 of w⁰.
    pub start: String,
    /// The program's version and build.
    pub program: String,
    /// The number of elements in the CPU's vectors, which the last bits depend on.
    pub lanes: usize,
}

impl Identity {
    /// Checks that a checkpoint belongs to the run `now`. `force` accepts another program and
    /// another vector width, which differ in the last bits only.
    ///
    /// # Errors
    /// If they differ; the error names the differences.
    pub(crate) fn require(&self, now: &Identity, force: bool) -> Result<()> {
        let mut differs = match changed_rounds(&self.spec, &now.spec)? {
            Some(_) => Vec::new(),
            None => differences(&self.spec, &now.spec),
        };
        for (what, then, now) in [
            ("the data", &self.data, &now.data),
            ("the initial model", &self.start, &now.start),
        ] {
            if then != now {
                differs.push(format!("{what}: SHA-256 {then} there, {now} now"));
            }
        }
        if !differs.is_empty() {
            return Err(Error::Checkpoint(format!(
                "the checkpoints belong to another run, which differs in\n  {}\n\
                 restore these, or begin a new run in another directory",
                differs.join("\n  ")
            )));
        }
        let program = |of: &Identity| {
            if self.lanes == now.lanes {
                of.program.clone()
            } else {
                format!("{} on vectors of {} numbers", of.program, of.lanes)
            }
        };
        if force || (self.program == now.program && self.lanes == now.lanes) {
            Ok(())
        } else {
            Err(Error::OtherProgram {
                then: program(self),
                now: program(now),
            })
        }
    }
}

/// Serializes a spec as TOML text, so that numbers keep their bits.
mod as_toml {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use toml::Table;

    pub fn serialize<S: Serializer>(spec: &Table, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&toml::to_string(spec).expect("a table of plain values is TOML"))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Table, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The manifest of a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`]
    pub format: u32,
    /// The last round.
    pub round: u64,
    /// Local steps so far.
    pub step: u64,
    /// The identity of the run.
    pub identity: Identity,
    /// The server's state.
    pub server: ArchivePart,
    /// The files of client states, oldest first.
    #[serde(rename = "memories")]
    pub client_states: Vec<ArchivePart>,
    /// State that cannot be reproduced from the seed.
    #[serde(default, skip_serializing_if = "Recorded::is_empty")]
    pub recorded: Recorded,
    /// What decides when training stops, if it may stop by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<StopState>,
}

/// What decides when training stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StopState {
    /// The losses so far.
    pub losses: Losses,
    /// The state of the best round, unless that is the round of the checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best: Option<BestState>,
}

/// The files with the state of the best round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BestState {
    /// The round.
    pub round: u64,
    /// Local steps by then.
    pub step: u64,
    /// The server's state.
    pub server: ArchivePart,
    /// The files of client states.
    pub client_states: Vec<ArchivePart>,
}

impl BestState {
    /// Returns its files.
    fn files(&self) -> impl Iterator<Item = &ArchivePart> {
        std::iter::once(&self.server).chain(&self.client_states)
    }
}

/// Returns the file name of a round's manifest.
pub fn manifest_name(round: u64) -> String {
    format!("checkpoint-{round}.manifest")
}

/// The start of the names of files with the state of the best round; the round in the name is
/// that of the checkpoint.
pub const BEST: &str = "best-";

/// Returns the file name of the server's state after a round.
pub fn server_name(round: u64) -> String {
    format!("server-{round}.safetensors")
}

/// Returns the round of a checkpoint file; `None` for any other file name.
pub fn round_of(name: &str) -> Option<u64> {
    let digits = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten()
    };
    if let Some(rest) = name.strip_prefix("checkpoint-") {
        return digits(rest.strip_suffix(".manifest")?);
    }
    let stem = name.strip_suffix(".safetensors")?;
    let stem = stem.strip_prefix(BEST).unwrap_or(stem);
    if let Some(round) = stem.strip_prefix("server-") {
        return digits(round);
    }
    let rest = stem.strip_prefix("memories-")?;
    match rest.split_once("-rank-") {
        None => digits(rest),
        Some((round, rank)) => digits(rank).and(digits(round)),
    }
}

impl Manifest {
    /// Returns all files it needs.
    pub fn files(&self) -> impl Iterator<Item = &ArchivePart> {
        let best = self.stop.as_ref().and_then(|stop| stop.best.as_ref());
        let own = std::iter::once(&self.server).chain(&self.client_states);
        own.chain(best.into_iter().flat_map(BestState::files))
    }

    /// Writes the manifest: line 1 has the SHA-256 of line 2.
    pub fn write(&self, directory: &Path) -> Result<()> {
        let body = serde_json::to_string(self).expect("plain JSON");
        let sum = hex(&Sha256::digest(body.as_bytes()));
        let path = directory.join(manifest_name(self.round));
        write_privately(&path, format!("{sum}\n{body}\n"))
    }

    /// Reads the manifest of a round and verifies its checksum and all of its files.
    pub fn verified(directory: &Path, round: u64) -> Result<Self> {
        let path = directory.join(manifest_name(round));
        let wrong = |what: String| Error::Checkpoint(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(&path).map_err(at(&path, "read"))?;
        let mut lines = text.lines();
        let (sum, body) = match (lines.next(), lines.next(), lines.next()) {
            (Some(sum), Some(body), None) => (sum, body),
            _ => return Err(wrong("expected two lines".into())),
        };
        if hex(&Sha256::digest(body.as_bytes())) != sum {
            return Err(wrong("the checksum does not match".into()));
        }
        #[derive(Deserialize)]
        struct Head {
            format: u32,
        }
        let invalid = |e: serde_json::Error| wrong(format!("not a manifest: {e}"));
        let Head { format } = serde_json::from_str(body).map_err(invalid)?;
        if format != FORMAT {
            return Err(Error::Format {
                path,
                found: format,
                known: FORMAT,
            });
        }
        let manifest: Manifest = serde_json::from_str(body).map_err(invalid)?;
        if manifest.round != round || manifest.server.name != server_name(round) {
            return Err(wrong(format!(
                "found round {} with the server's state in {}",
                manifest.round, manifest.server.name
            )));
        }
        for needed in manifest.files() {
            // A name in a manifest must not lead outside the directory.
            let known = round_of(&needed.name).is_some_and(|of| of <= round);
            let path = directory.join(&needed.name);
            let size = || fs::metadata(&path).map_err(at(&path, "read"));
            if !known || size()?.len() != needed.bytes || sha256_of_file(&path)? != needed.sha256 {
                return Err(Error::Checkpoint(format!(
                    "{}: the content differs from what was written",
                    path.display()
                )));
            }
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_checkpoints_have_a_round() {
        let names = [
            ("checkpoint-12.manifest", Some(12)),
            ("server-3.safetensors", Some(3)),
            ("memories-7.safetensors", Some(7)),
            ("memories-7-rank-2.safetensors", Some(7)),
            ("best-server-3.safetensors", Some(3)),
            ("best-memories-7-rank-2.safetensors", Some(7)),
            ("best-checkpoint-3.manifest", None),
            ("memories-.safetensors", None),
            ("server-3.safetensors.bak", None),
            ("server-+3.safetensors", None),
            ("notes.txt", None),
            ("../server-3.safetensors", None),
        ];
        for (name, round) in names {
            assert_eq!(round_of(name), round, "{name}");
        }
    }

    #[test]
    fn another_width_of_vectors_and_another_program_pass_by_force_alone() {
        let here = Identity {
            program: "1".into(),
            lanes: 8,
            ..Identity::default()
        };
        let wide = Identity {
            lanes: 16,
            ..here.clone()
        };
        let error = here.require(&wide, false).unwrap_err().to_string();
        assert!(
            error.contains("vectors of 8") && error.contains("16"),
            "{error}"
        );
        here.require(&wide, true).unwrap();
        let newer = Identity {
            program: "2".into(),
            ..here.clone()
        };
        assert!(here.require(&newer, false).is_err());
        here.require(&newer, true).unwrap();
        // Other data is another run, by force too.
        let other = Identity {
            data: "x".into(),
            ..here.clone()
        };
        assert!(here.require(&other, true).is_err());
    }
}
