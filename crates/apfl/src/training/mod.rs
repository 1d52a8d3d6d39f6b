//! The only round loop.
//!
//! [`Training`] is a run with its algorithm's type erased once. The caller owns the
//! `while` loop, with progress, storage and early stopping in its body.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::algorithm::{Algorithm, AlgorithmSpec, AlgorithmVisitor};
use crate::choice::{Candidate, HeldOut};
use crate::clients::{Clients, EvaluationRows, Rate, Request, Response, StateSet};
use crate::digest::{digest_of_chunks, hex};
use crate::engine::remote::{ClientRequest, Handled, SiteContext, SiteModels, handle};
use crate::error::{Error, Result};
use crate::files::archive::{ArchiveDirectory, ArchivePart};
use crate::local_client::ModelForm;
use crate::pack::{Arrays, Field};
use crate::params::{Params, bytes_of};
use crate::privacy::{Ledger, Level, Spent};

mod aggregator;
mod evaluation;
mod privacy;
mod record;
mod recorded;
mod round;
mod server;
mod setup;
mod snapshot;

pub use crate::clients::{ClientModels, Finalized, Keep, RunContext, StateHome};
pub use record::RoundRecord;
#[doc(hidden)]
pub use recorded::{PendingRecord, Recorded};
use server::{Server, ServerOf};
pub use setup::{FinalizedClients, Setup, Weights};

/// Trains rounds of one algorithm on one engine, in memory. [`Run`](crate::run::Run) makes them
/// durable.
pub struct Training {
    setup: Arc<Setup>,
    server: Box<dyn Server>,
    round: u64,
    step: u64,
    /// Rounds that each client took part in.
    rounds_of: Vec<u32>,
    /// Rounds that each client was sampled in, whether it responded or not.
    sampled_of: Vec<u32>,
    recorded: Recorded,
    /// The last round.
    last_round: u64,
    /// The pooled loss after the last round, if it was evaluated.
    evaluated: Option<evaluation::PooledLoss>,
    snapshot: Option<snapshot::Snapshot>,
}

impl std::fmt::Debug for Training {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Training")
            .field("round", &self.round)
            .field("of", &self.setup.rounds)
            .finish_non_exhaustive()
    }
}

impl Training {
    /// Starts training with one of the library's algorithms.
    pub fn new(setup: Setup, algorithm: &AlgorithmSpec) -> Result<Self> {
        struct New(Setup);
        impl AlgorithmVisitor for New {
            type Output = Result<Training>;
            fn visit<A: Algorithm>(self, algorithm: A) -> Self::Output {
                Training::with_algorithm(self.0, algorithm)
            }
        }
        algorithm.require_listed().map_err(Error::Request)?;
        algorithm.clone().accept(New(setup))
    }

    /// Starts training with any algorithm.
    pub fn with_algorithm<A: Algorithm>(setup: Setup, algorithm: A) -> Result<Self> {
        let algorithm = fitted(algorithm, &setup)?;
        Self::of(setup, Arc::new(algorithm))
    }

    /// Starts training with a shared algorithm, as it is in the setup's pass of a choice.
    pub(crate) fn of<A: Algorithm>(setup: Setup, algorithm: Arc<A>) -> Result<Self> {
        if setup.context.rate == Rate::Unknown {
            return Err(Error::Request(
                "training.learning_rate: found \"auto\", which a run finds by a probe; use Run, or \
                 set a number"
                    .into(),
            ));
        }
        let (context, algorithm) = setup.context.clone().for_pass(algorithm);
        let (engine, threads, home) = (setup.engine.clone(), setup.threads, &setup.home);
        let engine = engine.start(context.clone(), algorithm.clone(), threads, home)?;
        let setup = Arc::new(Setup { context, ..setup });
        let server = Box::new(ServerOf::new(setup.clone(), algorithm, engine)?);
        let clients = setup.context.dataset.clients();
        Ok(Self {
            server,
            round: 0,
            step: 0,
            rounds_of: vec![0; clients],
            sampled_of: vec![0; clients],
            recorded: Recorded::default(),
            last_round: setup.last_round(0, &vec![0; clients]),
            evaluated: None,
            snapshot: None,
            setup,
        })
    }

    /// Trains one more round and returns its record; `None` when all are done. Where scores are
    /// deferred to the next request the round after it is trained by then.
    pub fn next_round(&mut self) -> Result<Option<RoundRecord>> {
        loop {
            if let Some(record) = self.take_record() {
                return Ok(Some(record));
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    /// Returns the oldest record that is complete and was not returned yet.
    pub(crate) fn take_record(&mut self) -> Option<RoundRecord> {
        let first = self.recorded.waiting.front()?;
        if first.pools.is_some() {
            return None;
        }
        let whole = self.recorded.waiting.pop_front();
        whole.map(|waiting| waiting.record)
    }

    /// Trains one more round or, after the last one, requests deferred scores. Returns whether
    /// there was anything to do.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        if self.round < self.last_round {
            let waiting = self.train_round(self.round + 1)?;
            self.recorded.waiting.push_back(waiting);
        } else if self.recorded.waiting.is_empty() {
            return Ok(false);
        } else {
            self.flush_scores()?;
        }
        Ok(true)
    }

    /// Makes the current round the last one.
    pub(crate) fn end_here(&mut self) {
        self.last_round = self.round;
    }

    /// Returns the clients to be finalized, ascending.
    pub fn receivers(&self) -> Vec<usize> {
        match self.setup.finalized_clients {
            FinalizedClients::All => (0..self.setup.context.dataset.clients()).collect(),
            FinalizedClients::Sampled => self.sampled(),
            FinalizedClients::None => Vec::new(),
        }
    }

    /// Returns the losses of all candidates (without candidates: of the personal model) on the
    /// rows that this training held out. Clients whose loss is not finite are missing if the run
    /// skips them.
    #[doc(hidden)]
    pub fn hold_out(&mut self, clients: &[usize]) -> Result<BTreeMap<usize, HeldOut>> {
        self.flush_scores()?;
        self.losses_on(EvaluationRows::HeldOut, clients)
    }

    /// Returns losses as [`Training::hold_out`] does, on any of these rows.
    fn losses_on(
        &mut self,
        rows: EvaluationRows,
        clients: &[usize],
    ) -> Result<BTreeMap<usize, HeldOut>> {
        let (mut held_out, mut deferred) = (BTreeMap::new(), Vec::new());
        let request = Request::HoldOut {
            round: self.round + 1, // as in finalization
            sent: (),
            rows,
        };
        (self.server).exchange(&request, clients, &mut |client, response| {
            match response {
                Response::HeldOut(Some(own)) => {
                    held_out.insert(client, own);
                }
                Response::Scored(tallies) => deferred.push(tallies),
                _ => {}
            }
            Ok(())
        })?;
        self.take_scores(deferred);
        Ok(held_out)
    }

    /// Sends clients the candidates that they chose.
    #[doc(hidden)]
    pub fn choose(&mut self, choices: Vec<(usize, Candidate)>) -> Result<()> {
        if choices.is_empty() {
            return Ok(());
        }
        let clients: Vec<usize> = choices.iter().map(|(client, _)| *client).collect();
        let request = Request::Choose { choices };
        (self.server).exchange(&request, &clients, &mut |_, _| Ok(()))?;
        Ok(())
    }

    /// Finalizes clients: `each` receives their models in order. The training does not change.
    pub fn finalize(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(Finalized) -> Result<()> + Send),
    ) -> Result<()> {
        let keep = if self.setup.keep_models {
            Keep::HandOver
        } else {
            Keep::Nothing
        };
        self.finalize_with(clients, keep, each)
    }

    /// Finalizes clients like [`Training::finalize`]; `keep` decides where models are kept.
    pub(crate) fn finalize_with(
        &mut self,
        clients: &[usize],
        keep: Keep,
        each: &mut (dyn FnMut(Finalized) -> Result<()> + Send),
    ) -> Result<()> {
        self.flush_scores()?;
        let request = Request::Finalize {
            // The round after the last: its rate, with a random stream of its own.
            round: self.round + 1,
            sent: (),
            shared: (),
            keep,
        };
        (self.server).exchange(&request, clients, &mut |_, response| match response {
            Response::Finalized(Some(own)) => each(*own),
            _ => Ok(()),
        })?;
        Ok(())
    }

    /// Returns the clients that took part so far, ascending.
    pub fn sampled(&self) -> Vec<usize> {
        let taken = self.rounds_of.iter().enumerate();
        taken.filter(|(_, n)| **n > 0).map(|(k, _)| k).collect()
    }

    /// Returns the number of rounds that a client took part in so far.
    pub(crate) fn rounds_of(&self, client: usize) -> u64 {
        u64::from(self.rounds_of[client])
    }

    /// Returns the cost of privacy so far, and every client's own ε if examples are protected.
    pub fn privacy(&self) -> Option<(Spent, Option<Vec<f64>>)> {
        let budget = self.setup.privacy.as_ref()?;
        let exposures = self.setup.exposures(self.round, &self.sampled_of);
        let each = (budget.settings.level == Level::Example).then(|| budget.each(&exposures));
        let lost = |ledger: &Ledger| ledger.lost(self.setup.pass_number(), self.round);
        let spent = Spent {
            lost: self.setup.ledger().map_or(0, lost),
            ..budget.spent(&exposures)
        };
        Some((spent, each))
    }

    /// Returns the largest ε so far; `None` if it is infinite or there is no privacy.
    fn epsilon(&self) -> Option<f64> {
        let budget = self.setup.privacy.as_ref()?;
        let exposures = self.setup.exposures(self.round, &self.sampled_of);
        budget.spent(&exposures).epsilon
    }

    /// Returns the clients sampled in some rounds.
    pub(crate) fn sampled_in(&self, rounds: RangeInclusive<u64>) -> BTreeSet<usize> {
        let of = |round: u64| {
            let sampled = self.setup.cohort(round).into_iter();
            sampled.filter(move |client| self.recorded.took_part(round, *client))
        };
        rounds.flat_map(of).collect()
    }

    /// Returns the state that cannot be reproduced from the seed.
    #[doc(hidden)]
    pub fn recorded(&self) -> &Recorded {
        &self.recorded
    }

    /// Restores the state that cannot be reproduced from the seed. Call it before
    /// [`Training::restore_server`].
    pub(crate) fn restore_recorded(&mut self, recorded: Recorded) {
        self.recorded = recorded;
    }

    /// Returns the number of rounds whose records [`Training::next_round`] has returned.
    #[doc(hidden)]
    pub fn written(&self) -> u64 {
        self.round - self.recorded.waiting.len() as u64
    }

    /// Returns the number of rounds trained so far.
    pub fn round(&self) -> u64 {
        self.round
    }

    /// Returns the last round: fewer than planned if repeated rounds used up privacy.
    pub(crate) fn last_round(&self) -> u64 {
        self.last_round
    }

    /// Returns the local steps so far, as in [`RoundRecord::step`].
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Returns the arrays of the server's state.
    #[doc(hidden)]
    pub fn server_bytes(&self) -> (Vec<Field>, Vec<u8>) {
        self.server.state()
    }

    /// Returns the arrays of a client's state.
    pub(crate) fn client_fields(&self) -> Vec<Field> {
        self.server.client_fields()
    }

    /// Saves the states of some clients to an archive; every process writes its own clients.
    /// Returns the parts of the archive with their clients.
    #[doc(hidden)]
    pub fn save(
        &mut self,
        archive: &ArchiveDirectory,
        name: &str,
        states: StateSet,
        clients: &[usize],
    ) -> Result<Vec<(ArchivePart, Vec<usize>)>> {
        let request = Request::Save {
            archive: archive.clone(),
            name: name.into(),
            states,
        };
        let mut parts = Vec::new();
        (self.server).exchange(&request, clients, &mut |_, response| {
            if let Response::Saved(part, clients) = response {
                parts.push((part, clients));
            }
            Ok(())
        })?;
        Ok(parts)
    }

    /// Restores the server's state after `round`.
    #[doc(hidden)]
    pub fn restore_server(&mut self, round: u64, step: u64, server: Arrays) -> Result<()> {
        self.server.restore(server)?;
        (self.round, self.step) = (round, step);
        self.evaluated = None;
        self.rounds_of.fill(0);
        self.sampled_of.fill(0);
        if let Some(ledger) = self.setup.ledger() {
            ledger.require(self.setup.pass_number(), round)?;
        }
        self.count(1..=round);
        self.last_round = self.setup.last_round(round, &self.sampled_of);
        // Deferred scores are requested again.
        let missing = self.recorded.waiting.iter().find(|w| w.pools.is_some());
        if let Some(waiting) = missing.cloned() {
            self.score(waiting.record.round, &waiting.scorers)?;
        }
        Ok(())
    }

    /// Restores the states of some clients from a part of an archive.
    #[doc(hidden)]
    pub fn restore_clients(
        &mut self,
        archive: &ArchiveDirectory,
        part: &str,
        states: StateSet,
        clients: &[usize],
    ) -> Result<()> {
        let request = Request::Restore {
            archive: archive.clone(),
            part: part.into(),
            states,
        };
        (self.server).exchange(&request, clients, &mut |_, _| Ok(()))?;
        Ok(())
    }

    /// Returns the shared model.
    pub fn shared(&self) -> Params {
        self.server.shared()
    }

    /// Returns the shared model that the run ends with: the last one, or the average of all.
    #[doc(hidden)]
    pub fn output(&self) -> Params {
        self.server.output()
    }

    /// Returns the form of the models that clients serve.
    #[doc(hidden)]
    pub fn personal_form(&self) -> ModelForm {
        self.server.personal_form()
    }

    /// Returns a hash of the shared model, the server's state and all client states. Equal
    /// fingerprints mean equal bits.
    pub fn fingerprint(&mut self) -> Result<String> {
        let sampled = self.sampled();
        let mut pieces = vec![bytes_of(&self.server.shared())];
        pieces.extend(self.server.digests().into_iter().map(Vec::from));
        (self.server).exchange(&Request::Digest, &sampled, &mut |client, response| {
            if let Response::Digest(digest) = response {
                pieces.push((client as u64).to_le_bytes().to_vec());
                pieces.push(digest.to_vec());
            }
            Ok(())
        })?;
        let pieces = pieces.iter().map(|piece| &piece[..]);
        Ok(hex(&digest_of_chunks(pieces)))
    }

    /// Returns the size of a client's state in bytes.
    #[doc(hidden)]
    pub fn client_bytes(&self) -> usize {
        self.client_fields().iter().map(Field::bytes).sum()
    }

    /// Returns the setup of the training.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// Returns the algorithm for a run of that model and seed.
pub(crate) fn fitted<A: Algorithm>(algorithm: A, setup: &Setup) -> Result<A> {
    let RunContext { model, seed, .. } = &setup.context;
    let fitted = algorithm.for_run(model.layout(), *seed);
    fitted.map_err(|problem| Error::Request(format!("algorithm: {problem}")))
}

/// Handles requests for a client at its own site; the setup is that of the site.
pub(crate) fn at_site(
    setup: Setup,
    algorithm: &AlgorithmSpec,
    place: SiteContext<'_>,
    request: ClientRequest,
    body: &[u8],
) -> Result<(Vec<u8>, Handled, Option<SiteModels>)> {
    struct AtSite<'a>(Setup, SiteContext<'a>, ClientRequest, &'a [u8]);
    impl AlgorithmVisitor for AtSite<'_> {
        type Output = Result<(Vec<u8>, Handled, Option<SiteModels>)>;
        fn visit<A: Algorithm>(self, algorithm: A) -> Self::Output {
            let Self(setup, place, request, body) = self;
            let algorithm = Arc::new(fitted(algorithm, &setup)?);
            let context = RunContext {
                pass: request.pass,
                rate: request.rate.map_or(setup.context.rate, Rate::Set),
                ..setup.context
            };
            let (context, algorithm) = context.for_pass(algorithm);
            let clients = Clients::new(context, algorithm, &StateHome::Ram)?;
            handle(&clients, place, request, body)
        }
    }
    algorithm.require_listed().map_err(Error::Request)?;
    algorithm
        .clone()
        .accept(AtSite(setup, place, request, body))
}

/// Handles the requests of the leading rank until the job ends; for all other ranks.
#[cfg(feature = "mpi")]
pub fn serve(
    cluster: crate::engine::mpi::Cluster,
    setup: Setup,
    algorithm: &AlgorithmSpec,
) -> Result<()> {
    struct Serve(crate::engine::mpi::Cluster, Setup);
    impl AlgorithmVisitor for Serve {
        type Output = Result<()>;
        fn visit<A: Algorithm>(self, algorithm: A) -> Self::Output {
            let algorithm = Arc::new(fitted(algorithm, &self.1)?);
            let Setup {
                context, threads, ..
            } = self.1;
            crate::engine::mpi::serve(self.0, context, algorithm, threads)
        }
    }
    algorithm.require_listed().map_err(Error::Request)?;
    algorithm.clone().accept(Serve(cluster, setup))
}
