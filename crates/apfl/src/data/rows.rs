//! Reads tables row by row from CSV and Parquet files.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

mod lines;

use self::lines::{LineCounter, LineStarts, line_of};
use crate::error::{Error, Result, at};

/// Represents one cell of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// A text.
    Text(&'a str),
    /// An integer.
    Integer(i64),
    /// A number of double precision.
    Double(f64),
    /// A number of single precision.
    Float(f32),
    /// True or false.
    Boolean(bool),
    /// No value.
    Missing,
    /// A value that is neither text nor number: its type.
    Other(&'a str),
}

const FILL_IN: &str = "fill in a number, or remove the row";

impl<'a> Cell<'a> {
    /// Returns the cell as text, as labels, clients and splits are named.
    pub fn text(&self) -> std::result::Result<Cow<'a, str>, String> {
        Ok(match self {
            Cell::Text(text) => Cow::Borrowed(text.trim()),
            Cell::Integer(x) => Cow::Owned(x.to_string()),
            Cell::Double(x) => Cow::Owned(x.to_string()),
            Cell::Float(x) => Cow::Owned(x.to_string()),
            Cell::Boolean(x) => Cow::Owned(x.to_string()),
            Cell::Missing => Cow::Borrowed(""),
            Cell::Other(kind) => {
                return Err(format!("is a {kind}, which is neither text nor number"));
            }
        })
    }

    /// Returns whether the cell is empty or a text such as "NA".
    fn is_missing(&self) -> bool {
        let words = ["", "na", "n/a", "null", "none", "nan", "?", "-"];
        let missing = |text: &str| words.contains(&text.to_ascii_lowercase().as_str());
        match self {
            Cell::Missing => true,
            Cell::Text(text) => text.len() < 5 && missing(text.trim()),
            _ => false,
        }
    }

    /// Returns the cell as a number in the range of single precision.
    ///
    /// # Errors
    /// Says what the cell is instead.
    pub fn number(&self) -> std::result::Result<f64, String> {
        let number = match self {
            Cell::Text(text) => text.trim().parse().ok(),
            Cell::Integer(x) => Some(*x as f64),
            Cell::Double(x) => Some(*x),
            Cell::Float(x) => Some(shortest_decimal(*x)),
            Cell::Boolean(x) => Some(f64::from(u8::from(*x))),
            Cell::Missing | Cell::Other(_) => None,
        };
        let found = || {
            let text = self.text()?;
            let short: String = text.chars().take(60).collect();
            let more = if short.len() < text.len() { "…" } else { "" };
            Ok::<_, String>(format!("found '{short}{more}', which is"))
        };
        match number {
            Some(x) if (x as f32).is_finite() => Ok(x),
            Some(x) if x.is_finite() => Err(format!("{} too large (3.4e38 at most)", found()?)),
            Some(_) => Err(format!("{} not finite; {FILL_IN}", found()?)),
            None if self.is_missing() => Err(if self.text()?.is_empty() {
                format!("is empty; {FILL_IN}")
            } else {
                format!("{} not a number; {FILL_IN}", found()?)
            }),
            None => Err(format!("{} not a number", found()?)),
        }
    }
}

/// Returns the shortest decimal of a single-precision number, as a CSV file would have it: 0.1 is
/// 0.1, not 0.10000000149.
pub(super) fn shortest_decimal(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// Reads a table from its first row to its last.
pub trait RowReader {
    /// Returns the column names.
    fn header(&self) -> &[String];

    /// Goes to the next row; returns false at the end.
    fn advance(&mut self) -> std::result::Result<bool, String>;

    /// Returns a problem of the whole row, such as too few cells; its cells must not be read then.
    fn defect(&self) -> Option<String> {
        None
    }

    /// Returns the file of this row, if it is in one.
    fn origin(&self) -> Option<&Path> {
        None
    }

    /// Returns a cell of this row.
    fn cell(&self, column: usize) -> Cell<'_>;

    /// Returns the number of this row, as a user would count.
    fn number(&self) -> u64;

    /// Returns what rows are called in messages: `line` or `row`.
    fn unit(&self) -> &'static str;
}

/// Opens a CSV file, plain or gzipped, or a Parquet file, which begins with `PAR1` or ends in
/// `.parquet`.
pub fn open(path: &Path) -> Result<Box<dyn RowReader>> {
    open_with(path, None)
}

/// Opens a file like [`open`]; `header` names the columns of a CSV file without a header.
pub fn open_with(path: &Path, header: Option<&[String]>) -> Result<Box<dyn RowReader>> {
    super::folder::require_regular_file(path)?;
    if let Some(what) = super::foreign_formats::describe_non_table(path) {
        return Err(Error::in_file(path, format!("is {what}")));
    }
    let mut file = File::open(path).map_err(at(path, "read"))?;
    let mut magic = Vec::new();
    (&mut file)
        .take(4)
        .read_to_end(&mut magic)
        .map_err(at(path, "read"))?;
    let named = path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
    let rows: std::result::Result<Box<dyn RowReader>, String> = if named || magic == b"PAR1" {
        match header {
            None => open_parquet(file),
            Some(_) => Err(
                "is a Parquet file, which names its columns itself; data.header is for CSV files \
                 without a header"
                    .into(),
            ),
        }
    } else {
        let content = std::io::Cursor::new(magic).chain(file);
        open_csv(Box::new(content), header)
    };
    rows.map_err(|e| Error::in_file(path, e))
}

/// Opens a CSV file, plain or gzipped, from any reader.
pub fn open_csv<'r>(
    mut from: Box<dyn Read + 'r>,
    header: Option<&[String]>,
) -> std::result::Result<Box<dyn RowReader + 'r>, String> {
    let mut magic = Vec::new();
    (&mut from)
        .take(2)
        .read_to_end(&mut magic)
        .map_err(|e| e.to_string())?;
    let gzipped = super::folder::is_gzip(&magic);
    let content = std::io::Cursor::new(magic).chain(from);
    Ok(if gzipped {
        let inflated = std::io::BufReader::new(flate2::read::MultiGzDecoder::new(content));
        Box::new(CsvRows::with_header(inflated, header)?)
    } else {
        Box::new(CsvRows::with_header(content, header)?)
    })
}

#[cfg(feature = "parquet")]
fn open_parquet(file: File) -> std::result::Result<Box<dyn RowReader>, String> {
    super::parquet::ParquetRows::open(file).map(|rows| Box::new(rows) as _)
}

#[cfg(not(feature = "parquet"))]
fn open_parquet(_: File) -> std::result::Result<Box<dyn RowReader>, String> {
    Err(
        "is a Parquet file, which this build cannot read; build `apfl` with the feature \
         \"parquet\", or save the table as CSV"
            .into(),
    )
}

/// Reads the rows of a CSV file.
pub struct CsvRows<R> {
    reader: csv::Reader<LineCounter<R>>,
    starts: LineStarts,
    /// The line of a quote that is still open at the end of the file.
    unclosed: Rc<std::cell::Cell<Option<u64>>>,
    header: Vec<String>,
    row: csv::StringRecord,
    line: u64,
    /// The problem of the whole row, if any.
    defect: Option<String>,
}

impl<R> std::fmt::Debug for CsvRows<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvRows").finish_non_exhaustive()
    }
}

impl<R: Read> CsvRows<R> {
    /// Creates a reader and reads the header.
    pub fn new(from: R) -> std::result::Result<Self, String> {
        Self::with_header(from, None)
    }

    /// Creates a reader; the first line is the header unless `names` are given.
    pub fn with_header(from: R, names: Option<&[String]>) -> std::result::Result<Self, String> {
        let starts = LineStarts::default();
        let unclosed: Rc<std::cell::Cell<Option<u64>>> = Rc::default();
        let counter = LineCounter::new(from, starts.clone(), unclosed.clone());
        let mut reader = csv::ReaderBuilder::new()
            .buffer_capacity(1 << 16)
            .flexible(true)
            .has_headers(names.is_none())
            .from_reader(counter);
        let header = match names {
            Some(names) => names.to_vec(),
            None => {
                let header = reader.headers().map_err(|e| unreadable(&e, &starts))?;
                let name = |name: &str| name.trim_start_matches('\u{feff}').trim().to_owned();
                header.iter().map(name).collect()
            }
        };
        Ok(Self {
            header,
            defect: None,
            reader,
            starts,
            unclosed,
            row: csv::StringRecord::new(),
            line: 1,
        })
    }
}

impl<R: Read> RowReader for CsvRows<R> {
    fn header(&self) -> &[String] {
        &self.header
    }

    fn advance(&mut self) -> std::result::Result<bool, String> {
        match self.reader.read_record(&mut self.row) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(e) => return Err(unreadable(&e, &self.starts)),
        }
        if let Some(line) = self.unclosed.get() {
            return Err(format!(
                "line {line}: a quote opens and is never closed; close it, or double it if it is \
                 part of a text"
            ));
        }
        let start = self.row.position().map_or(0, csv::Position::byte);
        self.line = line_of(start, &self.starts);
        self.defect = (self.row.len() != self.header.len()).then(|| {
            format!(
                "line {} has {} fields, the header has {}",
                self.line,
                self.row.len(),
                self.header.len()
            )
        });
        Ok(true)
    }

    fn defect(&self) -> Option<String> {
        self.defect.clone()
    }

    fn cell(&self, column: usize) -> Cell<'_> {
        Cell::Text(self.row.get(column).unwrap_or_default())
    }

    fn number(&self) -> u64 {
        self.line
    }

    fn unit(&self) -> &'static str {
        "line"
    }
}

/// Describes an error of the CSV reader, with the line.
fn unreadable(error: &csv::Error, starts: &LineStarts) -> String {
    match error.kind() {
        csv::ErrorKind::Utf8 { pos, err } => format!(
            "line {}, field {} is not UTF-8 text; save the file as UTF-8",
            line_of(pos.as_ref().map_or(0, csv::Position::byte), starts),
            err.field() + 1
        ),
        _ => error.to_string(),
    }
}
