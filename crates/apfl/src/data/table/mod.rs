//! A user's own table: one row an example, with a client, a label and columns of any kind.
//!
//! A table is read three times and never held as it is: who has which row and which label;
//! what each client's training rows look like (a [`Survey`]); and, by the preparation that the
//! merged surveys make, the numbers themselves.

use std::path::PathBuf;

mod columns;
mod declared;
mod diagnostics;
mod features;
mod load;
mod preparation;
mod rare;
mod records;
mod settings;
mod source;
mod split;
mod survey;
mod value;

pub use columns::{Column, Columns};
pub use declared::Declared;
pub use features::{InferenceReader, InferenceRows, read_features};
pub use load::{Agreed, Surveyed};
pub use preparation::{Encoding, Preparation, PreparedColumn, Scale, Standardize, Strange};
pub use rare::RARE;
pub(super) use settings::KIND;
pub use source::{Files, Stream, TableSource, header_for};
pub use survey::{ColumnSurvey, MOST_CATEGORIES, Survey, Words};
pub use value::{MISSING, Missing};

use super::Common;
use super::partition::Partition;

/// Where the table lies and how to read it.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The files, one after the other; none where the rows come from elsewhere.
    pub paths: Vec<PathBuf>,
    /// The columns' names, where the files do not say them.
    pub header: Option<Vec<String>>,
    /// Who has a row.
    pub client: ClientOf,
    /// The column to be predicted.
    pub label: String,
    /// What labels are called: pairs of a label and its name; `*` is every other label.
    pub label_map: Vec<(String, String)>,
    /// The column that says `train`, `valid` or `test`, where there is one.
    pub split: String,
    /// Whether `split` was asked for by name, so that its absence is an error.
    pub split_required: bool,
    /// Whether the label is a number to be predicted.
    pub regression: bool,
    /// Columns that are left out.
    pub ignore: Vec<String>,
    /// Columns whose numbers are names.
    pub categorical: Vec<String>,
    /// The words that mean: not known.
    pub missing: Vec<String>,
    /// Whether, and by whose moments, numbers are brought to mean 0 and deviation 1.
    pub standardize: Standardize,
    /// What is known of it beforehand.
    pub declared: Box<Declared>,
    /// How a table without clients is dealt to clients.
    pub partition: Option<Partition>,
    /// Seed, held-out shares and least number of examples.
    pub common: Common,
}

/// Who has a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOf {
    /// Whom that column names.
    Column(String),
    /// The client that is called like the file, without its ending.
    File,
    /// Nobody: rows are dealt by a partition.
    Nobody,
    /// One client, at its own site.
    Only {
        /// Its name.
        name: String,
        /// Its place among all clients.
        place: usize,
        /// The column that names it, where there is one.
        column: Option<String>,
    },
}

impl Table {
    /// The table of one client at its own site, who stands at `place` among all.
    pub fn at_site(&self, path: PathBuf, name: &str, place: usize) -> Self {
        Self {
            paths: vec![path],
            client: ClientOf::Only {
                name: name.into(),
                place,
                column: match &self.client {
                    ClientOf::Column(column) => Some(column.clone()),
                    _ => None,
                },
            },
            ..self.clone()
        }
    }

    /// A client's place among all of the federation, by its place in this table.
    fn place(&self, client: usize) -> usize {
        match self.client {
            ClientOf::Only { place, .. } => place,
            _ => client,
        }
    }

    /// The files of the spec.
    pub fn files(&self) -> Files<'_> {
        Files {
            paths: &self.paths,
            header: self.header.as_deref(),
        }
    }
}
