//! Messages between ranks, besides requests and responses.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::choice::Pass;
use crate::clients::wire::PackedRequest;
use crate::error::Error;

/// An order of the leader.
#[derive(Debug, Serialize, Deserialize)]
pub enum Order {
    /// Prepare for a run, or for a pass of a choice. `disk`: the file of client states and the
    /// bytes of RAM for them; without it they are in RAM.
    Begin {
        disk: Option<(PathBuf, usize)>,
        pass: Option<Pass>,
        /// The learning rate, if it is not the planned one.
        rate: Option<f64>,
    },
    /// Handle a request. `clients` are those of all ranks; each rank handles its own.
    Handle {
        request: Box<PackedRequest>,
        clients: Vec<usize>,
    },
    /// Cancel the request that is being handled; without effect if it is already handled.
    Cancel,
    /// End the job.
    End,
}

/// An order and the size of its body in bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct Envelope {
    pub order: Order,
    pub bytes: usize,
}

/// The end of a parcel: the sizes of its items, and whether it is the last.
#[derive(Default, Serialize, Deserialize)]
pub struct ParcelTail {
    pub items: Vec<usize>,
    /// Set for the last parcel; holds the failure, if any.
    pub last: Option<Option<Failure>>,
}

/// An error of another process, with the variants that callers match on.
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
    /// Any other error, with the name of the process.
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
            Failure::Other(message) => Error::Engine(message),
        }
    }
}
