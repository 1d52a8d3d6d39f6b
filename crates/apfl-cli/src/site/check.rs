//! `apfl site check`: what a site would send under a spec.

use std::collections::BTreeMap;
use std::path::Path;

use apfl::data::table::{ColumnSurvey, NonNumeric, RareKind, RareStatistic};
use apfl::error::{Error, Result};
use apfl::federation::{ColumnPreview, SurveyPreview, preview};
use apfl::spec::Plan;
use serde::Serialize;

use crate::args::{self, read_spec};
use crate::output::{bytes, counted, print, print_json};
use crate::program;

/// The most values of a column that the text names.
const MAX_NAMED: usize = 12;

/// Represents the output of `--json`.
#[derive(Serialize)]
struct Document<'a> {
    site: &'a str,
    sites: &'a [String],
    /// The hash of the terms.
    terms: &'a str,
    train_rows: usize,
    valid_rows: usize,
    test_rows: usize,
    columns: Vec<ColumnDocument<'a>>,
    labels: &'a BTreeMap<String, u64>,
    survey_bytes: usize,
    /// Present if they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    training: Option<TrainingDocument>,
    rare: Vec<RareDocument<'a>>,
    /// Whether the survey would be refused.
    refused: bool,
}

/// Represents what is sent of a column.
#[derive(Serialize)]
struct ColumnDocument<'a> {
    name: &'a str,
    declared: bool,
    sent: &'a ColumnSurvey,
}

/// Represents the sizes of a round's messages.
#[derive(Serialize)]
struct TrainingDocument {
    parameters: usize,
    received_bytes: usize,
    sent_bytes: usize,
}

/// Represents a statistic of few rows.
#[derive(Serialize)]
struct RareDocument<'a> {
    column: &'a str,
    kind: &'static str,
    values: BTreeMap<&'a str, u64>,
    refused: bool,
    way_out: String,
}

/// Prints what a site would send.
///
/// # Errors
/// The survey would be refused; that is after it was printed.
pub fn check(args: &args::SiteCheck) -> Result<()> {
    let plan = read_spec(Some(&args.spec), &args.overrides)?.plan()?;
    let site = site_name(args, &plan)?;
    let found = preview(&plan, &program(), &site, &args.data)?;
    if args.json {
        print_json(&document(&site, &found))?;
    } else {
        print(&text(&site, &found))?;
    }
    match found.refused.len() {
        0 => Ok(()),
        n => Err(Error::data(format!(
            "the survey would be refused for {}",
            counted(n, "rare statistic")
        ))),
    }
}

/// Returns the name of the site: the option, or the file's name if it is that of a site.
fn site_name(args: &args::SiteCheck, plan: &Plan) -> Result<String> {
    if let Some(client) = &args.client {
        return Ok(client.clone());
    }
    let Some(sites) = &plan.sites else {
        return Err(Error::Request(
            "federation.sites is missing; give the names of the sites, such as [\"north\", \
             \"south\"]"
                .into(),
        ));
    };
    let name = args.data.file_name().unwrap_or_default().to_string_lossy();
    let stem = Path::new(name.strip_suffix(".gz").unwrap_or(&name)).file_stem();
    let stem = stem.unwrap_or_default().to_string_lossy().into_owned();
    if sites.names.contains(&stem) {
        return Ok(stem);
    }
    Err(Error::Request(format!(
        "{}: the file's name is not that of a site; give one with --client: {}",
        args.data.display(),
        sites.names.join(", ")
    )))
}

fn document<'a>(site: &'a str, found: &'a SurveyPreview) -> Document<'a> {
    let [train_rows, valid_rows, test_rows] = found.rows;
    let column = |column: &'a ColumnPreview| ColumnDocument {
        name: &column.name,
        declared: column.declared,
        sent: &column.survey,
    };
    let rare = |rare: &'a RareStatistic| RareDocument {
        column: &rare.column,
        kind: match rare.kind {
            RareKind::Rows => "rows",
            RareKind::Cells => "cells",
            RareKind::Text => "text",
            RareKind::Number => "number",
            RareKind::Label => "label",
        },
        values: rare.values.iter().map(|(v, n)| (v.as_str(), *n)).collect(),
        refused: found.refused.contains(rare),
        way_out: rare.describe(),
    };
    Document {
        site,
        sites: &found.sites,
        terms: &found.terms,
        train_rows,
        valid_rows,
        test_rows,
        columns: found.columns.iter().map(column).collect(),
        labels: &found.labels.labels,
        survey_bytes: found.survey_bytes,
        training: (found.training.as_ref().ok()).map(|(parameters, sizes)| TrainingDocument {
            parameters: *parameters,
            received_bytes: sizes.request,
            sent_bytes: sizes.response,
        }),
        rare: found.rare.iter().map(rare).collect(),
        refused: !found.refused.is_empty(),
    }
}

fn text(site: &str, found: &SurveyPreview) -> String {
    let [train, valid, test] = found.rows;
    let mut text = format!(
        "site        {site}, of {}\n\
         terms       {}\n\
         rows        {train} for training, {valid} for validation, {test} for test\n\
         survey      {}, sent once; of the training rows:\n",
        found.sites.join(", "),
        found.terms,
        bytes(found.survey_bytes as f64),
    );
    let mut sent: Vec<(&str, String)> = (found.columns.iter())
        .map(|column| (column.name.as_str(), of_column(column)))
        .collect();
    sent.push(("the label", of_label(found)));
    let width = sent.iter().map(|(name, _)| name.chars().count()).max();
    let width = width.unwrap_or(0).min(30);
    for (name, what) in sent {
        text += &format!("  {name:<width$}  {what}\n");
    }
    text += &match &found.training {
        Ok((parameters, sizes)) => format!(
            "each round  receives about {}, sends about {} ({parameters} parameters)\n",
            bytes(sizes.request as f64),
            bytes(sizes.response as f64)
        ),
        Err(why) => format!("each round  sizes are known after the agreement: {why}\n"),
    };
    for rare in &found.rare {
        let what = if found.refused.contains(rare) {
            "refused"
        } else {
            "sent all the same, as federation.rare = \"send\" says"
        };
        let values: Vec<String> = (rare.values.iter())
            .map(|(value, n)| format!("{value} ({n})"))
            .collect();
        let values = some_of(values.iter().map(String::as_str));
        text += &format!("\nrare, {what}: {}\n  {values}\n", rare.describe());
    }
    if found.refused.is_empty() {
        text += "\nthe survey can be sent; nothing was sent now\n";
    }
    text
}

/// Says what is sent of a column.
fn of_column(column: &ColumnPreview) -> String {
    let ColumnSurvey {
        missing,
        numbers,
        non_numeric,
    } = &column.survey;
    let mut parts = Vec::new();
    if numbers.n > 0 {
        parts.push(format!(
            "{}: their mean {} and sum of squared deviations {}",
            counted(numbers.n as usize, "number"),
            numbers.mean,
            numbers.m2
        ));
    }
    let none = NonNumeric::default();
    let other = non_numeric.as_deref().unwrap_or(&none);
    for (n, what) in [
        (other.trues, "true"),
        (other.falses, "false"),
        (other.huge, "too large"),
    ] {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    if other.texts > 0 {
        parts.push(counted(other.texts as usize, "text"));
    }
    if other.trues + other.falses < 1 && !other.values.is_empty() {
        let values = some_of(other.values.iter().map(String::as_str));
        parts.push(format!("the values {values}"));
    }
    if *missing > 0 {
        parts.push(counted(*missing as usize, "missing cell"));
    }
    let declared = column.declared.then(|| "declared in the spec".to_string());
    parts.splice(0..0, declared);
    if parts.is_empty() {
        parts.push("nothing".into());
    }
    parts.join("; ")
}

/// Says what is sent of the label.
fn of_label(found: &SurveyPreview) -> String {
    let survey = &found.labels;
    if survey.values.n > 0 {
        return format!(
            "{}: their mean {} and sum of squared deviations {}",
            counted(survey.values.n as usize, "number"),
            survey.values.mean,
            survey.values.m2
        );
    }
    if survey.labels.is_empty() {
        return "declared in the spec".into();
    }
    let counts: Vec<String> = (survey.labels.iter())
        .map(|(label, n)| format!("{label} {n}"))
        .collect();
    format!("counts {}", some_of(counts.iter().map(String::as_str)))
}

/// Joins the first values.
fn some_of<'a>(values: impl ExactSizeIterator<Item = &'a str>) -> String {
    let all = values.len();
    let shown: Vec<&str> = values.take(MAX_NAMED).collect();
    match all {
        ..=MAX_NAMED => shown.join(", "),
        _ => format!("{}, … {all} in all", shown.join(", ")),
    }
}
