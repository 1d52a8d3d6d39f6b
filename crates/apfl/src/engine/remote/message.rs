//! Messages between the server and a site.

use serde::{Deserialize, Serialize};

use crate::choice::{Candidate, Pass};
use crate::clients::wire::{PackedRequest, PackedResponse, split};
use crate::digest::hex;
use crate::error::{Result, SiteCode};
use crate::pack::{Arrays, Field, Pack, PackError, View};

/// The version of a client state: the round that made it, and its digest. Round 0 is the initial
/// state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateVersion {
    /// The round.
    pub round: u64,
    /// The digest.
    pub digest: [u8; 32],
}

impl StateVersion {
    /// Returns the name of its file at the site.
    pub fn name(&self) -> String {
        format!("memory-{}-{}", self.round, &hex(&self.digest)[..16])
    }
}

impl Pack for StateVersion {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("round", View::U64(&[self.round]));
        let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("eight bytes"));
        let words: Vec<u64> = self.digest.chunks_exact(8).map(word).collect();
        see("digest", View::U64(&words));
    }

    fn unpack(arrays: &mut Arrays) -> std::result::Result<Self, PackError> {
        let round = arrays.count("round")?;
        let digest: Vec<u8> = (arrays.u64("digest")?.iter())
            .flat_map(|word| word.to_le_bytes())
            .collect();
        let digest = digest.try_into().map_err(|_| PackError {
            name: "digest".into(),
            problem: "does not have 32 bytes".into(),
        })?;
        Ok(Self { round, digest })
    }
}

/// Returns the fields of a packed version.
pub(super) fn version_fields() -> Vec<Field> {
    StateVersion {
        round: 0,
        digest: [0; 32],
    }
    .fields()
}

/// A request to a site.
#[derive(Debug, Serialize, Deserialize)]
pub enum SiteRequest {
    /// Describe the site's table, given the terms.
    Survey(Vec<u8>),
    /// Accept the agreement.
    Agree(Vec<u8>),
    /// Handle requests for the site's client.
    Handle(Box<ClientRequest>),
}

/// Requests for one client, with the state they start from.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClientRequest {
    /// The hash of the agreement.
    pub agreement: String,
    /// The client's index.
    pub client: usize,
    /// The pass of a choice, if it is one.
    pub pass: Option<Pass>,
    /// The learning rate, if it is not the planned one.
    pub rate: Option<f64>,
    /// The candidate that the client has chosen, if any.
    pub choice: Option<Candidate>,
    /// The client state to start from.
    pub state: StateVersion,
    /// Client states of earlier rounds are no longer needed.
    pub floor: u64,
    /// The requests, in order.
    pub requests: Vec<PackedRequest>,
}

/// A site's response.
#[derive(Debug, Serialize, Deserialize)]
pub struct SiteResponse {
    /// The digest of its request.
    pub to: [u8; 32],
    /// The outcome, or a code: the text of an error stays at the site.
    pub result: std::result::Result<Outcome, SiteCode>,
}

/// The outcome of a request to a site.
#[derive(Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// Its survey.
    Surveyed(Vec<u8>),
    /// It accepts the agreement.
    Agreed,
    /// Its client's responses.
    Handled(Handled),
}

/// A client's responses.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handled {
    /// One for each request, in order.
    pub responses: Vec<PackedResponse>,
    /// The digest of the client state after training, if it trained.
    pub state: Option<[u8; 32]>,
    /// Whether the state it should start from was missing.
    pub lost: bool,
}

/// Decodes the body and the response of a site's message.
pub(super) fn read_response(bytes: &[u8]) -> Result<(&[u8], SiteResponse)> {
    split(bytes)
}
