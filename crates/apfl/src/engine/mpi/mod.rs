//! The MPI engine: clients on all ranks of a job.
//!
//! Every rank has its own clients, with their data and states, and a pool of threads. Rank 0
//! leads: it runs the rounds, sends orders and trains its own clients meanwhile; the others
//! `serve`. Responses are passed on one by one in client order, whichever rank has them, so that
//! a sum over clients has the same bits as in one process (an MPI reduction adds in an order of
//! its own). A thread of rank 0 passes on its own responses, while they are in the core's cache;
//! the thread that communicates passes on those of other ranks.

use std::sync::Arc;

use super::threads::WorkerPool;
use super::{Engine, OnResponse};
use crate::algorithm::Algorithm;
use crate::clients::wire::{Body, PackedResponse, split};
use crate::clients::{Clients, Request, Response, RunContext, StateHome};
use crate::data::roster::keep_local;
use crate::error::Result;

mod agreement;
mod background;
mod cluster;
mod mailbox;
mod message;
mod placement;
mod rank_files;
mod serve;

pub use agreement::{Facts, Leader};
pub use cluster::{Cluster, Membership};
use mailbox::Mailbox;
use message::Order;
pub use placement::Placement;
pub use serve::serve;

impl RunContext {
    /// Drops the data of clients that live on other ranks.
    pub fn for_rank(mut self, cluster: Cluster) -> Result<Self> {
        let placement = Placement::new(&*self.dataset, &self.local_training, cluster.ranks);
        self.dataset = keep_local(self.dataset, |k| placement.rank(k) == cluster.rank)?;
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
    /// Starts the engine with `threads` threads on every rank; 0: one per core.
    pub fn new(
        cluster: Cluster,
        context: RunContext,
        algorithm: Arc<A>,
        threads: usize,
        home: &StateHome,
    ) -> Result<Self> {
        let disk = match home {
            StateHome::Ram => None,
            StateHome::Disk { file, budget } => Some((file.clone(), *budget)),
        };
        let placement = Placement::new(&*context.dataset, &context.local_training, cluster.ranks);
        let pool = WorkerPool::new(threads, 4 * context.w0.len())?;
        rank_files::clear(home);
        let mut mailbox = Mailbox::new(cluster);
        let (pass, rate) = (context.pass, context.rate.set());
        mailbox.order(Order::Begin { disk, pass, rate }, Vec::new());
        let clients = Clients::new(context, algorithm, &rank_files::home_of(home, cluster));
        let ready = mailbox.finish();
        Ok(Self {
            placement,
            clients: ready.and(clients)?,
            pool,
            mailbox,
        })
    }

    /// Has a request handled for each of a list of clients and passes on the responses in list
    /// order.
    fn in_order(
        &mut self,
        request: &Request<A::Broadcast>,
        list: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<()> {
        let (placement, clients, mailbox) = (&self.placement, &self.clients, &mut self.mailbox);
        let mine = placement.positions(0, list);
        let name = |position: usize| clients.context().dataset.name(list[position]);
        self.pool.in_order_with(
            &mine,
            name,
            |position, scratch| clients.handle((position, list[position]), request, scratch),
            |position, response| on_response(list[position], response),
            |buffer| {
                let others =
                    (0..list.len()).map(|position| (position, placement.rank(list[position])));
                for (position, rank) in others.filter(|(_, rank)| *rank != 0) {
                    let read = || response::<A>(mailbox.item(rank)?);
                    if !buffer.put_when_next(position, &name, read) {
                        break;
                    }
                }
            },
        )
    }

    /// Has a request handled once by each rank that has clients of a list.
    fn by_ranks(
        &mut self,
        request: &Request<A::Broadcast>,
        list: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<()> {
        let own = rank_files::handle(&self.clients, &self.placement, 0, request, list);
        let mut responses: Vec<_> = own?.into_iter().collect();
        for rank in self.mailbox.cluster.others() {
            if !self.placement.of(rank, list).is_empty() {
                responses.push(response::<A>(self.mailbox.item(rank)?)?);
            }
        }
        let first = list.first().copied().unwrap_or_default();
        (responses.into_iter()).try_for_each(|response| on_response(first, response))
    }
}

/// Reads the response of another rank.
fn response<A: Algorithm>(item: &[u8]) -> Result<Response<A::Update>> {
    let (body, packed) = split::<PackedResponse>(item)?;
    packed.unpack::<A>(body)
}

impl<A: Algorithm> Engine<A> for Mpi<A> {
    fn exchange(
        &mut self,
        request: &Request<A::Broadcast>,
        list: &[usize],
        on_response: &mut OnResponse<'_, A::Update>,
    ) -> Result<Vec<usize>> {
        let mut body = Body::default();
        let packed = body.request::<A>(request);
        let order = Order::Handle {
            request: Box::new(packed),
            clients: list.to_vec(),
        };
        self.mailbox.order(order, body.into_bytes());
        let result = if request.is_for_processes() {
            self.by_ranks(request, list, on_response)
        } else {
            let result = (self.clients.begin(request, &self.placement.of(0, list)))
                .and_then(|()| self.in_order(request, list, on_response));
            if result.is_err() {
                self.mailbox.cancel();
            }
            result.and_then(|()| self.clients.end())
        };
        let rest = self.mailbox.finish();
        result.and(rest)?;
        Ok(Vec::new())
    }
}
