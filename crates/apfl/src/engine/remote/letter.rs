//! What letters say.

use serde::{Deserialize, Serialize};

use super::*;
use crate::engine::message::{ReplyTail, split};
use crate::pack::{PackError, View};

/// A client's memory: the round after which it is current, and its digest. 0: w⁰'s.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryVersion {
    /// The round.
    pub round: u64,
    /// The digest.
    pub digest: [u8; 32],
}

impl MemoryVersion {
    /// What it is called at its site.
    pub fn name(&self) -> String {
        format!("memory-{}-{}", self.round, &hex(&self.digest)[..16])
    }
}

impl Pack for MemoryVersion {
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

/// The arrays of any memory's version.
pub(super) fn version_fields() -> Vec<Field> {
    MemoryVersion {
        round: 0,
        digest: [0; 32],
    }
    .fields()
}

/// What a site is asked.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// What the federation is to be: the site tells what its table looks like.
    Survey(Vec<u8>),
    /// What all agreed on.
    Agree(Vec<u8>),
    /// Work.
    Work(Box<Errand>),
}

/// Work for one client. With it comes what is sent to clients, and the shared model.
#[derive(Debug, Serialize, Deserialize)]
pub struct Errand {
    /// The hash of what all agreed on.
    pub agreement: String,
    /// The client's index.
    pub client: usize,
    /// The pass of a choice, where there is one.
    pub pass: Option<Pass>,
    /// What the client has chosen, where it has.
    pub choice: Option<Candidate>,
    /// The memory to start from.
    pub memory: MemoryVersion,
    /// Memories of rounds before this one are not needed any more.
    pub floor: u64,
    /// Before the rest, the shared model is scored.
    pub score: Option<ScoreErrand>,
    /// What is to be done, for that client alone.
    pub order: Option<Order>,
}

/// A shared model to score.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScoreErrand {
    /// The round after which it is the shared model.
    pub round: u64,
    /// Where it begins in what comes with the letter, and its bytes.
    pub shared: (usize, usize),
}

/// A site's answer. With it comes the update.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The digest of the letter that it answers.
    pub to: [u8; 32],
    /// What was done; or a code, for no error's text leaves a site.
    pub result: std::result::Result<Done, SiteCode>,
}

/// What a site has done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Done {
    /// Scores of the shared model.
    pub shared: Option<Tallies>,
    /// What came of the order.
    pub fruit: Fruit,
    /// Whether the memory it should start from was not there.
    pub lost: bool,
}

/// What comes of an order.
#[derive(Debug, Serialize, Deserialize)]
pub enum Fruit {
    /// Nothing was ordered.
    Nothing,
    /// What a site tells of its table.
    Survey(Vec<u8>),
    /// The reply, but for its update, and the digest of the new memory.
    Trained {
        /// None where its loss was not finite and it is left out.
        reply: Option<ReplyTail>,
        /// The digest.
        digest: [u8; 32],
    },
    /// Losses on held-out rows.
    HeldOut(Option<HeldOut>),
    /// Final scores.
    Delivered(Option<Box<Delivered>>),
}

/// Body and answer of a letter.
pub(super) fn opened(bytes: &[u8]) -> Result<(&[u8], Answer)> {
    split(bytes)
}

/// Where those bytes are one of the arrays that are sent, so that they need not be sent twice.
pub(super) fn place_of(shared: &[u8], sent: &[u8], fields: &[Field]) -> Option<usize> {
    let mut start = 0;
    for field in fields {
        let own = start..start + field.bytes();
        let same = field.kind == NumberType::F32 && sent.get(own.clone()) == Some(shared);
        if same && !shared.is_empty() {
            return Some(start);
        }
        start = own.end;
    }
    None
}
