//! The survey of a site: made there, checked at the server.

use std::collections::HashMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::agreement::over_sites;
use crate::data::table::{RareStatistic, Survey, Surveyed, Table};
use crate::error::{Error, Result};
use crate::model::kernels::lanes;
use crate::quote::{in_quotes, listed};
use crate::spec::{Plan, PlannedSites};

/// A site's description of its table, sent once, without what the spec declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SiteSurvey {
    /// The columns that are features.
    pub columns: Vec<String>,
    /// Training, validation and test rows.
    pub rows: [usize; 3],
    /// Counts, moments and values of the training rows.
    pub survey: Survey,
    /// The number of elements in the CPU's vectors.
    pub lanes: usize,
}

/// Returns whether the sites disclose counts of their labels even if the spec declares the classes.
fn discloses_labels(plan: &Plan, sites: &PlannedSites) -> bool {
    plan.class_weights || sites.disclose.classes || sites.disclose.scores
}

/// The table of a site, read for its survey.
pub(super) struct SiteTable {
    pub table: Table,
    pub surveyed: Surveyed,
}

impl SiteTable {
    /// Reads the table of the site with that index.
    pub fn read(plan: &Plan, client: &str, index: usize, data: &Path) -> Result<Self> {
        let (table, _) = over_sites(plan)?;
        let table = table.at_site(data.into(), client, index);
        let surveyed = table.survey(&table.files())?.check()?;
        Ok(Self { table, surveyed })
    }

    /// Returns what the site sends of its table.
    pub fn survey(&self, plan: &Plan) -> SiteSurvey {
        let columns = self.surveyed.columns().to_vec();
        let mut survey = self.surveyed.surveys()[0].clone();
        let declared = &self.table.declared;
        declared.strip(&columns, &mut survey, plan.class_weights);
        SiteSurvey {
            columns,
            rows: self.surveyed.rows(0),
            survey,
            lanes: lanes(),
        }
    }

    /// Checks that the survey can be sent, but for rare values.
    pub fn require_usable(&self) -> Result<()> {
        self.surveyed.require_unmixed()?;
        let labels = self.surveyed.surveys()[0].labels.keys();
        if let Some(problem) = self.table.label_problem(labels) {
            return Err(Error::data(problem));
        }
        let Some(classes) = &self.table.declared.classes else {
            return Ok(());
        };
        let labels = self.surveyed.surveys()[0].labels.keys();
        let strange: Vec<String> = (labels.filter(|label| !classes.contains(label)))
            .take(5)
            .map(|label| in_quotes(label))
            .collect();
        match strange.len() {
            0 => Ok(()),
            _ => Err(Error::data(format!(
                "label '{}': found {}, allowed by data.classes are {}",
                self.table.label,
                strange.join(", "),
                classes.join(", ")
            ))),
        }
    }

    /// Returns all statistics of few rows that the terms ask for.
    pub fn rare(&self, plan: &Plan) -> Result<Vec<RareStatistic>> {
        let (_, sites) = over_sites(plan)?;
        let discloses = discloses_labels(plan, sites);
        let files = self.table.files();
        self.table
            .rare_statistics(&files, &self.surveyed, discloses)
    }

    /// Returns the statistics of few rows for which the survey is refused.
    pub fn refused(&self, plan: &Plan) -> Result<Vec<RareStatistic>> {
        let (_, sites) = over_sites(plan)?;
        let mut rare = self.rare(plan)?;
        rare.retain(|rare| !(sites.send_rare && rare.may_be_sent()));
        Ok(rare)
    }
}

impl SiteSurvey {
    /// Returns whether it has the same rows, columns and statistics; the machine may be another.
    pub fn is_of_same_table(&self, other: &SiteSurvey) -> bool {
        (&self.columns, self.rows, &self.survey) == (&other.columns, other.rows, &other.survey)
    }

    /// Checks that a site can have this survey.
    ///
    /// # Errors
    /// What is impossible.
    pub fn check(&self, plan: &Plan) -> std::result::Result<(), String> {
        let (table, _) = over_sites(plan).map_err(|e| e.to_string())?;
        table.check_survey(&self.columns, &self.survey, self.rows, plan.class_weights)
    }

    /// Returns the survey with the columns in another order, that of the first site.
    pub fn in_order(&self, name: &str, columns: &[String]) -> Result<Survey> {
        let own = self.columns.iter().map(String::as_str).zip(0..);
        let positions: HashMap<&str, usize> = own.collect();
        let position = |name: &String| positions.get(name.as_str()).copied();
        let order: Option<Vec<usize>> = columns.iter().map(position).collect();
        let whole = |order: &Vec<usize>| {
            order.len() == self.columns.len() && order.len() == self.survey.columns.len()
        };
        let Some(order) = order.filter(whole) else {
            return Err(Error::data(format!(
                "the columns of site '{name}' differ from those of the first site: {} there, {} at \
                 the first; data.ignore leaves columns out",
                listed(&self.columns),
                listed(columns)
            )));
        };
        let mut survey = self.survey.clone();
        survey.columns = (order.iter())
            .map(|k| self.survey.columns[*k].clone())
            .collect();
        Ok(survey)
    }
}

/// Describes the cells of a column by site, such as "north: 40 numbers; south: 38 texts".
pub(super) fn cells_by_site<'a>(
    sites: impl Iterator<Item = (&'a String, &'a Survey)>,
    column: usize,
) -> String {
    let each = sites.map(|(name, survey)| {
        let seen = &survey.columns[column];
        let mut counts = vec![(seen.numbers.n, "numbers")];
        if let Some(other) = &seen.non_numeric {
            counts.extend([
                (other.trues + other.falses, "true or false"),
                (other.texts, "texts"),
                (other.dates, "dates among them"),
                (other.huge, "numbers that are too large"),
                (other.unsupported, "cells of another type"),
                (other.values.len() as u64, "different values"),
            ]);
        }
        let found: Vec<String> = (counts.iter().filter(|(n, _)| *n > 0))
            .map(|(n, what)| format!("{n} {what}"))
            .collect();
        match found.len() {
            0 => format!("{name}: none"),
            _ => format!("{name}: {}", found.join(", ")),
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::table::{ColumnSurvey, NonNumeric};
    use serde_json::Value;

    /// Collects the paths of all keys of a document.
    fn keys(value: &Value, path: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    let path = format!("{path}.{key}");
                    found.push(path.clone());
                    keys(value, &path, found);
                }
            }
            Value::Array(list) => list.iter().for_each(|value| keys(value, path, found)),
            _ => {}
        }
    }

    /// A site sends what docs/FEDERATION.md lists, and nothing else.
    #[test]
    fn a_survey_has_what_the_document_lists() {
        let mut survey = Survey::new(1);
        survey.columns[0] = ColumnSurvey {
            non_numeric: Some(Box::new(NonNumeric::default())),
            ..ColumnSurvey::default()
        };
        let site = SiteSurvey {
            columns: vec!["age".into()],
            rows: [3, 1, 1],
            survey,
            lanes: 8,
        };
        let mut found = Vec::new();
        keys(&serde_json::to_value(&site).unwrap(), "", &mut found);
        found.sort();
        let mut listed = vec![
            ".columns",
            ".rows",
            ".lanes",
            ".survey",
            ".survey.rows",
            ".survey.labels",
            ".survey.values",
            ".survey.values.n",
            ".survey.values.mean",
            ".survey.values.m2",
            ".survey.columns",
            ".survey.columns.missing",
            ".survey.columns.numbers",
            ".survey.columns.numbers.n",
            ".survey.columns.numbers.mean",
            ".survey.columns.numbers.m2",
            ".survey.columns.words",
            ".survey.columns.words.trues",
            ".survey.columns.words.falses",
            ".survey.columns.words.texts",
            ".survey.columns.words.dates",
            ".survey.columns.words.huge",
            ".survey.columns.words.others",
            ".survey.columns.words.values",
        ];
        listed.sort_unstable();
        assert_eq!(found, listed);
    }
}
