//! A site's state directory, readable by its owner alone.
//!
//! | file | what |
//! |---|---|
//! | `proposal.toml` | the terms that were proposed last |
//! | `accepted` | the hash of the accepted terms |
//! | `survey` | the survey that was sent, and the hash of its terms; there is never another one |
//! | `agreement.json` | the agreement; every request must name its hash |
//! | `noise` | the agreement's hash and the noise that was searched for its ε |
//! | `memories/memory-R-D.safetensors` | the client state after round R |
//! | `released/` | the last responses with irreproducible noise, for repeated requests |
//! | `releases` | every round sent with such noise: pass, round and the request's hash |
//! | `run/` | the run directory of the finalized client, for `apfl predict` |
//! | `log`, `log.1` | events and the full text of errors, which never leaves the site |

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::agreement::{Agreement, Terms};
use super::node::Accept;
use crate::clients::wire::{decode, encode};
use crate::digest::{digest_of_chunks, hex};
use crate::engine::remote::StateVersion;
use crate::error::{Error, Result, SiteCode, at};
use crate::files::atomic::{is_temporary, write_privately};
use crate::files::private::create_directory;
use crate::files::write_atomically;
use crate::privacy::{Budget, LEAST_NOISE};
use crate::quote::{escape_controls, quoted};

/// The number of responses with irreproducible noise that are kept.
const RELEASED: usize = 4;

/// The number of the newest client states, which are kept whatever the server needs.
const NEWEST: usize = 2;

/// The number of lines of the log in a [`SiteStatus`].
const LOG_LINES: usize = 10;

/// The content of a site's state directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SiteStatus {
    /// The terms that were proposed last.
    pub proposed: Option<String>,
    /// The terms that were accepted.
    pub accepted: Option<String>,
    /// The terms under which the survey was sent.
    pub surveyed: Option<String>,
    /// The hash of the agreement, which covers the whole preparation, and the sites that take part.
    pub agreement: Option<(String, Vec<String>)>,
    /// The rounds whose client states are stored, ascending.
    pub state_rounds: Vec<u64>,
    /// Whether the client is finalized and its models are there.
    pub finalized: bool,
    /// The last lines of the log.
    pub log: Vec<String>,
}

/// The survey that a state directory has sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SentSurvey {
    /// The hash of its terms.
    pub terms: String,
    /// The survey, encoded.
    pub survey: Vec<u8>,
}

/// What to store of a response before it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    /// Nothing: the response is reproducible.
    Nothing,
    /// The response, because its noise is not reproducible.
    Response,
    /// The response, and an entry of the release of that pass and round.
    Release(u64, u64),
}

/// A state directory.
#[derive(Clone, Debug)]
pub(super) struct StateDirectory(pub PathBuf);

impl StateDirectory {
    /// Creates the directory if it does not exist.
    pub fn create(&self) -> Result<()> {
        create_directory(&self.0)?;
        create_directory(&self.client_states())
    }

    /// Returns the directory of client states.
    pub fn client_states(&self) -> PathBuf {
        self.0.join("memories")
    }

    /// Logs the reason for the operator and returns an error with the code alone.
    pub fn refuse<T>(&self, code: SiteCode, why: &str) -> Result<T> {
        self.log(why);
        Err(Error::Site {
            site: self.0.display().to_string(),
            code,
        })
    }

    /// Returns the stored agreement, if any.
    pub fn agreement(&self) -> Result<Option<Agreement>> {
        let text = read(&self.0.join("agreement.json"))?;
        text.map(|text| Agreement::from_json(&text)).transpose()
    }

    /// Stores the agreement.
    pub fn keep_agreement(&self, agreement: &Agreement) -> Result<()> {
        self.log(&format!("accepted agreement {}", agreement.hash()));
        write_atomically(&self.0.join("agreement.json"), agreement.to_json())
    }

    /// Returns the noise that was searched for the ε of an agreement, if it was.
    pub fn noise(&self, agreement: &str) -> Option<f64> {
        let text = read(&self.0.join("noise")).ok()??;
        let (of, noise) = text.trim().split_once(' ')?;
        let noise: f64 = noise.parse().ok()?;
        (of == agreement && noise >= LEAST_NOISE && noise.is_finite()).then_some(noise)
    }

    /// Stores the noise of a budget if it was searched.
    pub fn keep_noise(&self, agreement: &str, budget: &Budget) -> Result<()> {
        if budget.settings.noise.is_some() {
            return Ok(());
        }
        // The shortest decimal that reads as the same bits.
        write_privately(
            &self.0.join("noise"),
            format!("{agreement} {:?}\n", budget.noise),
        )
    }

    /// Returns the survey that was sent, if any.
    pub fn sent_survey(&self) -> Result<Option<SentSurvey>> {
        let path = self.0.join("survey");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(at(&path, "read")(e)),
        };
        let damaged = |_| Error::Checkpoint(format!("{}: is damaged", path.display()));
        decode(&bytes).map(Some).map_err(damaged)
    }

    /// Stores the survey before it is sent.
    pub fn keep_survey(&self, terms: &Terms, survey: &[u8]) -> Result<()> {
        let sent = SentSurvey {
            terms: terms.hash(),
            survey: survey.to_vec(),
        };
        write_privately(&self.0.join("survey"), encode(&sent))
    }

    /// Returns an error unless the terms are accepted and no others were surveyed or agreed on.
    pub fn require_accepted(&self, terms: &Terms, accept: &Accept) -> Result<()> {
        let hash = terms.hash();
        let sent = self.sent_survey()?.map(|sent| sent.terms);
        let agreed = self.agreement()?.map(|agreement| agreement.terms.hash());
        if let Some(bound) = [sent, agreed].into_iter().flatten().find(|h| *h != hash) {
            let why = format!(
                "found terms {hash}, but this state directory belongs to terms {bound}, under \
                 which its survey was sent; surveys under several terms would disclose rows; use \
                 a new state directory for a new federation"
            );
            return self.refuse(SiteCode::OtherAgreement, &why);
        }
        let accepted = read(&self.0.join("accepted"))?;
        let accepted = accepted.as_deref().map(str::trim);
        if accepted == Some(&hash) {
            return Ok(());
        }
        let proposal = format!(
            "# terms {hash}\n# program {}\n{}{}",
            terms.program,
            terms.warnings(),
            terms.spec
        );
        // An operator reads the file on a terminal; the terms are compared by their hash.
        let proposal = escape_controls(&proposal);
        write_atomically(&self.0.join("proposal.toml"), &*proposal)?;
        match accept {
            Accept::First if accepted.is_none() => {}
            Accept::First => {
                let why = format!(
                    "terms {hash} are not the first ones, which were {first}; if these are right, \
                     read {state}/proposal.toml, then apfl site accept {state} {hash}",
                    first = accepted.unwrap_or_default(),
                    state = self.0.display()
                );
                return self.refuse(SiteCode::OtherAgreement, &why);
            }
            Accept::Operator => {
                let why = format!(
                    "terms {hash} need the operator's consent: read {0}/proposal.toml, then apfl site accept {0} {hash}",
                    self.0.display()
                );
                return self.refuse(SiteCode::NotAccepted, &why);
            }
            Accept::File(path) => {
                let expected = fs::read_to_string(path).map_err(at(path, "read"))?;
                if expected.trim() != hash {
                    let why = format!(
                        "found terms {hash}, allowed by {} are {}",
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

    /// Returns the stored response to a request, if there is one.
    pub fn released(&self, request: &[u8]) -> Option<Vec<u8>> {
        fs::read(self.0.join("released").join(file_name(request))).ok()
    }

    /// Stores a response with irreproducible noise before it is sent, so that a repeated request is
    /// one release. The last few are kept.
    pub fn release(&self, retention: Retention, request: &[u8], response: &[u8]) -> Result<()> {
        match retention {
            Retention::Nothing => return Ok(()),
            Retention::Response => {}
            Retention::Release(pass, round) => {
                self.record_release(pass, round, &file_name(request))?
            }
        }
        let directory = self.0.join("released");
        create_directory(&directory)?;
        let modified = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).ok();
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        kept.sort_by_key(modified);
        let surplus = kept.len().saturating_sub(RELEASED - 1);
        for path in &kept[..surplus] {
            let _ = fs::remove_file(path); // a file that stays only takes space
        }
        write_privately(&directory.join(file_name(request)), response)
    }

    /// Removes client states, except those that are needed and the newest two: a server cannot
    /// make a site lose its state, and cannot fill its disk with states.
    pub fn prune(&self, needed: &[StateVersion]) {
        let needed: Vec<String> = needed.iter().map(StateVersion::name).collect();
        let mut all = state_files(&self.client_states());
        let modified = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
        all.sort_by_cached_key(|(round, path)| (*round, modified(path), path.clone()));
        let older = all.len().saturating_sub(NEWEST);
        for (_, path) in &all[..older] {
            let name = path.file_stem().unwrap_or_default();
            if !needed.iter().any(|needed| name == needed.as_str()) {
                let _ = fs::remove_file(path); // a file that stays only takes space
            }
        }
    }

    /// Removes temporary files of killed nodes. The caller must hold the directory's lock.
    pub fn remove_temporaries(&self) {
        let _ = fs::remove_dir_all(self.0.join("run.new"));
        for directory in [&self.0, &self.client_states(), &self.0.join("released")] {
            for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
                if is_temporary(&entry.file_name().to_string_lossy()) {
                    let _ = fs::remove_file(entry.path()); // a file that stays only takes space
                }
            }
        }
    }

    /// Writes a new run directory and replaces the old one by it.
    pub fn replace_run(&self, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        let [run, new, old] = ["run", "run.new", "run.old"].map(|name| self.0.join(name));
        create_directory(&new)?;
        write(&new)?;
        let _ = fs::remove_dir_all(&old);
        if run.exists() {
            fs::rename(&run, &old).map_err(at(&run, "write"))?;
        }
        fs::rename(&new, &run).map_err(at(&run, "write"))?;
        let _ = fs::remove_dir_all(&old);
        self.log("finalized: the models are in run/");
        Ok(())
    }

    /// Restores the run directory that a killed node was replacing.
    pub fn recover_run(&self) {
        let (run, old) = (self.0.join("run"), self.0.join("run.old"));
        if !run.exists() && old.exists() {
            let _ = fs::rename(old, run); // if this fails, it keeps the other name
        }
    }

    /// Accepts the terms of a hash for the operator; they must be the last proposed ones.
    pub fn accept(&self, hash: &str) -> Result<()> {
        let status = self.status()?;
        if let Some(bound) = status.surveyed.filter(|bound| bound != hash) {
            return Err(Error::Request(format!(
                "{}: found {hash}, but the survey of this state directory was sent under terms \
                 {bound}; use a new state directory for other terms",
                self.0.display()
            )));
        }
        match status.proposed {
            Some(proposed) if proposed == hash => {
                write_atomically(&self.0.join("accepted"), format!("{hash}\n"))
            }
            Some(proposed) => Err(Error::Request(format!(
                "{}: found {hash}, but the terms in proposal.toml are {proposed}; read them first",
                self.0.display()
            ))),
            None => Err(Error::Request(format!(
                "{}: no terms have been proposed yet; start the server first",
                self.0.display()
            ))),
        }
    }

    /// Returns the content of the directory.
    pub fn status(&self) -> Result<SiteStatus> {
        let state = &self.0;
        if !state.is_dir() {
            return Err(Error::Request(format!(
                "{}: the state directory does not exist",
                state.display()
            )));
        }
        let proposed = read(&state.join("proposal.toml"))?;
        let proposed = proposed.and_then(|text| {
            let line = text.lines().next()?.strip_prefix("# terms ")?;
            Some(quoted(line.trim()))
        });
        let agreement = read(&state.join("agreement.json"))?;
        let agreement = agreement
            .map(|text| Agreement::from_json(&text))
            .transpose()?;
        let rounds: BTreeSet<u64> = (state_files(&self.client_states()).into_iter())
            .map(|(round, _)| round)
            .collect();
        Ok(SiteStatus {
            proposed,
            surveyed: self.sent_survey()?.map(|sent| sent.terms),
            accepted: read(&state.join("accepted"))?.map(|hash| quoted(hash.trim())),
            agreement: agreement.map(|agreement| {
                let sites = agreement.sites().into_iter().map(quoted);
                (agreement.hash(), sites.collect())
            }),
            state_rounds: rounds.into_iter().collect(),
            finalized: state.join("run/summary.json").exists(),
            log: self.last_lines(LOG_LINES),
        })
    }
}

/// Returns the file name of the response to a request.
fn file_name(request: &[u8]) -> String {
    hex(&digest_of_chunks([request]))
}

/// Reads a file; `None` if it does not exist.
pub(super) fn read(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(at(path, "read")(e)),
    }
}

/// Returns the files of client states in a directory, with their rounds.
fn state_files(directory: &Path) -> Vec<(u64, PathBuf)> {
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
