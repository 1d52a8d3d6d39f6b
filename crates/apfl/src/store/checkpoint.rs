//! Checkpoints: the whole state of training, so that nothing is lost.
//!
//! `checkpoint/` holds, for a checkpoint after round R:
//!
//! | file | what |
//! |---|---|
//! | `server-R.safetensors` | what the server remembers, one tensor an array |
//! | `memories-R.safetensors` | the memories of the clients drawn since the checkpoint before, tensors `<client index>/<array>`; on several processes one file each, `memories-R-rank-K.safetensors`, written by the process that owns the clients |
//! | `checkpoint-R.manifest` | line 1: the SHA-256 of line 2; line 2: JSON with round, step, and every file needed, with size and SHA-256 |
//!
//! A client's memory is in the newest of the manifest's memory files that has it. The
//! manifest is written last: a checkpoint exists when its manifest does. The last two
//! are kept, with all files they need. When memory files hold more than twice what is
//! current, the next one holds everybody and the others go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::archive::{ArchiveDirectory, HashedFile, Written, entry, read_arrays};
use super::atomic::write_atomically;
use super::tensors::{Entry, TensorFile, head};
use crate::digest::{hex, sha256_of_file};
use crate::error::{Error, Result, at};
use crate::pack::Field;
use crate::training::Training;

const FORMAT: u32 = 1;

/// How often a checkpoint is begun again whose directory is deleted under it.
const TRIES: usize = 10;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Manifest {
    format: u32,
    round: u64,
    step: u64,
    server: Written,
    /// Oldest first.
    memories: Vec<Written>,
}

impl Manifest {
    fn files(&self) -> impl Iterator<Item = &Written> {
        std::iter::once(&self.server).chain(&self.memories)
    }
}

/// The checkpoints of a run.
#[derive(Debug)]
pub struct Checkpoints {
    directory: PathBuf,
    /// The newest two, oldest first.
    kept: Vec<Manifest>,
    /// The memory file that has a client's current memory.
    home: BTreeMap<usize, String>,
}

/// What a run directory's checkpoints allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There are none: start from round 1.
    None,
    /// The run was put back to this round; what had to be passed over is said.
    Resumed {
        /// The round.
        round: u64,
        /// Messages about damaged checkpoints.
        notes: Vec<String>,
    },
}

impl Checkpoints {
    /// No checkpoints yet.
    pub fn new(run: &Path) -> Self {
        Self {
            directory: run.join("checkpoint"),
            kept: Vec::new(),
            home: BTreeMap::new(),
        }
    }

    /// Writes a checkpoint of the run as it is now, again where somebody deletes the
    /// directory meanwhile.
    pub fn write(&mut self, training: &mut Training) -> Result<()> {
        let mut result = self.try_to_write(training);
        for _ in 0..TRIES {
            match &result {
                Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    result = self.try_to_write(training);
                }
                _ => break,
            }
        }
        result
    }

    fn try_to_write(&mut self, training: &mut Training) -> Result<()> {
        let round = training.round();
        let last = self.kept.last().map_or(0, |m| m.round);
        if last == round && round > 0 {
            return Ok(());
        }
        fs::create_dir_all(&self.directory).map_err(at(&self.directory, "create"))?;
        let server = self.write_server(training, round)?;
        let mut memories = self.kept.last().map_or(Vec::new(), |m| m.memories.clone());
        let fields = training.client_fields();
        if !fields.is_empty() {
            let mut clients = training.drawn_in(last + 1..=round);
            if self.wants_everybody(training, &fields, &clients, &memories) {
                clients = training.drawn().into_iter().collect();
                memories.clear();
            }
            let clients: Vec<usize> = clients.into_iter().collect();
            let files = training.save(&self.archive(), &format!("memories-{round}"), &clients)?;
            for (file, clients) in files {
                for client in clients {
                    self.home.insert(client, file.name.clone());
                }
                memories.retain(|old| old.name != file.name);
                memories.push(file);
            }
            let current: BTreeSet<&String> = self.home.values().collect();
            memories.retain(|file| current.contains(&file.name));
        }
        let manifest = Manifest {
            format: FORMAT,
            round,
            step: training.step(),
            server,
            memories,
        };
        self.write_manifest(&manifest)?;
        self.kept.push(manifest);
        self.prune();
        Ok(())
    }

    /// Whether the next memory file should hold every client: because the files hold
    /// more than twice what is current, or because one of them is gone.
    fn wants_everybody(
        &self,
        training: &Training,
        fields: &[Field],
        changed: &BTreeSet<usize>,
        memories: &[Written],
    ) -> bool {
        let whole = |file: &Written| {
            let path = self.directory.join(&file.name);
            fs::metadata(path).is_ok_and(|m| m.len() == file.bytes)
        };
        if !memories.iter().all(whole) {
            return true;
        }
        let one: usize = fields.iter().map(Field::bytes).sum();
        let live = training.drawn().len() * one;
        let held: u64 = memories.iter().map(|file| file.bytes).sum();
        held as usize + changed.len() * one > 2 * live + (1 << 20)
    }

    fn write_server(&self, training: &Training, round: u64) -> Result<Written> {
        let (fields, bytes) = training.server_bytes();
        let entries: Vec<Entry> = fields.iter().map(|f| entry("", f)).collect();
        let mut file = HashedFile::create(&self.directory, format!("server-{round}.safetensors"))?;
        file.write(&head(&entries))?;
        file.write(&bytes)?;
        file.commit()
    }

    fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        let body = serde_json::to_string(manifest).expect("plain JSON");
        let sum = hex(&Sha256::digest(body.as_bytes()));
        let path = self.manifest_path(manifest.round);
        write_atomically(&path, format!("{sum}\n{body}\n"))
    }

    fn archive(&self) -> ArchiveDirectory {
        ArchiveDirectory(self.directory.clone())
    }

    fn manifest_path(&self, round: u64) -> PathBuf {
        self.directory.join(format!("checkpoint-{round}.manifest"))
    }

    /// Removes what the newest two do not need. Failing to is no reason to stop.
    fn prune(&mut self) {
        let surplus = self.kept.len().saturating_sub(2);
        self.kept.drain(..surplus);
        let mut needed: BTreeSet<String> = BTreeSet::new();
        for manifest in &self.kept {
            needed.extend(manifest.files().map(|file| file.name.clone()));
            needed.insert(format!("checkpoint-{}.manifest", manifest.round));
        }
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            if !needed.contains(&*entry.file_name().to_string_lossy()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Puts a fresh run back to its newest whole checkpoint. Touches no file.
    pub fn resume(run: &Path, training: &mut Training) -> Result<(Self, Found)> {
        let mut checkpoints = Self::new(run);
        let mut rounds = checkpoints.rounds()?;
        rounds.sort_unstable();
        if rounds.is_empty() {
            return Ok((checkpoints, Found::None));
        }
        let mut notes = Vec::new();
        while let Some(round) = rounds.pop() {
            match checkpoints.verified(round) {
                Ok(manifest) => {
                    checkpoints.restore(&manifest, training)?;
                    checkpoints.kept = vec![manifest];
                    return Ok((checkpoints, Found::Resumed { round, notes }));
                }
                Err(error) => notes.push(format!(
                    "the checkpoint of round {round} is damaged and passed over: {error}"
                )),
            }
        }
        Err(Error::Checkpoint(format!(
            "{}: there are checkpoints but none of them is whole; nothing was touched\n  {}",
            checkpoints.directory.display(),
            notes.join("\n  ")
        )))
    }

    /// The rounds of which there is a manifest.
    fn rounds(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(at(&self.directory, "read"))?,
        };
        let round = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let digits = name
                .strip_prefix("checkpoint-")?
                .strip_suffix(".manifest")?;
            digits.parse().ok()
        };
        Ok(entries.flatten().filter_map(round).collect())
    }

    /// A manifest whose own checksum and all of whose files are right.
    fn verified(&self, round: u64) -> Result<Manifest> {
        let path = self.manifest_path(round);
        let wrong = |what: String| Error::Checkpoint(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(&path).map_err(at(&path, "read"))?;
        let mut lines = text.lines();
        let (sum, body) = match (lines.next(), lines.next(), lines.next()) {
            (Some(sum), Some(body), None) => (sum, body),
            _ => return Err(wrong("is not two lines".into())),
        };
        if hex(&Sha256::digest(body.as_bytes())) != sum {
            return Err(wrong("its checksum is wrong".into()));
        }
        let manifest: Manifest =
            serde_json::from_str(body).map_err(|e| wrong(format!("is not a manifest: {e}")))?;
        if manifest.format != FORMAT {
            return Err(wrong(format!(
                "is of format {}, this program reads {FORMAT}",
                manifest.format
            )));
        }
        if manifest.round != round {
            return Err(wrong(format!("is of round {}", manifest.round)));
        }
        for needed in manifest.files() {
            let path = self.directory.join(&needed.name);
            let size = fs::metadata(&path).map_err(at(&path, "read"))?.len();
            if size != needed.bytes || sha256_of_file(&path)? != needed.sha256 {
                return Err(Error::Checkpoint(format!(
                    "{}: its content is not what was written",
                    path.display()
                )));
            }
        }
        Ok(manifest)
    }

    fn restore(&mut self, manifest: &Manifest, training: &mut Training) -> Result<()> {
        let mut server = TensorFile::open(&self.directory.join(&manifest.server.name))?;
        let (fields, _) = training.server_bytes();
        let arrays = read_arrays(&mut server, "", &fields)?;
        training.restore_server(manifest.round, manifest.step, arrays)?;

        let clients = training.setup().world.dataset.clients();
        for needed in &manifest.memories {
            let file = TensorFile::open(&self.directory.join(&needed.name))?;
            for entry in file.entries()? {
                let index = entry.name.split_once('/').and_then(|(k, _)| k.parse().ok());
                match index.filter(|k| *k < clients) {
                    Some(client) => self.home.insert(client, needed.name.clone()),
                    None => {
                        return Err(Error::Checkpoint(format!(
                            "{}: tensor '{}' belongs to no client of this run",
                            needed.name, entry.name
                        )));
                    }
                };
            }
        }
        for needed in &manifest.memories {
            let here = self.home.iter().filter(|(_, home)| **home == needed.name);
            let clients: Vec<usize> = here.map(|(client, _)| *client).collect();
            training.restore_clients(&self.archive(), &needed.name, &clients)?;
        }
        Ok(())
    }
}
