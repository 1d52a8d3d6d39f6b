//! The only round loop.
//!
//! [`Training`] is a run with its algorithm's type erased once. The caller owns the
//! `while`: progress, storage and stopping early are statements there.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::algorithm::{Algorithm, AlgorithmSpec, AlgorithmVisitor};
use crate::choice::{Choices, Choosing, HeldOut};
use crate::clients::Clients;
#[cfg(feature = "mpi")]
use crate::engine::Mpi;
use crate::engine::remote::{Done, Errand, Kept, Place, carry_out};
use crate::engine::{Engine, EngineKind, Remote, Threads};
use crate::error::{Error, Result};
use crate::pack::{Arrays, Field};
use crate::params::Params;
use crate::privacy::{Ledger, Level, Spent};
use crate::site::ModelForm;
use crate::store::archive::{MemoryArchive, Written};

mod aggregator;
mod privacy;
mod record;
mod recorded;
mod rounds;
mod setup;

pub use crate::clients::{ClientModels, Delivered, Keep, MemoryHome, World};
pub use record::RoundRecord;
pub use recorded::{Recorded, Waiting};
use rounds::{Rounds, Typed};
pub use setup::{DeliverTo, Setup, Weights};

/// A run: rounds of one algorithm on one engine. Nothing of it is durable; a
/// [`Run`](crate::run::Run) is.
pub struct Training {
    setup: Arc<Setup>,
    rounds: Box<dyn Rounds>,
}

impl std::fmt::Debug for Training {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Training")
            .field("round", &self.round())
            .field("of", &self.setup.rounds)
            .finish_non_exhaustive()
    }
}

impl Training {
    /// A run of one of the algorithms, before its first round.
    pub fn new(setup: Setup, algorithm: &AlgorithmSpec) -> Result<Self> {
        struct New(Setup);
        impl AlgorithmVisitor for New {
            type Out = Result<Training>;
            fn visit<A: Algorithm>(self, algorithm: A) -> Self::Out {
                Training::with_algorithm(self.0, algorithm)
            }
        }
        algorithm.clone().accept(New(setup))
    }

    /// A run of any algorithm.
    pub fn with_algorithm<A: Algorithm>(setup: Setup, algorithm: A) -> Result<Self> {
        let algorithm = fitted(algorithm, &setup)?;
        Self::of(setup, Arc::new(algorithm))
    }

    /// The same with an algorithm that others have too. With [`Setup::pass`] it is one pass of
    /// a choice: rows are put aside, or choices that were made are told to the clients.
    pub(crate) fn of<A: Algorithm>(mut setup: Setup, mut algorithm: Arc<A>) -> Result<Self> {
        if let Some((pass, choosing)) = setup.pass.zip(algorithm.choosing().cloned()) {
            setup.world = setup.world.in_pass(&choosing, pass);
            if let Some(in_pass) = algorithm.in_pass(pass) {
                algorithm = Arc::new(in_pass);
            }
        }
        let choices = setup.choices.candidates();
        let mut training = Self::on_engine(setup, algorithm)?;
        if !choices.is_empty() {
            training.rounds.choose(&choices)?;
        }
        Ok(training)
    }

    fn on_engine<A: Algorithm>(setup: Setup, algorithm: Arc<A>) -> Result<Self> {
        let (world, own) = (setup.world.clone(), algorithm.clone());
        match setup.engine.clone() {
            EngineKind::Threads => {
                let engine = Threads::new(world, own, setup.threads, &setup.home)?;
                Self::with_engine(engine, setup, algorithm)
            }
            #[cfg(feature = "mpi")]
            EngineKind::Mpi(cluster) => {
                let engine = Mpi::new(cluster, world, own, setup.threads, &setup.home, setup.pass)?;
                Self::with_engine(engine, setup, algorithm)
            }
            EngineKind::Remote(sites) => {
                let engine = Remote::new(sites, world, own, setup.pass);
                Self::with_engine(engine, setup, algorithm)
            }
        }
    }

    fn with_engine<A: Algorithm>(
        engine: impl Engine<A> + 'static,
        setup: Setup,
        algorithm: Arc<A>,
    ) -> Result<Self> {
        let setup = Arc::new(setup);
        let rounds = Typed::new(setup.clone(), algorithm, engine)?;
        Ok(Self {
            setup,
            rounds: Box::new(rounds),
        })
    }

    /// Trains one more round and returns its record; `None` when all are done. Where scores ride
    /// on the next order the round after it is trained by then.
    pub fn next_round(&mut self) -> Result<Option<RoundRecord>> {
        self.rounds.next_round()
    }

    /// The clients that delivery is for, in order.
    pub fn receivers(&self) -> Vec<usize> {
        match self.setup.deliver_to {
            DeliverTo::All => (0..self.setup.world.dataset.clients()).collect(),
            DeliverTo::Drawn => self.drawn(),
            DeliverTo::None => Vec::new(),
        }
    }

    /// The clients that choose, where there is a choice: those that delivery is for; where it
    /// is for nobody, those that were drawn.
    pub fn choosers(&self) -> Vec<usize> {
        match self.setup.deliver_to {
            DeliverTo::None => self.drawn(),
            _ => self.receivers(),
        }
    }

    /// The losses of everything that some clients may choose from, on rows that this training
    /// held out; clients whose loss is not finite are missing where they may be.
    pub fn hold_out(&mut self, clients: &[usize]) -> Result<BTreeMap<usize, HeldOut>> {
        self.rounds.hold_out(clients)
    }

    /// Tells clients what they have chosen: delivery then hands it to them.
    pub fn choose(&mut self, choices: Choices) -> Result<()> {
        self.rounds.choose(&choices.candidates())?;
        let mut setup = (*self.setup).clone();
        setup.choices = Arc::new(choices);
        self.setup = Arc::new(setup);
        Ok(())
    }

    /// How its algorithm chooses among several mixings, where it does.
    pub fn choosing(&self) -> Option<&Choosing> {
        self.rounds.choosing()
    }

    /// Hands those clients their models; the run itself does not change. `each` sees
    /// them in their order.
    pub fn deliver(
        &mut self,
        clients: &[usize],
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        let keep = match self.setup.keep_models {
            true => Keep::HandOver,
            false => Keep::Nothing,
        };
        self.deliver_to(clients, keep, each)
    }

    /// The same, with a say in what becomes of the models.
    pub fn deliver_to(
        &mut self,
        clients: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        self.rounds.deliver(clients, keep, each)
    }

    /// The clients that took part so far, in order.
    pub fn drawn(&self) -> Vec<usize> {
        let taken = self.rounds.rounds_of().iter().enumerate();
        taken.filter(|(_, n)| **n > 0).map(|(k, _)| k).collect()
    }

    /// In how many rounds a client took part so far.
    pub fn rounds_of(&self, client: usize) -> u64 {
        u64::from(self.rounds.rounds_of()[client])
    }

    /// What privacy has cost so far, and every client's own ε where examples are protected.
    pub fn privacy(&self) -> Option<(Spent, Option<Vec<f64>>)> {
        let budget = self.setup.privacy.as_ref()?;
        let exposures = self.setup.exposures(self.round(), self.rounds.asked_of());
        let each = (budget.settings.level == Level::Example).then(|| budget.each(&exposures));
        let lost = |ledger: &Ledger| ledger.lost(self.setup.pass_number(), self.round());
        let spent = Spent {
            lost: self.setup.ledger().map_or(0, lost),
            ..budget.spent(&exposures)
        };
        Some((spent, each))
    }

    /// The clients drawn in some rounds.
    pub fn drawn_in(&self, rounds: RangeInclusive<u64>) -> BTreeSet<usize> {
        let recorded = self.rounds.recorded();
        let of = |round: u64| {
            let drawn = self.setup.cohort(round).into_iter();
            drawn.filter(move |client| recorded.took_part(round, *client))
        };
        rounds.flat_map(of).collect()
    }

    /// What of its course does not follow from the seed.
    pub fn recorded(&self) -> &Recorded {
        self.rounds.recorded()
    }

    /// Gives it that back; before [`Training::restore_server`].
    pub fn restore_recorded(&mut self, recorded: Recorded) {
        self.rounds.restore_recorded(recorded);
    }

    /// Rounds whose records [`Training::next_round`] has returned.
    pub fn written(&self) -> u64 {
        self.round() - self.recorded().waiting.len() as u64
    }

    /// Rounds trained so far.
    pub fn round(&self) -> u64 {
        self.rounds.round()
    }

    /// The last round: fewer than planned where repeated ones have cost privacy.
    pub fn until(&self) -> u64 {
        self.rounds.until()
    }

    /// Local steps so far, as in [`RoundRecord::step`].
    pub fn step(&self) -> u64 {
        self.rounds.step()
    }

    /// The arrays of what the server remembers.
    pub fn server_bytes(&self) -> (Vec<Field>, Vec<u8>) {
        self.rounds.server_bytes()
    }

    /// The arrays of what any client remembers.
    pub fn client_fields(&self) -> Vec<Field> {
        self.rounds.client_fields()
    }

    /// Streams the memories of some clients into an archive, every process those of its own
    /// clients; says which part of it has whom.
    pub fn save(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>> {
        self.rounds.save(archive, name, clients)
    }

    /// Puts the server back to what it was after `round`.
    pub fn restore_server(&mut self, round: u64, step: u64, server: Arrays) -> Result<()> {
        self.rounds.restore_server(round, step, server)
    }

    /// Gives some clients back their memories, out of a part of an archive.
    pub fn restore_clients(
        &mut self,
        archive: &dyn MemoryArchive,
        part: &str,
        clients: &[usize],
    ) -> Result<()> {
        self.rounds.restore_clients(archive, part, clients)
    }

    /// The shared model.
    pub fn shared(&self) -> Params {
        self.rounds.shared()
    }

    /// The shared model that the run ends with: the last one, or the average of all.
    pub fn output(&self) -> Params {
        self.rounds.output()
    }

    /// The form of the models that clients serve.
    pub fn personal_form(&self) -> ModelForm {
        ModelForm::of_personal(self.rounds.mixes_outputs())
    }

    /// A hash of the shared model, of what the server remembers and of every client's
    /// memory. Equal fingerprints mean equal bits.
    pub fn fingerprint(&mut self) -> Result<String> {
        let drawn = self.drawn();
        self.rounds.fingerprint(&drawn)
    }

    /// Bytes that one client remembers.
    pub fn client_bytes(&self) -> usize {
        self.client_fields().iter().map(Field::bytes).sum()
    }

    /// What the run is.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }
}

/// The algorithm for a run of that model and seed.
fn fitted<A: Algorithm>(algorithm: A, setup: &Setup) -> Result<A> {
    let World { model, seed, .. } = &setup.world;
    let fitted = algorithm.for_run(model.layout(), *seed);
    fitted.map_err(|problem| Error::Request(format!("algorithm: {problem}")))
}

/// Carries out an errand at a client's own site; the setup is that of the site.
pub(crate) fn at_site(
    setup: Setup,
    algorithm: &AlgorithmSpec,
    place: Place<'_>,
    errand: Errand,
    payload: &[u8],
) -> Result<(Vec<u8>, Done, Option<Kept>)> {
    struct AtSite<'a>(Setup, Place<'a>, Errand, &'a [u8]);
    impl AlgorithmVisitor for AtSite<'_> {
        type Out = Result<(Vec<u8>, Done, Option<Kept>)>;
        fn visit<A: Algorithm>(self, algorithm: A) -> Self::Out {
            let Self(setup, place, errand, payload) = self;
            let mut algorithm = fitted(algorithm, &setup)?;
            let mut world = setup.world;
            if let Some((pass, choosing)) = errand.pass.zip(algorithm.choosing().cloned()) {
                world = world.in_pass(&choosing, pass);
                algorithm = algorithm.in_pass(pass).unwrap_or(algorithm);
            }
            let clients = Clients::new(world, Arc::new(algorithm), &MemoryHome::Ram)?;
            carry_out(&clients, place, errand, payload)
        }
    }
    let here = AtSite(setup, place, errand, payload);
    algorithm.clone().accept(here)
}

/// Carries out the orders of a job's leader until there are no more; for ranks that do not
/// lead.
#[cfg(feature = "mpi")]
pub fn serve(
    cluster: crate::engine::mpi::Cluster,
    setup: Setup,
    algorithm: &AlgorithmSpec,
) -> Result<()> {
    struct Serve(crate::engine::mpi::Cluster, Setup);
    impl AlgorithmVisitor for Serve {
        type Out = Result<()>;
        fn visit<A: Algorithm>(self, algorithm: A) -> Self::Out {
            let algorithm = Arc::new(fitted(algorithm, &self.1)?);
            let Setup { world, threads, .. } = self.1;
            crate::engine::mpi::serve(self.0, world, algorithm, threads)
        }
    }
    algorithm.clone().accept(Serve(cluster, setup))
}
