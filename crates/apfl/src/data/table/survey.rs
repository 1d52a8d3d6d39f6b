//! What is known of a table without its rows: sums and sets that clients can add up.
//!
//! Every client surveys its own training rows; surveys are merged in the order of the
//! clients. Everything that turns columns into features is made of the result, in one
//! process as over sites.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::value::{Value, called, is_date};
use crate::data::rows::Cell;

/// The most different values of a category.
pub const MOST_CATEGORIES: usize = 100;

/// Count, mean and sum of squared deviations of some numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Moments {
    /// How many.
    pub n: u64,
    /// Their mean.
    pub mean: f64,
    /// Σ(x − mean)²
    pub m2: f64,
}

impl Moments {
    /// Takes in one more number:
    ///
    /// ```text
    /// δ = x − mean     mean ← mean + δ/n     M₂ ← M₂ + δ·(x − mean)
    /// ```
    pub fn add(&mut self, x: f64) {
        self.n += 1;
        let delta = x - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (x - self.mean);
    }

    /// Takes in the numbers of another, n = nₐ + n_b:
    ///
    /// ```text
    /// δ = mean_b − meanₐ     mean = meanₐ + δ·n_b/n     M₂ = M₂ₐ + M₂_b + δ²·nₐ·n_b/n
    /// ```
    pub fn merge(&mut self, other: &Moments) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            *self = *other;
            return;
        }
        let (a, b) = (self.n as f64, other.n as f64);
        let delta = other.mean - self.mean;
        self.mean += delta * (b / (a + b));
        self.m2 += other.m2 + delta * delta * (a * b / (a + b));
        self.n += other.n;
    }

    /// The standard deviation (population); 1 where the numbers vary by rounding only.
    pub fn deviation(&self) -> f64 {
        let deviation = match self.n {
            0 => 0.0,
            n => (self.m2 / n as f64).sqrt(),
        };
        match deviation <= 1e-14 * self.mean.abs() {
            true => 1.0,
            false => deviation,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_parts_are_those_of_the_whole() {
        let of = |x: &[f64]| {
            let mut moments = Moments::default();
            x.iter().for_each(|x| moments.add(*x));
            moments
        };
        // 1, 2, 4 and 9, 14: mean 6, squared deviations 25 + 16 + 4 + 9 + 64 = 118.
        let mut parts = of(&[1.0, 2.0, 4.0]);
        parts.merge(&of(&[]));
        parts.merge(&of(&[9.0, 14.0]));
        assert_eq!(parts.n, 5);
        assert!((parts.mean - 6.0).abs() < 1e-12 && (parts.m2 - 118.0).abs() < 1e-9);
        assert_eq!(of(&[0.1, 0.1, 0.1]).deviation(), 1.0);
        // Far from zero nothing is lost: 1e12 and 1e12 + 2 deviate by 1.
        assert!((of(&[1e12, 1e12 + 2.0]).deviation() - 1.0).abs() < 1e-12);
    }
}
