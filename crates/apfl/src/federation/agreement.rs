//! The terms of a federation, the surveys of its sites and their agreement.

use serde::{Deserialize, Serialize};

use super::survey::{SiteSurvey, cells_by_site};
use crate::data::roster::Member;
use crate::data::table::{Agreed, Encoding, MAX_ROWS, PreparedColumn, Survey, Table};
use crate::data::{Normalization, Schema, Source, Task};
use crate::digest::sha256_of;
use crate::error::{Error, Result};
use crate::model::kernels::lanes;
use crate::privacy::NoiseSeed;
use crate::quote::quoted;
use crate::run::Program;
use crate::spec::{Plan, PlannedSites, Spec};

/// The most problems of columns that are reported at once.
const MAX_PROBLEMS: usize = 20;

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

    /// Reads the agreement of a run directory or a state directory.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let invalid = |why: String| {
            let why = quoted(&why);
            Error::Checkpoint(format!("agreement.json is invalid: {why}"))
        };
        Self::parse(text).map_err(invalid)
    }

    /// Reads it from JSON, or returns why it cannot be read.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let agreement: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let Normalization::Prepared(preparation) = &agreement.schema.normalization else {
            return Err("it has no prepared table".into());
        };
        // The names of the features are listed too, so they are not longer than the text.
        let length = |column: &PreparedColumn| match &column.encoding {
            Encoding::Category { values } => values.len().saturating_mul(column.name.len()),
            _ => 0,
        };
        let lengths = preparation.columns.iter().map(length);
        if lengths.fold(0, usize::saturating_add) > text.len() {
            return Err("its features are not those of its columns".into());
        }
        match agreement.schema.problem() {
            None => Ok(agreement),
            Some(problem) => Err(format!("it has {problem}")),
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

    /// Checks sites, numbers of rows and columns; [`Table::verify`] checks the preparation.
    ///
    /// # Errors
    /// How the agreement contradicts the terms.
    pub(super) fn check_shape(&self, sites: &PlannedSites) -> Result<()> {
        let contradiction = |why: String| Err(Error::Request(why));
        if self.sites() != sites.names {
            return contradiction("the agreement's sites differ from federation.sites".into());
        }
        for member in &self.roster {
            let [training, validation, test] = member.rows.map(|rows| rows as u64);
            let total = (training.checked_add(validation)).and_then(|sum| sum.checked_add(test));
            if training == 0 || total.is_none_or(|total| total > MAX_ROWS) {
                return contradiction(format!(
                    "the agreement has {:?} training, validation and test rows of site '{}'; allowed \
                     are 1 or more for training and at most {MAX_ROWS} in all",
                    member.rows,
                    quoted(&member.name)
                ));
            }
        }
        let agreed = self.agreed()?;
        let names = agreed.preparation.columns.iter().map(|column| &column.name);
        if !names.eq(&self.columns) {
            return contradiction("the agreement prepares other columns than it lists".into());
        }
        Ok(())
    }

    /// Returns the number of training rows of all sites; no sum of [`Agreement::check_shape`]'s
    /// rows overflows.
    pub(super) fn training_rows(&self) -> u64 {
        self.roster.iter().map(|member| member.rows[0] as u64).sum()
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
        let named = || sites.names.iter().zip(&site_surveys);
        let invalid: Vec<String> = named()
            .filter_map(|(name, site)| {
                let why = site.check(plan).err()?;
                Some(format!("the survey of site '{name}' is invalid: {why}"))
            })
            .collect();
        if !invalid.is_empty() {
            return Err(Error::data(invalid.join("\n  ")));
        }
        for (name, site) in named() {
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
            surveys.push(site.in_order(name, &columns)?);
            roster.push(Member {
                name: name.clone(),
                rows: site.rows,
            });
        }
        let all = Survey::merged(&surveys).ok_or_else(|| Error::data("there are no sites"))?;
        let agreed = table.agree(&columns, &all).map_err(|refused| {
            let all = refused.len();
            let mut problems: Vec<String> = (refused.into_iter().take(MAX_PROBLEMS))
                .map(|(column, why)| match column {
                    Some(k) => {
                        let by_site = cells_by_site(sites.names.iter().zip(&surveys), k);
                        format!("column '{}' {why} ({by_site})", quoted(&columns[k]))
                    }
                    None => {
                        let labels = sites.names.iter().zip(&surveys);
                        let labels = labels.map(|(name, s)| format!("{name}: {}", s.labels.len()));
                        let by_site = labels.collect::<Vec<_>>().join(", ");
                        format!("{why} (different labels by site: {by_site})")
                    }
                })
                .collect();
            if all > MAX_PROBLEMS {
                problems.push(format!("… {all} problems in all"));
            }
            Error::data(problems.join("\n  "))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A million columns that move the cursor, at one site or at all: a short error without them.
    #[test]
    fn errors_quote_little_of_what_sites_send() {
        let site = |names: &str| {
            let columns: Vec<String> = (0..1_000_000).map(|k| format!("{names}{k}")).collect();
            let mut survey = Survey::new(columns.len());
            survey.rows = 3;
            survey.labels = [("no".to_string(), 1), ("yes".to_string(), 2)].into();
            survey.columns.iter_mut().for_each(|c| c.missing = 3);
            SiteSurvey {
                rows: [3, 1, 1],
                survey,
                columns,
                lanes: 8,
            }
        };
        let spec = "data = { kind = 'table' }\nfederation = { sites = ['a', 'b'] }";
        let plan = Spec::parse(spec).unwrap().plan().unwrap();
        let hostile = || site("\u{1b}[2J\n");
        for surveys in [[hostile(), hostile()], [hostile(), site("x")]] {
            let terms = Terms::new(&plan, &Program::default());
            let error = Agreement::make(terms, &plan, surveys.to_vec()).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("\\u{1b}[2J\\n0"), "{error}");
            assert!(error.len() < 4000, "{} bytes", error.len());
            assert!(!error.contains(|c: char| c.is_control() && c != '\n'));
        }
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
            for _ in 0..survey.rows {
                survey.columns[0].numbers.add(1.0);
            }
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
