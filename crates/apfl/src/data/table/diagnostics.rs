//! Problems of a table, collected and reported together.

use std::path::PathBuf;

use crate::data::rows::RowReader;
use crate::error::{Error, Result};

/// The most problems that are reported at once.
const MOST: usize = 20;

/// Collects the problems of a table.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    found: Vec<(Option<PathBuf>, String)>,
    place: Option<PathBuf>,
}

impl Diagnostics {
    /// Creates an empty collection; `place` is the file named by problems of no particular row.
    pub(super) fn new(place: Option<PathBuf>) -> Self {
        Self {
            place,
            found: Vec::new(),
        }
    }

    /// Returns the file named by problems of no particular row.
    pub(super) fn place(&self) -> Option<PathBuf> {
        self.place.clone()
    }

    /// Returns whether there are no problems.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Returns whether the limit is reached.
    pub(super) fn full(&self) -> bool {
        self.found.len() >= MOST
    }

    /// Adds a problem of the whole table.
    pub(super) fn note(&mut self, message: impl Into<String>) {
        if !self.full() {
            self.found.push((self.place.clone(), message.into()));
        }
    }

    /// Adds a problem of the file that is being read.
    pub(super) fn note_file(&mut self, rows: &dyn RowReader, message: impl Into<String>) {
        if !self.full() {
            let path = rows.origin().map(Into::into).or(self.place.clone());
            self.found.push((path, message.into()));
        }
    }

    /// Adds a problem of the current row.
    pub(super) fn note_row(&mut self, rows: &dyn RowReader, message: &str) {
        let (unit, number) = (rows.unit(), rows.number());
        self.note_file(rows, format!("{unit} {number}{message}"));
    }

    /// Returns an error with all problems, if there are any.
    pub(super) fn check(self) -> Result<()> {
        let same = self.found.windows(2).all(|w| w[0].0 == w[1].0);
        let path = match self.found.first() {
            None => return Ok(()),
            Some((path, _)) => path.clone().filter(|_| same),
        };
        let message = match &self.found[..] {
            [(_, message)] => message.clone(),
            all => {
                let lines = all.iter().map(|(path, message)| match path {
                    Some(path) if !same => format!("\n  {}: {message}", path.display()),
                    _ => format!("\n  {message}"),
                });
                let more = if all.len() == MOST { " or more" } else { "" };
                format!("{}{more} problems:{}", all.len(), lines.collect::<String>())
            }
        };
        Err(match path {
            Some(path) => Error::in_file(&path, message),
            None => Error::data(message),
        })
    }
}
