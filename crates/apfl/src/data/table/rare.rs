//! Values of text columns that occur in only a few rows.

use std::collections::HashMap;

use super::records::Split;
use super::source::TableSource;
use super::value::{Missing, category_name, value_of};
use super::{Surveyed, Table};
use crate::error::Result;

/// The fewest training rows of a client that may share a value; fewer could be identified by it.
pub const RARE: u64 = 5;

impl Table {
    /// Returns the columns whose values the survey discloses and that have a value of fewer than
    /// [`RARE`] training rows.
    pub fn rare_columns(
        &self,
        source: &dyn TableSource,
        surveyed: &Surveyed,
    ) -> Result<Vec<String>> {
        let missing = Missing::new(&self.missing);
        let disclosed = |k: usize| {
            let values = |survey: &super::Survey| {
                let other = survey.columns[k].non_numeric.as_ref();
                other.is_some_and(|other| !other.values.is_empty())
            };
            let declared = &self.declared.categories;
            !declared.contains_key(&surveyed.layout.names[k]) && surveyed.surveys.iter().any(values)
        };
        let columns: Vec<usize> = (0..surveyed.layout.names.len())
            .filter(|k| disclosed(*k))
            .collect();
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let mut counts: Vec<HashMap<String, u64>> = vec![HashMap::new(); columns.len()];
        self.reread(source, surveyed.parts.owner.len(), |row, rows| {
            let Some((_, Split::Train)) = surveyed.parts.of(row) else {
                return true;
            };
            for (k, counts) in columns.iter().zip(&mut counts) {
                let cell = rows.cell(surveyed.layout.features[*k]);
                let value = value_of(&cell, &missing);
                if let Some(name) = category_name(value, &cell) {
                    *counts.entry(name.into_owned()).or_default() += 1;
                }
            }
            true
        })?;
        let rare = columns.iter().zip(&counts);
        let rare = rare.filter(|(_, counts)| counts.values().any(|count| *count < RARE));
        Ok(rare
            .map(|(k, _)| surveyed.layout.names[*k].clone())
            .collect())
    }
}
