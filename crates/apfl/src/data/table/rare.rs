//! Values of text columns that only few rows have.

use std::collections::HashMap;

use super::records::Part;
use super::source::TableSource;
use super::value::{Missing, called, value_of};
use super::{Surveyed, Table};
use crate::error::Result;

/// A value of fewer rows of a client could point at them.
pub const RARE: u64 = 5;

impl Table {
    /// The columns whose values a survey tells and of which one has fewer than [`RARE`] of the
    /// training rows.
    pub fn rare_columns(
        &self,
        source: &dyn TableSource,
        surveyed: &Surveyed,
    ) -> Result<Vec<String>> {
        let missing = Missing::new(&self.missing);
        let told = |k: usize| {
            let values = |survey: &super::Survey| {
                let words = survey.columns[k].words.as_ref();
                words.is_some_and(|words| !words.values.is_empty())
            };
            let declared = &self.declared.categories;
            !declared.contains_key(&surveyed.layout.names[k]) && surveyed.surveys.iter().any(values)
        };
        let columns: Vec<usize> = (0..surveyed.layout.names.len())
            .filter(|k| told(*k))
            .collect();
        if columns.is_empty() {
            return Ok(Vec::new());
        }
        let mut counts: Vec<HashMap<String, u64>> = vec![HashMap::new(); columns.len()];
        self.again(source, surveyed.parts.owner.len(), |row, rows| {
            let Some((_, Part::Train)) = surveyed.parts.of(row) else {
                return true;
            };
            for (k, counts) in columns.iter().zip(&mut counts) {
                let cell = rows.cell(surveyed.layout.features[*k]);
                let value = value_of(&cell, &missing);
                if let Some(name) = called(value, &cell) {
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
