//! Checkpoints: the whole state of training, so that a run can be resumed.
//!
//! `checkpoint/` holds, for a checkpoint after round R:
//!
//! | file | what |
//! |---|---|
//! | `server-R.safetensors` | the server's state, one tensor per array |
//! | `memories-R.safetensors` | the states of the clients sampled since the last checkpoint but one, tensors `<client index>/<array>`; with several processes one file each, `memories-R-rank-K.safetensors`, written by the process that owns the clients |
//! | `best-server-R.safetensors`, `best-memories-R.safetensors` | if training may stop by itself: the state of the best round so far, unless that is R |
//! | `checkpoint-R.manifest` | line 1: the SHA-256 of line 2; line 2: JSON with round, step, the identity of the run, and every file needed, with size and SHA-256 |
//!
//! A client's state is in the newest of the manifest's state files that has it. The manifest is
//! written last: a checkpoint exists when its manifest does. The last two checkpoints are kept.
//! They share no file: each builds on the last but one before it, so that one damaged file leaves
//! an intact checkpoint. When state files hold more than twice the current states, the next file
//! holds all of them and the others are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::manifest::{
    BEST, BestState, FORMAT, Identity, Manifest, StopState, manifest_name, round_of, server_name,
};
use super::stop::Losses;
use crate::clients::StateSet;
use crate::error::{Error, Result, at};
use crate::files::archive::{ArchiveDirectory, ArchivePart, HashedFile, entry, read_arrays};
use crate::files::tensors::{TensorEntry, TensorFile, header};
use crate::pack::Field;
use crate::training::Training;

/// How often a checkpoint is retried if its directory is deleted meanwhile.
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
    /// The file that has a client's current state.
    file_of: BTreeMap<usize, String>,
}

/// The checkpoint found in a run directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There is none: the run starts with round 1.
    None,
    /// The run was restored to this round.
    Resumed {
        /// The round.
        round: u64,
        /// Messages about damaged checkpoints that were skipped.
        notes: Vec<String>,
    },
}

impl Checkpoints {
    /// Creates the list of checkpoints of a new run.
    pub fn new(run: &Path, identity: Identity) -> Self {
        Self {
            directory: run.join("checkpoint"),
            identity,
            kept: Vec::new(),
        }
    }

    /// Writes a checkpoint of the current state; retries if the directory is deleted meanwhile.
    pub fn write(&mut self, training: &mut Training) -> Result<()> {
        self.write_with(training, None)
    }

    /// Writes a checkpoint like [`Checkpoints::write`], of a run that may stop by itself.
    pub(super) fn write_with(
        &mut self,
        training: &mut Training,
        losses: Option<&Losses>,
    ) -> Result<()> {
        let mut result = self.try_to_write(training, losses);
        for _ in 0..TRIES {
            match &result {
                Err(Error::File { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    result = self.try_to_write(training, losses);
                }
                _ => break,
            }
        }
        result
    }

    fn try_to_write(&mut self, training: &mut Training, losses: Option<&Losses>) -> Result<()> {
        let round = training.round();
        if self.kept.last().is_some_and(|k| k.manifest.round == round) {
            return Ok(());
        }
        crate::files::private::create_directory(&self.directory)?;
        let (server_fields, server_bytes) = training.server_bytes();
        let server = self.write_server(server_name(round), &server_fields, &server_bytes)?;
        // Built on the last but one: the last two have no file in common.
        let base = match &self.kept[..] {
            [older, _] => Some(older),
            _ => None,
        };
        let mut state_files = base.map_or(Vec::new(), |b| b.manifest.client_states.clone());
        let mut file_of = base.map_or(BTreeMap::new(), |b| b.file_of.clone());
        let fields = training.client_fields();
        if !fields.is_empty() {
            let mut clients = match base {
                Some(base) => training.sampled_in(base.manifest.round + 1..=round),
                None => training.sampled().into_iter().collect(),
            };
            if self.needs_all_clients(training, &fields, &clients, &state_files) {
                clients = training.sampled().into_iter().collect();
                state_files.clear();
            }
            let clients: Vec<usize> = clients.into_iter().collect();
            let name = format!("memories-{round}");
            let files = training.save(&self.archive(), &name, StateSet::Current, &clients)?;
            for (file, clients) in files {
                for client in clients {
                    file_of.insert(client, file.name.clone());
                }
                state_files.retain(|old| old.name != file.name);
                state_files.push(file);
            }
            let current: BTreeSet<&String> = file_of.values().collect();
            state_files.retain(|file| current.contains(&file.name));
        }
        let stop = match losses {
            None => None,
            Some(losses) => Some(StopState {
                losses: losses.clone(),
                best: self.write_best(training, round, !fields.is_empty())?,
            }),
        };
        let manifest = Manifest {
            stop,
            format: FORMAT,
            round,
            step: training.step(),
            identity: self.identity.clone(),
            server,
            client_states: state_files,
            recorded: training.recorded().clone(),
        };
        manifest.write(&self.directory)?;
        self.kept.push(Kept { manifest, file_of });
        self.prune();
        Ok(())
    }

    /// Returns whether the next state file should hold every client: because the files hold
    /// more than twice the current states, or because one of them is damaged.
    fn needs_all_clients(
        &self,
        training: &Training,
        fields: &[Field],
        changed: &BTreeSet<usize>,
        state_files: &[ArchivePart],
    ) -> bool {
        let is_intact = |file: &ArchivePart| {
            let path = self.directory.join(&file.name);
            fs::metadata(path).is_ok_and(|m| m.len() == file.bytes)
        };
        if !state_files.iter().all(is_intact) {
            return true;
        }
        let state_bytes: usize = fields.iter().map(Field::bytes).sum();
        let current = training.sampled().len() * state_bytes;
        let held: u64 = state_files.iter().map(|file| file.bytes).sum();
        held as usize + changed.len() * state_bytes > 2 * current + (1 << 20)
    }

    fn write_server(&self, name: String, fields: &[Field], bytes: &[u8]) -> Result<ArchivePart> {
        let entries: Vec<TensorEntry> = fields.iter().map(|f| entry("", f)).collect();
        let mut file = HashedFile::create(&self.directory, name)?;
        file.write(&header(&entries))?;
        file.write(bytes)?;
        file.commit()
    }

    /// Writes the state of the best round; `None` if it is that of the checkpoint's round.
    fn write_best(
        &self,
        training: &mut Training,
        round: u64,
        stateful: bool,
    ) -> Result<Option<BestState>> {
        let Some((best, step)) = training.snapshot_at().filter(|(best, _)| *best < round) else {
            return Ok(None);
        };
        let Some((fields, bytes)) = training.snapshot_server() else {
            return Ok(None);
        };
        let name = format!("{BEST}{}", server_name(round));
        let server = self.write_server(name, fields, bytes)?;
        let mut client_states = Vec::new();
        if stateful {
            let clients: Vec<usize> = training.sampled_in(1..=best).into_iter().collect();
            let name = format!("{BEST}memories-{round}");
            let parts = training.save(&self.archive(), &name, StateSet::Snapshot, &clients)?;
            client_states.extend(parts.into_iter().map(|(part, _)| part));
        }
        Ok(Some(BestState {
            round: best,
            step,
            server,
            client_states,
        }))
    }

    /// Returns the losses of the checkpoint that the run was restored to.
    pub(super) fn losses(&self) -> Option<&Losses> {
        let stop = self.kept.last()?.manifest.stop.as_ref()?;
        Some(&stop.losses)
    }

    fn archive(&self) -> ArchiveDirectory {
        ArchiveDirectory(self.directory.clone())
    }

    /// Removes checkpoint files that the newest two do not need. Does not follow links; failures
    /// are ignored.
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

    /// Restores a fresh run to its newest intact checkpoint without changing any file. `force`
    /// accepts checkpoints of another program.
    ///
    /// # Errors
    /// If a checkpoint belongs to another run, or all are damaged.
    pub fn resume(
        run: &Path,
        identity: Identity,
        force: bool,
        training: &mut Training,
    ) -> Result<(Self, Found)> {
        Self::resume_by(run, identity, force, u64::MAX, training)
    }

    /// Restores a fresh run like [`Checkpoints::resume`], from checkpoints of rounds up to `last`.
    pub(super) fn resume_by(
        run: &Path,
        identity: Identity,
        force: bool,
        last: u64,
        training: &mut Training,
    ) -> Result<(Self, Found)> {
        let mut checkpoints = Self::new(run, identity);
        let mut rounds = checkpoints.rounds()?;
        rounds.retain(|round| *round <= last);
        if rounds.is_empty() {
            return Ok((checkpoints, Found::None));
        }
        let mut notes = Vec::new();
        while let Some(round) = rounds.pop() {
            match Manifest::verified(&checkpoints.directory, round) {
                Ok(manifest) => {
                    manifest.identity.require(&checkpoints.identity, force)?;
                    let file_of = checkpoints.restore(&manifest, training)?;
                    checkpoints.kept = vec![Kept { manifest, file_of }];
                    return Ok((checkpoints, Found::Resumed { round, notes }));
                }
                Err(error @ Error::Format { .. }) => return Err(error),
                Err(error) => notes.push(format!(
                    "the checkpoint of round {round} is damaged and skipped: {error}"
                )),
            }
        }
        Err(Error::Checkpoint(format!(
            "{}: all checkpoints are damaged; nothing was changed\n  {}",
            checkpoints.directory.display(),
            notes.join("\n  ")
        )))
    }

    /// Removes the files of all checkpoints but the one that the run was restored to.
    pub(super) fn drop_others(&mut self) {
        self.prune();
    }

    /// Returns the rounds that have a manifest, ascending.
    pub(super) fn rounds(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.map_err(at(&self.directory, "read"))?,
        };
        let round = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            round_of(&name).filter(|_| name.ends_with(".manifest"))
        };
        let mut rounds: Vec<u64> = entries.flatten().filter_map(round).collect();
        rounds.sort_unstable();
        Ok(rounds)
    }

    /// Restores the states of server and clients. Returns the file of each client's state.
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

        let mut file_of = BTreeMap::new();
        for needed in &manifest.client_states {
            for client in self.clients_in(needed, training)? {
                file_of.insert(client, needed.name.clone());
            }
        }
        if !training.client_fields().is_empty() {
            let lost = training
                .sampled()
                .into_iter()
                .find(|k| !file_of.contains_key(k));
            if let Some(client) = lost {
                return Err(Error::Checkpoint(format!(
                    "client '{}' took part by round {}, but the checkpoint has no state of it",
                    training.setup().context.dataset.name(client),
                    manifest.round
                )));
            }
        }
        for needed in &manifest.client_states {
            let in_file = file_of.iter().filter(|(_, name)| **name == needed.name);
            let clients: Vec<usize> = in_file.map(|(client, _)| *client).collect();
            let current = StateSet::Current;
            training.restore_clients(&self.archive(), &needed.name, current, &clients)?;
        }
        if let Some(stop) = &manifest.stop {
            self.restore_best(manifest, stop, &fields, training)?;
        }
        Ok(file_of)
    }

    /// Restores the state of the best round.
    fn restore_best(
        &self,
        manifest: &Manifest,
        stop: &StopState,
        fields: &[Field],
        training: &mut Training,
    ) -> Result<()> {
        let Some(best) = &stop.best else {
            return match stop.losses.best() {
                Some((round, _)) if round == manifest.round => training.take_snapshot(),
                _ => Ok(()), // no loss was finite
            };
        };
        let mut server = TensorFile::open(&self.directory.join(&best.server.name))?;
        let mut bytes = Vec::new();
        for field in fields {
            bytes.append(&mut server.read(&entry("", field))?);
        }
        training.restore_snapshot(best.round, best.step, fields.to_vec(), bytes);
        for part in &best.client_states {
            let clients: Vec<usize> = self.clients_in(part, training)?.into_iter().collect();
            let snapshot = StateSet::Snapshot;
            training.restore_clients(&self.archive(), &part.name, snapshot, &clients)?;
        }
        Ok(())
    }

    /// Returns the clients that a file of states has.
    fn clients_in(&self, part: &ArchivePart, training: &Training) -> Result<BTreeSet<usize>> {
        let clients = training.setup().context.dataset.clients();
        let file = TensorFile::open(&self.directory.join(&part.name))?;
        let index = |entry: TensorEntry| {
            let index = entry.name.split_once('/').and_then(|(k, _)| k.parse().ok());
            index.filter(|k| *k < clients).ok_or_else(|| {
                Error::Checkpoint(format!(
                    "{}: tensor '{}' does not belong to a client of this run",
                    part.name, entry.name
                ))
            })
        };
        file.entries()?.into_iter().map(index).collect()
    }
}
