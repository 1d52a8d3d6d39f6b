//! What is wrong with a table, gathered until it is enough to be told.

use std::path::PathBuf;

use crate::data::rows::RowReader;
use crate::error::{Error, Result};

/// Problems that are told at once.
const MOST: usize = 20;

/// What is wrong with a table so far.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    found: Vec<(Option<PathBuf>, String)>,
    place: Option<PathBuf>,
}

impl Diagnostics {
    /// None yet; `place` is named where no row is to blame.
    pub(super) fn new(place: Option<PathBuf>) -> Self {
        Self {
            place,
            found: Vec::new(),
        }
    }

    /// What is named where no row is to blame.
    pub(super) fn place(&self) -> Option<PathBuf> {
        self.place.clone()
    }

    /// Whether nothing is wrong.
    pub(super) fn none(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether there are enough to stop looking.
    pub(super) fn full(&self) -> bool {
        self.found.len() >= MOST
    }

    /// Something is wrong with the table as a whole.
    pub(super) fn note(&mut self, message: impl Into<String>) {
        if !self.full() {
            self.found.push((self.place.clone(), message.into()));
        }
    }

    /// Something is wrong with the file that is being read.
    pub(super) fn note_file(&mut self, rows: &dyn RowReader, message: impl Into<String>) {
        if !self.full() {
            let path = rows.origin().map(Into::into).or(self.place.clone());
            self.found.push((path, message.into()));
        }
    }

    /// Something is wrong with this row.
    pub(super) fn note_row(&mut self, rows: &dyn RowReader, message: &str) {
        let (unit, number) = (rows.unit(), rows.number());
        self.note_file(rows, format!("{unit} {number}{message}"));
    }

    /// An error where something is wrong.
    pub(super) fn check(self) -> Result<()> {
        let same = self.found.windows(2).all(|w| w[0].0 == w[1].0);
        let path = match self.found.first() {
            None => return Ok(()),
            Some((path, _)) => path.clone().filter(|_| same),
        };
        let told = match &self.found[..] {
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
            Some(path) => Error::in_file(&path, told),
            None => Error::data(told),
        })
    }
}
