//! A site's state directory, readable by its owner alone.
//!
//! | file | what |
//! |---|---|
//! | `proposal.toml` | the terms that wait for the operator's consent, or were accepted |
//! | `accepted` | the hash of the accepted terms |
//! | `agreement.json` | what all agreed on; every order must name its hash |
//! | `memories/memory-R-D.safetensors` | what the client remembers after round R |
//! | `released/` | the last answers whose noise cannot be made again: a letter that comes twice gets the same one |
//! | `releases` | every round whose update has left with such noise: pass, round and the letter's hash |
//! | `run/` | what delivery left: a run directory of this one client, for `apfl predict` |
//! | `log` | what happened, errors in full: they do not leave the site |

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::agreement::{Agreement, Terms};
use super::node::Accept;
use crate::digest::{digest_of_chunks, hex};
use crate::error::{Error, Result, SiteCode, at};
use crate::files::atomic::write_privately;
use crate::files::private::{create_directory, create_file};
use crate::files::{UtcTime, write_atomically};

/// How many answers are kept whose noise cannot be made again.
const RELEASED: usize = 4;

/// What a site's state directory holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteStatus {
    /// The terms that were proposed last.
    pub proposed: Option<String>,
    /// The terms that were accepted.
    pub accepted: Option<String>,
    /// The hash of the agreement, and the sites that take part.
    pub agreement: Option<(String, Vec<String>)>,
    /// The rounds of which there are memories, ascending.
    pub memories: Vec<u64>,
    /// Whether delivery left models.
    pub finalized: bool,
    /// The last lines of the log.
    pub log: Vec<String>,
}

/// What must be kept of an answer, before it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keeping {
    /// Nothing: it can be made again.
    Nothing,
    /// The answer, for its noise cannot.
    Answer,
    /// The answer, and that the update of that pass and round has left.
    Release(u64, u64),
}

/// A state directory.
#[derive(Clone, Debug)]
pub(super) struct State(pub PathBuf);

impl State {
    /// Makes it, where it is not there.
    pub fn create(&self) -> Result<()> {
        create_directory(&self.0)?;
        create_directory(&self.memories())
    }

    /// Where memories are kept.
    pub fn memories(&self) -> PathBuf {
        self.0.join("memories")
    }

    /// Appends to the log; a log that cannot be written stops nobody.
    pub fn log(&self, words: &str) {
        let path = self.0.join("log");
        if !path.exists() {
            let _ = create_file(&path);
        }
        if let Ok(mut file) = OpenOptions::new().append(true).open(&path) {
            let words = words.replace('\n', "\n    ");
            let _ = writeln!(file, "{} {words}", UtcTime::now());
        }
    }

    /// Logs why, for the operator alone; the server learns the code.
    pub fn refuse<T>(&self, code: SiteCode, why: &str) -> Result<T> {
        self.log(why);
        Err(Error::Site {
            site: self.0.display().to_string(),
            code,
        })
    }

    /// What was agreed on, if anything.
    pub fn agreement(&self) -> Result<Option<Agreement>> {
        let text = read(&self.0.join("agreement.json"))?;
        text.map(|text| Agreement::from_json(&text)).transpose()
    }

    /// Keeps what was agreed on.
    pub fn keep_agreement(&self, agreement: &Agreement) -> Result<()> {
        self.log(&format!("agreed to {}", agreement.hash()));
        write_atomically(&self.0.join("agreement.json"), agreement.to_json())
    }

    /// An error unless the terms were accepted: shown to the operator, or of the expected hash.
    pub fn require_accepted(&self, terms: &Terms, accept: &Accept) -> Result<()> {
        let hash = terms.hash();
        let accepted = read(&self.0.join("accepted"))?;
        if accepted.as_deref().map(str::trim) == Some(&hash) {
            return Ok(());
        }
        if let Some(agreement) = self.agreement()?
            && agreement.terms != *terms
        {
            return self.refuse(
                SiteCode::OtherAgreement,
                "this state directory belongs to a federation of other terms; a new one needs a \
                 directory of its own",
            );
        }
        let proposal = format!(
            "# terms {hash}\n# program {}\n{}",
            terms.program, terms.spec
        );
        write_atomically(&self.0.join("proposal.toml"), proposal)?;
        match accept {
            Accept::First => {}
            Accept::Operator => {
                let why = format!(
                    "terms {hash} wait for consent: read {0}/proposal.toml, then apfl site accept {0} {hash}",
                    self.0.display()
                );
                return self.refuse(SiteCode::NotAccepted, &why);
            }
            Accept::File(path) => {
                let expected = fs::read_to_string(path).map_err(at(path, "read"))?;
                if expected.trim() != hash {
                    let why = format!(
                        "terms {hash} are not those that {} expects ({})",
                        path.display(),
                        expected.trim()
                    );
                    return self.refuse(SiteCode::NotAccepted, &why);
                }
            }
        }
        self.log(&format!("terms {hash} accepted"));
        write_atomically(&self.0.join("accepted"), hash + "\n")
    }

    /// The answer that was given to a letter, where its noise cannot be made again.
    pub fn released(&self, message: &[u8]) -> Option<Vec<u8>> {
        fs::read(self.0.join("released").join(name_of(message))).ok()
    }

    /// Keeps an answer whose noise cannot be made again, before it leaves: what comes of the same
    /// letter is one release. The last few are kept.
    pub fn release(&self, keeping: Keeping, message: &[u8], answer: &[u8]) -> Result<()> {
        match keeping {
            Keeping::Nothing => return Ok(()),
            Keeping::Answer => {}
            Keeping::Release(pass, round) => self.enter(pass, round, &name_of(message))?,
        }
        let directory = self.0.join("released");
        create_directory(&directory)?;
        let made = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).ok();
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        kept.sort_by_key(made);
        let surplus = kept.len().saturating_sub(RELEASED - 1);
        for path in &kept[..surplus] {
            let _ = fs::remove_file(path); // in nobody's way but the disk's
        }
        write_privately(&directory.join(name_of(message)), answer)
    }

    /// Enters a release, on disk. Entries are never taken back.
    fn enter(&self, pass: u64, round: u64, message: &str) -> Result<()> {
        let path = self.0.join("releases");
        let entered = || {
            if !path.exists() {
                create_file(&path)?;
            }
            let mut file = OpenOptions::new().append(true).open(&path)?;
            writeln!(file, "{pass} {round} {message}")?;
            file.sync_all()
        };
        entered().map_err(at(&path, "write"))
    }

    /// Pass and round of every release so far.
    pub fn releases(&self) -> Result<Vec<(u64, u64)>> {
        let text = read(&self.0.join("releases"))?.unwrap_or_default();
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let mut number = || words.next()?.parse().ok();
            Some((number()?, number()?))
        };
        let entries: Option<Vec<_>> = text.lines().map(entry).collect();
        entries.ok_or_else(|| {
            Error::Checkpoint(
                "releases: a line that is no entry; what has left is not known".into(),
            )
        })
    }

    /// Removes memories of rounds before `floor`, but for the one of `current` and those of the
    /// newest two rounds: a server cannot have a site forget everything.
    pub fn forget(&self, floor: u64, current: u64) {
        let all = memories(&self.memories());
        let rounds: BTreeSet<u64> = all.iter().map(|(round, _)| *round).collect();
        let newest = rounds.iter().rev().nth(1).copied().unwrap_or(0);
        for (round, path) in all {
            if round < floor.min(newest) && round != current {
                let _ = fs::remove_file(path); // in nobody's way but the disk's
            }
        }
    }

    /// Has what delivery left written to a new directory, which then takes the place of the old.
    pub fn replace_run(&self, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let [run, new, old] = ["run", "run.new", "run.old"].map(|name| self.0.join(name));
        let _ = fs::remove_dir_all(&new); // a killed node's
        create_directory(&new)?;
        write(&new)?;
        let _ = fs::remove_dir_all(&old);
        if run.exists() {
            fs::rename(&run, &old).map_err(at(&run, "write"))?;
        }
        fs::rename(&new, &run).map_err(at(&run, "write"))?;
        let _ = fs::remove_dir_all(&old);
        self.log("delivered: the models are in run/");
        Ok(())
    }

    /// Puts back what a node was about to replace when it was killed.
    pub fn recover_run(&self) {
        let (run, old) = (self.0.join("run"), self.0.join("run.old"));
        if !run.exists() && old.exists() {
            let _ = fs::rename(old, run); // else it stays under the other name
        }
    }

    /// Accepts the terms of that hash, for the operator; they must be those proposed last.
    pub fn accept(&self, hash: &str) -> Result<()> {
        match self.status()?.proposed {
            Some(proposed) if proposed == hash => {
                write_atomically(&self.0.join("accepted"), format!("{hash}\n"))
            }
            Some(proposed) => Err(Error::Request(format!(
                "{}: the terms in proposal.toml are {proposed}, not {hash}: read them first",
                self.0.display()
            ))),
            None => Err(Error::Request(format!(
                "{}: no terms were proposed yet",
                self.0.display()
            ))),
        }
    }

    /// What a state directory holds.
    pub fn status(&self) -> Result<SiteStatus> {
        let state = &self.0;
        if !state.is_dir() {
            return Err(Error::Request(format!(
                "{}: there is no such state directory",
                state.display()
            )));
        }
        let proposed = read(&state.join("proposal.toml"))?;
        let proposed = proposed.and_then(|text| {
            let line = text.lines().next()?.strip_prefix("# terms ")?;
            Some(line.trim().to_owned())
        });
        let agreement = read(&state.join("agreement.json"))?;
        let agreement = agreement
            .map(|text| Agreement::from_json(&text))
            .transpose()?;
        let mut memories: Vec<u64> = (memories(&state.join("memories")).into_iter())
            .map(|(round, _)| round)
            .collect();
        memories.sort_unstable();
        memories.dedup();
        let log = read(&state.join("log"))?.unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        Ok(SiteStatus {
            proposed,
            accepted: read(&state.join("accepted"))?.map(|hash| hash.trim().to_owned()),
            agreement: agreement.map(|agreement| {
                let sites = agreement.sites().into_iter().map(str::to_owned);
                (agreement.hash(), sites.collect())
            }),
            memories,
            finalized: state.join("run/summary.json").exists(),
            log: (lines.iter().skip(lines.len().saturating_sub(10)))
                .map(|line| (*line).to_owned())
                .collect(),
        })
    }
}

/// What the answer to a letter is called.
fn name_of(message: &[u8]) -> String {
    hex(&digest_of_chunks([message]))
}

/// A file's text; `None` where there is none.
fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(at(path, "read")(e)),
    }
}

/// The memories in a directory, with their rounds.
fn memories(directory: &Path) -> Vec<(u64, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let round = |path: &Path| -> Option<u64> {
        let name = path.file_name()?.to_str()?.strip_prefix("memory-")?;
        let (round, rest) = name.split_once('-')?;
        rest.ends_with(".safetensors").then(|| round.parse().ok())?
    };
    entries
        .map(|entry| entry.path())
        .filter_map(|path| Some((round(&path)?, path)))
        .collect()
}
