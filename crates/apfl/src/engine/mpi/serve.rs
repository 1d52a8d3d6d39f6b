//! A rank that does not lead: carries out orders for its own clients.

use std::sync::Arc;

use super::background::Results;
use super::cluster::Cluster;
use super::placement::Placement;
use super::rank_files::{home_of, restore, save};
use crate::algorithm::Algorithm;
use crate::choice::Pass;
use crate::clients::{Clients, Keep, MemoryHome, ModelFiles, World};
use crate::engine::message::{
    Envelope, Failure, KeepOrder, Order, ParcelTail, ReplyTail, SlotPlace, decode, encode, joined,
    params_of, unpacked,
};
use crate::engine::threads::WorkerPool;
use crate::error::{Error, Result};
use crate::pack::Field;
use crate::site::Scratch;
use crate::store::archive::{ArchiveDirectory, MemoryArchive};
use crate::store::slots::Slots;

/// A parcel is sent when it has this many bytes or nothing more is ready.
const PARCEL: usize = 1 << 18;

/// Carries out the leader's orders until there are no more.
pub fn serve<A: Algorithm>(
    cluster: Cluster,
    world: World,
    algorithm: Arc<A>,
    threads: usize,
) -> Result<()> {
    let placement = Placement::new(&*world.dataset, &world.pace, cluster.ranks);
    let params = world.w0.len();
    let mut pool = None;
    let mut clients = None;
    loop {
        let Envelope { order, bytes } = decode(&cluster.receive(0))?;
        let mut payload = vec![0; bytes];
        cluster.broadcast(&mut payload);
        match order {
            Order::End => return Ok(()),
            Order::Leave => {} // it was done already
            Order::Begin { disk, pass } => {
                let (world, algorithm) = in_pass(&world, &algorithm, pass);
                let home = match disk {
                    None => MemoryHome::Ram,
                    Some((file, budget)) => MemoryHome::Disk { file, budget },
                };
                let made = WorkerPool::new(threads, 4 * params).and_then(|made| {
                    pool = Some(made);
                    let home = home_of(&home, cluster);
                    clients = Some(Clients::new(world, algorithm, &home)?);
                    Ok(())
                });
                conclude(cluster, Vec::new(), made.err());
            }
            order => {
                let missing = || Error::Engine("an order came before the first".into());
                let here = Here {
                    cluster,
                    placement: &placement,
                    pool: pool.as_ref().ok_or_else(missing)?,
                    clients: clients.as_ref().ok_or_else(missing)?,
                };
                if let Err(error) = here.carry_out(order, &payload) {
                    conclude(cluster, Vec::new(), Some(error));
                }
            }
        }
    }
}

/// World and algorithm of a pass of a choice; as they are where there is none.
fn in_pass<A: Algorithm>(world: &World, algorithm: &Arc<A>, pass: Option<Pass>) -> (World, Arc<A>) {
    let of_pass = pass.and_then(|pass| {
        let choice = algorithm.extensions().choice?;
        let world = world.clone().in_pass(choice.choosing(), pass);
        Some((world, Arc::new(choice.in_pass(pass))))
    });
    of_pass.unwrap_or_else(|| (world.clone(), algorithm.clone()))
}

/// What a rank works with.
struct Here<'a, A: Algorithm> {
    cluster: Cluster,
    placement: &'a Placement,
    pool: &'a WorkerPool,
    clients: &'a Clients<A>,
}

impl<A: Algorithm> Here<'_, A> {
    /// Carries out an order and says its last word; an error is one that was not told yet.
    fn carry_out(&self, order: Order, payload: &[u8]) -> Result<()> {
        match order {
            Order::Begin { .. } | Order::Leave | Order::End => unreachable!("seen to before"),
            Order::Train {
                round,
                sent,
                cohort,
                score,
            } => {
                let sent: A::Broadcast = unpacked(&sent, payload)?;
                let mine = self.placement.places(self.cluster.rank, &cohort);
                self.clients.begin(mine.iter().map(|k| cohort[*k]));
                self.each(&cohort, |k, scratch| {
                    let reply = self
                        .clients
                        .train(cohort[k], round, &sent, score, scratch)?;
                    Ok(match reply {
                        None => joined(Vec::new(), &None::<ReplyTail>),
                        Some(reply) => {
                            let (update, tail) = ReplyTail::of(reply);
                            joined(update, &Some(tail))
                        }
                    })
                });
            }
            Order::Score { round, cohort } => {
                let shared = params_of(payload)?;
                self.each(&cohort, |k, scratch| {
                    let tallies = self.clients.score(cohort[k], &shared, round, scratch)?;
                    Ok(encode(&tallies))
                });
            }
            Order::HoldOut {
                round,
                sent,
                clients,
            } => {
                let sent: A::Broadcast = unpacked(&sent, payload)?;
                self.each(&clients, |k, scratch| {
                    let held_out = self.clients.hold_out(clients[k], round, &sent, scratch)?;
                    Ok(encode(&held_out))
                });
            }
            Order::Choose { choices } => {
                self.clients.choose(&choices);
                conclude(self.cluster, Vec::new(), None);
            }
            Order::Deliver {
                round,
                sent,
                clients,
                keep,
            } => {
                let length: usize = sent.iter().map(Field::bytes).sum();
                let (broadcast, shared) = payload.split_at(length.min(payload.len()));
                let sent: A::Broadcast = unpacked(&sent, broadcast)?;
                let shared = params_of(shared)?;
                let (hand_over, files) = match keep {
                    KeepOrder::Nothing => (Keep::Nothing, None),
                    KeepOrder::HandOver => (Keep::HandOver, None),
                    KeepOrder::There => (Keep::There, None),
                    KeepOrder::In(places, alone) => (Keep::Nothing, Some(open(places, alone)?)),
                };
                let keep = files.as_ref().map_or(hand_over, Keep::In);
                let synced = || files.as_ref().map_or(Ok(()), ModelFiles::sync);
                self.each_then(
                    &clients,
                    |k, scratch| {
                        let client = (k, clients[k]);
                        let delivered = self
                            .clients
                            .deliver(client, round, &sent, &shared, keep, scratch)?;
                        Ok(encode(&delivered))
                    },
                    synced,
                );
            }
            Order::Digests { clients } => {
                self.each(&clients, |k, _| {
                    Ok(encode(&self.clients.digest(clients[k])?))
                });
            }
            Order::Save {
                archive,
                name,
                clients,
            } => {
                let (rank, archive) = (self.cluster.rank, ArchiveDirectory(archive));
                let place: (&dyn MemoryArchive, &str) = (&archive, &name);
                let part = save(self.clients, self.placement, rank, place, &clients)?;
                conclude(self.cluster, encode(&part), None);
            }
            Order::Restore {
                archive,
                part,
                clients,
            } => {
                let (rank, archive) = (self.cluster.rank, ArchiveDirectory(archive));
                let place: (&dyn MemoryArchive, &str) = (&archive, &part);
                restore(self.clients, self.placement, rank, place, &clients)?;
                conclude(self.cluster, Vec::new(), None);
            }
        }
        Ok(())
    }

    fn each(
        &self,
        list: &[usize],
        work: impl Fn(usize, &mut Scratch) -> Result<Vec<u8>> + Send + Sync,
    ) {
        self.each_then(list, work, || Ok(()));
    }

    /// Sends what `work` returns for the places of this rank's clients in a list, then does
    /// `last`.
    fn each_then(
        &self,
        list: &[usize],
        work: impl Fn(usize, &mut Scratch) -> Result<Vec<u8>> + Send + Sync,
        last: impl Fn() -> Result<()>,
    ) {
        let mine = self.placement.places(self.cluster.rank, list);
        self.pool.ahead(
            mine.len(),
            |k| self.clients.world().dataset.name(list[mine[k]]),
            |k, scratch| work(mine[k], scratch),
            |results| while !self.parcel(&results, &last) {},
        );
    }

    /// Sends the next parcel; says whether it was the last.
    fn parcel(&self, results: &Results<Vec<u8>>, last: impl Fn() -> Result<()>) -> bool {
        let mut parcel = Parcel::default();
        let mut next = results.next_unless(|| self.cluster.hears(0));
        loop {
            match next {
                Some(Ok(item)) => parcel.add(item),
                Some(Err(error)) => parcel.tail.last = Some(Some(self.told(&error))),
                None => parcel.tail.last = Some(last().err().map(|e| self.told(&e))),
            }
            if parcel.tail.last.is_some() || parcel.body.len() >= PARCEL {
                break;
            }
            match results.ready() {
                None => break,
                more => next = more,
            }
        }
        let last = parcel.tail.last.is_some();
        self.cluster.send(0, &joined(parcel.body, &parcel.tail));
        last
    }

    fn told(&self, error: &Error) -> Failure {
        told(self.cluster, error)
    }
}

/// What the leader is told of an error.
fn told(cluster: Cluster, error: &Error) -> Failure {
    Failure::of(error, || {
        format!("rank {} on {}", cluster.rank, Cluster::host())
    })
}

#[derive(Default)]
struct Parcel {
    body: Vec<u8>,
    tail: ParcelTail,
}

impl Parcel {
    fn add(&mut self, item: Vec<u8>) {
        self.tail.items.push(item.len());
        match self.body.is_empty() {
            true => self.body = item,
            false => self.body.extend_from_slice(&item),
        }
    }
}

/// Ends an order that has one item at most.
fn conclude(cluster: Cluster, item: Vec<u8>, error: Option<Error>) {
    let mut parcel = Parcel::default();
    if !item.is_empty() {
        parcel.add(item);
    }
    parcel.tail.last = Some(error.map(|e| told(cluster, &e)));
    cluster.send(0, &joined(parcel.body, &parcel.tail));
}

fn open(
    [personal, localized, local]: [SlotPlace; 3],
    alone: Option<SlotPlace>,
) -> Result<ModelFiles> {
    let open = |(path, start, bytes): SlotPlace| Slots::open(&path, start, bytes);
    Ok(ModelFiles {
        personal: open(personal)?,
        localized: open(localized)?,
        local: open(local)?,
        alone: alone.map(open).transpose()?,
    })
}
