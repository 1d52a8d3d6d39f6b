//! Where the rows of a table come from: files, a stream, or columns in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::Table;
use super::columns::Columns;
use crate::data::SourceFile;
use crate::data::folder::require_regular;
use crate::data::rows::{Cell, RowReader, open_csv, open_with};
use crate::digest::sha256_of_file;
use crate::error::{Error, Result};

/// Rows that can be read from the first to the last as often as is needed.
pub trait TableSource {
    /// Goes to the first row.
    fn open(&self) -> Result<Box<dyn RowReader + '_>>;

    /// The files, with their checksums.
    fn files(&self) -> Result<Vec<SourceFile>> {
        Ok(Vec::new())
    }

    /// What errors name where no row does.
    fn place(&self) -> Option<&Path> {
        None
    }
}

/// One CSV or Parquet file, or several with the same columns.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The files, one after the other.
    pub paths: &'a [PathBuf],
    /// The columns' names, where the files do not say them.
    pub header: Option<&'a [String]>,
}

impl TableSource for Files<'_> {
    fn open(&self) -> Result<Box<dyn RowReader + '_>> {
        let Some(first) = self.paths.first() else {
            return Err(Error::data(
                "data.path names no file: the run's rows came from memory (give them again, as in \
                 apfl.train(resume=…, data=frame)) or are at sites (docs/FEDERATION.md)",
            ));
        };
        let rows = open_with(first, self.header)?;
        Ok(Box::new(Chain {
            names: rows.header().to_vec(),
            map: (0..rows.header().len()).collect(),
            rows,
            files: *self,
            at: 0,
        }))
    }

    fn files(&self) -> Result<Vec<SourceFile>> {
        let described = |path: &PathBuf| {
            require_regular(path)?; // a pipe would be read by its checksum
            Ok(SourceFile {
                path: path.display().to_string(),
                sha256: sha256_of_file(path)?,
            })
        };
        self.paths.iter().map(described).collect()
    }

    fn place(&self) -> Option<&Path> {
        self.paths.first().map(PathBuf::as_path)
    }
}

/// The rows of several files, one after the other.
struct Chain<'a> {
    files: Files<'a>,
    at: usize,
    rows: Box<dyn RowReader>,
    names: Vec<String>,
    /// Where the first file's columns are in this one.
    map: Vec<usize>,
}

impl Chain<'_> {
    fn next_file(&mut self) -> std::result::Result<bool, String> {
        let Some(path) = self.files.paths.get(self.at + 1) else {
            return Ok(false);
        };
        let rows = open_with(path, self.files.header).map_err(|e| e.to_string())?;
        let header = rows.header();
        let place: HashMap<&str, usize> = header.iter().map(String::as_str).zip(0..).collect();
        let missing: Vec<&str> = (self.names.iter().map(String::as_str))
            .filter(|name| !place.contains_key(name))
            .collect();
        if !missing.is_empty() || header.len() != self.names.len() {
            let more = header.iter().filter(|name| !self.names.contains(name));
            let more: Vec<&str> = more.map(String::as_str).collect();
            let said = |what: &str, names: &[&str]| match names {
                [] => String::new(),
                names => format!("; {what}: {}", names.join(", ")),
            };
            return Err(format!(
                "{}: its columns are not those of {}{}{}",
                path.display(),
                self.files.paths[0].display(),
                said("it has no", &missing),
                said("it has more", &more)
            ));
        }
        self.map = self.names.iter().map(|name| place[name.as_str()]).collect();
        self.rows = rows;
        self.at += 1;
        Ok(true)
    }
}

impl RowReader for Chain<'_> {
    fn header(&self) -> &[String] {
        &self.names
    }
    fn advance(&mut self) -> std::result::Result<bool, String> {
        loop {
            if self.rows.advance()? {
                return Ok(true);
            }
            if !self.next_file()? {
                return Ok(false);
            }
        }
    }
    fn defect(&self) -> Option<String> {
        self.rows.defect()
    }
    fn origin(&self) -> Option<&Path> {
        Some(&self.files.paths[self.at])
    }
    fn cell(&self, column: usize) -> Cell<'_> {
        self.rows.cell(self.map[column])
    }
    fn number(&self) -> u64 {
        self.rows.number()
    }
    fn unit(&self) -> &'static str {
        self.rows.unit()
    }
}

/// A CSV file, plain or gzipped, that was read from a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What it is called, such as `stdin`.
    pub name: PathBuf,
    /// All of it.
    pub bytes: Vec<u8>,
    /// The columns' names, where its first line does not say them.
    pub header: Option<Vec<String>>,
}

impl TableSource for Stream {
    fn open(&self) -> Result<Box<dyn RowReader + '_>> {
        let rows = if self.bytes.starts_with(b"PAR1") {
            Err("is a Parquet file; save it to a file first".into())
        } else {
            open_csv(Box::new(&self.bytes[..]), self.header.as_deref())
        };
        rows.map_err(|e: String| Error::in_file(&self.name, e))
    }

    fn place(&self) -> Option<&Path> {
        Some(&self.name)
    }
}

/// The header that the rows of an input need: that of the table which a model was trained on,
/// unless the input's first line names some of its columns.
pub fn header_for(table: Option<&Table>, input: &dyn TableSource) -> Result<Option<Vec<String>>> {
    let Some(names) = table.and_then(|table| table.header.clone()) else {
        return Ok(None);
    };
    let named = input
        .open()?
        .header()
        .iter()
        .any(|name| names.contains(name));
    Ok((!named).then_some(names))
}

impl TableSource for Columns {
    fn open(&self) -> Result<Box<dyn RowReader + '_>> {
        Ok(Box::new(self.rows()))
    }
}
