//! A table in memory, column by column: a data frame of another program.

use crate::data::rows::{Cell, RowReader};
use crate::error::{Error, Result};

/// A column in memory.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Column {
    /// Numbers; NaN is missing.
    Numbers(Vec<f64>),
    /// Numbers of single precision; NaN is missing.
    Singles(Vec<f32>),
    /// Whole numbers.
    Wholes(Vec<Option<i64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
    /// True or false.
    Truths(Vec<Option<bool>>),
    /// One of these texts each.
    Categories {
        /// The texts.
        names: Vec<String>,
        /// Which of them stands in each row.
        codes: Vec<Option<u32>>,
    },
    /// Something that is neither text nor number; its type, and how many rows it has.
    Other(String, usize),
}

impl Column {
    /// Its rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Numbers(x) => x.len(),
            Column::Singles(x) => x.len(),
            Column::Wholes(x) => x.len(),
            Column::Texts(x) => x.len(),
            Column::Truths(x) => x.len(),
            Column::Categories { codes, .. } => codes.len(),
            Column::Other(_, rows) => *rows,
        }
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Column::Numbers(x) if x[row].is_nan() => Cell::Missing,
            Column::Numbers(x) => Cell::Real(x[row]),
            Column::Singles(x) if x[row].is_nan() => Cell::Missing,
            Column::Singles(x) => Cell::Single(x[row]),
            Column::Wholes(x) => x[row].map_or(Cell::Missing, Cell::Whole),
            Column::Texts(x) => x[row].as_deref().map_or(Cell::Missing, Cell::Text),
            Column::Truths(x) => x[row].map_or(Cell::Missing, Cell::Truth),
            Column::Categories { names, codes } => match codes[row] {
                Some(code) => Cell::Text(&names[code as usize]),
                None => Cell::Missing,
            },
            Column::Other(kind, _) => Cell::Other(kind),
        }
    }
}

/// A table in memory: named columns of one length.
///
/// ```
/// use apfl::data::table::{Column, Columns};
///
/// let table = Columns::new()
///     .with("client", Column::Texts(vec![Some("north".into()), None]))?
///     .with("age", Column::Numbers(vec![51.0, f64::NAN]))?;
/// assert_eq!(table.len(), 2);
/// # Ok::<(), apfl::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    names: Vec<String>,
    columns: Vec<Column>,
}

impl Columns {
    /// A table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more column.
    pub fn with(mut self, name: impl Into<String>, column: Column) -> Result<Self> {
        let name = name.into();
        if let Some(first) = self.columns.first()
            && first.len() != column.len()
        {
            return Err(Error::data(format!(
                "column '{name}' has {} rows, column '{}' has {}",
                column.len(),
                self.names[0],
                first.len()
            )));
        }
        if let Column::Categories { names, codes } = &column
            && let Some(code) = codes.iter().flatten().find(|k| **k as usize >= names.len())
        {
            let count = names.len();
            return Err(Error::data(format!(
                "column '{name}' has code {code}, but {count} categories"
            )));
        }
        self.names.push(name);
        self.columns.push(column);
        Ok(self)
    }

    /// Its rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Its rows, from the first to the last.
    pub fn rows(&self) -> impl RowReader + '_ {
        MemoryRows {
            table: self,
            next: 0,
        }
    }
}

struct MemoryRows<'a> {
    table: &'a Columns,
    next: usize,
}

impl RowReader for MemoryRows<'_> {
    fn header(&self) -> &[String] {
        &self.table.names
    }
    fn advance(&mut self) -> std::result::Result<bool, String> {
        self.next += 1;
        Ok(self.next <= self.table.len())
    }
    fn cell(&self, column: usize) -> Cell<'_> {
        self.table.columns[column].cell(self.next - 1)
    }
    fn number(&self) -> u64 {
        self.next as u64
    }
    fn unit(&self) -> &'static str {
        "row"
    }
}
