//! The node of a site: handles requests with the site's table and state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::agreement::{Agreement, SiteSurvey, Terms, over_sites};
use super::state::{Retention, SiteStatus, StateDirectory};
use crate::choice::Pass;
use crate::clients::Request;
use crate::clients::wire::{decode, encode, joined, split};
use crate::data::roster::roster;
use crate::data::table::{Surveyed, Table};
use crate::digest::{digest_of_chunks, hex};
use crate::engine::remote::{
    ClientRequest, Handled, Outcome, SiteContext, SiteRequest, SiteResponse,
};
use crate::error::{Error, Result, SiteCode};
use crate::files::archive::ArchiveDirectory;
use crate::files::lock::DirectoryLock;
use crate::model::kernels::lanes;
use crate::privacy::NoiseSeed;
use crate::run::{Program, rates, write_site};
use crate::spec::{Plan, PlannedSites, Resources};
use crate::training::{Setup, at_site};

/// How long a node waits for another node that holds the lock.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);

/// How often a site may repeat a round with fresh noise, after resumes of the server.
const MAX_REPEATS: usize = 3;

/// How the terms of a federation are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accept {
    /// By the operator, who has read `proposal.toml` ([`Node::accept`]).
    Operator,
    /// The first terms are accepted without consent.
    First,
    /// Only terms whose hash is in this file are accepted.
    File(PathBuf),
}

/// The settings of a site, given by its operator and never by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The client's name.
    pub client: String,
    /// Its table.
    pub data: PathBuf,
    /// Its state directory.
    pub state: PathBuf,
    /// How terms are accepted.
    pub accept: Accept,
}

/// The node of a site, which holds the lock of the state directory.
#[derive(Debug)]
pub struct Node {
    site: Site,
    state: StateDirectory,
    program: Program,
    _lock: DirectoryLock,
}

impl Node {
    /// Opens a site's state directory and creates it if necessary. Waits up to 20 s for another
    /// node that holds its lock.
    pub fn open(site: Site, program: Program) -> Result<Self> {
        let state = StateDirectory(site.state.clone());
        state.create()?;
        let lock = lock_state(&site.state)?;
        state.recover_run();
        Ok(Self {
            site,
            state,
            program,
            _lock: lock,
        })
    }

    /// Returns the response to a request and the error, if any. The response holds only the code
    /// of an error; the log holds its text.
    pub fn answer(&self, request: &[u8]) -> (Vec<u8>, Option<Error>) {
        if let Some(response) = self.state.released(request) {
            return (response, None);
        }
        let result = catch_unwind(AssertUnwindSafe(|| self.respond(request)));
        let result = result.unwrap_or_else(|_| {
            Err(Error::Panic {
                client: self.site.client.clone(),
                message: "the process printed the panic".into(),
            })
        });
        match result {
            Ok((response, retention)) => match self.state.release(retention, request, &response) {
                Ok(()) => (response, None),
                Err(error) => {
                    self.state.log(&error.to_string());
                    let refused = encode_response(request, Vec::new(), Err(SiteCode::State));
                    (refused, Some(error))
                }
            },
            Err(error) => {
                let code = self.code_of(&error);
                self.state.log(&format!("{code}: {error}"));
                (encode_response(request, Vec::new(), Err(code)), Some(error))
            }
        }
    }

    /// Returns the response of a site whose node cannot be opened.
    pub fn refusal(request: &[u8], error: &Error) -> Vec<u8> {
        let code = match error {
            Error::InUse { .. } => SiteCode::Busy,
            Error::Panic { .. } => SiteCode::Failed,
            _ => SiteCode::State,
        };
        encode_response(request, Vec::new(), Err(code))
    }

    /// Accepts the terms of a hash for the operator.
    ///
    /// # Errors
    /// If other terms were proposed since.
    pub fn accept(state: &Path, hash: &str) -> Result<()> {
        let own = StateDirectory(state.into());
        own.status()?; // it exists
        let _lock = lock_state(state)?;
        own.accept(hash)
    }

    /// Returns the content of a state directory.
    pub fn status(state: &Path) -> Result<SiteStatus> {
        StateDirectory(state.into()).status()
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

    /// Returns the response to a request, and what must be stored before it is sent.
    fn respond(&self, message: &[u8]) -> Result<(Vec<u8>, Retention)> {
        let (body, request): (_, SiteRequest) = split(message)?;
        let (body, outcome, retention) = match request {
            SiteRequest::Survey(terms) => {
                let survey = encode(&self.survey(decode(&terms)?)?);
                (Vec::new(), Outcome::Surveyed(survey), Retention::Nothing)
            }
            SiteRequest::Agree(agreement) => {
                let text = String::from_utf8_lossy(&agreement);
                self.agree(&Agreement::from_json(&text)?)?;
                (Vec::new(), Outcome::Agreed, Retention::Nothing)
            }
            SiteRequest::Handle(request) => {
                let (update, handled, retention) = self.handle(*request, body)?;
                (update, Outcome::Handled(handled), retention)
            }
        };
        Ok((encode_response(message, body, Ok(outcome)), retention))
    }

    /// Returns the plan of terms and the index of this site in it, after checking both.
    fn plan(&self, terms: &Terms) -> Result<(Plan, usize)> {
        let own = format!("{} ({})", self.program.version, self.program.commit);
        if terms.program != own {
            let why = format!(
                "the server runs version {}, this site {own}; install the same version",
                terms.program
            );
            return self.state.refuse(SiteCode::OtherProgram, &why);
        }
        let plan = terms.plan()?;
        // The operator must read all settings: no defaults, no unknown keys.
        if Terms::new(&plan, &self.program) != *terms {
            return Err(Error::Request("the terms are not a resolved spec".into()));
        }
        let (_, sites) = over_sites(&plan)?;
        let index = sites.names.iter().position(|n| *n == self.site.client);
        match index {
            Some(index) => Ok((plan, index)),
            None => Err(Error::Request(format!(
                "site '{}' is not in federation.sites: {}",
                self.site.client,
                sites.names.join(", ")
            ))),
        }
    }

    /// Returns the site's table and its survey.
    fn surveyed(&self, plan: &Plan, index: usize) -> Result<(Table, Surveyed)> {
        let (table, _) = over_sites(plan)?;
        let table = table.at_site(self.site.data.clone(), &self.site.client, index);
        let surveyed = table.survey(&table.files())?.check()?;
        Ok((table, surveyed))
    }

    /// Returns the site's survey.
    fn survey(&self, terms: Terms) -> Result<SiteSurvey> {
        let (plan, index) = self.plan(&terms)?;
        self.state.require_accepted(&terms, &self.site.accept)?;
        let (table, surveyed) = self.surveyed(&plan, index)?;
        surveyed.require_unmixed()?;
        let PlannedSites { send_rare, .. } = over_sites(&plan)?.1;
        let rare = if *send_rare {
            Vec::new()
        } else {
            table.rare_columns(&table.files(), &surveyed)?
        };
        if !rare.is_empty() {
            let why = format!(
                "column {}: values with fewer than {} training rows would leave this site; \
                 declare data.categories, ignore the column, or set federation.rare = \"send\"",
                rare.join(", "),
                crate::data::table::RARE
            );
            return self.state.refuse(SiteCode::Rare, &why);
        }
        let columns = surveyed.columns().to_vec();
        let mut survey = surveyed.surveys()[0].clone();
        let declared = &table.declared;
        declared.strip(&columns, &mut survey, plan.class_weights);
        self.state.log("sent the survey");
        Ok(SiteSurvey {
            columns,
            rows: surveyed.rows(0),
            survey,
            lanes: lanes(),
        })
    }

    /// Checks an agreement against the site's table and stores it.
    fn agree(&self, agreement: &Agreement) -> Result<()> {
        let (plan, index) = self.plan(&agreement.terms)?;
        self.state
            .require_accepted(&agreement.terms, &self.site.accept)?;
        if let Some(before) = self.state.agreement()?
            && before != *agreement
        {
            return self.state.refuse(
                SiteCode::OtherAgreement,
                "this state directory belongs to another agreement (of another run, or a site's \
                 table has changed); use a new state directory for a new agreement",
            );
        }
        let (_, sites) = over_sites(&plan)?;
        if agreement.sites() != sites.names {
            return Err(Error::Request(
                "the agreement's sites differ from federation.sites".into(),
            ));
        }
        if agreement.classes.len() != agreement.schema.task.classes() {
            return Err(Error::Request(
                "the agreement's class counts do not match its classes".into(),
            ));
        }
        self.setup(&plan, index, agreement)?;
        self.state.keep_agreement(agreement)
    }

    /// Returns the setup of this site's client.
    fn setup(&self, plan: &Plan, index: usize, agreement: &Agreement) -> Result<Setup> {
        let (table, surveyed) = self.surveyed(plan, index)?;
        let surveyed = surveyed.reorder(&agreement.columns)?;
        let own = agreement.roster.get(index);
        let same = own.is_some_and(|m| m.name == self.site.client && m.rows == surveyed.rows(0));
        if !same {
            return Err(Error::data(format!(
                "the table has {:?} training, validation and test rows, which differs from the \
                 agreement; restore the table, or begin a new federation",
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
        let dataset = roster(&agreement.roster, schema, classes, Some((index, shard)));
        plan.setup_with(dataset, Resources::default())
    }

    /// Checks requests against the plan and returns what to store of the response.
    ///
    /// # Errors
    /// If a request is of another round or pass than the plan's, or if noise is not reproducible
    /// and ε allows no further release.
    fn check_planned(
        &self,
        request: &ClientRequest,
        plan: &Plan,
        setup: &Setup,
    ) -> Result<Retention> {
        let rounds = setup.rounds;
        let folds = plan.algorithm.choosing().map_or(0, |c| c.folds);
        let (pass, in_plan) = match request.pass {
            Some(Pass::HeldOut(pass)) => (pass, (1..=folds).contains(&pass)),
            Some(Pass::Probe) => (0, plan.auto_rate),
            Some(Pass::Last) | None => (0, true),
        };
        if !rate_is_planned(plan, request.rate) {
            let why = format!(
                "found a request with the learning rate {:?}; with training.learning_rate = \
                 \"auto\" allowed is one of the probe's, else none",
                request.rate
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        let of_plan = request.requests.iter().all(|request| match request {
            Request::Train { round, .. } => (1..=rounds).contains(round),
            Request::Finalize { round, .. } | Request::HoldOut { round, .. } => {
                (1..=rounds + 1).contains(round)
            }
            Request::Score { round, .. } => *round <= rounds,
            _ => false,
        });
        let shape = matches!(
            &request.requests[..],
            [] | [_]
                | [Request::Score { .. }, Request::Train { .. }]
                | [Request::Score { .. }, Request::HoldOut { .. }]
                | [Request::Score { .. }, Request::Finalize { .. }]
        );
        if !shape {
            let why = format!(
                "found {} requests in a message; allowed is one, after at most one score",
                request.requests.len()
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        let trained = match request.requests.last() {
            Some(Request::Train { round, .. }) => Some(*round),
            _ => None,
        };
        if !(in_plan && of_plan && request.state.round <= rounds) {
            let why = format!(
                "found a request for a pass or round beyond the {rounds} rounds of the agreement"
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        let private = setup.context.private;
        let (Some(budget), true) = (
            &setup.privacy,
            private.is_some_and(|how| how.noise_seed == NoiseSeed::System),
        ) else {
            return Ok(Retention::Nothing);
        };
        let Some(round) = trained else {
            return Ok(Retention::Response);
        };
        let before = self.state.releases()?;
        let same = before.iter().filter(|at| **at == (pass, round)).count();
        if same > MAX_REPEATS {
            let why = format!(
                "round {round} was released {same} times with fresh noise, at most {} are allowed; \
                 the server must go on from a later round",
                1 + MAX_REPEATS
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        let all = u32::try_from(before.len() + 1).unwrap_or(u32::MAX);
        let exposure = setup.exposure_of(request.client, all);
        if budget.settings.epsilon.is_some() && !budget.fits(&[exposure]) {
            let why = format!(
                "this site has made {} releases, and another one would exceed \
                 federation.privacy.epsilon; the run ends here for this site",
                before.len()
            );
            return self.state.refuse(SiteCode::Order, &why);
        }
        Ok(Retention::Release(pass, round))
    }

    /// Handles requests for the client; also returns what to store of the response.
    fn handle(&self, request: ClientRequest, body: &[u8]) -> Result<(Vec<u8>, Handled, Retention)> {
        let Some(agreement) = self.state.agreement()? else {
            let why = "found a request before an agreement";
            return self.state.refuse(SiteCode::OtherAgreement, why);
        };
        if agreement.hash() != request.agreement {
            let why = format!(
                "found a request of agreement {}, this site accepted {}",
                request.agreement,
                agreement.hash()
            );
            return self.state.refuse(SiteCode::OtherAgreement, &why);
        }
        let (plan, index) = self.plan(&agreement.terms)?;
        if request.client != index {
            return Err(Error::Engine(format!(
                "found a request for client {}, this site is client {index}",
                request.client
            )));
        }
        let setup = self.setup(&plan, index, &agreement)?;
        let retention = self.check_planned(&request, &plan, &setup)?;
        let archive = ArchiveDirectory(self.state.client_states());
        let site = SiteContext {
            archive: &archive,
            disclose: over_sites(&plan)?.1.disclose,
        };
        let (state, floor) = (request.state, request.floor);
        let last_pass = !matches!(request.pass, Some(Pass::HeldOut(_) | Pass::Probe));
        let rounds = request.requests.iter().find_map(|request| match request {
            Request::Finalize { round, .. } => Some(round.saturating_sub(1)),
            _ => None,
        });
        let spec = match request.rate {
            Some(rate) => Terms::new(&plan.with_rate(rate), &self.program).spec,
            None => agreement.terms.spec.clone(),
        };
        let site_setup = setup.clone();
        let (update, handled, models) = at_site(setup, &plan.algorithm, site, request, body)?;
        if handled.lost {
            let round = state.round;
            self.state.log(&format!(
                "the client state of round {round} is missing; started from w⁰"
            ));
        }
        self.state.prune(floor, state.round);
        if let Some(models) = models.filter(|_| last_pass) {
            self.state.replace_run(|path| {
                write_site(
                    path,
                    &spec,
                    &site_setup,
                    &self.program,
                    &models,
                    (rounds.unwrap_or(plan.rounds), hex(&state.digest)),
                    plan.algorithm.properties().personal,
                )
            })?;
        }
        Ok((update, handled, retention))
    }
}

/// Returns whether the rate of a request is one that a probe may set where the plan has one, and
/// absent elsewhere.
fn rate_is_planned(plan: &Plan, rate: Option<f64>) -> bool {
    match rate {
        Some(rate) => plan.auto_rate && rates().any(|known| known == rate),
        None => !plan.auto_rate,
    }
}

/// Locks a state directory; waits up to [`LOCK_TIMEOUT`] for another holder.
fn lock_state(state: &Path) -> Result<DirectoryLock> {
    let since = Instant::now();
    loop {
        match DirectoryLock::take(state) {
            Err(Error::InUse { .. }) if since.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(200));
            }
            other => return other,
        }
    }
}

fn encode_response(
    request: &[u8],
    body: Vec<u8>,
    result: std::result::Result<Outcome, SiteCode>,
) -> Vec<u8> {
    let to = digest_of_chunks([request]);
    joined(body, &SiteResponse { to, result })
}
