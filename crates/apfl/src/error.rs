//! What can go wrong, in words a user can act on.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::settings::Problems;

/// The library's error: a variant for each kind of failure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request itself is wrong: nothing was done.
    #[error("{0}")]
    Spec(Problems),
    /// A request that cannot be carried out as given, in one sentence.
    #[error("{0}")]
    Request(String),
    /// The content of a file, or of what is in memory, is wrong.
    #[error("{0}")]
    Data(DataError),
    /// A published data set is not where it was looked for.
    #[error("{}: there is neither {file} nor {file}.gz in it; data.dir names another folder",
        folder.display())]
    NoData {
        /// The kind of data.
        kind: String,
        /// Where it was looked for.
        folder: PathBuf,
        /// The file that was.
        file: String,
    },
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
    /// The work of one client panicked: a defect of a model or an algorithm.
    #[error("the work of client '{client}' panicked: {message}")]
    Panic {
        /// The client's name.
        client: String,
        /// What the panic said.
        message: String,
    },
    /// A run directory or its checkpoints do not allow what was asked of them.
    #[error("{0}")]
    Checkpoint(String),
    /// A directory that another process works in.
    #[error("{}: in use by {holder}; nothing was touched", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who has it, and since when: "process 4711 since …".
        holder: String,
    },
    /// A run directory of another release.
    #[error(
        "{}: is of format {found}, this program writes {known}: a run of an earlier release can \
         be read, reported, asked and exported, but not continued; begin it again in another \
         directory", path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// This program's.
        known: u32,
    },
    /// A run that another program began: the result may differ in the last bits.
    #[error(
        "the run was begun by version {then}, this is {now}: the result may differ in the last \
         bits"
    )]
    OtherProgram {
        /// The program that began it.
        then: String,
        /// This one.
        now: String,
    },
    /// Too few sites answered.
    #[error(
        "{when} {answered} of at least {wanted} sites answered in time (federation.min_sites, \
         federation.deadline); without an answer: {}{}; resume when they are back",
        absent.join(", "), told(codes)
    )]
    Absent {
        /// "in round 3", …
        when: String,
        /// How many answered.
        answered: usize,
        /// How many must.
        wanted: usize,
        /// Those that did not.
        absent: Vec<String>,
        /// What some of them said instead.
        codes: Vec<(String, SiteCode)>,
    },
    /// A site said no; why, is in its own log.
    #[error("site '{site}': {code}; its own log has the reason")]
    Site {
        /// The site.
        site: String,
        /// What it told.
        code: SiteCode,
    },
    /// An engine failed: threads, another rank, a message that cannot be read.
    #[error("{0}")]
    Engine(String),
    /// The caller asked to stop.
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

/// All that a site tells of an error: what it says in full stays there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SiteCode {
    /// The operator has not accepted these terms yet.
    NotAccepted,
    /// It has not agreed to anything, or to something else.
    OtherAgreement,
    /// It runs another version of the program.
    OtherProgram,
    /// Its table cannot be used.
    Data,
    /// A text column has a value of so few rows that it would point at them.
    Rare,
    /// Its loss is not finite any more.
    NonFinite,
    /// What it remembers cannot be read or written.
    State,
    /// It is busy with another order.
    Busy,
    /// The order was wrong.
    Order,
    /// Something else.
    Failed,
    /// Its answer makes no sense; said by the server.
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
            SiteCode::NonFinite => "non-finite (its loss is not a number any more)",
            SiteCode::State => "state (what it remembers cannot be read or written)",
            SiteCode::Busy => "busy (another order is being carried out)",
            SiteCode::Order => "order (it cannot do what was asked)",
            SiteCode::Failed => "failed",
            SiteCode::Garbled => "garbled (its answer makes no sense)",
        })
    }
}

fn told(codes: &[(String, SiteCode)]) -> String {
    let each = codes.iter().map(|(site, code)| format!("; {site}: {code}"));
    each.collect()
}

/// What is wrong with some data, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataError {
    /// The file, where it is in one.
    pub path: Option<PathBuf>,
    /// Client, line, column or row, where that is known.
    pub place: Option<String>,
    /// What is wrong, and the way out.
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
    /// Data that is wrong, in one sentence.
    pub fn data(problem: impl Into<String>) -> Self {
        Error::Data(DataError {
            path: None,
            place: None,
            problem: problem.into(),
        })
    }

    /// A file whose content is wrong.
    pub fn in_file(path: &Path, problem: impl fmt::Display) -> Self {
        Error::Data(DataError {
            path: Some(path.into()),
            place: None,
            problem: problem.to_string(),
        })
    }

    /// Data of a client, or in another place that can be named, that is wrong.
    pub fn at_place(place: impl fmt::Display, problem: impl fmt::Display) -> Self {
        Error::Data(DataError {
            path: None,
            place: Some(place.to_string()),
            problem: problem.to_string(),
        })
    }

    /// Whether the request was wrong, so that nothing was done.
    pub fn is_request(&self) -> bool {
        matches!(self, Error::Spec(_) | Error::Request(_))
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
