//! A table, row by row, whatever file it lies in.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::parquet::ParquetRows;
use crate::error::{Result, at};

/// What stands in one place of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// A text.
    Text(&'a str),
    /// A whole number.
    Whole(i64),
    /// A number.
    Real(f64),
    /// A number of single precision.
    Single(f32),
    /// True or false.
    Truth(bool),
    /// Nothing.
    Missing,
    /// Something that is neither text nor number; its type.
    Other(&'a str),
}

impl Cell<'_> {
    /// It as a text: what a label, a client or a split is called.
    pub fn text(&self) -> std::result::Result<Cow<'_, str>, String> {
        Ok(match self {
            Cell::Text(text) => Cow::Borrowed(text.trim()),
            Cell::Whole(x) => Cow::Owned(x.to_string()),
            Cell::Real(x) => Cow::Owned(x.to_string()),
            Cell::Single(x) => Cow::Owned(x.to_string()),
            Cell::Truth(x) => Cow::Owned(x.to_string()),
            Cell::Missing => Cow::Borrowed(""),
            Cell::Other(kind) => {
                return Err(format!("is a {kind}, which is neither text nor number"));
            }
        })
    }

    /// It as a finite number, or what it is instead.
    pub fn number(&self) -> std::result::Result<f32, String> {
        let number = match self {
            Cell::Text(text) => text.trim().parse().ok(),
            Cell::Whole(x) => Some(*x as f32),
            Cell::Real(x) => Some(*x as f32),
            Cell::Single(x) => Some(*x),
            Cell::Truth(x) => Some(f32::from(u8::from(*x))),
            Cell::Missing | Cell::Other(_) => None,
        };
        match number {
            Some(x) if x.is_finite() => Ok(x),
            Some(_) => Err(format!("found '{}', which is not finite", self.text()?)),
            None => Err(format!("found '{}', which is not a number", self.text()?)),
        }
    }
}

/// A table that is read from its first row to its last.
pub trait Rows {
    /// The columns' names.
    fn header(&self) -> &[String];

    /// Goes to the next row; false where there is none.
    fn advance(&mut self) -> std::result::Result<bool, String>;

    /// What stands in a column of this row.
    fn cell(&self, column: usize) -> Cell<'_>;

    /// This row's number, as a user would count.
    fn number(&self) -> u64;

    /// What a row is called: `line` or `row`.
    fn unit(&self) -> &'static str;
}

/// Opens a CSV or a Parquet file, which begins with `PAR1` or is called so.
pub fn open(path: &Path) -> Result<Box<dyn Rows>> {
    let mut file = File::open(path).map_err(at(path, "read"))?;
    let mut magic = Vec::new();
    (&mut file)
        .take(4)
        .read_to_end(&mut magic)
        .map_err(at(path, "read"))?;
    let named = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
    let rows: std::result::Result<Box<dyn Rows>, String> = if named || magic == b"PAR1" {
        ParquetRows::open(file).map(|rows| Box::new(rows) as _)
    } else {
        let whole = std::io::Cursor::new(magic).chain(file);
        CsvRows::new(whole).map(|rows| Box::new(rows) as _)
    };
    rows.map_err(|e| super::folder::wrong(path, e))
}

/// A reader that remembers where lines end: the CSV reader's own count of lines stays
/// behind at empty ones, and at \r\n.
struct Counted<R> {
    from: R,
    read: u64,
    ends: Vec<u64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        let ends = (self.read..).zip(&buffer[..n]).filter(|(_, b)| **b == b'\n');
        self.ends.extend(ends.map(|(at, _)| at));
        self.read += n as u64;
        Ok(n)
    }
}

impl<R> Counted<R> {
    /// The line, as an editor counts, of the row that starts at that byte or, behind
    /// empty lines, after it. A row with a label and a feature has three bytes or more.
    fn line_at(&self, start: u64) -> u64 {
        let mut line = self.ends.partition_point(|end| *end < start);
        let mut at = start;
        while self.ends.get(line).is_some_and(|end| *end <= at + 1) {
            at = self.ends[line] + 1;
            line += 1;
        }
        line as u64 + 1
    }
}

/// A CSV file.
pub struct CsvRows<R> {
    reader: csv::Reader<Counted<R>>,
    header: Vec<String>,
    row: csv::StringRecord,
}

impl<R: Read> CsvRows<R> {
    /// Reads the header.
    pub fn new(from: R) -> std::result::Result<Self, String> {
        let from = Counted {
            from,
            read: 0,
            ends: Vec::new(),
        };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(from);
        let header = match reader.headers() {
            Ok(header) => header.clone(),
            Err(e) => return Err(unreadable(reader.get_ref(), &e)),
        };
        let name = |name: &str| name.trim_start_matches('\u{feff}').trim().to_owned();
        Ok(Self {
            header: header.iter().map(name).collect(),
            reader,
            row: csv::StringRecord::new(),
        })
    }
}

impl<R: Read> Rows for CsvRows<R> {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn advance(&mut self) -> std::result::Result<bool, String> {
        match self.reader.read_record(&mut self.row) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(e) => return Err(unreadable(self.reader.get_ref(), &e)),
        }
        if self.row.len() != self.header.len() {
            return Err(format!(
                "line {} has {} fields, the header has {}",
                self.number(),
                self.row.len(),
                self.header.len()
            ));
        }
        Ok(true)
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        Cell::Text(&self.row[column])
    }

    fn number(&self) -> u64 {
        let start = self.row.position().map_or(0, csv::Position::byte);
        self.reader.get_ref().line_at(start)
    }

    fn unit(&self) -> &'static str {
        "line"
    }
}

/// Why the reader gave up, with the line.
fn unreadable<R>(from: &Counted<R>, error: &csv::Error) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { pos, err } => format!(
            "line {}, field {} is not UTF-8 text; save the file as UTF-8",
            from.line_at(pos.as_ref().map_or(0, csv::Position::byte)),
            err.field() + 1
        ),
        _ => error.to_string(),
    }
}
