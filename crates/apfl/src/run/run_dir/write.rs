//! The directory of a run while it is being written.

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
    /// An error where a directory exists and is not empty. What a run leaves that is killed
    /// before its spec is written does not count.
    pub fn require_empty(path: &Path) -> Result<()> {
        if leftovers_only(path, true) {
            Ok(())
        } else {
            Err(Error::Request(format!(
                "{}: the directory is there already and not empty; give another one, or continue \
                 the run that is there",
                path.display()
            )))
        }
    }

    /// Removes temporary files that killed processes left. Whoever calls has the directory's
    /// lock: nobody else is writing.
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
                    let _ = fs::remove_file(entry.path()); // in nobody's way but the disk's
                }
            }
        }
    }

    /// Makes a new run directory; one that exists must be empty. `notes` stand above the
    /// spec, as comments.
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

    /// Makes a run one of more rounds, which it is not finished with.
    pub fn prolong(path: &Path, spec: &str, notes: &[String]) -> Result<()> {
        let summary = path.join("summary.json");
        match fs::remove_file(&summary) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(at(&summary, "remove")(e)),
            _ => write_spec(path, spec, notes),
        }
    }

    /// Writes `environment.json` and `schema.json`.
    pub fn describe(path: &Path, schema: &Schema, environment: &Environment) -> Result<()> {
        write_json(&path.join("environment.json"), environment)?;
        write_json(&path.join("schema.json"), schema)
    }

    /// Opens the directory of a run that was interrupted, to go on after `round`: cuts
    /// `rounds.jsonl` back to that round.
    pub fn reopen(path: &Path, round: u64) -> Result<Self> {
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
        for wanted in 1..=round {
            line.clear();
            let bytes = lines.read_line(&mut line).map_err(io("read"))?;
            let record: Option<RoundRecord> = serde_json::from_str(&line).ok();
            match record.filter(|r| r.round == wanted && line.ends_with('\n')) {
                Some(record) => seconds += record.seconds,
                None => {
                    return Err(Error::Checkpoint(format!(
                        "{}: line {wanted} is not the record of round {wanted}, \
                         though there is a checkpoint of round {round}",
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the records so far durable: before a checkpoint that relies on them.
    pub fn sync(&self) -> Result<()> {
        let file = self.path.join("rounds.jsonl");
        self.rounds.sync_data().map_err(at(&file, "sync"))
    }

    /// An error where the file of records was removed or replaced: what is written now would
    /// be seen by nobody.
    fn require_there(&self, path: &Path) -> Result<()> {
        let there = fs::metadata(path).map_err(at(path, "write"))?;
        let same = match self.rounds.metadata() {
            Ok(ours) => same_file(&ours, &there),
            Err(e) => return Err(at(path, "write")(e)),
        };
        if same {
            Ok(())
        } else {
            Err(Error::Checkpoint(format!(
                "{}: the file was replaced while the run was writing it",
                path.display()
            )))
        }
    }

    /// Appends a line to `rounds.jsonl`.
    pub fn append(&mut self, record: &RoundRecord) -> Result<()> {
        let path = self.path.join("rounds.jsonl");
        self.require_there(&path)?;
        let mut line = serde_json::to_vec(record).expect("plain JSON");
        line.push(b'\n');
        self.rounds.write_all(&line).map_err(at(&path, "write"))?;
        self.rounds.flush().map_err(at(&path, "write"))?;
        self.seconds += record.seconds;
        Ok(())
    }

    /// Wall time of the rounds so far.
    pub fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Writes the shared model that the run ends with.
    pub fn write_shared(&self, layout: &Layout, params: &[f32]) -> Result<()> {
        let path = self.path.join("models").join(WhichModel::Shared.file());
        tensors::write_one(&path, layout, params)
    }

    /// Begins the files of delivery, for clients of those names: `clients.jsonl`, and models
    /// where they are kept, of a network with that layout and of that form as far as they are
    /// personal; `alone`: with what they trained alone.
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

    /// Writes `held-out.jsonl`: every client's losses on the rows that a pass held out.
    pub fn write_held_out(&self, records: &[HeldOutRecord]) -> Result<()> {
        let mut file = AtomicFile::create(&self.path.join(HELD_OUT))?;
        for record in records {
            let mut line = serde_json::to_vec(record).expect("plain JSON");
            line.push(b'\n');
            file.write(&line)?;
        }
        file.commit()
    }

    /// Writes `summary.json`: last of all, for it says that the run is finished.
    pub fn write_summary(&self, summary: &Summary) -> Result<()> {
        write_json(&self.path.join("summary.json"), summary)
    }
}

/// Whether two descriptions are of one file, as far as the system tells.
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

/// Whether a file is one that a killed process may leave and nobody misses.
fn is_leftover(name: &str) -> bool {
    is_temporary(name) || name.starts_with("memories.scratch")
}

/// Whether nothing but leftovers is in a directory, and in its `models` where `deep`.
fn leftovers_only(path: &Path, deep: bool) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return true; // not there, or not a directory: whoever makes it will tell
    };
    entries.flatten().all(|entry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let models = deep && name == "models" && leftovers_only(&entry.path(), false);
        name == LOCK_FILE || is_leftover(&name) || models
    })
}

/// The files that delivery fills; they appear when they are committed.
#[derive(Debug)]
pub struct FinalizationFiles {
    lines: AtomicFile,
    models: Option<(ModelPlaces, Vec<AtomicFile>)>,
}

impl FinalizationFiles {
    /// Apart: the file of lines, and what becomes of models.
    pub fn parts(&mut self) -> (ClientLines<'_>, Keep) {
        let keep = match &self.models {
            None => Keep::Nothing,
            Some((places, _)) => Keep::InFiles(places.clone()),
        };
        (ClientLines(&mut self.lines), keep)
    }

    /// Makes all of it durable.
    pub fn commit(self) -> Result<()> {
        if let Some((_, files)) = self.models {
            files.into_iter().try_for_each(AtomicFile::commit)?;
        }
        self.lines.commit()
    }
}

/// `clients.jsonl` while it is being written.
#[derive(Debug)]
pub struct ClientLines<'a>(&'a mut AtomicFile);

impl ClientLines<'_> {
    /// Appends a line.
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
