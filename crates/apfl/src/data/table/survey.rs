//! Surveys of training rows: mergeable sums and sets that describe a table without its rows.
//!
//! Every client surveys its own training rows, and surveys are merged in client order. The
//! preparation of features follows from the merged survey alone, in one process as over sites.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::value::{Value, category_name, is_date};
use crate::data::rows::Cell;
use crate::moments::Moments;

/// The most values that a categorical column may have.
pub const MOST_CATEGORIES: usize = 100;

/// Summarizes one column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnSurvey {
    /// The number of missing cells.
    pub missing: u64,
    /// The moments of the numeric cells.
    pub numbers: Moments,
    /// The other cells, if any.
    #[serde(rename = "words")]
    pub non_numeric: Option<Box<NonNumeric>>,
}

/// Summarizes the cells of a column that are not numbers, or all cells of a category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NonNumeric {
    /// Cells that are true.
    pub trues: u64,
    /// Cells that are false.
    pub falses: u64,
    /// Cells that are text.
    pub texts: u64,
    /// Texts among them that are dates or times.
    pub dates: u64,
    /// Numbers that are too large for a model.
    pub huge: u64,
    /// Cells that are neither text nor number.
    #[serde(rename = "others")]
    pub unsupported: u64,
    /// The distinct values, at most [`MOST_CATEGORIES`] + 1.
    pub values: BTreeSet<String>,
}

impl NonNumeric {
    fn note(&mut self, value: &str) {
        if self.values.len() <= MOST_CATEGORIES && !self.values.contains(value) {
            self.values.insert(value.to_owned());
        }
    }
}

impl ColumnSurvey {
    /// Adds one cell.
    pub(super) fn add(&mut self, value: &Value<'_>, cell: &Cell<'_>, categorical: bool) {
        match value {
            Value::Missing => {
                self.missing += 1;
                return;
            }
            Value::Number(x) if !categorical => return self.numbers.add(*x),
            _ => {}
        }
        let other = self.non_numeric.get_or_insert_default();
        match value {
            Value::Missing | Value::Number(_) => {}
            Value::Boolean(true) => other.trues += 1,
            Value::Boolean(false) => other.falses += 1,
            Value::Huge => other.huge += 1,
            Value::Other(_) => other.unsupported += 1,
            Value::Text(text) => {
                other.texts += 1;
                other.dates += u64::from(is_date(text));
            }
        }
        if let Some(name) = category_name(value.clone(), cell) {
            other.note(&name);
        }
    }

    /// Adds another client's summary of the same column.
    pub fn merge(&mut self, other: &ColumnSurvey) {
        self.missing += other.missing;
        self.numbers.merge(&other.numbers);
        let Some(more) = &other.non_numeric else {
            return;
        };
        let own = self.non_numeric.get_or_insert_default();
        own.trues += more.trues;
        own.falses += more.falses;
        own.texts += more.texts;
        own.dates += more.dates;
        own.huge += more.huge;
        own.unsupported += more.unsupported;
        more.values.iter().for_each(|value| own.note(value));
    }

    /// Returns the moments of the true and false cells as 1 and 0.
    pub(super) fn booleans(&self) -> Moments {
        let (trues, falses) = match &self.non_numeric {
            Some(other) => (other.trues, other.falses),
            None => (0, 0),
        };
        let n = trues + falses;
        let share = match n {
            0 => 0.0,
            n => trues as f64 / n as f64,
        };
        Moments {
            n,
            mean: share,
            m2: n as f64 * share * (1.0 - share),
        }
    }
}

/// Summarizes training rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// The number of rows.
    pub rows: u64,
    /// The feature columns, in the table's order.
    pub columns: Vec<ColumnSurvey>,
    /// The number of rows of each label (classification).
    pub labels: BTreeMap<String, u64>,
    /// The moments of the labels (regression).
    pub values: Moments,
}

impl Survey {
    /// Creates the survey of no rows with that many feature columns.
    pub fn new(columns: usize) -> Self {
        Self {
            columns: vec![ColumnSurvey::default(); columns],
            ..Self::default()
        }
    }

    /// Adds another client's survey of the same columns.
    pub fn merge(&mut self, other: &Survey) {
        assert_eq!(self.columns.len(), other.columns.len(), "the same columns");
        self.rows += other.rows;
        let columns = self.columns.iter_mut().zip(&other.columns);
        columns.for_each(|(mine, other)| mine.merge(other));
        for (label, count) in &other.labels {
            *self.labels.entry(label.clone()).or_default() += count;
        }
        self.values.merge(&other.values);
    }

    /// Merges surveys in the order of the clients; `None` if there are none.
    pub fn merged<'a>(clients: impl IntoIterator<Item = &'a Survey>) -> Option<Self> {
        let mut clients = clients.into_iter();
        let mut all = clients.next()?.clone();
        clients.for_each(|client| all.merge(client));
        Some(all)
    }
}
