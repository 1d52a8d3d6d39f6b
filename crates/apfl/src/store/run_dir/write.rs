//! The directory of a run while it is being written.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{ClientRecord, Counts, Environment, Summary};
use crate::clients::{Delivered, Keep, ModelFiles};
use crate::error::{Error, Result, at};
use crate::metrics::{ByModel, OverClients, Spread, Tallies};
use crate::spec::Plan;
use crate::store::atomic::{AtomicFile, write_atomically};
use crate::store::tensors::{self, ModelsFile};
use crate::training::{RoundRecord, Setup, Training};

/// A run directory that is being written.
pub struct RunDir {
    path: PathBuf,
    rounds: File,
    seconds: f64,
}

impl RunDir {
    /// An error where a directory exists and is not empty.
    pub fn require_empty(path: &Path) -> Result<()> {
        if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::Request(format!(
                "--out {}: the directory is there already and not empty; \
                 give another one, or continue that run with --resume",
                path.display()
            )));
        }
        Ok(())
    }

    /// Makes a new run directory; one that exists must be empty.
    pub fn create(
        path: &Path,
        plan: &Plan,
        setup: &Setup,
        environment: &Environment,
    ) -> Result<Self> {
        Self::require_empty(path)?;
        fs::create_dir_all(path.join("models")).map_err(at(path, "create"))?;
        // What was taken from the data stands above the spec, as comments.
        let comment = |note: &String| format!("# {}\n", note.replace(char::is_control, " "));
        let notes: String = setup.notes.iter().map(comment).collect();
        write_atomically(&path.join("spec.toml"), notes + &plan.to_toml())?;
        Self::describe(path, setup, environment)?;
        Self::reopen(path, 0)
    }

    /// Writes `environment.json` and `schema.json`.
    pub fn describe(path: &Path, setup: &Setup, environment: &Environment) -> Result<()> {
        write_json(&path.join("environment.json"), environment)?;
        write_json(&path.join("schema.json"), setup.world.dataset.schema())
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
                    return Err(Error::Data(format!(
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
        fs::create_dir_all(path.join("models")).map_err(at(path, "create"))?;
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

    /// Appends a line to `rounds.jsonl`.
    pub fn append(&mut self, record: &RoundRecord) -> Result<()> {
        let path = self.path.join("rounds.jsonl");
        let mut line = serde_json::to_vec(record).expect("plain JSON");
        line.push(b'\n');
        self.rounds.write_all(&line).map_err(at(&path, "write"))?;
        self.rounds.flush().map_err(at(&path, "write"))?;
        self.seconds += record.seconds;
        Ok(())
    }

    /// Delivers, and writes models, `clients.jsonl` and, last of all, `summary.json`.
    /// `progress` hears of every client and may end it.
    pub fn finish(
        &mut self,
        training: &mut Training,
        mut progress: impl FnMut(u64) -> Result<()> + Send,
    ) -> Result<Summary> {
        let setup = training.setup().clone();
        let layout = setup.world.model.layout();
        let regression = setup.world.dataset.schema().task.classes() == 0;
        let models = self.path.join("models");
        let drawn = training.drawn();
        let (receivers, skipped) = finite_receivers(training)?;
        let name = |client: &usize| setup.world.dataset.name(*client);
        let names: Vec<String> = receivers.iter().map(name).collect();
        tensors::write_one(
            &models.join("shared.safetensors"),
            layout,
            &training.output(),
        )?;
        let kept = match setup.keep_models && !names.is_empty() {
            true => Some(KeptModels::create(&models, training, &names)?),
            false => None,
        };
        let keep = kept
            .as_ref()
            .map_or(Keep::Nothing, |kept| Keep::In(&kept.files));
        let mut lines = AtomicFile::create(&self.path.join("clients.jsonl"))?;
        let mut tallies: Vec<ByModel<Tallies>> = Vec::new();
        let (mut mixing, mut majority) = (Vec::new(), Vec::new());
        let mut reached = 0;
        training.deliver_to(&receivers, keep, &mut |delivered| {
            let rounds = drawn.get(&delivered.client).copied().unwrap_or(0);
            let mut record = record_of(&delivered, rounds, regression);
            record.attacker = setup.attackers.has(delivered.client);
            let mut line = serde_json::to_vec(&record).expect("plain JSON");
            line.push(b'\n');
            lines.write(&line)?;
            reached += 1;
            if record.attacker {
                return progress(reached);
            }
            mixing.extend(delivered.mixing.map(f64::from));
            let valid = delivered.examples.1 as f64;
            majority.extend(delivered.majority.map(|share| (share * valid, valid)));
            tallies.push(delivered.tallies);
            progress(reached)
        })?;
        assert_eq!(reached as usize, receivers.len(), "everybody was asked");
        if let Some(kept) = kept {
            kept.commit()?;
        }
        lines.commit()?;
        let over = |pick: fn(&ByModel<Tallies>) -> Tallies| {
            let each: Vec<Tallies> = tallies.iter().map(pick).collect();
            OverClients::of(&each, regression)
        };
        let summary = Summary {
            rounds: setup.rounds,
            clients: tallies.len(),
            skipped: skipped.iter().map(name).collect(),
            attackers: receivers.len() - tallies.len(),
            fingerprint: training.fingerprint()?,
            models: over(|t| t.shared).map(|shared| ByModel {
                shared,
                localized: over(|t| t.localized).expect("as many as shared"),
                personal: over(|t| t.personal).expect("as many as shared"),
            }),
            majority: (!majority.is_empty()).then(|| {
                let sum = |pick: fn(&(f64, f64)) -> f64| majority.iter().map(pick).sum::<f64>();
                sum(|(hits, _)| *hits) / sum(|(_, valid)| *valid)
            }),
            mixing: Spread::of(&mixing),
            seconds: self.seconds,
        };
        write_json(&self.path.join("summary.json"), &summary)?;
        Ok(summary)
    }
}

/// Who is delivered to, and who is left out because its loss is not finite. The files of
/// models begin with the names in them, so this must be known before.
fn finite_receivers(training: &mut Training) -> Result<(Vec<usize>, Vec<usize>)> {
    let receivers = training.receivers();
    if !training.setup().world.skip_nonfinite {
        return Ok((receivers, Vec::new()));
    }
    let mut finite = BTreeSet::new();
    training.deliver_to(&receivers, Keep::Nothing, &mut |delivered| {
        finite.insert(delivered.client);
        Ok(())
    })?;
    Ok(receivers.into_iter().partition(|c| finite.contains(c)))
}

struct KeptModels {
    files: ModelFiles,
    personal: AtomicFile,
    local: AtomicFile,
}

impl KeptModels {
    fn create(directory: &Path, training: &Training, names: &[String]) -> Result<Self> {
        let layout = training.setup().world.model.layout();
        let personal = match training.mixes_outputs() {
            true => layout.mixture(),
            false => layout.clone(),
        };
        let file = |name, layout| ModelsFile::create(&directory.join(name), layout, names);
        let personal = file("personal.safetensors", &personal)?;
        let local = file("local.safetensors", layout)?;
        Ok(Self {
            files: ModelFiles {
                personal: personal.slots,
                local: local.slots,
            },
            personal: personal.file,
            local: local.file,
        })
    }

    fn commit(self) -> Result<()> {
        self.files.personal.sync()?;
        self.files.local.sync()?;
        self.personal.commit()?;
        self.local.commit()
    }
}

fn record_of(delivered: &Delivered, rounds: u64, regression: bool) -> ClientRecord {
    ClientRecord {
        client: delivered.name.clone(),
        examples: Counts {
            train: delivered.examples.0,
            valid: delivered.examples.1,
        },
        classes: delivered.classes.clone(),
        rounds,
        attacker: false,
        mixing: delivered.mixing.map(f64::from),
        majority: delivered.majority,
        scores: delivered.tallies.map(|t| t.scores(regression)),
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string_pretty(value).expect("plain JSON");
    text.push('\n');
    write_atomically(path, text)
}
