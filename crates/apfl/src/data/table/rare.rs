//! Statistics of so few training rows that they could disclose those rows.

use std::collections::HashMap;

use super::records::Split;
use super::source::TableSource;
use super::value::{Missing, Value, category_name, value_of};
use super::{Surveyed, Table};
use crate::error::Result;

/// The fewest training rows of a client that a disclosed value or statistic may stand for; fewer
/// could be identified by it.
pub const RARE: u64 = 5;

/// What a rare statistic is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RareKind {
    /// The table has too few training rows.
    Rows,
    /// A number column whose mean would stand for too few known cells.
    Cells,
    /// A text column whose values would be disclosed.
    Text,
    /// A column of `data.categorical` that has numbers.
    Number,
    /// The label, whose values would be disclosed with their counts.
    Label,
}

/// A statistic of fewer than [`RARE`] training rows that a survey would disclose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RareStatistic {
    /// The column; empty for [`RareKind::Rows`].
    pub column: String,
    /// What it is about.
    pub kind: RareKind,
    /// The rare values with their numbers of rows, sorted; for rows and cells their number alone.
    pub values: Vec<(String, u64)>,
}

impl RareStatistic {
    /// Describes it without its values, and says what to do.
    pub fn describe(&self) -> String {
        let column = &self.column;
        let few = format!("fewer than {RARE} training rows");
        match self.kind {
            RareKind::Rows => format!(
                "the table has {few}, so that its sums would disclose them; lower data.validation \
                 and data.test, or give the site more rows"
            ),
            RareKind::Cells => format!(
                "column '{column}' has {few} with a number, whose mean would disclose them; \
                 declare its data.moments, or leave it out with data.ignore"
            ),
            RareKind::Text => format!(
                "column '{column}' has values that occur in {few}; declare data.categories, leave \
                 the column out with data.ignore, or set federation.rare = \"send\""
            ),
            RareKind::Number => format!(
                "column '{column}' has numbers as categories that occur in {few}; declare \
                 data.categories, or leave the column out with data.ignore"
            ),
            RareKind::Label => format!(
                "label '{column}' has values that occur in {few}; declare data.classes without \
                 training.class_weights = \"balanced\" and without federation.disclose = \
                 [\"classes\"] or [\"scores\"], join labels with data.label_map, or predict the \
                 number with data.task = \"regression\""
            ),
        }
    }

    /// Returns whether `federation.rare = "send"` lets it leave a site.
    pub fn may_be_sent(&self) -> bool {
        self.kind == RareKind::Text
    }
}

impl Table {
    /// Returns the statistics of fewer than [`RARE`] training rows that a site would disclose.
    /// `discloses_labels`: whether counts of labels leave the site although the classes are
    /// declared.
    pub fn rare_statistics(
        &self,
        source: &dyn TableSource,
        surveyed: &Surveyed,
        discloses_labels: bool,
    ) -> Result<Vec<RareStatistic>> {
        let Some(survey) = surveyed.surveys().first() else {
            return Ok(Vec::new());
        };
        if survey.rows < RARE {
            return Ok(vec![RareStatistic {
                column: String::new(),
                kind: RareKind::Rows,
                values: vec![("rows".into(), survey.rows)],
            }]);
        }
        let layout = &surveyed.layout;
        let values = self.values_of_categories(source, surveyed)?;
        let mut rare = Vec::new();
        for (k, name) in layout.names.iter().enumerate() {
            let known = survey.columns[k].numbers.n;
            if (1..RARE).contains(&known) && !self.declared.moments.contains_key(name) {
                rare.push(RareStatistic {
                    column: name.clone(),
                    kind: RareKind::Cells,
                    values: vec![("numbers".into(), known)],
                });
            }
            if let Some(Values { counts, numeric }) = values.get(&k) {
                let kind = if *numeric {
                    RareKind::Number
                } else {
                    RareKind::Text
                };
                rare.extend(rare_of(name, kind, counts.iter()));
            }
        }
        if self.declared.classes.is_none() || discloses_labels {
            rare.extend(rare_of(&self.label, RareKind::Label, survey.labels.iter()));
        }
        Ok(rare)
    }

    /// Counts the values of every column whose values the survey discloses.
    fn values_of_categories(
        &self,
        source: &dyn TableSource,
        surveyed: &Surveyed,
    ) -> Result<HashMap<usize, Values>> {
        let missing = Missing::new(&self.missing);
        let layout = &surveyed.layout;
        let disclosed = |k: &usize| {
            let values = |survey: &super::Survey| {
                let other = survey.columns[*k].non_numeric.as_ref();
                other.is_some_and(|other| !other.values.is_empty())
            };
            let declared = &self.declared.categories;
            !declared.contains_key(&layout.names[*k]) && surveyed.surveys().iter().any(values)
        };
        let columns = (0..layout.names.len()).filter(disclosed);
        let mut values: HashMap<usize, Values> = columns.map(|k| (k, Values::default())).collect();
        if values.is_empty() {
            return Ok(values);
        }
        self.reread(source, surveyed.parts.owner.len(), |row, rows| {
            let Some((_, Split::Train)) = surveyed.parts.of(row) else {
                return true;
            };
            for (k, found) in &mut values {
                let cell = rows.cell(layout.features[*k]);
                let value = value_of(&cell, &missing);
                found.numeric |= matches!(value, Value::Number(_) | Value::Huge);
                if let Some(name) = category_name(value, &cell) {
                    *found.counts.entry(name.into_owned()).or_default() += 1;
                }
            }
            true
        })?;
        Ok(values)
    }
}

/// The values of a column.
#[derive(Default)]
struct Values {
    /// The number of rows of each value.
    counts: HashMap<String, u64>,
    /// Whether there are numbers among them.
    numeric: bool,
}

/// Returns the values of fewer than [`RARE`] rows, if there are any.
fn rare_of<'a>(
    column: &str,
    kind: RareKind,
    counts: impl Iterator<Item = (&'a String, &'a u64)>,
) -> Option<RareStatistic> {
    let rare = counts.filter(|(_, count)| **count < RARE);
    let mut values: Vec<(String, u64)> = rare.map(|(name, n)| (name.clone(), *n)).collect();
    values.sort();
    (!values.is_empty()).then(|| RareStatistic {
        column: column.into(),
        kind,
        values,
    })
}
