//! What a site would send under a spec, computed at the site before anything is agreed on.

use std::path::Path;

use super::agreement::{Terms, over_sites};
use super::survey::SiteTable;
use crate::clients::wire::{encode, joined};
use crate::data::Task;
use crate::data::roster::{Member, roster};
use crate::data::table::{ColumnSurvey, RareStatistic, Survey};
use crate::engine::remote::{Outcome, SiteResponse};
use crate::error::{Error, Result};
use crate::run::Program;
use crate::spec::{Plan, Resources};
use crate::training::{MessageSizes, message_sizes};

/// What a site would send.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SurveyPreview {
    /// The hash of the terms, which the server's proposal has too.
    pub terms: String,
    /// The names of all sites, in order.
    pub sites: Vec<String>,
    /// Training, validation and test rows.
    pub rows: [usize; 3],
    /// The statistics that the survey has of each column.
    pub columns: Vec<ColumnPreview>,
    /// The counts of labels that the survey has, and the moments of labels that are numbers. Its
    /// columns are in `columns`.
    pub labels: Survey,
    /// The statistics of few rows that the terms ask for, with their values.
    pub rare: Vec<RareStatistic>,
    /// Those for which the survey would be refused.
    pub refused: Vec<RareStatistic>,
    /// The bytes of the survey's message.
    pub survey_bytes: usize,
    /// The model's parameters and the bytes of a round's messages, or why they are not known yet.
    /// They are those of the features of this table; values that only others have add some.
    pub training: std::result::Result<(usize, MessageSizes), String>,
}

/// What a survey says about a column.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ColumnPreview {
    /// The column.
    pub name: String,
    /// Whether the spec declares its categories or moments, which are then not sent.
    pub declared: bool,
    /// What is sent.
    pub survey: ColumnSurvey,
}

/// Returns what the site `client` with the table `data` would send under a plan over sites.
///
/// # Errors
/// A table that cannot be used, and a client that is not in `federation.sites`.
pub fn preview(plan: &Plan, program: &Program, client: &str, data: &Path) -> Result<SurveyPreview> {
    let (_, sites) = over_sites(plan)?;
    let index = sites.names.iter().position(|name| name == client);
    let Some(index) = index else {
        return Err(Error::Request(format!(
            "site '{client}' is not in federation.sites: {}",
            sites.names.join(", ")
        )));
    };
    let site = SiteTable::read(plan, client, index, data)?;
    site.require_usable()?;
    let (rare, refused) = (site.rare(plan)?, site.refused(plan)?);
    let own = site.survey(plan);
    let message = SiteResponse {
        to: [0; 32],
        result: Ok(Outcome::Surveyed(encode(&own))),
    };
    let declared = &site.table.declared;
    let is_declared = |name: &String| {
        declared.categories.contains_key(name) || declared.moments.contains_key(name)
    };
    let columns = (own.columns.iter().zip(&own.survey.columns))
        .map(|(name, survey)| ColumnPreview {
            name: name.clone(),
            declared: is_declared(name),
            survey: survey.clone(),
        })
        .collect();
    Ok(SurveyPreview {
        terms: Terms::new(plan, program).hash(),
        sites: sites.names.clone(),
        rows: own.rows,
        columns,
        labels: Survey {
            columns: Vec::new(),
            ..own.survey.clone()
        },
        rare,
        refused,
        survey_bytes: joined(Vec::new(), &message).len(),
        training: sizes(plan, site, &sites.names, index),
    })
}

/// Returns the parameters and the sizes of a round's messages if all sites had this site's table.
fn sizes(
    plan: &Plan,
    site: SiteTable,
    names: &[String],
    index: usize,
) -> std::result::Result<(usize, MessageSizes), String> {
    let SiteTable { table, surveyed } = site;
    let (columns, rows) = (surveyed.columns().to_vec(), surveyed.rows(0));
    let agreed =
        table
            .agree(&columns, &surveyed.surveys()[0])
            .map_err(|refused| match &refused[0] {
                (Some(k), why) => format!("column '{}' {why}", columns[*k]),
                (None, why) => why.clone(),
            })?;
    let all = surveyed.surveys()[0].labels.clone();
    let count = |class: &String| all.get(class).copied().unwrap_or(0).max(1);
    let classes: Vec<u64> = match &agreed.task {
        Task::Classification { classes } => classes.iter().map(count).collect(),
        Task::Regression => Vec::new(),
    };
    let data = table
        .encode(&table.files(), surveyed, agreed)
        .map_err(|e| e.to_string())?;
    let member = |name: &String| Member {
        name: name.clone(),
        rows,
    };
    let members: Vec<Member> = names.iter().map(member).collect();
    let own = Some((index, data.shards[0].clone()));
    let dataset = roster(&members, data.schema, classes, own);
    let sized = (plan.setup_with(dataset, Resources::default()))
        .and_then(|setup| message_sizes(setup, &plan.algorithm, index));
    sized.map_err(|e| e.to_string())
}
