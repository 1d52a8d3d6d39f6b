//! A site's node: answers letters with the site's own table and state.
//!
//! The state directory is readable by its owner alone:
//!
//! | file | what |
//! |---|---|
//! | `proposal.toml` | the terms that wait for the operator's consent, or were accepted |
//! | `accepted` | the hash of the accepted terms |
//! | `agreement.json` | what all agreed on; every order must name its hash |
//! | `memories/memory-R-D.safetensors` | what the client remembers after round R |
//! | `released/` | the last answers whose noise cannot be made again: a letter that comes twice gets the same one |
//! | `run/` | what delivery left: a run directory of this one client, for `apfl predict` |
//! | `log` | what happened, errors in full: they do not leave the site |

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::agreement::{Agreement, Terms, Told, over_sites};
use crate::data::roster::roster;
use crate::data::table::{Surveyed, Table};
use crate::digest::{digest_of_pieces, hex};
use crate::engine::message::{decode, encode, joined, split};
use crate::engine::remote::{Answer, Ask, Done, Errand, Fruit, Place};
use crate::error::{Error, Result, SiteCode, at};
use crate::model::kernels::lanes;
use crate::privacy::NoiseSeed;
use crate::run::{Program, write_site};
use crate::spec::{Plan, PlannedSites, Resources};
use crate::store::archive::ArchiveDirectory;
use crate::store::atomic::write_privately;
use crate::store::lock::DirectoryLock;
use crate::store::private::{create_directory, create_file};
use crate::store::{UtcTime, write_atomically};
use crate::training::at_site;

/// How many answers are kept whose noise cannot be made again.
const RELEASED: usize = 4;

/// How long a letter waits for the one before it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whose consent the first terms need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accept {
    /// The operator's, who has read `proposal.toml` ([`Node::accept`]).
    Operator,
    /// Nobody's: the first terms are taken.
    First,
    /// Only terms of the hash that is in that file.
    File(PathBuf),
}

/// A site, as its operator describes it: nothing of this comes from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The client's name.
    pub client: String,
    /// Its table.
    pub data: PathBuf,
    /// Its state directory.
    pub state: PathBuf,
    /// Whose consent is needed.
    pub accept: Accept,
}

/// A site's node, while it has the state directory to itself.
#[derive(Debug)]
pub struct Node {
    site: Site,
    program: Program,
    _lock: DirectoryLock,
}

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
    pub delivered: bool,
    /// The last lines of the log.
    pub log: Vec<String>,
}

impl Node {
    /// Opens a site's state directory, made where it is not there. Waits a little for another
    /// node that has it.
    pub fn open(site: Site, program: Program) -> Result<Self> {
        create_directory(&site.state)?;
        create_directory(&site.state.join("memories"))?;
        let since = Instant::now();
        let lock = loop {
            match DirectoryLock::take(&site.state) {
                Err(Error::InUse { .. }) if since.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(200));
                }
                other => break other?,
            }
        };
        Ok(Self {
            site,
            program,
            _lock: lock,
        })
    }

    /// Answers a letter. What went wrong, if anything, is told here and in the log; the answer
    /// has a code alone.
    pub fn answer(&self, letter: &[u8]) -> (Vec<u8>, Option<Error>) {
        let before = self.site.state.join("released").join(name_of(letter));
        if let Ok(answer) = fs::read(before) {
            return (answer, None);
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.read(letter)));
        let result = result.unwrap_or_else(|_| {
            Err(Error::Panic {
                client: self.site.client.clone(),
                message: "see the process's own messages".into(),
            })
        });
        match result {
            Ok((answer, kept)) => match kept.then(|| self.release(letter, &answer)) {
                None | Some(Ok(())) => (answer, None),
                Some(Err(error)) => {
                    self.log(&error.to_string());
                    let refused = answered(letter, Vec::new(), Err(SiteCode::State));
                    (refused, Some(error))
                }
            },
            Err(error) => {
                let code = self.code_of(&error);
                self.log(&format!("{code}: {error}"));
                (answered(letter, Vec::new(), Err(code)), Some(error))
            }
        }
    }

    /// The answer of a site whose node could not be opened.
    pub fn refusal(letter: &[u8], error: &Error) -> Vec<u8> {
        let code = match error {
            Error::InUse { .. } => SiteCode::Busy,
            _ => SiteCode::State,
        };
        answered(letter, Vec::new(), Err(code))
    }

    fn code_of(&self, error: &Error) -> SiteCode {
        match error {
            Error::Site { code, .. } => *code,
            Error::NonFinite { .. } => SiteCode::NonFinite,
            Error::File { path, .. } if *path == self.site.data => SiteCode::Data,
            Error::Data(_) | Error::NoData { .. } => SiteCode::Data,
            Error::File { .. } | Error::Checkpoint(_) | Error::Format { .. } => SiteCode::State,
            Error::InUse { .. } => SiteCode::Busy,
            Error::Spec(_) | Error::Request(_) | Error::Engine(_) => SiteCode::Order,
            _ => SiteCode::Failed,
        }
    }

    /// Appends to the log; a log that cannot be written stops nobody.
    fn log(&self, words: &str) {
        let path = self.site.state.join("log");
        if !path.exists() {
            let _ = create_file(&path);
        }
        if let Ok(mut file) = OpenOptions::new().append(true).open(&path) {
            let words = words.replace('\n', "\n    ");
            let _ = writeln!(file, "{} {words}", UtcTime::now());
        }
    }

    fn refuse<T>(&self, code: SiteCode, why: &str) -> Result<T> {
        self.log(why);
        Err(Error::Site {
            site: self.site.client.clone(),
            code,
        })
    }

    /// Keeps an answer whose noise cannot be made again, before it leaves: what comes of the same
    /// letter is one release. The last few are kept.
    fn release(&self, letter: &[u8], answer: &[u8]) -> Result<()> {
        let directory = self.site.state.join("released");
        create_directory(&directory)?;
        let made = |path: &PathBuf| fs::metadata(path).and_then(|m| m.modified()).ok();
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut kept: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        kept.sort_by_key(made);
        let surplus = kept.len().saturating_sub(RELEASED - 1);
        for path in &kept[..surplus] {
            let _ = fs::remove_file(path); // in nobody's way but the disk's
        }
        write_privately(&directory.join(name_of(letter)), answer)
    }

    /// The answer to a letter, and whether it must be kept.
    fn read(&self, letter: &[u8]) -> Result<(Vec<u8>, bool)> {
        let (payload, ask): (_, Ask) = split(letter)?;
        let told = |fruit| Done {
            shared: None,
            fruit,
            lost: false,
        };
        match ask {
            Ask::Survey(terms) => {
                let told_of = encode(&self.survey(decode(&terms)?)?);
                let done = told(Fruit::Survey(told_of));
                Ok((answered(letter, Vec::new(), Ok(done)), false))
            }
            Ask::Agree(agreement) => {
                let text = String::from_utf8_lossy(&agreement);
                self.agree(&Agreement::from_json(&text)?)?;
                let done = told(Fruit::Nothing);
                Ok((answered(letter, Vec::new(), Ok(done)), false))
            }
            Ask::Work(errand) => {
                let (update, done, kept) = self.work(*errand, payload)?;
                Ok((answered(letter, update, Ok(done)), kept))
            }
        }
    }

    /// The plan of some terms, and the place of this site in it, if they may be carried out here.
    fn plan(&self, terms: &Terms) -> Result<(Plan, usize)> {
        let own = format!("{} ({})", self.program.version, self.program.commit);
        if terms.program != own {
            let why = format!("the server runs {}, this site {own}", terms.program);
            return self.refuse(SiteCode::OtherProgram, &why);
        }
        let plan = terms.plan()?;
        let (_, sites) = over_sites(&plan)?;
        let place = sites.names.iter().position(|n| *n == self.site.client);
        match place {
            Some(place) => Ok((plan, place)),
            None => Err(Error::Request(format!(
                "this site is '{}', the federation's are {}",
                self.site.client,
                sites.names.join(", ")
            ))),
        }
    }

    /// An error unless the terms were accepted: shown to the operator, or of the expected hash.
    fn require_accepted(&self, terms: &Terms) -> Result<()> {
        let hash = terms.hash();
        let accepted = read(&self.site.state.join("accepted"))?;
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
        write_atomically(&self.site.state.join("proposal.toml"), proposal)?;
        match &self.site.accept {
            Accept::First => {}
            Accept::Operator => {
                let why = format!(
                    "terms {hash} wait for consent: read {0}/proposal.toml, then apfl site accept {0}",
                    self.site.state.display()
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
        write_atomically(&self.site.state.join("accepted"), hash + "\n")
    }

    /// Accepts the terms that were proposed last, for the operator. Returns their hash.
    pub fn accept(state: &Path) -> Result<String> {
        match Self::status(state)?.proposed {
            Some(hash) => {
                write_atomically(&state.join("accepted"), format!("{hash}\n"))?;
                Ok(hash)
            }
            None => Err(Error::Request(format!(
                "{}: no terms were proposed yet",
                state.display()
            ))),
        }
    }

    /// What a state directory holds.
    pub fn status(state: &Path) -> Result<SiteStatus> {
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
            delivered: state.join("run/summary.json").exists(),
            log: (lines.iter().skip(lines.len().saturating_sub(10)))
                .map(|line| (*line).to_owned())
                .collect(),
        })
    }

    fn agreement(&self) -> Result<Option<Agreement>> {
        let text = read(&self.site.state.join("agreement.json"))?;
        text.map(|text| Agreement::from_json(&text)).transpose()
    }

    /// The site's own table of a plan, read for the first two times.
    fn surveyed(&self, plan: &Plan, place: usize) -> Result<(Table, Surveyed)> {
        let (table, _) = over_sites(plan)?;
        let table = table.at_site(self.site.data.clone(), &self.site.client, place);
        let surveyed = table.survey(&table.files())?.check()?;
        Ok((table, surveyed))
    }

    /// What is told before training.
    fn survey(&self, terms: Terms) -> Result<Told> {
        let (plan, place) = self.plan(&terms)?;
        self.require_accepted(&terms)?;
        let (table, surveyed) = self.surveyed(&plan, place)?;
        surveyed.require_unmixed()?;
        let PlannedSites { send_rare, .. } = over_sites(&plan)?.1;
        let rare = match send_rare {
            true => Vec::new(),
            false => table.rare_columns(&table.files(), &surveyed)?,
        };
        if !rare.is_empty() {
            let why = format!(
                "values of fewer than {} training rows would leave this site, of column {}: \
                 declare data.categories, ignore the column, or federation.rare = \"send\"",
                crate::data::table::RARE,
                rare.join(", ")
            );
            return self.refuse(SiteCode::Rare, &why);
        }
        let columns = surveyed.columns().to_vec();
        let mut survey = surveyed.surveys()[0].clone();
        let declared = &table.declared;
        declared.strip(&columns, &mut survey, plan.class_weights);
        self.log("told its survey");
        Ok(Told {
            columns,
            rows: surveyed.rows(0),
            survey,
            lanes: lanes(),
        })
    }

    /// Reads the table as all agreed, and keeps the agreement.
    fn agree(&self, agreement: &Agreement) -> Result<()> {
        let (plan, place) = self.plan(&agreement.terms)?;
        self.require_accepted(&agreement.terms)?;
        if let Some(before) = self.agreement()?
            && before != *agreement
        {
            return self.refuse(
                SiteCode::OtherAgreement,
                "this state directory belongs to another agreement: another run's, or some site's \
                 table has changed; a new one needs a directory of its own",
            );
        }
        self.setup(&plan, place, agreement)?;
        self.log(&format!("agreed to {}", agreement.hash()));
        write_atomically(&self.site.state.join("agreement.json"), agreement.to_json())
    }

    /// The setup of this site's client.
    fn setup(
        &self,
        plan: &Plan,
        place: usize,
        agreement: &Agreement,
    ) -> Result<crate::training::Setup> {
        let (table, surveyed) = self.surveyed(plan, place)?;
        let surveyed = surveyed.in_order(&agreement.columns)?;
        let own = agreement.roster.get(place);
        let same = own.is_some_and(|m| m.name == self.site.client && m.rows == surveyed.rows(0));
        if !same {
            return Err(Error::data(format!(
                "the table has {:?} training, validation and test rows; when the site was asked \
                 it had others",
                surveyed.rows(0)
            )));
        }
        let data = table.fill(&table.files(), surveyed, agreement.agreed()?)?;
        let shard = data.shards[0].clone();
        let (schema, classes) = (data.schema, agreement.classes.clone());
        let dataset = roster(&agreement.roster, schema, classes, Some((place, shard)));
        plan.setup_with(dataset, Resources::default())
    }

    /// Carries out an errand; also says whether its noise cannot be made again.
    fn work(&self, errand: Errand, payload: &[u8]) -> Result<(Vec<u8>, Done, bool)> {
        let Some(agreement) = self.agreement()? else {
            let why = "an order came before anything was agreed on";
            return self.refuse(SiteCode::OtherAgreement, why);
        };
        if agreement.hash() != errand.agreement {
            let why = format!(
                "an order names the agreement {}, this site has {}",
                errand.agreement,
                agreement.hash()
            );
            return self.refuse(SiteCode::OtherAgreement, &why);
        }
        let (plan, place) = self.plan(&agreement.terms)?;
        if errand.client != place {
            return Err(Error::Engine(format!(
                "an order for client {}, this site is client {place}",
                errand.client
            )));
        }
        let setup = self.setup(&plan, place, &agreement)?;
        let archive = ArchiveDirectory(self.site.state.join("memories"));
        let at = Place {
            archive: &archive,
            disclose: over_sites(&plan)?.1.disclose,
        };
        let (memory, floor) = (errand.memory, errand.floor);
        let last_pass = !matches!(errand.pass, Some(crate::choice::Pass::HeldOut(_)));
        let site_setup = setup.clone();
        let (update, done, kept) = at_site(setup, &plan.algorithm, at, errand, payload)?;
        if done.lost {
            let round = memory.round;
            self.log(&format!(
                "the memory of round {round} is lost: started from w⁰"
            ));
        }
        for (round, path) in memories(&archive.0) {
            if round < floor && round != memory.round {
                let _ = fs::remove_file(path); // in nobody's way but the disk's
            }
        }
        if let Some(kept) = kept.filter(|_| last_pass) {
            let rounds = plan.rounds;
            let run = self.site.state.join("run");
            let new = self.site.state.join("run.new");
            let _ = fs::remove_dir_all(&new); // a killed node's
            create_directory(&new)?;
            write_site(
                &new,
                &agreement.terms.spec,
                &site_setup,
                &self.program,
                &kept,
                (rounds, hex(&memory.digest)),
                plan.algorithm.mixes_outputs(),
            )?;
            let _ = fs::remove_dir_all(&run);
            fs::rename(&new, &run).map_err(at_path(&run))?;
            self.log("delivered: the models are in run/");
        }
        let private = site_setup.world.private;
        let once = private.is_some_and(|how| how.noise_seed == NoiseSeed::System);
        Ok((update, done, once))
    }
}

/// What the answer to a letter is called.
fn name_of(letter: &[u8]) -> String {
    hex(&digest_of_pieces([letter]))
}

fn at_path(path: &Path) -> impl FnOnce(std::io::Error) -> Error + use<'_> {
    at(path, "write")
}

fn answered(
    letter: &[u8],
    update: Vec<u8>,
    result: std::result::Result<Done, SiteCode>,
) -> Vec<u8> {
    let to = digest_of_pieces([letter]);
    joined(update, &Answer { to, result })
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
