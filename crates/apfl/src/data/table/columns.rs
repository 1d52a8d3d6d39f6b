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
    Floats(Vec<f32>),
    /// Whole numbers.
    Integers(Vec<Option<i64>>),
    /// Texts.
    Texts(Vec<Option<String>>),
    /// True or false.
    Booleans(Vec<Option<bool>>),
    /// Categories, as indices into a list of texts.
    Categories {
        /// The texts.
        names: Vec<String>,
        /// The index of each row's text.
        codes: Vec<Option<u32>>,
    },
    /// Values that are neither text nor number: their type and the number of rows.
    Other(String, usize),
}

impl Column {
    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Column::Numbers(x) => x.len(),
            Column::Floats(x) => x.len(),
            Column::Integers(x) => x.len(),
            Column::Texts(x) => x.len(),
            Column::Booleans(x) => x.len(),
            Column::Categories { codes, .. } => codes.len(),
            Column::Other(_, rows) => *rows,
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn cell(&self, row: usize) -> Cell<'_> {
        match self {
            Column::Numbers(x) if x[row].is_nan() => Cell::Missing,
            Column::Numbers(x) => Cell::Double(x[row]),
            Column::Floats(x) if x[row].is_nan() => Cell::Missing,
            Column::Floats(x) => Cell::Float(x[row]),
            Column::Integers(x) => x[row].map_or(Cell::Missing, Cell::Integer),
            Column::Texts(x) => x[row].as_deref().map_or(Cell::Missing, Cell::Text),
            Column::Booleans(x) => x[row].map_or(Cell::Missing, Cell::Boolean),
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
    /// Creates a table without columns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a column.
    ///
    /// # Errors
    /// The column has another length than the first one, or a category without a text.
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

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(0, Column::len)
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a reader of all rows.
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
