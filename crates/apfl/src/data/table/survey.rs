//! What is known of a table without its rows: sums and sets that clients can add up.
//!
//! Every client surveys its own training rows; surveys are merged in the order of the
//! clients. Everything that turns columns into features is made of the result, in one
//! process as over sites.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::value::{Value, called, is_date};
use crate::data::rows::Cell;
use crate::moments::Moments;

/// The most different values of a category.
pub const MOST_CATEGORIES: usize = 100;

/// What is known of one column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ColumnSurvey {
    /// Cells that mean: not known.
    pub missing: u64,
    /// The cells that are numbers.
    pub numbers: Moments,
    /// The other cells, where there are some.
    pub words: Option<Box<Words>>,
}

/// The cells of a column that are no numbers; all of them where the column is a category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Words {
    /// Cells that say true.
    pub trues: u64,
    /// Cells that say false.
    pub falses: u64,
    /// Cells that are texts.
    pub texts: u64,
    /// Texts among them that are dates or times.
    pub dates: u64,
    /// Numbers that are too large for a model.
    pub huge: u64,
    /// Cells that are neither text nor number.
    pub others: u64,
    /// The different values, up to one more than a category may have.
    pub values: BTreeSet<String>,
}

impl Words {
    fn note(&mut self, value: &str) {
        if self.values.len() <= MOST_CATEGORIES && !self.values.contains(value) {
            self.values.insert(value.to_owned());
        }
    }
}

impl ColumnSurvey {
    /// Takes in one cell.
    pub(super) fn add(&mut self, value: &Value<'_>, cell: &Cell<'_>, categorical: bool) {
        match value {
            Value::Missing => {
                self.missing += 1;
                return;
            }
            Value::Number(x) if !categorical => return self.numbers.add(*x),
            _ => {}
        }
        let words = self.words.get_or_insert_default();
        match value {
            Value::Missing | Value::Number(_) => {}
            Value::Truth(true) => words.trues += 1,
            Value::Truth(false) => words.falses += 1,
            Value::Huge => words.huge += 1,
            Value::Other(_) => words.others += 1,
            Value::Text(text) => {
                words.texts += 1;
                words.dates += u64::from(is_date(text));
            }
        }
        if let Some(name) = called(value.clone(), cell) {
            words.note(&name);
        }
    }

    /// Takes in what another client knows of the same column.
    pub fn merge(&mut self, other: &ColumnSurvey) {
        self.missing += other.missing;
        self.numbers.merge(&other.numbers);
        let Some(more) = &other.words else { return };
        let words = self.words.get_or_insert_default();
        words.trues += more.trues;
        words.falses += more.falses;
        words.texts += more.texts;
        words.dates += more.dates;
        words.huge += more.huge;
        words.others += more.others;
        more.values.iter().for_each(|value| words.note(value));
    }

    /// Cells that say true or false, as the numbers 1 and 0.
    pub(super) fn truths(&self) -> Moments {
        let (trues, falses) = match &self.words {
            Some(words) => (words.trues, words.falses),
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

/// What is known of some training rows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Survey {
    /// How many.
    pub rows: u64,
    /// Their columns, in the order of the table's features.
    pub columns: Vec<ColumnSurvey>,
    /// How often each label occurs (classification).
    pub labels: BTreeMap<String, u64>,
    /// The labels as numbers (regression).
    pub values: Moments,
}

impl Survey {
    /// No rows yet, of that many feature columns.
    pub fn new(columns: usize) -> Self {
        Self {
            columns: vec![ColumnSurvey::default(); columns],
            ..Self::default()
        }
    }

    /// Takes in another client's, of the same columns.
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

    /// The surveys of some clients, merged in their order.
    pub fn merged<'a>(clients: impl IntoIterator<Item = &'a Survey>) -> Option<Self> {
        let mut clients = clients.into_iter();
        let mut all = clients.next()?.clone();
        clients.for_each(|client| all.merge(client));
        Some(all)
    }
}
