//! What the server and a site send each other.

use serde::{Deserialize, Serialize};

use crate::choice::{Candidate, Pass};
use crate::clients::wire::{PackedRequest, PackedResponse, split};
use crate::digest::hex;
use crate::error::{Result, SiteCode};
use crate::pack::{Arrays, Field, Pack, PackError, View};

/// The version of a client state: the round after which it is current, and its digest. Round 0:
/// the state that a client joins with.
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
            problem: "is not of 32 bytes".into(),
        })?;
        Ok(Self { round, digest })
    }
}

/// Returns the arrays of any version.
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
    /// Describe the table, given what the federation is to be.
    Survey(Vec<u8>),
    /// Accept what all agreed on.
    Agree(Vec<u8>),
    /// Handle requests for the site's client.
    Handle(Box<ClientRequest>),
}

/// Requests for one client, with what they rest on.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClientRequest {
    /// The hash of what all agreed on.
    pub agreement: String,
    /// The client's index.
    pub client: usize,
    /// The pass of a choice, where there is one.
    pub pass: Option<Pass>,
    /// What the client has chosen, where it has.
    pub choice: Option<Candidate>,
    /// The client state to start from.
    pub state: StateVersion,
    /// Client states of rounds before this one are not needed any more.
    pub floor: u64,
    /// What is asked for, in this order.
    pub requests: Vec<PackedRequest>,
}

/// A site's response.
#[derive(Debug, Serialize, Deserialize)]
pub struct SiteResponse {
    /// The digest of the request that it answers.
    pub to: [u8; 32],
    /// What came of it; or a code, for no error's text leaves a site.
    pub result: std::result::Result<Outcome, SiteCode>,
}

/// What came of a request to a site.
#[derive(Debug, Serialize, Deserialize)]
pub enum Outcome {
    /// The description of its table.
    Surveyed(Vec<u8>),
    /// It accepts what all agreed on.
    Agreed,
    /// Its client's responses.
    Handled(Handled),
}

/// A client's responses.
#[derive(Debug, Serialize, Deserialize)]
pub struct Handled {
    /// One for each request, in their order.
    pub responses: Vec<PackedResponse>,
    /// The digest of the client state after training, where it trained.
    pub state: Option<[u8; 32]>,
    /// Whether the state it should start from was not there.
    pub lost: bool,
}

/// Returns body and response of a message from a site.
pub(super) fn opened(bytes: &[u8]) -> Result<(&[u8], SiteResponse)> {
    split(bytes)
}
