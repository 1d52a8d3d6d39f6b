//! Clients on all ranks of an MPI job.
//!
//! Every rank has its own clients, with their data and memories, and a pool of threads.
//! Rank 0 leads: it runs the rounds, gives orders and trains its own clients meanwhile; the
//! others `serve`. Replies are asked for in the order of the clients, whoever has them, and
//! handed on one by one, so that a sum over clients has the bits it has in one process. (A
//! reduction by MPI adds in an order of its own.) What a thread of rank 0 has made it hands on
//! itself, as in one process, while it is in the core's cache; the thread that speaks to other
//! ranks hands on theirs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Engine;
use super::threads::WorkerPool;
use crate::algorithm::Algorithm;
use crate::choice::{Candidate, HeldOut, Pass};
use crate::clients::{Clients, Delivered, Keep, MemoryHome, Reply, World};
use crate::data::roster::keep_own;
use crate::error::{Error, Result};
use crate::metrics::Tallies;
use crate::pack::Pack;
use crate::params::bytes_of;
use crate::site::Scratch;
use crate::store::archive::{MemoryArchive, Written};

mod agreement;
mod background;
mod cluster;
mod mailbox;
mod placement;
mod rank_files;
mod serve;

use super::message::{KeepOrder, Order, ReplyTail, decode, split};
pub use agreement::{Facts, Leader};
pub use cluster::{Cluster, Membership};
use mailbox::Mailbox;
pub use placement::Placement;
pub use serve::serve;

impl World {
    /// Lets go of the data of clients that live on other ranks.
    pub fn on(mut self, cluster: Cluster) -> Result<Self> {
        let placement = Placement::new(&*self.dataset, &self.pace, cluster.ranks);
        self.dataset = keep_own(self.dataset, |k| placement.rank(k) == cluster.rank)?;
        Ok(self)
    }
}

/// The engine of the leading rank.
pub struct Mpi<A: Algorithm> {
    placement: Placement,
    clients: Clients<A>,
    pool: WorkerPool,
    mailbox: Mailbox,
}

impl<A: Algorithm> std::fmt::Debug for Mpi<A> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mpi")
            .field("cluster", &self.mailbox.cluster)
            .field("clients", &self.clients)
            .finish_non_exhaustive()
    }
}

impl<A: Algorithm> Mpi<A> {
    /// All clients of the world on the ranks of a cluster, with that many threads on each; 0:
    /// one per core. The world is that of the pass, where there is one.
    pub fn new(
        cluster: Cluster,
        world: World,
        algorithm: Arc<A>,
        threads: usize,
        home: &MemoryHome,
        pass: Option<Pass>,
    ) -> Result<Self> {
        let disk = match home {
            MemoryHome::Ram => None,
            MemoryHome::Disk { file, budget } => Some((file.clone(), *budget)),
        };
        let placement = Placement::new(&*world.dataset, &world.pace, cluster.ranks);
        let pool = WorkerPool::new(threads, 4 * world.w0.len())?;
        rank_files::clear(home);
        let mut mailbox = Mailbox::new(cluster);
        mailbox.order(Order::Begin { disk, pass }, Vec::new());
        let clients = Clients::new(world, algorithm, &rank_files::home_of(home, cluster));
        let ready = mailbox.finish();
        Ok(Self {
            placement,
            clients: ready.and(clients)?,
            pool,
            mailbox,
        })
    }

    /// Has an order carried out for a list of clients and hands the results on in its order:
    /// `own` makes those of this rank, `read` reads those of others.
    fn in_order<R: Send>(
        &mut self,
        (order, bytes): (Order, Vec<u8>),
        list: &[usize],
        own: impl Fn(&Clients<A>, usize, &mut Scratch) -> Result<R> + Send + Sync,
        read: impl Fn(&[u8]) -> Result<R>,
        each: impl FnMut(usize, R) -> Result<()> + Send,
    ) -> Result<()> {
        self.mailbox.order(order, bytes);
        let (placement, clients, mailbox) = (&self.placement, &self.clients, &mut self.mailbox);
        let mine = placement.places(0, list);
        let name = |place: usize| clients.world().dataset.name(list[place]);
        let result = self.pool.beside(
            &mine,
            name,
            |place, scratch| own(clients, place, scratch),
            each,
            |line| {
                let others = (0..list.len()).map(|place| (place, placement.rank(list[place])));
                for (place, rank) in others.filter(|(_, rank)| *rank != 0) {
                    if !line.put_in_turn(place, &name, || read(mailbox.item(rank)?)) {
                        break;
                    }
                }
            },
        );
        if result.is_err() {
            self.mailbox.leave();
        }
        let rest = self.mailbox.finish();
        result.and(rest)
    }
}

impl<A: Algorithm> Engine<A> for Mpi<A> {
    fn train(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        cohort: &[usize],
        score: bool,
        each: &mut (dyn FnMut(usize, Option<Reply<A::Update>>) + Send),
    ) -> Result<Vec<usize>> {
        let order = Order::Train {
            round,
            sent: sent.fields(),
            cohort: cohort.to_vec(),
            score,
        };
        let mine = self.placement.places(0, cohort);
        self.clients.begin(mine.iter().map(|k| cohort[*k]));
        self.in_order(
            (order, sent.to_bytes()),
            cohort,
            |clients, k, scratch| clients.train(cohort[k], round, sent, score, scratch),
            |bytes| {
                let (body, tail): (_, Option<ReplyTail>) = split(bytes)?;
                tail.map(|tail| tail.reply(body)).transpose()
            },
            |k, reply| {
                each(cohort[k], reply);
                Ok(())
            },
        )?;
        Ok(Vec::new())
    }

    fn score(
        &mut self,
        round: u64,
        shared: &[f32],
        cohort: &[usize],
        each: &mut (dyn FnMut(usize, Tallies) + Send),
    ) -> Result<()> {
        let order = Order::Score {
            round,
            cohort: cohort.to_vec(),
        };
        self.in_order(
            (order, bytes_of(shared)),
            cohort,
            |clients, k, scratch| clients.score(cohort[k], shared, round, scratch),
            decode,
            |k, tallies| {
                each(cohort[k], tallies);
                Ok(())
            },
        )
    }

    fn hold_out(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        list: &[usize],
        each: &mut (dyn FnMut(usize, HeldOut) + Send),
    ) -> Result<()> {
        let order = Order::HoldOut {
            round,
            sent: sent.fields(),
            clients: list.to_vec(),
        };
        self.in_order(
            (order, sent.to_bytes()),
            list,
            |clients, k, scratch| clients.hold_out(list[k], round, sent, scratch),
            decode,
            |k, held_out: Option<HeldOut>| {
                if let Some(held_out) = held_out {
                    each(list[k], held_out);
                }
                Ok(())
            },
        )
    }

    fn choose(&mut self, choices: &[(usize, Candidate)]) -> Result<()> {
        self.clients.choose(choices);
        let choices = choices.to_vec();
        self.mailbox.order(Order::Choose { choices }, Vec::new());
        self.mailbox.finish()
    }

    fn deliver(
        &mut self,
        round: u64,
        sent: &A::Broadcast,
        shared: &[f32],
        list: &[usize],
        keep: Keep<'_>,
        each: &mut (dyn FnMut(Delivered) -> Result<()> + Send),
    ) -> Result<()> {
        let place = |slots: &crate::store::slots::Slots| {
            let (path, start, bytes) = slots.place();
            (path.to_owned(), start, bytes)
        };
        let order = Order::Deliver {
            round,
            sent: sent.fields(),
            clients: list.to_vec(),
            keep: match keep {
                Keep::Nothing => KeepOrder::Nothing,
                Keep::HandOver => KeepOrder::HandOver,
                Keep::There => KeepOrder::There,
                Keep::In(files) => KeepOrder::In(
                    [&files.personal, &files.localized, &files.local].map(place),
                    files.alone.as_ref().map(place),
                ),
            },
        };
        let mut bytes = sent.to_bytes();
        bytes.append(&mut bytes_of(shared));
        self.in_order(
            (order, bytes),
            list,
            |clients, k, scratch| clients.deliver((k, list[k]), round, sent, shared, keep, scratch),
            decode,
            |_, delivered: Option<Delivered>| delivered.map_or(Ok(()), &mut *each),
        )
    }

    fn digests(&mut self, list: &[usize]) -> Result<Vec<[u8; 32]>> {
        let mut digests = Vec::with_capacity(list.len());
        let clients = list.to_vec();
        self.in_order(
            (Order::Digests { clients }, Vec::new()),
            list,
            |clients, k, _| clients.digest(list[k]),
            decode,
            |_, digest| {
                digests.push(digest);
                Ok(())
            },
        )?;
        Ok(digests)
    }

    fn save(
        &mut self,
        archive: &dyn MemoryArchive,
        name: &str,
        clients: &[usize],
    ) -> Result<Vec<(Written, Vec<usize>)>> {
        let order = Order::Save {
            archive: shared_directory(archive)?,
            name: name.to_owned(),
            clients: clients.to_vec(),
        };
        self.mailbox.order(order, Vec::new());
        let own = rank_files::save(&self.clients, &self.placement, 0, (archive, name), clients);
        let mut parts = Vec::new();
        let collect = || {
            parts.extend(own?);
            for rank in self.mailbox.cluster.others() {
                parts.extend(decode::<Option<(Written, Vec<usize>)>>(
                    self.mailbox.item(rank)?,
                )?);
            }
            Ok(parts)
        };
        let parts = collect();
        let rest = self.mailbox.finish();
        rest.and(parts)
    }

    fn restore(
        &mut self,
        archive: &dyn MemoryArchive,
        part: &str,
        clients: &[usize],
    ) -> Result<()> {
        let order = Order::Restore {
            archive: shared_directory(archive)?,
            part: part.to_owned(),
            clients: clients.to_vec(),
        };
        self.mailbox.order(order, Vec::new());
        let own = rank_files::restore(&self.clients, &self.placement, 0, (archive, part), clients);
        let rest = self.mailbox.finish();
        own.and(rest)
    }
}

/// The directory by which other ranks open an archive: each streams its own clients.
fn shared_directory(archive: &dyn MemoryArchive) -> Result<PathBuf> {
    let none = || Error::Engine("on several ranks an archive must be a directory all see".into());
    archive.directory().map(Path::to_owned).ok_or_else(none)
}
