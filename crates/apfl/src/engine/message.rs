//! What processes say to each other: orders and answers as bytes.
//!
//! Down go orders and, with them, what the algorithm broadcasts. Back come parcels: for
//! every client what its update declares, its scores and α as a number; and a word at the
//! end. No example and no memory is in any of them; a personal model only where a caller
//! within one trust domain asks for it to be handed over at delivery.

use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::choice::{Candidate, Pass};
use crate::clients::Reply;
use crate::error::{Error, Result};
use crate::metrics::Tallies;
use crate::pack::{Field, ModelOnly, NumberType, Pack, arrays_of};
use crate::params::Params;

/// What the leader wants done. Clients are those of all ranks; each takes its own.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Get ready for a pass of a choice, where there is one; memories in a file of this name
    /// and so many bytes of RAM, if any.
    Begin {
        disk: Option<(PathBuf, usize)>,
        pass: Option<Pass>,
    },
    /// Train. With it comes what is sent to clients.
    Train {
        round: u64,
        sent: Vec<Field>,
        cohort: Vec<usize>,
        score: bool,
    },
    /// Score the model that comes with it.
    Score { round: u64, cohort: Vec<usize> },
    /// Measure everything there is to choose from on held-out rows. With it comes what is
    /// sent to clients.
    HoldOut {
        round: u64,
        sent: Vec<Field>,
        clients: Vec<usize>,
    },
    /// What clients have chosen: a number each, as every round reports it within one trust
    /// domain.
    Choose { choices: Vec<(usize, Candidate)> },
    /// Deliver. With it come what is sent to clients and the shared model.
    Deliver {
        round: u64,
        sent: Vec<Field>,
        clients: Vec<usize>,
        keep: KeepOrder,
    },
    /// Digest memories.
    Digests { clients: Vec<usize> },
    /// Stream memories into the archive of that directory.
    Save {
        archive: PathBuf,
        name: String,
        clients: Vec<usize>,
    },
    /// Take memories out of a part of the archive of that directory.
    Restore {
        archive: PathBuf,
        part: String,
        clients: Vec<usize>,
    },
    /// Leave the order that is being carried out; nothing if it is done already.
    Leave,
    /// No more orders.
    End,
}

/// What becomes of the models that delivery makes.
#[derive(Debug, Serialize, Deserialize)]
pub enum KeepOrder {
    /// Nothing.
    Nothing,
    /// They come back with the scores: for one trust domain only.
    HandOver,
    /// Whoever owns the client keeps them, out of the leader's sight.
    There,
    /// They go into these files: personal, localized, local, and alone where there is one.
    In([SlotPlace; 3], Option<SlotPlace>),
}

/// Path, head and size of a slot of a file of slots.
pub type SlotPlace = (PathBuf, u64, usize);

/// An order, and how many bytes come with it.
#[cfg(feature = "mpi")]
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub order: Order,
    pub bytes: usize,
}

/// What a client's reply has beside its update.
#[derive(Debug, Serialize, Deserialize)]
pub struct ReplyTail {
    pub tallies: Option<(Tallies, Tallies)>,
    pub candidates: Vec<(f64, Tallies)>,
    pub mixing: Option<f32>,
    pub steps: u64,
    pub update: Vec<Field>,
}

impl ReplyTail {
    /// A reply as the bytes of its update and the rest.
    pub fn of<U: Pack>(reply: Reply<U>) -> (Vec<u8>, Self) {
        let tail = Self {
            tallies: reply.tallies,
            candidates: reply.candidates,
            mixing: reply.mixing,
            steps: reply.steps,
            update: reply.update.fields(),
        };
        (reply.update.to_bytes(), tail)
    }

    /// The reply again.
    pub fn reply<U: Pack>(self, update: &[u8]) -> Result<Reply<U>> {
        Ok(Reply {
            update: unpacked(&self.update, update)?,
            tallies: self.tallies,
            candidates: self.candidates,
            mixing: self.mixing,
            steps: self.steps,
        })
    }
}

/// The end of a parcel: the sizes of the items in it, and whether it is the last.
#[cfg(feature = "mpi")]
#[derive(Default, Serialize, Deserialize)]
pub struct ParcelTail {
    pub items: Vec<usize>,
    /// Where it is: nothing, or what went wrong.
    pub last: Option<Option<Failure>>,
}

/// What went wrong in another process: with its kind where a caller may want to know it.
#[cfg(feature = "mpi")]
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Failure {
    /// [`Error::NonFinite`]
    NonFinite {
        client: String,
        place: String,
        loss: f64,
    },
    /// [`Error::Panic`]
    Panic { client: String, message: String },
    /// Any other, in words that name the process.
    Other(String),
}

#[cfg(feature = "mpi")]
impl Failure {
    /// What is told of an error by a process of that name.
    pub fn of(error: &Error, process: impl FnOnce() -> String) -> Self {
        match error {
            Error::NonFinite {
                client,
                place,
                loss,
            } => Failure::NonFinite {
                client: client.clone(),
                place: place.clone(),
                loss: *loss,
            },
            Error::Panic { client, message } => Failure::Panic {
                client: client.clone(),
                message: message.clone(),
            },
            other => Failure::Other(format!("{}: {other}", process())),
        }
    }

    /// The error that it was.
    pub fn error(self) -> Error {
        match self {
            Failure::NonFinite {
                client,
                place,
                loss,
            } => Error::NonFinite {
                client,
                place,
                loss,
            },
            Failure::Panic { client, message } => Error::Panic { client, message },
            Failure::Other(words) => Error::Engine(words),
        }
    }
}

/// A value as bytes.
pub fn encode(value: &impl Serialize) -> Vec<u8> {
    postcard::to_stdvec(value).expect("plain values")
}

/// The value of those bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|e| garbled(&e.to_string()))
}

/// A body with a tail behind it, so that long bodies are not copied.
pub fn joined(mut body: Vec<u8>, tail: &impl Serialize) -> Vec<u8> {
    let tail = encode(tail);
    body.extend_from_slice(&tail);
    body.extend_from_slice(&(tail.len() as u32).to_le_bytes());
    body
}

/// Body and tail again.
pub fn split<T: DeserializeOwned>(bytes: &[u8]) -> Result<(&[u8], T)> {
    let short = || garbled("too short");
    let (rest, length) = bytes.split_last_chunk().ok_or_else(short)?;
    let length = u32::from_le_bytes(*length) as usize;
    let body = rest.len().checked_sub(length).ok_or_else(short)?;
    let (body, tail) = rest.split_at(body);
    Ok((body, decode(tail)?))
}

/// The value of those arrays.
pub fn unpacked<P: Pack>(fields: &[Field], bytes: &[u8]) -> Result<P> {
    arrays_of(fields, bytes)
        .and_then(|mut arrays| P::unpack(&mut arrays))
        .map_err(|e| garbled(&e.to_string()))
}

/// A model, or several one after the other.
pub fn params_of(bytes: &[u8]) -> Result<Params> {
    let field = Field {
        name: "model".into(),
        kind: NumberType::F32,
        len: bytes.len() / 4,
    };
    let one: ModelOnly = unpacked(&[field], bytes)?;
    Ok(one.model)
}

fn garbled(why: &str) -> Error {
    Error::Engine(format!(
        "a message of another process cannot be read ({why}); do all run the same program?"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_comes_back_from_its_bytes() {
        let update = ModelOnly {
            model: vec![1.5, f32::MIN_POSITIVE, -0.0],
        };
        let mut tallies = Tallies::default();
        tallies.valid.loss = 0.1 + 0.2;
        let tail = ReplyTail {
            tallies: Some((tallies, Tallies::default())),
            candidates: vec![(0.5, tallies)],
            mixing: Some(0.3),
            steps: 7,
            update: update.fields(),
        };
        let bytes = joined(update.to_bytes(), &tail);
        let (body, there): (_, ReplyTail) = split(&bytes).unwrap();
        assert_eq!(there.tallies, tail.tallies);
        assert_eq!(there.candidates, tail.candidates);
        assert_eq!((there.mixing, there.steps), (Some(0.3), 7));
        let same: ModelOnly = unpacked(&there.update, body).unwrap();
        assert_eq!(same.to_bytes(), update.to_bytes());
        for start in 1..bytes.len() {
            let cut = split::<ReplyTail>(&bytes[start..]);
            let read = cut.and_then(|(body, t)| unpacked::<ModelOnly>(&t.update, body));
            assert!(read.is_err(), "without the first {start} bytes");
        }
    }
}
