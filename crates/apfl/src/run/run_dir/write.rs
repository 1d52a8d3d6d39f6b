//! Writing of run directories.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{ClientRecord, Environment, HELD_OUT, HeldOutRecord, Summary};
use crate::clients::{Keep, ModelPlaces};
use crate::data::Schema;
use crate::error::{Error, Result, at};
use crate::files::atomic::{AtomicFile, is_temporary, write_atomically};
use crate::files::lock::LOCK_FILE;
use crate::files::private::create_directory;
use crate::files::tensors::{self, ModelsFile};
use crate::local_client::ModelForm;
use crate::model::Layout;
use crate::predict::WhichModel;
use crate::training::RoundRecord;

fn write_spec(path: &Path, spec: &str, notes: &[String]) -> Result<()> {
    let comment = |note: &String| format!("# {}\n", note.replace(char::is_control, " "));
    let notes: String = notes.iter().map(comment).collect();
    write_atomically(&path.join("spec.toml"), notes + spec)
}

/// A run directory that is being written.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    rounds: File,
    seconds: f64,
}

impl RunDir {
    /// Returns an error if a directory exists and is not empty. Leftovers of a run that was killed
    /// before its spec was written do not count.
    pub fn require_empty(path: &Path) -> Result<()> {
        if leftovers_only(path, true) {
            Ok(())
        } else {
            Err(Error::Request(format!(
                "{}: the directory already exists and is not empty; choose another one, or resume \
                 the run in it",
                path.display()
            )))
        }
    }

    /// Removes temporary files of killed processes. The caller must hold the directory's lock.
    pub fn clean(path: &Path) {
        for directory in [
            path.to_owned(),
            path.join("models"),
            path.join("checkpoint"),
        ] {
            if !fs::symlink_metadata(&directory).is_ok_and(|m| m.is_dir()) {
                continue;
            }
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let is_file = entry.file_type().is_ok_and(|t| t.is_file());
                if is_file && is_leftover(&entry.file_name().to_string_lossy()) {
                    let _ = fs::remove_file(entry.path()); // a file that stays only takes space
                }
            }
        }
    }

    /// Creates a run directory; an existing one must be empty. `notes` are written above the
    /// spec as comments.
    pub fn create(
        path: &Path,
        spec: &str,
        notes: &[String],
        schema: &Schema,
        environment: &Environment,
    ) -> Result<Self> {
        Self::require_empty(path)?;
        Self::clean(path);
        create_directory(&path.join("models"))?;
        write_spec(path, spec, notes)?;
        Self::describe(path, schema, environment)?;
        Self::reopen(path, 0)
    }

    /// Gives a run a spec with other rounds. A finished one is then unfinished again.
    pub(crate) fn change_rounds(path: &Path, spec: &str, notes: &[String]) -> Result<()> {
        let summary = path.join("summary.json");
        match fs::remove_file(&summary) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(at(&summary, "remove")(e)),
            _ => write_spec(path, spec, notes),
        }
    }

    /// Replaces the spec of a finished run by one that ends where the run did.
    pub(crate) fn replace_spec(path: &Path, spec: &str, notes: &[String]) -> Result<()> {
        write_spec(path, spec, notes)
    }

    /// Writes `environment.json` and `schema.json`.
    pub fn describe(path: &Path, schema: &Schema, environment: &Environment) -> Result<()> {
        write_json(&path.join("environment.json"), environment)?;
        write_json(&path.join("schema.json"), schema)
    }

    /// Opens the directory of an interrupted run to continue after `round`; truncates
    /// `rounds.jsonl` to that round.
    pub(crate) fn reopen(path: &Path, round: u64) -> Result<Self> {
        let file = path.join("rounds.jsonl");
        let io = |action| at(&file, action);
        let mut rounds = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&file)
            .map_err(io("write"))?;
        let mut seconds = 0.0;
        let mut end = 0;
        let mut lines = BufReader::new(&mut rounds);
        let mut line = String::new();
        for expected in 1..=round {
            line.clear();
            let bytes = lines.read_line(&mut line).map_err(io("read"))?;
            let record: Option<RoundRecord> = serde_json::from_str(&line).ok();
            match record.filter(|r| r.round == expected && line.ends_with('\n')) {
                Some(record) => seconds += record.seconds,
                None => {
                    return Err(Error::Checkpoint(format!(
                        "{}: line {expected} is not the record of round {expected}, but the \
                         checkpoint is of round {round}; restore the file",
                        file.display()
                    )));
                }
            }
            end += bytes as u64;
        }
        rounds.set_len(end).map_err(io("write"))?;
        rounds.seek(SeekFrom::End(0)).map_err(io("write"))?;
        create_directory(&path.join("models"))?;
        Ok(Self {
            path: path.into(),
            rounds,
            seconds,
        })
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Syncs the records so far, before a checkpoint that relies on them.
    pub fn sync(&self) -> Result<()> {
        let file = self.path.join("rounds.jsonl");
        self.rounds.sync_data().map_err(at(&file, "sync"))
    }

    /// Returns an error if the file of records was removed or replaced.
    fn require_same_file(&self, path: &Path) -> Result<()> {
        let current = fs::metadata(path).map_err(at(path, "write"))?;
        let same = match self.rounds.metadata() {
            Ok(ours) => same_file(&ours, &current),
            Err(e) => return Err(at(path, "write")(e)),
        };
        if same {
            Ok(())
        } else {
            Err(Error::Checkpoint(format!(
                "{}: the file was replaced while the run was writing it; resume the run",
                path.display()
            )))
        }
    }

    /// Appends a line to `rounds.jsonl`.
    pub fn append(&mut self, record: &RoundRecord) -> Result<()> {
        let path = self.path.join("rounds.jsonl");
        self.require_same_file(&path)?;
        let mut line = serde_json::to_vec(record).expect("plain JSON");
        line.push(b'\n');
        self.rounds.write_all(&line).map_err(at(&path, "write"))?;
        self.rounds.flush().map_err(at(&path, "write"))?;
        self.seconds += record.seconds;
        Ok(())
    }

    /// Returns the wall time of the rounds so far.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Writes the shared model that the run ends with.
    pub(crate) fn write_shared(&self, layout: &Layout, params: &[f32]) -> Result<()> {
        let path = self.path.join("models").join(WhichModel::Shared.file());
        tensors::write_one(&path, layout, params)
    }

    /// Creates the files of a finalization for clients with these names: `clients.jsonl` and, if
    /// `models` gives the network's layout and the form of personal models, the model files;
    /// `alone` includes the models of training alone.
    pub fn finalization(
        &self,
        names: &[String],
        models: Option<(&Layout, ModelForm)>,
        alone: bool,
    ) -> Result<FinalizationFiles> {
        let models = match models.filter(|_| !names.is_empty()) {
            None => None,
            Some((network, personal)) => {
                let file = |which: WhichModel| {
                    let path = self.path.join("models").join(which.file());
                    ModelsFile::create(&path, &which.form(personal).layout(network), names)
                };
                let personal = file(WhichModel::Personal)?;
                let localized = file(WhichModel::Localized)?;
                let local = file(WhichModel::Local)?;
                let alone = alone.then(|| file(WhichModel::Alone)).transpose()?;
                let mut files = vec![personal.file, localized.file, local.file];
                let alone = alone.map(|alone| {
                    files.push(alone.file);
                    alone.slots
                });
                let places = ModelPlaces {
                    personal: personal.slots,
                    localized: localized.slots,
                    local: local.slots,
                    alone,
                };
                Some((places, files))
            }
        };
        let lines = AtomicFile::create(&self.path.join("clients.jsonl"))?;
        Ok(FinalizationFiles { lines, models })
    }

    /// Writes `held-out.jsonl`: each client's losses on the held-out rows of a pass.
    pub(crate) fn write_held_out(&self, records: &[HeldOutRecord]) -> Result<()> {
        let mut file = AtomicFile::create(&self.path.join(HELD_OUT))?;
        for record in records {
            let mut line = serde_json::to_vec(record).expect("plain JSON");
            line.push(b'\n');
            file.write(&line)?;
        }
        file.commit()
    }

    /// Writes `summary.json`, the last file, which marks the run as finished.
    pub(crate) fn write_summary(&self, summary: &Summary) -> Result<()> {
        write_json(&self.path.join("summary.json"), summary)
    }
}

/// Returns whether both metadata are of one file, as far as the system can tell.
fn same_file(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        (a.dev(), a.ino()) == (b.dev(), b.ino())
    }
    #[cfg(not(unix))]
    {
        a.len() == b.len()
    }
}

/// Returns whether a file is a leftover of a killed process.
fn is_leftover(name: &str) -> bool {
    is_temporary(name) || name.starts_with("memories.scratch")
}

/// Returns whether a directory holds leftovers only; with `deep`, also in `models`.
fn leftovers_only(path: &Path, deep: bool) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return true; // missing, or not a directory: creating it reports that
    };
    entries.flatten().all(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let models = deep && name == "models" && leftovers_only(&entry.path(), false);
        name == LOCK_FILE || is_leftover(&name) || models
    })
}

/// The files of a finalization; they appear when committed.
#[derive(Debug)]
pub struct FinalizationFiles {
    lines: AtomicFile,
    models: Option<(ModelPlaces, Vec<AtomicFile>)>,
}

impl FinalizationFiles {
    /// Returns the writer of client records, and where models are kept.
    pub fn parts(&mut self) -> (ClientRecordWriter<'_>, Keep) {
        let keep = match &self.models {
            None => Keep::Nothing,
            Some((places, _)) => Keep::InFiles(places.clone()),
        };
        (ClientRecordWriter(&mut self.lines), keep)
    }

    /// Commits all files.
    pub fn commit(self) -> Result<()> {
        if let Some((_, files)) = self.models {
            files.into_iter().try_for_each(AtomicFile::commit)?;
        }
        self.lines.commit()
    }
}

/// Writes `clients.jsonl`.
#[derive(Debug)]
pub struct ClientRecordWriter<'a>(&'a mut AtomicFile);

impl ClientRecordWriter<'_> {
    /// Appends a record.
    pub fn write(&mut self, record: &ClientRecord) -> Result<()> {
        let mut line = serde_json::to_vec(record).expect("plain JSON");
        line.push(b'\n');
        self.0.write(&line)
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).expect("plain JSON");
    text.push('\n');
    write_atomically(path, text)
}
