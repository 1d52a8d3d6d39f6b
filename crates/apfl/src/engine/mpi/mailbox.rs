//! What the leader says to the other ranks, and what comes back from them.

use std::collections::VecDeque;
use std::ops::Range;

use super::cluster::Cluster;
use super::message::{Envelope, Failure, Order, ParcelTail};
use crate::clients::wire::{encode, split};
use crate::error::{Error, Result};

/// What has come from the other ranks.
pub struct Mailbox {
    pub cluster: Cluster,
    boxes: Vec<Inbox>,
}

#[derive(Default)]
struct Inbox {
    /// The latest parcel, and where the items not yet taken are in it.
    parcel: Vec<u8>,
    items: VecDeque<Range<usize>>,
    /// Whether the last item has come, and what went wrong.
    last: Option<Option<Failure>>,
}

impl Mailbox {
    /// Nothing said yet.
    pub fn new(cluster: Cluster) -> Self {
        let boxes = std::iter::repeat_with(Inbox::default);
        Self {
            cluster,
            boxes: boxes.take(cluster.ranks).collect(),
        }
    }

    /// Gives an order to all other ranks, and the bytes that go with it.
    pub fn order(&mut self, order: Order, mut bytes: Vec<u8>) {
        let envelope = encode(&Envelope {
            order,
            bytes: bytes.len(),
        });
        for rank in self.cluster.others() {
            self.boxes[rank] = Inbox::default();
            self.cluster.send(rank, &envelope);
        }
        self.cluster.broadcast(&mut bytes);
    }

    /// The next item of a rank.
    pub fn item(&mut self, rank: usize) -> Result<&[u8]> {
        while self.boxes[rank].items.is_empty() {
            match &self.boxes[rank].last {
                Some(Some(failure)) => return Err(failure.clone().error()),
                Some(None) => {
                    let problem = format!("rank {rank} sent less than it was asked for");
                    return Err(Error::Engine(problem));
                }
                None => self.fetch(rank)?,
            }
        }
        let inbox = &mut self.boxes[rank];
        let place = inbox.items.pop_front().expect("there is one now");
        Ok(&inbox.parcel[place])
    }

    fn fetch(&mut self, rank: usize) -> Result<()> {
        let parcel = self.cluster.receive(rank);
        let (body, tail): (_, ParcelTail) = split(&parcel)?;
        let mut start = 0usize;
        let mut items = VecDeque::new();
        for length in tail.items {
            let end = start.checked_add(length).filter(|end| *end <= body.len());
            let end =
                end.ok_or_else(|| Error::Engine(format!("a parcel of rank {rank} is too short")))?;
            items.push_back(start..end);
            start = end;
        }
        self.boxes[rank] = Inbox {
            parcel,
            items,
            last: tail.last,
        };
        Ok(())
    }

    /// Tells everybody to leave what they are doing for the last order.
    pub fn leave(&self) {
        let envelope = encode(&Envelope {
            order: Order::Leave,
            bytes: 0,
        });
        for rank in self.cluster.others() {
            if self.boxes[rank].last.is_none() {
                self.cluster.send(rank, &envelope);
            }
        }
    }

    /// Takes what is still on its way, so that a next order finds everybody ready.
    pub fn finish(&mut self) -> Result<()> {
        let mut non_finite = None;
        for rank in self.cluster.others() {
            while self.boxes[rank].last.is_none() {
                self.fetch(rank)?;
                self.boxes[rank].items.clear();
            }
            if let Some(Some(problem)) = &self.boxes[rank].last {
                non_finite.get_or_insert_with(|| problem.clone());
            }
        }
        non_finite.map_or(Ok(()), |failure: Failure| Err(failure.error()))
    }
}
