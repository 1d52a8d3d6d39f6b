//! What can go wrong, in words a user can act on.

use std::path::{Path, PathBuf};

use crate::settings::Problems;

/// The library's error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request itself is wrong: nothing was done.
    #[error("{0}")]
    Spec(Problems),
    /// A request that cannot be carried out as given, in one sentence.
    #[error("{0}")]
    Request(String),
    /// The content of a file, or of what is in memory, is wrong.
    #[error("{0}")]
    Data(String),
    /// A client's loss is not a finite number any more.
    #[error(
        "the loss of client '{client}' became {loss} {place}; a smaller training.learning_rate \
         or standardized features usually help"
    )]
    NonFinite {
        /// The client's name.
        client: String,
        /// When: "in round 3, local step 7", …
        place: String,
        /// The loss itself: inf or NaN.
        loss: f64,
    },
    /// Asked to stop, in one sentence that says how to go on.
    #[error("{0}")]
    Interrupted(String),
    /// The operating system said no.
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What was tried: "read", "write", …
        action: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
}

/// A result with the library's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// 2 where the request was wrong, 1 where it could not be done.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Spec(_) | Error::Request(_) => 2,
            _ => 1,
        }
    }
}

/// Adds path and action to a system error.
pub(crate) fn at<'a>(
    path: &'a Path,
    action: &'static str,
) -> impl FnOnce(std::io::Error) -> Error + use<'a> {
    move |source| Error::File {
        path: path.into(),
        action,
        source,
    }
}
