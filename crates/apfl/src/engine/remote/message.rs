//! Messages between the server and a site.

use serde::{Deserialize, Serialize};

use crate::choice::{Candidate, Pass};
use crate::clients::wire::{PackedRequest, PackedResponse, split};
use crate::digest::hex;
use crate::error::{Result, SiteCode};
use crate::pack::{Arrays, Pack, PackError, View};

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

/// What a checkpoint records of a client: the version of its state, and that of the checkpoint
/// before, which a resumed run may still return to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SavedVersions {
    pub current: StateVersion,
    pub before: StateVersion,
}

/// The prefix of the arrays of the version before.
const BEFORE: &str = "before_";

impl Pack for SavedVersions {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        self.current.visit(see);
        self.before
            .visit(&mut |name, view| see(&format!("{BEFORE}{name}"), view));
    }

    fn unpack(arrays: &mut Arrays) -> std::result::Result<Self, PackError> {
        let current = StateVersion::unpack(arrays)?;
        let names = arrays.0.keys().filter_map(|name| name.strip_prefix(BEFORE));
        let names: Vec<String> = names.map(str::to_owned).collect();
        let mut before = Arrays::default();
        for name in names {
            if let Some(array) = arrays.0.remove(&format!("{BEFORE}{name}")) {
                before.0.insert(name, array);
            }
        }
        let before = StateVersion::unpack(&mut before)?;
        Ok(Self { current, before })
    }
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
    /// The candidate that the client has chosen, if any.
    pub choice: Option<Candidate>,
    /// The client state to start from.
    pub state: StateVersion,
    /// The states that the last two checkpoints need, oldest first. Except for these, the state
    /// to start from, and the one that this request makes, none is named again.
    pub checkpoints: [StateVersion; 2],
    /// The requests, in order.
    pub requests: Vec<PackedRequest>,
}

impl ClientRequest {
    /// Returns the round that the client trains, if it trains one.
    pub fn trains(&self) -> Option<u64> {
        match self.requests.last() {
            Some(PackedRequest::Train { round, .. }) => Some(*round),
            _ => None,
        }
    }
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
