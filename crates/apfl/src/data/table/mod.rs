//! A user's own table: one row per example, with a client, a label and feature columns.
//!
//! A table is read three times and never held in memory as it is. The first reading finds each
//! row's client and label. The second makes a [`Survey`] of each client's training rows. The third
//! encodes the rows by the preparation that follows from the merged surveys.

use std::path::PathBuf;

mod agreed;
mod columns;
mod declared;
mod diagnostics;
mod features;
mod labels;
mod load;
mod own_part;
mod plausible;
mod preparation;
mod rare;
mod records;
mod settings;
mod source;
mod split;
mod survey;
mod value;

pub use agreed::{Agreed, AgreedCounts};
pub use columns::{Column, Columns};
pub use declared::Declared;
pub use features::{InferenceReader, InferenceRows, read_features};
pub use load::Surveyed;
pub use plausible::MAX_ROWS;
pub use preparation::{Encoding, Preparation, PreparedColumn, Scale, Standardize, UnseenCells};
pub use rare::{RARE, RareKind, RareStatistic};
pub(super) use settings::KIND;
pub use source::{Files, Stream, TableSource, header_for};
pub use survey::{ColumnSurvey, MOST_CATEGORIES, NonNumeric, Survey};
pub use value::{MISSING, Missing};

use super::Common;
use super::partition::Partition;

/// Represents the settings of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The files, in order; none if the rows come from elsewhere.
    pub paths: Vec<PathBuf>,
    /// The column names, if the files have no header.
    pub header: Option<Vec<String>>,
    /// How rows name their client.
    pub client: ClientSource,
    /// The column to predict.
    pub label: String,
    /// Pairs of a label and its name; `*` is every other label.
    pub label_map: Vec<(String, String)>,
    /// The column with `train`, `valid` or `test`, if there is one.
    pub split: String,
    /// Whether the spec names `split`, so that its absence is an error.
    pub split_required: bool,
    /// Whether the label is a number.
    pub regression: bool,
    /// Columns to ignore.
    pub ignore: Vec<String>,
    /// Columns whose numbers are categories.
    pub categorical: Vec<String>,
    /// The cells that mean "not known".
    pub missing: Vec<String>,
    /// Whether, and by whose moments, numbers are standardized.
    pub standardize: Standardize,
    /// Properties that the spec declares.
    pub declared: Box<Declared>,
    /// The most classes.
    pub max_classes: usize,
    /// How rows are assigned to clients if the table names none.
    pub partition: Option<Partition>,
    /// Seed, held-out shares and minimum number of examples.
    pub common: Common,
}

/// Says how rows name their client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientSource {
    /// A column names it.
    Column(String),
    /// The file's name without its extension is the client.
    File,
    /// Rows name none; a partition assigns them.
    Unnamed,
    /// All rows are of one client, at its own site.
    Only {
        /// Its name.
        name: String,
        /// Its index among all clients.
        place: usize,
        /// The column that names it, if there is one.
        column: Option<String>,
    },
}

impl Table {
    /// Returns the settings for one client at its own site, with index `place` among all clients.
    pub fn at_site(&self, path: PathBuf, name: &str, place: usize) -> Self {
        Self {
            paths: vec![path],
            client: ClientSource::Only {
                name: name.into(),
                place,
                column: match &self.client {
                    ClientSource::Column(column) => Some(column.clone()),
                    _ => None,
                },
            },
            ..self.clone()
        }
    }

    /// Returns a client's index in the federation from its index in this table.
    fn client_index(&self, client: usize) -> usize {
        match self.client {
            ClientSource::Only { place, .. } => place,
            _ => client,
        }
    }

    /// Returns the files of the spec.
    pub fn files(&self) -> Files<'_> {
        Files {
            paths: &self.paths,
            header: self.header.as_deref(),
        }
    }
}
