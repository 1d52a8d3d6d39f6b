//! A rank that does not lead: executes orders for its own clients.

use std::sync::Arc;

use super::background::Results;
use super::cluster::Cluster;
use super::message::{Envelope, Failure, Order, ParcelTail};
use super::placement::Placement;
use super::rank_files::{self, home_of};
use crate::algorithm::Algorithm;
use crate::clients::wire::{Body, decode, joined};
use crate::clients::{Clients, Rate, Request, Response, RunContext, StateHome};
use crate::engine::threads::WorkerPool;
use crate::error::{Error, Result};

/// A parcel is sent when it has this many bytes or no more results are ready.
const PARCEL: usize = 1 << 18;

/// Executes the leader's orders until `Order::End`.
pub fn serve<A: Algorithm>(
    cluster: Cluster,
    context: RunContext,
    algorithm: Arc<A>,
    threads: usize,
) -> Result<()> {
    let placement = Placement::new(&*context.dataset, &context.local_training, cluster.ranks);
    let params = context.w0.len();
    let mut pool = None;
    let mut clients = None;
    loop {
        let Envelope { order, bytes } = decode(&cluster.receive(0))?;
        let mut body = vec![0; bytes];
        cluster.broadcast(&mut body);
        match order {
            Order::End => return Ok(()),
            Order::Cancel => {} // already handled
            Order::Begin { disk, pass, rate } => {
                let context = RunContext {
                    pass,
                    rate: rate.map_or(context.rate, Rate::Set),
                    ..context.clone()
                };
                let (context, algorithm) = context.for_pass(algorithm.clone());
                let home = match disk {
                    None => StateHome::Ram,
                    Some((file, budget)) => StateHome::Disk { file, budget },
                };
                let started = WorkerPool::new(threads, 4 * params).and_then(|new| {
                    pool = Some(new);
                    let home = home_of(&home, cluster);
                    clients = Some(Clients::new(context, algorithm, &home)?);
                    Ok(())
                });
                send_last(cluster, None, started.err());
            }
            Order::Handle {
                request,
                clients: list,
            } => {
                let missing = || Error::Engine("found a request before the order to begin".into());
                let local = LocalRank {
                    cluster,
                    placement: &placement,
                    pool: pool.as_ref().ok_or_else(missing)?,
                    clients: clients.as_ref().ok_or_else(missing)?,
                };
                let handled =
                    (request.unpack::<A>(&body)).and_then(|request| local.handle(&request, &list));
                if let Err(error) = handled {
                    send_last(cluster, None, Some(error));
                }
            }
        }
    }
}

/// A rank, its threads and its clients.
struct LocalRank<'a, A: Algorithm> {
    cluster: Cluster,
    placement: &'a Placement,
    pool: &'a WorkerPool,
    clients: &'a Clients<A>,
}

impl<A: Algorithm> LocalRank<'_, A> {
    /// Handles a request for this rank's clients of a list.
    ///
    /// # Errors
    /// An error that was not sent to the leader.
    fn handle(&self, request: &Request<A::Broadcast>, list: &[usize]) -> Result<()> {
        let rank = self.cluster.rank;
        if request.is_for_processes() {
            let response = rank_files::handle(self.clients, self.placement, rank, request, list)?;
            send_last(self.cluster, response.map(packed::<A>), None);
            return Ok(());
        }
        self.clients
            .begin(request, &self.placement.of(rank, list))?;
        let mine = self.placement.positions(rank, list);
        self.pool.in_background(
            mine.len(),
            |k| self.clients.context().dataset.name(list[mine[k]]),
            |k, scratch| {
                let client = (mine[k], list[mine[k]]);
                let response = self.clients.handle(client, request, scratch)?;
                Ok(packed::<A>(response))
            },
            |results| while !self.send_parcel(&results) {},
        );
        Ok(())
    }

    /// Sends the next parcel. Returns whether it was the last.
    fn send_parcel(&self, results: &Results<Vec<u8>>) -> bool {
        let mut parcel = Parcel::default();
        let mut next = results.next_unless(|| self.cluster.has_message(0));
        loop {
            match next {
                Some(Ok(item)) => parcel.add(item),
                Some(Err(error)) => parcel.tail.last = Some(Some(failure(self.cluster, &error))),
                None => {
                    let error = self.clients.end().err();
                    parcel.tail.last = Some(error.map(|e| failure(self.cluster, &e)));
                }
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
}

/// Describes an error to the leader.
fn failure(cluster: Cluster, error: &Error) -> Failure {
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
        if self.body.is_empty() {
            self.body = item
        } else {
            self.body.extend_from_slice(&item)
        }
    }
}

/// Sends the last parcel of an order, with at most one item.
fn send_last(cluster: Cluster, item: Option<Vec<u8>>, error: Option<Error>) {
    let mut parcel = Parcel::default();
    if let Some(item) = item {
        parcel.add(item);
    }
    parcel.tail.last = Some(error.map(|e| failure(cluster, &e)));
    cluster.send(0, &joined(parcel.body, &parcel.tail));
}

/// Encodes a response for another rank.
fn packed<A: Algorithm>(response: Response<A::Update>) -> Vec<u8> {
    let mut body = Body::default();
    let packed = body.response::<A>(response);
    joined(body.into_bytes(), &packed)
}
