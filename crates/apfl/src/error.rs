//! The library's errors, with messages that a user can act on.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::settings::Problems;

/// Represents a failure of the library, by kind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The spec is invalid; nothing was done.
    #[error("{0}")]
    Spec(Problems),
    /// A request that cannot be carried out; nothing was done.
    #[error("{0}")]
    Request(String),
    /// The content of a file or of data in memory is invalid.
    #[error("{0}")]
    Data(DataError),
    /// The files of a published data set are missing.
    #[error("{}: contains neither {file} nor {file}.gz; set data.dir to the folder that does",
        folder.display())]
    NoData {
        /// The kind of data.
        kind: String,
        /// The folder.
        folder: PathBuf,
        /// The missing file.
        file: String,
    },
    /// A client's loss is not finite.
    #[error(
        "the loss of client '{client}' became {loss} {place}; set training.learning_rate to \"auto\" \
         or to a smaller number"
    )]
    NonFinite {
        /// The client's name.
        client: String,
        /// When: "in round 3, local step 7", …
        place: String,
        /// The loss: inf or NaN.
        loss: f64,
    },
    /// The computation of a client panicked: a defect of a model or an algorithm.
    #[error("the work of client '{client}' panicked: {message}")]
    Panic {
        /// The client's name.
        client: String,
        /// The panic's message.
        message: String,
    },
    /// A run directory or its checkpoints do not allow the operation.
    #[error("{0}")]
    Checkpoint(String),
    /// Another process uses the directory.
    #[error("{}: in use by {holder}; nothing was touched", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process and its start: "process 4711 since …".
        holder: String,
    },
    /// The run directory is of another release.
    #[error(
        "{}: is of format {found}, this program writes {known}; runs of earlier releases can be \
         read, reported, exported and used for prediction, but not continued; start the run again \
         in another directory", path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// The file's format.
        found: u32,
        /// This program's format.
        known: u32,
    },
    /// Another version started the run, so the result may differ in the last bits.
    #[error(
        "the run was begun by version {then}, this is version {now}; the result may differ in the \
         last bits"
    )]
    OtherProgram {
        /// The version that started it.
        then: String,
        /// This version.
        now: String,
    },
    /// Too few sites responded.
    #[error(
        "{when} only {responded} sites gave a usable response in time, but at least {required} must \
         (federation.min_sites, federation.deadline); without one: {}{}; resume when they are \
         available",
        absent.join(", "), list_codes(codes)
    )]
    Absent {
        /// "in round 3", …
        when: String,
        /// The number of sites that responded.
        responded: usize,
        /// The number of sites that must respond.
        required: usize,
        /// The sites that did not respond.
        absent: Vec<String>,
        /// The error codes that some of them sent.
        codes: Vec<(String, SiteCode)>,
    },
    /// A site refused a request; its own log has the reason.
    #[error("site '{site}': {code}; its own log has the reason")]
    Site {
        /// The site.
        site: String,
        /// The error code that it sent.
        code: SiteCode,
    },
    /// An engine failed: a thread, another rank, or an unreadable message.
    #[error("{0}")]
    Engine(String),
    /// The caller stopped the run.
    #[error("{0}")]
    Interrupted(String),
    /// An operation of the file system failed.
    #[error("{}: cannot {action}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The operation: "read", "write", …
        action: &'static str,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Represents an error at a site for the server; the message stays at the site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SiteCode {
    /// The operator has not accepted these terms.
    NotAccepted,
    /// The site agreed to other terms, or to none.
    OtherAgreement,
    /// The site runs another version of the program.
    OtherProgram,
    /// The site's table cannot be used.
    Data,
    /// A text column has a value of so few rows that it could identify them.
    Rare,
    /// The loss is not finite.
    NonFinite,
    /// The client state cannot be read or written.
    State,
    /// The site is processing another request.
    Busy,
    /// The request is invalid.
    Order,
    /// Another failure.
    Failed,
    /// The site's response is invalid; reported by the server.
    Garbled,
}

impl fmt::Display for SiteCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SiteCode::NotAccepted => "not-accepted (its operator has not accepted the terms)",
            SiteCode::OtherAgreement => "other-agreement (it agreed to other terms, or to none)",
            SiteCode::OtherProgram => "other-program (it runs another version)",
            SiteCode::Data => "data (its table cannot be used)",
            SiteCode::Rare => "rare (a text column has values of fewer than 5 rows)",
            SiteCode::NonFinite => "non-finite (its loss is not finite)",
            SiteCode::State => "state (its client state cannot be read or written)",
            SiteCode::Busy => "busy (it is processing another request)",
            SiteCode::Order => "order (it cannot carry out the request)",
            SiteCode::Failed => "failed",
            SiteCode::Garbled => "garbled (its response is invalid)",
        })
    }
}

fn list_codes(codes: &[(String, SiteCode)]) -> String {
    let each = codes.iter().map(|(site, code)| format!("; {site}: {code}"));
    each.collect()
}

/// Represents a problem of data and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError {
    /// The file, if any.
    pub path: Option<PathBuf>,
    /// The client, line, column or row, if known.
    pub place: Option<String>,
    /// The problem and what to do.
    pub problem: String,
}

impl fmt::Display for DataError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.problem)
    }
}

/// A result with the library's error.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error about data.
    pub fn data(problem: impl Into<String>) -> Self {
        Error::Data(DataError {
            path: None,
            place: None,
            problem: problem.into(),
        })
    }

    /// Creates an error about the content of a file.
    pub fn in_file(path: &Path, problem: impl fmt::Display) -> Self {
        Error::Data(DataError {
            path: Some(path.into()),
            place: None,
            problem: problem.to_string(),
        })
    }

    /// Creates an error about data at a place, such as a client.
    pub(crate) fn at_place(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Error::Data(DataError {
            path: None,
            place: Some(place.to_string()),
            problem: problem.to_string(),
        })
    }

    /// Returns whether the request was invalid, so that nothing was done.
    pub fn is_request(&self) -> bool {
        matches!(self, Error::Spec(_) | Error::Request(_))
    }
}

/// Adds path and action to an error of the file system.
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
