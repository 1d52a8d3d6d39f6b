//! The sites of a federation, and the transport of messages to them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::message::{SiteResponse, opened};
use super::serve::Disclose;
use crate::digest::digest_of_chunks;
use crate::error::Result;

/// A message to a client's site, or from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The client's index.
    pub client: usize,
    /// The request or response, as opaque bytes.
    pub bytes: Vec<u8>,
}

/// Carries messages between the server and the sites.
pub trait Transport: Send {
    /// Carries requests to sites and returns the responses that came in time, in any order. A
    /// request may arrive twice, and a site may not respond.
    ///
    /// # Errors
    /// A failure of the transport itself; a site that does not respond is none.
    fn exchange(&mut self, requests: Vec<Message>) -> Result<Vec<Message>>;

    /// Receives what an operator should know.
    fn note(&mut self, _text: &str) {}
}

/// The sites of a federation, and how they are reached.
#[derive(Clone)]
pub struct Sites {
    transport: Arc<Mutex<dyn Transport>>,
    /// The hash of what all agreed on.
    pub(super) agreement: String,
    /// How many must answer, of as many as are asked.
    pub(super) min_sites: usize,
    /// Whether they tell their final scores.
    pub(in crate::engine) tells_scores: bool,
}

impl fmt::Debug for Sites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sites")
            .field("agreement", &self.agreement)
            .field("min_sites", &self.min_sites)
            .finish_non_exhaustive()
    }
}

impl Sites {
    /// Sites that agreed on what has that hash.
    pub fn new(
        transport: Arc<Mutex<dyn Transport>>,
        agreement: String,
        min_sites: usize,
        disclose: Disclose,
    ) -> Self {
        Self {
            transport,
            agreement,
            min_sites,
            tells_scores: disclose.scores,
        }
    }

    /// Tells an operator.
    pub(super) fn note(&self, text: &str) {
        let transport = self.transport.lock();
        (transport.unwrap_or_else(PoisonError::into_inner)).note(text);
    }

    /// Carries requests; returns each client's first response to its request, by client.
    pub(crate) fn exchange(
        &self,
        requests: Vec<Message>,
    ) -> Result<BTreeMap<usize, (SiteResponse, Vec<u8>)>> {
        let of = |request: &Message| (request.client, digest_of_chunks([&request.bytes[..]]));
        let asked: BTreeMap<usize, [u8; 32]> = requests.iter().map(of).collect();
        let transport = self.transport.lock();
        let received = (transport.unwrap_or_else(PoisonError::into_inner)).exchange(requests)?;
        let mut responses = BTreeMap::new();
        for Message { client, bytes } in received {
            let Ok((body, response)) = opened(&bytes) else {
                self.note(&format!("a response of client {client} cannot be read"));
                continue;
            };
            // Late responses to earlier requests do not count.
            if asked.get(&client) == Some(&response.to) {
                responses.entry(client).or_insert((response, body.to_vec()));
            }
        }
        Ok(responses)
    }
}
