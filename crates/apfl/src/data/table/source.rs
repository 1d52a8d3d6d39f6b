//! Sources of a table's rows: files, a stream, or columns in memory.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::Table;
use super::columns::Columns;
use crate::data::SourceFile;
use crate::data::folder::require_regular_file;
use crate::data::rows::{Cell, RowReader, open_csv, open_with};
use crate::digest::sha256_of_file;
use crate::error::{Error, Result};

/// Provides rows that can be read repeatedly.
pub trait TableSource {
    /// Opens a reader before the first row.
    fn open(&self) -> Result<Box<dyn RowReader + '_>>;

    /// Returns the files with their checksums.
    fn files(&self) -> Result<Vec<SourceFile>> {
        Ok(Vec::new())
    }

    /// Returns the file named by errors of no particular row.
    fn place(&self) -> Option<&Path> {
        None
    }
}

/// One or more CSV or Parquet files with the same columns.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The files, in order.
    pub paths: &'a [PathBuf],
    /// The column names, if the files have no header.
    pub header: Option<&'a [String]>,
}

impl TableSource for Files<'_> {
    fn open(&self) -> Result<Box<dyn RowReader + '_>> {
        let Some(first) = self.paths.first() else {
            return Err(Error::data(
                "data.path names no file; the run's rows came from memory (pass them again, as in \
                 apfl.train(resume=…, data=frame)) or are at sites (docs/FEDERATION.md)",
            ));
        };
        let rows = open_with(first, self.header)?;
        Ok(Box::new(ConcatenatedFiles {
            names: rows.header().to_vec(),
            map: (0..rows.header().len()).collect(),
            rows,
            files: *self,
            current: 0,
        }))
    }

    fn files(&self) -> Result<Vec<SourceFile>> {
        let described = |path: &PathBuf| {
            require_regular_file(path)?; // computing a pipe's checksum would consume it
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
struct ConcatenatedFiles<'a> {
    files: Files<'a>,
    current: usize,
    rows: Box<dyn RowReader>,
    names: Vec<String>,
    /// For each column of the first file, its index in the current one.
    map: Vec<usize>,
}

impl ConcatenatedFiles<'_> {
    fn next_file(&mut self) -> std::result::Result<bool, String> {
        let Some(path) = self.files.paths.get(self.current + 1) else {
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
            let list = |what: &str, names: &[&str]| match names {
                [] => String::new(),
                names => format!("; {what}: {}", names.join(", ")),
            };
            return Err(format!(
                "{}: its columns differ from those of {}{}{}",
                path.display(),
                self.files.paths[0].display(),
                list("missing", &missing),
                list("additional", &more)
            ));
        }
        self.map = self.names.iter().map(|name| place[name.as_str()]).collect();
        self.rows = rows;
        self.current += 1;
        Ok(true)
    }
}

impl RowReader for ConcatenatedFiles<'_> {
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
        Some(&self.files.paths[self.current])
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

/// A CSV file, plain or gzipped, read from a stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Its name in messages, such as `stdin`.
    pub name: PathBuf,
    /// Its whole content.
    pub bytes: Vec<u8>,
    /// The column names, if the first line does not have them.
    pub header: Option<Vec<String>>,
}

impl TableSource for Stream {
    fn open(&self) -> Result<Box<dyn RowReader + '_>> {
        let rows = if self.bytes.starts_with(b"PAR1") {
            Err("is Parquet, which cannot be read from a stream; save it to a file first".into())
        } else {
            open_csv(Box::new(&self.bytes[..]), self.header.as_deref())
        };
        rows.map_err(|e: String| Error::in_file(&self.name, e))
    }

    fn place(&self) -> Option<&Path> {
        Some(&self.name)
    }
}

/// Returns the header that an input needs: that of the training table, unless the input's first
/// line names some of its columns.
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
