//! The leader's orders to the other ranks and their results.

use std::collections::VecDeque;
use std::ops::Range;

use super::cluster::Cluster;
use super::message::{Envelope, Failure, Order, ParcelTail};
use crate::clients::wire::{encode, split};
use crate::error::{Error, Result};

/// Sends orders to the other ranks and receives their results.
pub struct Mailbox {
    pub cluster: Cluster,
    boxes: Vec<Inbox>,
}

#[derive(Default)]
struct Inbox {
    /// The latest parcel, and the byte ranges of its items that were not taken yet.
    parcel: Vec<u8>,
    items: VecDeque<Range<usize>>,
    /// Set when the last item has arrived; holds the failure, if any.
    last: Option<Option<Failure>>,
}

impl Mailbox {
    /// Creates a mailbox without messages.
    pub fn new(cluster: Cluster) -> Self {
        let boxes = std::iter::repeat_with(Inbox::default);
        Self {
            cluster,
            boxes: boxes.take(cluster.ranks).collect(),
        }
    }

    /// Sends an order with its body to all other ranks.
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

    /// Returns the next item of a rank.
    pub fn item(&mut self, rank: usize) -> Result<&[u8]> {
        while self.boxes[rank].items.is_empty() {
            match &self.boxes[rank].last {
                Some(Some(failure)) => return Err(failure.clone().error()),
                Some(None) => {
                    let problem = format!("rank {rank} sent fewer results than were requested");
                    return Err(Error::Engine(problem));
                }
                None => self.fetch(rank)?,
            }
        }
        let inbox = &mut self.boxes[rank];
        let range = inbox.items.pop_front().expect("the loop ends with an item");
        Ok(&inbox.parcel[range])
    }

    fn fetch(&mut self, rank: usize) -> Result<()> {
        let parcel = self.cluster.receive(rank);
        let (body, tail): (_, ParcelTail) = split(&parcel)?;
        let mut start = 0usize;
        let mut items = VecDeque::new();
        for length in tail.items {
            let end = start.checked_add(length).filter(|end| *end <= body.len());
            let end =
                end.ok_or_else(|| Error::Engine(format!("a message of rank {rank} is truncated")))?;
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

    /// Cancels the last order on all ranks that still work on it.
    pub fn cancel(&self) {
        let envelope = encode(&Envelope {
            order: Order::Cancel,
            bytes: 0,
        });
        for rank in self.cluster.others() {
            if self.boxes[rank].last.is_none() {
                self.cluster.send(rank, &envelope);
            }
        }
    }

    /// Receives what is still in flight, so that all ranks are ready for the next order.
    pub fn finish(&mut self) -> Result<()> {
        let mut first = None;
        for rank in self.cluster.others() {
            while self.boxes[rank].last.is_none() {
                self.fetch(rank)?;
                self.boxes[rank].items.clear();
            }
            if let Some(Some(failure)) = &self.boxes[rank].last {
                first.get_or_insert_with(|| failure.clone());
            }
        }
        first.map_or(Ok(()), |failure: Failure| Err(failure.error()))
    }
}
