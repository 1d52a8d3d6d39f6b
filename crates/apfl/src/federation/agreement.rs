//! What a federation is to be, what sites tell, and what all agree on.

use serde::{Deserialize, Serialize};

use crate::data::roster::Member;
use crate::data::table::{Agreed, Survey, Table};
use crate::data::{Normalization, Schema, Source, Task};
use crate::digest::sha256_of;
use crate::error::{Error, Result};
use crate::model::kernels::lanes;
use crate::run::Program;
use crate::spec::{Plan, PlannedSites, Spec};

/// What a site is asked to take part in, before anything of it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The resolved spec, without where files lie and how the server works.
    pub spec: String,
    /// The version of the program.
    pub program: String,
}

impl Terms {
    /// The terms of a plan.
    pub fn new(plan: &Plan, program: &Program) -> Self {
        let mut spec = plan.resolved.clone();
        spec.remove("engine");
        spec.remove("checkpoint");
        if let Some(data) = spec.get_mut("data").and_then(toml::Value::as_table_mut) {
            data.remove("path");
        }
        Self {
            spec: toml::to_string(&spec).expect("a table of plain values is TOML"),
            program: format!("{} ({})", program.version, program.commit),
        }
    }

    /// Their hash: what operators compare.
    pub fn hash(&self) -> String {
        sha256_of(format!("{}\n{}", self.program, self.spec).as_bytes())
    }

    /// The plan they are of.
    pub fn plan(&self) -> Result<Plan> {
        Spec::parse(&self.spec)?.plan()
    }
}

/// The table and the sites of a plan that is over sites.
pub(super) fn over_sites(plan: &Plan) -> Result<(&Table, &PlannedSites)> {
    match (&plan.data, &plan.sites) {
        (Source::Table(table), Some(sites)) => Ok((table, sites)),
        _ => Err(Error::Request(
            "federation.sites: missing: the names of the sites, such as [\"north\", \"south\"]"
                .into(),
        )),
    }
}

/// What a site tells, once: all of it, but for what the spec declares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Told {
    /// The columns that are features.
    pub columns: Vec<String>,
    /// Training, validation and test rows.
    pub rows: [usize; 3],
    /// Counts, moments and values of the training rows.
    pub survey: Survey,
    /// How many numbers the CPU's vectors hold.
    pub lanes: usize,
}

/// What all agreed on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// What the federation is to be.
    pub terms: Terms,
    /// The columns that are features, in order.
    pub columns: Vec<String>,
    /// What they become, and what is predicted.
    pub schema: Schema,
    /// Training examples of every class.
    pub classes: Vec<u64>,
    pub(crate) roster: Vec<Member>,
}

impl Agreement {
    /// Its hash, which every order names.
    pub fn hash(&self) -> String {
        sha256_of(self.to_json().as_bytes())
    }

    /// As JSON, always in the same bytes.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain JSON")
    }

    /// From JSON.
    pub fn from_json(text: &str) -> Result<Self> {
        let wrong = |e: String| Error::Checkpoint(format!("no agreement of a federation: {e}"));
        let agreement: Self = serde_json::from_str(text).map_err(|e| wrong(e.to_string()))?;
        match agreement.schema.problem() {
            None => Ok(agreement),
            Some(problem) => Err(wrong(format!("it has {problem}"))),
        }
    }

    /// The names of the clients, in order.
    pub fn sites(&self) -> Vec<&str> {
        self.roster.iter().map(|m| m.name.as_str()).collect()
    }

    /// What every site's numbers are made by.
    pub(super) fn agreed(&self) -> Result<Agreed> {
        let Normalization::Prepared(preparation) = &self.schema.normalization else {
            return Err(Error::Checkpoint(
                "the agreement is not about a table".into(),
            ));
        };
        Ok(Agreed {
            preparation: preparation.clone(),
            task: self.schema.task.clone(),
        })
    }

    /// What the sites' surveys, in the order of the sites, make of a plan; with what an operator
    /// should know.
    pub(super) fn make(terms: Terms, plan: &Plan, told: Vec<Told>) -> Result<(Self, Vec<String>)> {
        let (table, sites) = over_sites(plan)?;
        let mut notes = Vec::new();
        let columns = told[0].columns.clone();
        let mut surveys = Vec::new();
        let mut roster = Vec::new();
        for (name, site) in sites.names.iter().zip(told) {
            if site.lanes != lanes() {
                notes.push(format!(
                    "site '{name}' computes with vectors of {} numbers, the server with {}: the \
                     last bits may differ from those of one process",
                    site.lanes,
                    lanes()
                ));
            }
            surveys.push(in_order(name, &columns, &site)?);
            roster.push(Member {
                name: name.clone(),
                rows: site.rows,
            });
        }
        let all = Survey::merged(&surveys).ok_or_else(|| Error::data("there are no sites"))?;
        let agreed = table.agree(&columns, &all).map_err(|refused| {
            let told = refused.into_iter().map(|(column, why)| match column {
                Some(k) => format!("column '{}' {why}", columns[k]),
                None => why,
            });
            Error::data(told.collect::<Vec<_>>().join("\n  "))
        })?;
        let features = agreed.preparation.features();
        let classes = match &agreed.task {
            Task::Regression => Vec::new(),
            Task::Classification { classes } => {
                let count = |class: &String| all.labels.get(class).copied().unwrap_or(0);
                classes.iter().map(count).collect()
            }
        };
        let agreement = Self {
            schema: Schema {
                task: agreed.task,
                shape: vec![features.len()],
                features,
                normalization: Normalization::Prepared(agreed.preparation),
            },
            terms,
            columns,
            classes,
            roster,
        };
        Ok((agreement, notes))
    }
}

/// A site's survey with its columns in the order of the first site's.
fn in_order(site: &str, columns: &[String], told: &Told) -> Result<Survey> {
    let place = |name: &String| told.columns.iter().position(|own| own == name);
    let order: Option<Vec<usize>> = columns.iter().map(place).collect();
    let whole = |order: &Vec<usize>| {
        order.len() == told.columns.len() && order.len() == told.survey.columns.len()
    };
    let Some(order) = order.filter(whole) else {
        return Err(Error::data(format!(
            "site '{site}' has other columns than the first site: {} there, {} at the first; \
             data.ignore leaves columns out",
            told.columns.join(", "),
            columns.join(", ")
        )));
    };
    let mut survey = told.survey.clone();
    survey.columns = (order.iter())
        .map(|k| told.survey.columns[*k].clone())
        .collect();
    Ok(survey)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::table::{ColumnSurvey, NonNumeric};
    use serde_json::Value;

    /// Every key of a document, by its path.
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

    /// What docs/FEDERATION.md lists, and nothing else, is what a site tells.
    #[test]
    fn a_survey_tells_what_the_document_lists() {
        let mut survey = Survey::new(1);
        survey.columns[0] = ColumnSurvey {
            non_numeric: Some(Box::new(NonNumeric::default())),
            ..ColumnSurvey::default()
        };
        let told = Told {
            columns: vec!["age".into()],
            rows: [3, 1, 1],
            survey,
            lanes: 8,
        };
        let mut found = Vec::new();
        keys(&serde_json::to_value(&told).unwrap(), "", &mut found);
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
