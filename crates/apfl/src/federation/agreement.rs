//! The terms of a federation, the surveys of its sites and their agreement.

use serde::{Deserialize, Serialize};

use crate::data::roster::Member;
use crate::data::table::{Agreed, Survey, Table};
use crate::data::{Normalization, Schema, Source, Task};
use crate::digest::sha256_of;
use crate::error::{Error, Result};
use crate::model::kernels::lanes;
use crate::privacy::NoiseSeed;
use crate::run::Program;
use crate::spec::{Plan, PlannedSites, Spec};

/// The terms of a federation, which a site is asked to accept before it discloses anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The resolved spec, without file paths, `engine` and `checkpoint`.
    pub spec: String,
    /// The version of the program.
    pub program: String,
}

impl Terms {
    /// Creates the terms of a plan.
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

    /// Returns their hash, which operators compare.
    pub fn hash(&self) -> String {
        sha256_of(format!("{}\n{}", self.program, self.spec).as_bytes())
    }

    /// Returns comments for the operator on settings that protect less than they seem to.
    pub(super) fn warnings(&self) -> String {
        let privacy = self.plan().ok().and_then(|plan| plan.privacy);
        match privacy.map(|privacy| privacy.noise_seed) {
            Some(NoiseSeed::Seed) => {
                "# WARNING: federation.privacy.noise_seed = \"seed\": the noise follows from the \
                 seed below, which the\n# server knows and can use to remove it. This is a \
                 simulation and protects nobody; \"system\" protects.\n"
                    .into()
            }
            _ => String::new(),
        }
    }

    /// Returns the plan of these terms.
    pub fn plan(&self) -> Result<Plan> {
        Spec::parse(&self.spec)?.plan()
    }
}

/// Returns the table and the sites of a plan over sites.
pub(super) fn over_sites(plan: &Plan) -> Result<(&Table, &PlannedSites)> {
    match (&plan.data, &plan.sites) {
        (Source::Table(table), Some(sites)) => Ok((table, sites)),
        _ => Err(Error::Request(
            "federation.sites is missing; give the names of the sites, such as [\"north\", \"south\"]"
                .into(),
        )),
    }
}

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

/// The agreement of all sites.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The terms of the federation.
    pub terms: Terms,
    /// The columns that are features, in order.
    pub columns: Vec<String>,
    /// The prepared features and the task.
    pub schema: Schema,
    /// The number of training examples of each class.
    pub classes: Vec<u64>,
    pub(crate) roster: Vec<Member>,
}

impl Agreement {
    /// Returns its hash, which every request names.
    pub fn hash(&self) -> String {
        sha256_of(self.to_json().as_bytes())
    }

    /// Encodes it as JSON, always with the same bytes.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("plain JSON")
    }

    /// Reads it from JSON.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let invalid = |e: String| Error::Checkpoint(format!("agreement.json is invalid: {e}"));
        let agreement: Self = serde_json::from_str(text).map_err(|e| invalid(e.to_string()))?;
        match agreement.schema.problem() {
            None => Ok(agreement),
            Some(problem) => Err(invalid(format!("it has {problem}"))),
        }
    }

    /// Returns the names of the sites, in order.
    pub fn sites(&self) -> Vec<&str> {
        self.roster.iter().map(|m| m.name.as_str()).collect()
    }

    /// Returns the preparation and the task that every site uses.
    pub(super) fn agreed(&self) -> Result<Agreed> {
        let Normalization::Prepared(preparation) = &self.schema.normalization else {
            return Err(Error::Checkpoint(
                "the agreement has no prepared table".into(),
            ));
        };
        Ok(Agreed {
            preparation: preparation.clone(),
            task: self.schema.task.clone(),
        })
    }

    /// Makes the agreement from the surveys in site order. Also returns notes for the operator.
    pub(super) fn make(
        terms: Terms,
        plan: &Plan,
        site_surveys: Vec<SiteSurvey>,
    ) -> Result<(Self, Vec<String>)> {
        let (table, sites) = over_sites(plan)?;
        let mut notes = Vec::new();
        let columns = site_surveys[0].columns.clone();
        let mut surveys = Vec::new();
        let mut roster = Vec::new();
        for (name, site) in sites.names.iter().zip(site_surveys) {
            if site.lanes != lanes() {
                notes.push(format!(
                    "site '{name}' computes with vectors of {} numbers, the server with {}: the \
                     last bits may differ from those of one process",
                    site.lanes,
                    lanes()
                ));
            }
            if let Some(problem) = table.label_problem(site.survey.labels.keys()) {
                return Err(Error::data(format!(
                    "the survey of site '{name}': {problem}"
                )));
            }
            surveys.push(in_order(name, &columns, &site)?);
            roster.push(Member {
                name: name.clone(),
                rows: site.rows,
            });
        }
        let all = Survey::merged(&surveys).ok_or_else(|| Error::data("there are no sites"))?;
        let agreed = table.agree(&columns, &all).map_err(|refused| {
            let problems = refused.into_iter().map(|(column, why)| match column {
                Some(k) => format!("column '{}' {why}", columns[k]),
                None => why,
            });
            Error::data(problems.collect::<Vec<_>>().join("\n  "))
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

/// Returns a site's survey with the columns in the order of the first site's.
fn in_order(name: &str, columns: &[String], site: &SiteSurvey) -> Result<Survey> {
    let position = |name: &String| site.columns.iter().position(|own| own == name);
    let order: Option<Vec<usize>> = columns.iter().map(position).collect();
    let whole = |order: &Vec<usize>| {
        order.len() == site.columns.len() && order.len() == site.survey.columns.len()
    };
    let Some(order) = order.filter(whole) else {
        return Err(Error::data(format!(
            "the columns of site '{name}' differ from those of the first site: {} there, {} at \
             the first; data.ignore leaves columns out",
            site.columns.join(", "),
            columns.join(", ")
        )));
    };
    let mut survey = site.survey.clone();
    survey.columns = (order.iter())
        .map(|k| site.survey.columns[*k].clone())
        .collect();
    Ok(survey)
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

    /// The survey of a site that claims too many labels, or a long one, names the site.
    #[test]
    fn labels_of_a_site_have_limits() {
        let spec = "data = { kind = 'table', path = 'x.csv', max_classes = 3 }
                    federation = { sites = ['north', 'south', 'east'] }";
        let plan = Spec::parse(spec).unwrap().plan().unwrap();
        let terms = || Terms::new(&plan, &Program::default());
        let site = |labels: &[&str]| {
            let mut survey = Survey::new(1);
            survey.rows = 2 * labels.len() as u64;
            survey.labels = labels.iter().map(|label| (label.to_string(), 2)).collect();
            survey.columns[0].numbers.add(1.0);
            SiteSurvey {
                columns: vec!["age".into()],
                rows: [2 * labels.len(), 1, 0],
                survey,
                lanes: lanes(),
            }
        };
        let made = |south: &[&str]| {
            let surveys = vec![site(&["a", "b"]), site(south), site(&["a", "c"])];
            Agreement::make(terms(), &plan, surveys).map_err(|e| e.to_string())
        };
        assert_eq!(made(&["a", "b"]).unwrap().0.classes, [6, 4, 2]);
        let many = made(&["a", "b", "c", "d"]).unwrap_err();
        assert!(
            many.contains("site 'south'") && many.contains("found 4 classes"),
            "{many}"
        );
        let long = made(&[&"x".repeat(1_000_000)]).unwrap_err();
        assert!(
            long.contains("site 'south'") && long.contains("1000000 bytes"),
            "{long}"
        );
        assert!(long.len() < 500, "{} bytes", long.len());
        // Each site alone has at most three.
        let together = made(&["d"]).unwrap_err();
        assert!(together.contains("found 4 classes"), "{together}");
    }
}
