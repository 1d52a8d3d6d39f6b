//! A site's node: handles requests with the site's own table and state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::agreement::{Agreement, Terms, Told, over_sites};
use super::state::{Keeping, SiteStatus, State};
use crate::choice::Pass;
use crate::clients::Request;
use crate::clients::wire::{decode, encode, joined, split};
use crate::data::roster::roster;
use crate::data::table::{Surveyed, Table};
use crate::digest::{digest_of_chunks, hex};
use crate::engine::remote::{ClientRequest, Handled, Outcome, Place, SiteRequest, SiteResponse};
use crate::error::{Error, Result, SiteCode};
use crate::files::archive::ArchiveDirectory;
use crate::files::lock::DirectoryLock;
use crate::model::kernels::lanes;
use crate::privacy::NoiseSeed;
use crate::run::{Program, write_site};
use crate::spec::{Plan, PlannedSites, Resources};
use crate::training::{Setup, at_site};

/// How long a request waits for the one before it.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a round may leave a site again with other noise: after a server's resume.
const REPEATS: usize = 3;

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
    state: State,
    program: Program,
    _lock: DirectoryLock,
}

impl Node {
    /// Opens a site's state directory, made where it is not there. Waits a little for another
    /// node that has it.
    pub fn open(site: Site, program: Program) -> Result<Self> {
        let state = State(site.state.clone());
        state.create()?;
        let lock = patient_lock(&site.state)?;
        state.recover_run();
        Ok(Self {
            site,
            state,
            program,
            _lock: lock,
        })
    }

    /// Returns the response to a request. What went wrong, if anything, is returned too and in
    /// the log; the response has a code alone.
    pub fn answer(&self, request: &[u8]) -> (Vec<u8>, Option<Error>) {
        if let Some(answer) = self.state.released(request) {
            return (answer, None);
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.read(request)));
        let result = result.unwrap_or_else(|_| {
            Err(Error::Panic {
                client: self.site.client.clone(),
                message: "see the process's own messages".into(),
            })
        });
        match result {
            Ok((answer, keeping)) => match self.state.release(keeping, request, &answer) {
                Ok(()) => (answer, None),
                Err(error) => {
                    self.state.log(&error.to_string());
                    let refused = response(request, Vec::new(), Err(SiteCode::State));
                    (refused, Some(error))
                }
            },
            Err(error) => {
                let code = self.code_of(&error);
                self.state.log(&format!("{code}: {error}"));
                (response(request, Vec::new(), Err(code)), Some(error))
            }
        }
    }

    /// Returns the response of a site whose node could not be opened.
    pub fn refusal(request: &[u8], error: &Error) -> Vec<u8> {
        let code = match error {
            Error::InUse { .. } => SiteCode::Busy,
            Error::Panic { .. } => SiteCode::Failed,
            _ => SiteCode::State,
        };
        response(request, Vec::new(), Err(code))
    }

    /// Accepts the terms of that hash, for the operator who has read them; an error where others
    /// were proposed since.
    pub fn accept(state: &Path, hash: &str) -> Result<()> {
        let own = State(state.into());
        own.status()?; // it is there
        let _lock = patient_lock(state)?;
        own.accept(hash)
    }

    /// What a state directory holds.
    pub fn status(state: &Path) -> Result<SiteStatus> {
        State(state.into()).status()
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

    /// Returns the response to a request, and what must be kept of it.
    fn read(&self, message: &[u8]) -> Result<(Vec<u8>, Keeping)> {
        let (body, request): (_, SiteRequest) = split(message)?;
        let (body, outcome, keeping) = match request {
            SiteRequest::Survey(terms) => {
                let described = encode(&self.survey(decode(&terms)?)?);
                (Vec::new(), Outcome::Surveyed(described), Keeping::Nothing)
            }
            SiteRequest::Agree(agreement) => {
                let text = String::from_utf8_lossy(&agreement);
                self.agree(&Agreement::from_json(&text)?)?;
                (Vec::new(), Outcome::Agreed, Keeping::Nothing)
            }
            SiteRequest::Handle(asked) => {
                let (update, handled, keeping) = self.handle(*asked, body)?;
                (update, Outcome::Handled(handled), keeping)
            }
        };
        Ok((response(message, body, Ok(outcome)), keeping))
    }

    /// The plan of some terms, and the place of this site in it, if they may be carried out here.
    fn plan(&self, terms: &Terms) -> Result<(Plan, usize)> {
        let own = format!("{} ({})", self.program.version, self.program.commit);
        if terms.program != own {
            let why = format!("the server runs {}, this site {own}", terms.program);
            return self.state.refuse(SiteCode::OtherProgram, &why);
        }
        let plan = terms.plan()?;
        // What the operator reads must be all of it: nothing left to a default, nothing unread.
        if Terms::new(&plan, &self.program) != *terms {
            return Err(Error::Request(
                "the terms are not a spec with every setting resolved".into(),
            ));
        }
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
        self.state.require_accepted(&terms, &self.site.accept)?;
        let (table, surveyed) = self.surveyed(&plan, place)?;
        surveyed.require_unmixed()?;
        let PlannedSites { send_rare, .. } = over_sites(&plan)?.1;
        let rare = if *send_rare {
            Vec::new()
        } else {
            table.rare_columns(&table.files(), &surveyed)?
        };
        if !rare.is_empty() {
            let why = format!(
                "values of fewer than {} training rows would leave this site, of column {}: \
                 declare data.categories, ignore the column, or federation.rare = \"send\"",
                crate::data::table::RARE,
                rare.join(", ")
            );
            return self.state.refuse(SiteCode::Rare, &why);
        }
        let columns = surveyed.columns().to_vec();
        let mut survey = surveyed.surveys()[0].clone();
        let declared = &table.declared;
        declared.strip(&columns, &mut survey, plan.class_weights);
        self.state.log("told its survey");
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
        self.state
            .require_accepted(&agreement.terms, &self.site.accept)?;
        if let Some(before) = self.state.agreement()?
            && before != *agreement
        {
            return self.state.refuse(
                SiteCode::OtherAgreement,
                "this state directory belongs to another agreement: another run's, or some site's \
                 table has changed; a new one needs a directory of its own",
            );
        }
        let (_, sites) = over_sites(&plan)?;
        if agreement.sites() != sites.names {
            return Err(Error::Request(
                "the agreement's roster is not that of federation.sites".into(),
            ));
        }
        if agreement.classes.len() != agreement.schema.task.classes() {
            return Err(Error::Request(
                "the agreement counts other classes than it lists".into(),
            ));
        }
        self.setup(&plan, place, agreement)?;
        self.state.keep_agreement(agreement)
    }

    /// The setup of this site's client.
    fn setup(&self, plan: &Plan, place: usize, agreement: &Agreement) -> Result<Setup> {
        let (table, surveyed) = self.surveyed(plan, place)?;
        let surveyed = surveyed.reorder(&agreement.columns)?;
        let own = agreement.roster.get(place);
        let same = own.is_some_and(|m| m.name == self.site.client && m.rows == surveyed.rows(0));
        if !same {
            return Err(Error::data(format!(
                "the table has {:?} training, validation and test rows; when the site was asked \
                 it had others",
                surveyed.rows(0)
            )));
        }
        let agreed = agreement.agreed()?;
        if let Some(misfit) = surveyed.incompatibility(&agreed.preparation) {
            return Err(Error::data(misfit));
        }
        let data = table.encode(&table.files(), surveyed, agreed)?;
        let shard = data.shards[0].clone();
        let (schema, classes) = (data.schema, agreement.classes.clone());
        let dataset = roster(&agreement.roster, schema, classes, Some((place, shard)));
        plan.setup_with(dataset, Resources::default())
    }

    /// An error unless requests are some that the plan has: of its rounds and passes, and, where
    /// noise cannot be made again, no more releases than ε allows. Says what is to be kept.
    fn planned(&self, asked: &ClientRequest, plan: &Plan, setup: &Setup) -> Result<Keeping> {
        let rounds = setup.rounds;
        let folds = plan.algorithm.choosing().map_or(0, |c| c.folds);
        let (pass, in_plan) = match asked.pass {
            Some(Pass::HeldOut(pass)) => (pass, (1..=folds).contains(&pass)),
            Some(Pass::Last) | None => (0, true),
        };
        let of_plan = asked.requests.iter().all(|request| match request {
            Request::Train { round, .. } => (1..=rounds).contains(round),
            Request::Finalize { round, .. } | Request::HoldOut { round, .. } => {
                (1..=rounds + 1).contains(round)
            }
            Request::Score { round, .. } => *round <= rounds,
            _ => false,
        });
        let shape = matches!(
            &asked.requests[..],
            [] | [_]
                | [Request::Score { .. }, Request::Train { .. }]
                | [Request::Score { .. }, Request::HoldOut { .. }]
                | [Request::Score { .. }, Request::Finalize { .. }]
        );
        if !shape {
            let why = format!(
                "a message holds {} requests; allowed is one, after at most one score",
                asked.requests.len()
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        let trained = match asked.requests.last() {
            Some(Request::Train { round, .. }) => Some(*round),
            _ => None,
        };
        if !(in_plan && of_plan && asked.state.round <= rounds) {
            let why = format!("a request is of another pass or round than the {rounds} agreed on");
            return self.state.refuse(SiteCode::Order, &why);
        }
        let private = setup.context.private;
        let (Some(budget), true) = (
            &setup.privacy,
            private.is_some_and(|how| how.noise_seed == NoiseSeed::System),
        ) else {
            return Ok(Keeping::Nothing);
        };
        let Some(round) = trained else {
            return Ok(Keeping::Answer);
        };
        let before = self.state.releases()?;
        let same = before.iter().filter(|at| **at == (pass, round)).count();
        if same > REPEATS {
            let why = format!(
                "round {round} has left this site {same} times, each time with other noise: not again"
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        let all = u32::try_from(before.len() + 1).unwrap_or(u32::MAX);
        let exposure = setup.exposure_of(asked.client, all);
        if budget.settings.epsilon.is_some() && !budget.fits(&[exposure]) {
            let why = format!("after {} releases another would exceed ε", before.len());
            return self.state.refuse(SiteCode::Order, &why);
        }
        Ok(Keeping::Release(pass, round))
    }

    /// Handles requests for the client; also says what must be kept of the response.
    fn handle(&self, asked: ClientRequest, body: &[u8]) -> Result<(Vec<u8>, Handled, Keeping)> {
        let Some(agreement) = self.state.agreement()? else {
            let why = "a request came before anything was agreed on";
            return self.state.refuse(SiteCode::OtherAgreement, why);
        };
        if agreement.hash() != asked.agreement {
            let why = format!(
                "a request names the agreement {}, this site has {}",
                asked.agreement,
                agreement.hash()
            );
            return self.state.refuse(SiteCode::OtherAgreement, &why);
        }
        let (plan, place) = self.plan(&agreement.terms)?;
        if asked.client != place {
            return Err(Error::Engine(format!(
                "a request for client {}, this site is client {place}",
                asked.client
            )));
        }
        let setup = self.setup(&plan, place, &agreement)?;
        let keeping = self.planned(&asked, &plan, &setup)?;
        let archive = ArchiveDirectory(self.state.memories());
        let at = Place {
            archive: &archive,
            disclose: over_sites(&plan)?.1.disclose,
        };
        let (state, floor) = (asked.state, asked.floor);
        let last_pass = !matches!(asked.pass, Some(Pass::HeldOut(_)));
        let site_setup = setup.clone();
        let (update, handled, kept) = at_site(setup, &plan.algorithm, at, asked, body)?;
        if handled.lost {
            let round = state.round;
            self.state.log(&format!(
                "the client state of round {round} is lost: started from w⁰"
            ));
        }
        self.state.forget(floor, state.round);
        if let Some(kept) = kept.filter(|_| last_pass) {
            self.state.replace_run(|path| {
                write_site(
                    path,
                    &agreement.terms.spec,
                    &site_setup,
                    &self.program,
                    &kept,
                    (plan.rounds, hex(&state.digest)),
                    plan.algorithm.properties().personal,
                )
            })?;
        }
        Ok((update, handled, keeping))
    }
}

/// The lock of a state directory, after a little patience with who has it.
fn patient_lock(state: &Path) -> Result<DirectoryLock> {
    let since = Instant::now();
    loop {
        match DirectoryLock::take(state) {
            Err(Error::InUse { .. }) if since.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(200));
            }
            other => return other,
        }
    }
}

fn response(
    request: &[u8],
    body: Vec<u8>,
    result: std::result::Result<Outcome, SiteCode>,
) -> Vec<u8> {
    let to = digest_of_chunks([request]);
    joined(body, &SiteResponse { to, result })
}
