//! What ranks send each other beside requests and responses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::choice::Pass;
use crate::clients::wire::PackedRequest;
use crate::error::Error;

/// What the leader wants done.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Get ready for a pass of a choice, where there is one; client states in a file of this
    /// name and so many bytes of RAM, if any.
    Begin {
        disk: Option<(PathBuf, usize)>,
        pass: Option<Pass>,
    },
    /// Handle a request. Clients are those of all ranks; each handles it for its own.
    Handle {
        request: Box<PackedRequest>,
        clients: Vec<usize>,
    },
    /// Leave the request that is being handled; nothing if it is handled already.
    Leave,
    /// No more orders.
    End,
}

/// An order, and how many bytes of body come with it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub order: Order,
    pub bytes: usize,
}

/// The end of a parcel: the sizes of the items in it, and whether it is the last.
#[derive(Default, Serialize, Deserialize)]
pub struct ParcelTail {
    pub items: Vec<usize>,
    /// Where it is: nothing, or what went wrong.
    pub last: Option<Option<Failure>>,
}

/// What went wrong in another process: with its kind where a caller may want to know it.
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

impl Failure {
    /// Describes an error of a process of that name.
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

    /// Returns the error that it describes.
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
