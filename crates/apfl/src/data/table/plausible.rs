//! Surveys that no table can have: a check of what another party sends.

use super::records::LONGEST_NAME;
use super::survey::{ColumnSurvey, MOST_CATEGORIES, NonNumeric, Survey};
use super::{Standardize, Table};
use crate::moments::Moments;
use crate::quote::in_quotes;

/// Larger than every number of a table, which single precision must hold, and every mean of them.
pub(super) const LARGEST: f64 = 3.41e38;

/// The most rows of a table.
pub const MAX_ROWS: u64 = u32::MAX as u64 - 1;

/// The result of a check, or the reason it failed.
type Checked = Result<(), String>;

impl Table {
    /// Checks that a table with `rows` training, validation and test rows can have this survey,
    /// from which what the settings declare is stripped. `counted`: whether labels are counted
    /// although the classes are declared.
    ///
    /// # Errors
    /// What is impossible.
    pub fn check_survey(
        &self,
        columns: &[String],
        survey: &Survey,
        rows: [usize; 3],
        counted: bool,
    ) -> Checked {
        let total = rows
            .iter()
            .try_fold(0u64, |sum, n| sum.checked_add(*n as u64));
        let [training, _, _] = rows;
        if total.is_none_or(|n| n > MAX_ROWS) || training == 0 || survey.rows != training as u64 {
            return Err(format!(
                "found {rows:?} training, validation and test rows, of which {} are surveyed; \
                 allowed are 1 or more for training and at most {MAX_ROWS} in all",
                survey.rows
            ));
        }
        let mut names: Vec<&String> = columns.iter().collect();
        names.sort_unstable();
        names.dedup();
        if names.len() < columns.len() || survey.columns.len() != columns.len() {
            return Err(format!(
                "found {} different names of {} columns and surveys of {}",
                names.len(),
                columns.len(),
                survey.columns.len()
            ));
        }
        for (name, column) in columns.iter().zip(&survey.columns) {
            self.check_column(name, column, survey.rows)
                .map_err(|why| format!("column {}: {why}", in_quotes(name)))?;
        }
        self.check_labels(survey, counted)
            .map_err(|why| format!("the label: {why}"))
    }

    fn check_column(&self, name: &String, column: &ColumnSurvey, rows: u64) -> Checked {
        let categorical = self.categorical.contains(name);
        let declared_categories = self.declared.categories.contains_key(name);
        let declared_moments = self.declared.moments.contains_key(name);
        let none = NonNumeric::default();
        let other = column.non_numeric.as_deref().unwrap_or(&none);
        if declared_categories && *other != none || declared_moments && column.numbers.n > 0 {
            return Err("it describes what the spec declares".into());
        }
        self.check_moments(&column.numbers)?;
        let counts = [
            column.missing,
            column.numbers.n,
            other.trues,
            other.falses,
            other.texts,
            other.huge,
            other.unsupported,
        ];
        let cells = counts.iter().try_fold(0u64, |sum, n| sum.checked_add(*n));
        // Numbers of categories are not counted, and declared ones are not there.
        let complete = !categorical && !declared_categories && !declared_moments;
        let fits = |cells: u64| cells <= rows && (cells == rows || !complete);
        if !cells.is_some_and(fits) {
            return Err(format!("its cells are not those of {rows} training rows"));
        }
        if categorical && column.numbers.n > 0 {
            return Err("it has moments of numbers that are categories".into());
        }
        if !categorical && other.texts > 0 && column.numbers.n + other.huge > 0 {
            return Err("it has numbers and text".into());
        }
        let distinct = other.values.len() as u64;
        if other.dates > other.texts
            || distinct > MOST_CATEGORIES as u64 + 1
            || distinct > rows - column.missing
        {
            return Err(format!(
                "{} dates of {} texts and {distinct} different values do not fit {rows} training \
                 rows",
                other.dates, other.texts
            ));
        }
        Ok(())
    }

    fn check_labels(&self, survey: &Survey, counted: bool) -> Checked {
        if self.regression {
            if !survey.labels.is_empty() || survey.values.n != survey.rows {
                return Err(format!("its numbers are not those of {} rows", survey.rows));
            }
            return self.check_moments(&survey.values);
        }
        if survey.values != Moments::default() {
            return Err("it has moments, but the task is classification".into());
        }
        if self.declared.classes.is_some() && !counted {
            if !survey.labels.is_empty() {
                return Err("it counts labels that the spec declares".into());
            }
            return Ok(());
        }
        for (label, count) in &survey.labels {
            let known = |names: &Vec<String>| names.contains(label);
            let mapped = self.label_map.iter().any(|(_, name)| name == label);
            if *count == 0
                || label.is_empty()
                || label.len() > LONGEST_NAME
                || !self.declared.classes.as_ref().is_none_or(known)
                || !(mapped || self.label_map.is_empty())
            {
                return Err(format!(
                    "found {} with {count} rows, which is not a label of the spec",
                    in_quotes(label)
                ));
            }
        }
        let sum = (survey.labels.values()).try_fold(0u64, |sum, n| sum.checked_add(*n));
        if sum != Some(survey.rows) {
            return Err(format!(
                "its counts do not add up to {} training rows",
                survey.rows
            ));
        }
        Ok(())
    }

    /// Checks moments of numbers that single precision can hold.
    fn check_moments(&self, Moments { n, mean, m2 }: &Moments) -> Checked {
        let range = 2.0 * LARGEST;
        let possible = mean.is_finite()
            && mean.abs() <= LARGEST
            && (0.0..=*n as f64 * range * range).contains(m2)
            && (*n > 0 || *mean == 0.0)
            && (*n > 1 || *m2 == 0.0);
        if !possible {
            return Err(format!(
                "no {n} numbers have the mean {mean:e} and the sum of squared deviations {m2:e}"
            ));
        }
        // A model squares what is not standardized, in single precision.
        let mean_square = mean * mean + m2 / (*n).max(1) as f64;
        if self.standardize == Standardize::No && mean_square > f64::from(f32::MAX) {
            return Err(format!(
                "numbers with the mean {mean:e} are too large for a model; standardize them with \
                 data.standardize, or name them in data.missing if they mean \"not known\""
            ));
        }
        Ok(())
    }
}
