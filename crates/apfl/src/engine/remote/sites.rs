//! The sites of a federation and the transport of messages.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::message::{SiteResponse, read_response};
use super::serve::Disclose;
use crate::digest::digest_of_chunks;
use crate::error::{Result, SiteCode};

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
    /// Carries requests to sites and returns the responses that arrived in time, in any order. A
    /// request may arrive twice, and a site may not respond.
    ///
    /// # Errors
    /// A failure of the transport itself. A site that does not respond is not an error.
    fn exchange(&mut self, requests: Vec<Message>) -> Result<Vec<Message>>;

    /// Reports a message to the operator.
    fn note(&mut self, _text: &str) {}
}

/// The sites of a federation and the transport to them.
#[derive(Clone)]
pub struct Sites {
    transport: Arc<Mutex<dyn Transport>>,
    /// The hash of the agreement.
    pub(super) agreement: String,
    /// The least number of sites that must respond.
    pub(super) min_sites: usize,
    /// Whether they disclose their final scores.
    pub(in crate::engine) discloses_scores: bool,
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
    /// Creates sites with an agreement of that hash.
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
            discloses_scores: disclose.scores,
        }
    }

    /// Reports a message to the operator.
    pub(super) fn note(&self, text: &str) {
        let transport = self.transport.lock();
        (transport.unwrap_or_else(PoisonError::into_inner)).note(text);
    }

    /// Carries requests. Returns each client's first response to its request, which has the code
    /// [`SiteCode::Garbled`] if the client sent nothing that can be read.
    pub(crate) fn exchange(
        &self,
        requests: Vec<Message>,
    ) -> Result<BTreeMap<usize, (SiteResponse, Vec<u8>)>> {
        let digest = |request: &Message| (request.client, digest_of_chunks([&request.bytes[..]]));
        let digests: BTreeMap<usize, [u8; 32]> = requests.iter().map(digest).collect();
        let transport = self.transport.lock();
        let received = (transport.unwrap_or_else(PoisonError::into_inner)).exchange(requests)?;
        let mut responses = BTreeMap::new();
        let mut unreadable = Vec::new();
        for Message { client, bytes } in received {
            let Ok((body, response)) = read_response(&bytes) else {
                unreadable.extend(digests.get(&client).map(|to| (client, *to)));
                continue;
            };
            // A late response to an earlier request does not count.
            if digests.get(&client) == Some(&response.to) {
                responses.entry(client).or_insert((response, body.to_vec()));
            }
        }
        for (client, to) in unreadable {
            let result = Err(SiteCode::Garbled);
            responses
                .entry(client)
                .or_insert((SiteResponse { to, result }, Vec::new()));
        }
        Ok(responses)
    }
}
