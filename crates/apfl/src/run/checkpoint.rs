//! Checkpoints: the whole state of training, so that nothing is lost.
//!
//! `checkpoint/` holds, for a checkpoint after round R:
//!
//! | file | what |
//! |---|---|
//! | `server-R.safetensors` | what the server remembers, one tensor an array |
//! | `memories-R.safetensors` | the memories of the clients drawn since the checkpoint before the last, tensors `<client index>/<array>`; on several processes one file each, `memories-R-rank-K.safetensors`, written by the process that owns the clients |
//! | `checkpoint-R.manifest` | line 1: the SHA-256 of line 2; line 2: JSON with round, step, what it belongs to, and every file needed, with size and SHA-256 |
//!
//! A client's memory is in the newest of the manifest's memory files that has it. The
//! manifest is written last: a checkpoint exists when its manifest does. The last two are
//! kept, with all files they need, and have no file in common: each builds on the one before
//! the other, so that one damaged file leaves a whole checkpoint. When memory files hold more
//! than twice what is current, the next one holds everybody and the others go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::manifest::{FORMAT, Identity, Manifest, manifest_name, round_of, server_name};
use crate::error::{Error, Result, at};
use crate::files::archive::{ArchiveDirectory, ArchivePart, HashedFile, entry, read_arrays};
use crate::files::tensors::{TensorEntry, TensorFile, header};
use crate::pack::Field;
use crate::training::Training;

/// How often a checkpoint is begun again whose directory is deleted under it.
const TRIES: usize = 10;

/// The checkpoints of a run.
#[derive(Debug)]
pub struct Checkpoints {
    directory: PathBuf,
    identity: Identity,
    /// The newest two, oldest first.
    kept: Vec<Kept>,
}

#[derive(Debug)]
struct Kept {
    manifest: Manifest,
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
    /// No checkpoints yet, of a run of that identity.
    pub fn new(run: &Path, identity: Identity) -> Self {
        Self {
            directory: run.join("checkpoint"),
            identity,
            kept: Vec::new(),
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
        if self.kept.last().is_some_and(|k| k.manifest.round == round) {
            return Ok(());
        }
        crate::files::private::create_directory(&self.directory)?;
        let server = self.write_server(training, round)?;
        // Built on the one before the last: the last two have no file in common.
        let base = match &self.kept[..] {
            [older, _] => Some(older),
            _ => None,
        };
        let mut memories = base.map_or(Vec::new(), |b| b.manifest.memories.clone());
        let mut home = base.map_or(BTreeMap::new(), |b| b.home.clone());
        let fields = training.client_fields();
        if !fields.is_empty() {
            let mut clients = match base {
                Some(base) => training.sampled_in(base.manifest.round + 1..=round),
                None => training.sampled().into_iter().collect(),
            };
            if self.wants_everybody(training, &fields, &clients, &memories) {
                clients = training.sampled().into_iter().collect();
                memories.clear();
            }
            let clients: Vec<usize> = clients.into_iter().collect();
            let files = training.save(&self.archive(), &format!("memories-{round}"), &clients)?;
            for (file, clients) in files {
                for client in clients {
                    home.insert(client, file.name.clone());
                }
                memories.retain(|old| old.name != file.name);
                memories.push(file);
            }
            let current: BTreeSet<&String> = home.values().collect();
            memories.retain(|file| current.contains(&file.name));
        }
        let manifest = Manifest {
            format: FORMAT,
            round,
            step: training.step(),
            identity: self.identity.clone(),
            server,
            memories,
            recorded: training.recorded().clone(),
        };
        manifest.write(&self.directory)?;
        self.kept.push(Kept { manifest, home });
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
        memories: &[ArchivePart],
    ) -> bool {
        let whole = |file: &ArchivePart| {
            let path = self.directory.join(&file.name);
            fs::metadata(path).is_ok_and(|m| m.len() == file.bytes)
        };
        if !memories.iter().all(whole) {
            return true;
        }
        let one: usize = fields.iter().map(Field::bytes).sum();
        let live = training.sampled().len() * one;
        let held: u64 = memories.iter().map(|file| file.bytes).sum();
        held as usize + changed.len() * one > 2 * live + (1 << 20)
    }

    fn write_server(&self, training: &Training, round: u64) -> Result<ArchivePart> {
        let (fields, bytes) = training.server_bytes();
        let entries: Vec<TensorEntry> = fields.iter().map(|f| entry("", f)).collect();
        let mut file = HashedFile::create(&self.directory, server_name(round))?;
        file.write(&header(&entries))?;
        file.write(&bytes)?;
        file.commit()
    }

    fn archive(&self) -> ArchiveDirectory {
        ArchiveDirectory(self.directory.clone())
    }

    /// Removes what the newest two do not need, of files that checkpoints wrote and no
    /// others, and not through a link. Failing to is no reason to stop.
    fn prune(&mut self) {
        let surplus = self.kept.len().saturating_sub(2);
        self.kept.drain(..surplus);
        let mut needed: BTreeSet<String> = BTreeSet::new();
        for Kept { manifest, .. } in &self.kept {
            needed.extend(manifest.files().map(|file| file.name.clone()));
            needed.insert(manifest_name(manifest.round));
        }
        if !fs::symlink_metadata(&self.directory).is_ok_and(|m| m.is_dir()) {
            return;
        }
        let Ok(entries) = fs::read_dir(&self.directory) else {
            return;
        };
        for entry in entries.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_file = entry.file_type().is_ok_and(|t| t.is_file());
            if is_file && round_of(&name).is_some() && !needed.contains(&name) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Puts a fresh run back to its newest whole checkpoint. Touches no file. A checkpoint
    /// of another run is an error, whatever else is there; `force` lets another program's
    /// pass.
    pub fn resume(
        run: &Path,
        identity: Identity,
        force: bool,
        training: &mut Training,
    ) -> Result<(Self, Found)> {
        let mut checkpoints = Self::new(run, identity);
        let mut rounds = checkpoints.rounds()?;
        rounds.sort_unstable();
        if rounds.is_empty() {
            return Ok((checkpoints, Found::None));
        }
        let mut notes = Vec::new();
        while let Some(round) = rounds.pop() {
            match Manifest::verified(&checkpoints.directory, round) {
                Ok(manifest) => {
                    manifest.identity.require(&checkpoints.identity, force)?;
                    let home = checkpoints.restore(&manifest, training)?;
                    checkpoints.kept = vec![Kept { manifest, home }];
                    return Ok((checkpoints, Found::Resumed { round, notes }));
                }
                Err(error @ Error::Format { .. }) => return Err(error),
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
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(at(&self.directory, "read"))?,
        };
        let round = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            round_of(&name).filter(|_| name.ends_with(".manifest"))
        };
        Ok(entries.flatten().filter_map(round).collect())
    }

    /// Gives server and clients back what they remember. Returns where each client's is.
    fn restore(
        &self,
        manifest: &Manifest,
        training: &mut Training,
    ) -> Result<BTreeMap<usize, String>> {
        let mut server = TensorFile::open(&self.directory.join(&manifest.server.name))?;
        let (fields, _) = training.server_bytes();
        let arrays = read_arrays(&mut server, "", &fields)?;
        training.restore_recorded(manifest.recorded.clone());
        training.restore_server(manifest.round, manifest.step, arrays)?;

        let clients = training.setup().context.dataset.clients();
        let mut home = BTreeMap::new();
        for needed in &manifest.memories {
            let file = TensorFile::open(&self.directory.join(&needed.name))?;
            for entry in file.entries()? {
                let index = entry.name.split_once('/').and_then(|(k, _)| k.parse().ok());
                match index.filter(|k| *k < clients) {
                    Some(client) => home.insert(client, needed.name.clone()),
                    None => {
                        return Err(Error::Checkpoint(format!(
                            "{}: tensor '{}' belongs to no client of this run",
                            needed.name, entry.name
                        )));
                    }
                };
            }
        }
        if !training.client_fields().is_empty() {
            let lost = training
                .sampled()
                .into_iter()
                .find(|k| !home.contains_key(k));
            if let Some(client) = lost {
                return Err(Error::Checkpoint(format!(
                    "client '{}' took part by round {} and the checkpoint has no memory of it",
                    training.setup().context.dataset.name(client),
                    manifest.round
                )));
            }
        }
        for needed in &manifest.memories {
            let here = home.iter().filter(|(_, home)| **home == needed.name);
            let clients: Vec<usize> = here.map(|(client, _)| *client).collect();
            training.restore_clients(&self.archive(), &needed.name, &clients)?;
        }
        Ok(home)
    }
}
