//! Loads a table: surveys its columns, agrees on a preparation, encodes every client's rows.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::diagnostics::Diagnostics;
use super::preparation::Preparation;
use super::records::{ColumnLayout, Records, RowTargets, Split, client_of_file, source_error};
use super::source::TableSource;
use super::split::{SplitRows, index_of};
use super::survey::Survey;
use super::value::{Missing, Value, value_of};
use super::{Agreed, ClientSource, Scale, Standardize, Table};
use crate::data::rows::{Cell, RowReader};
use crate::data::scales::scale_warning;
use crate::data::{
    Assignment, Examples, Features, InMemory, Normalization, Schema, Shard, SourceFile, Targets,
    Task,
};
use crate::error::{Error, Result};
use crate::moments::Moments;
use crate::quote::listed;

/// Represents a table after two readings: each row's client and part, and every client's survey of
/// its training rows.
pub struct Surveyed {
    pub(super) layout: ColumnLayout,
    records: Records,
    pub(super) parts: SplitRows,
    pub(super) surveys: Vec<Survey>,
    samples: Samples,
    assignment: Option<Assignment>,
    files: Vec<SourceFile>,
    diagnostics: Diagnostics,
}

impl Surveyed {
    /// Returns the feature columns, in the order of every survey.
    pub fn columns(&self) -> &[String] {
        &self.layout.names
    }

    /// Returns the clients that take part, in order.
    pub fn clients(&self) -> Vec<&str> {
        let kept = self.parts.kept.iter();
        kept.map(|(client, _)| self.records.clients[*client].as_str())
            .collect()
    }

    /// Returns the surveys of these clients, in the same order.
    pub fn surveys(&self) -> &[Survey] {
        &self.surveys
    }

    /// Checks that no client has both numbers and text in a numeric column.
    ///
    /// # Errors
    /// Names the columns and shows some of the cells.
    pub fn require_unmixed(&self) -> Result<()> {
        let mut diagnostics = Diagnostics::new(self.diagnostics.place());
        for (k, name) in self.layout.names.iter().enumerate() {
            let mixed = |survey: &Survey| {
                let seen = &survey.columns[k];
                let other = seen.non_numeric.as_ref();
                other.is_some_and(|other| other.texts > 0 && seen.numbers.n + other.huge > 0)
            };
            if !self.layout.categorical[k] && self.surveys.iter().any(mixed) {
                let why = "has numbers and text; name the texts in data.missing if they mean \
                           \"not known\", or the column in data.categorical";
                diagnostics.note(self.samples.describe(k, name, why));
            }
        }
        diagnostics.check()
    }

    /// Returns the numbers of training, validation and test rows of the `client`th participating
    /// client.
    pub fn rows(&self, client: usize) -> [usize; 3] {
        self.parts.kept[client].1
    }

    /// Reorders the columns.
    ///
    /// # Errors
    /// `columns` are not this table's columns.
    pub fn reorder(mut self, columns: &[String]) -> Result<Self> {
        let names = &self.layout.names;
        let place = |name: &String| names.iter().position(|own| own == name);
        let same = Some(columns).filter(|columns| columns.len() == names.len());
        let order: Option<Vec<usize>> =
            same.and_then(|columns| columns.iter().map(place).collect());
        let Some(order) = order else {
            return Err(Error::data(format!(
                "the columns are {}; the federation agreed on {}",
                listed(names),
                listed(columns)
            )));
        };
        let layout = &mut self.layout;
        layout.features = order.iter().map(|k| layout.features[*k]).collect();
        layout.categorical = order.iter().map(|k| layout.categorical[*k]).collect();
        layout.names = columns.to_vec();
        for survey in &mut self.surveys {
            survey.columns = order.iter().map(|k| survey.columns[*k].clone()).collect();
        }
        Ok(self)
    }

    /// Returns the problems found while reading rows as an error.
    pub fn check(mut self) -> Result<Self> {
        let diagnostics = Diagnostics::new(self.diagnostics.place());
        std::mem::replace(&mut self.diagnostics, diagnostics).check()?;
        Ok(self)
    }
}

impl std::fmt::Debug for Surveyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surveyed")
            .field("columns", &self.layout.names)
            .field("clients", &self.clients())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Loads the files, splits every client's rows and checks everything.
    pub fn load(&self) -> Result<InMemory> {
        self.load_from(&self.files())
    }

    /// Loads the data set from the rows of a source.
    pub fn load_from(&self, source: &dyn TableSource) -> Result<InMemory> {
        let mut surveyed = self.survey(source)?;
        let mut diagnostics = std::mem::take(&mut surveyed.diagnostics);
        let clean = diagnostics.is_empty();
        let agreed =
            Survey::merged(&surveyed.surveys).map(|all| self.agree(&surveyed.layout.names, &all));
        let agreed = match agreed {
            Some(Ok(agreed)) => Some(agreed),
            Some(Err(refused)) => {
                for (column, why) in refused {
                    match column {
                        Some(k) => {
                            let name = &surveyed.layout.names[k];
                            diagnostics.note(surveyed.samples.describe(k, name, &why));
                        }
                        // A consequence of invalid rows, which are reported already.
                        None if clean => diagnostics.note(why),
                        None => {}
                    }
                }
                None
            }
            None => None,
        };
        diagnostics.check()?;
        let agreed = agreed.ok_or_else(|| Error::data("the table has no training rows"))?;
        self.encode(source, surveyed, agreed)
    }

    /// Reads a table twice: for each row's client and part, and for every client's survey.
    /// [`Surveyed::check`] reports invalid rows.
    pub fn survey(&self, source: &dyn TableSource) -> Result<Surveyed> {
        let files = source.files()?;
        let mut diagnostics = Diagnostics::new(source.place().map(Into::into));
        self.require_one_client_a_file(&mut diagnostics);

        let mut rows = source.open()?;
        let layout = self.layout(&*rows)?;
        let mut records = self.records(&mut *rows, &layout, &mut diagnostics)?;
        drop(rows);
        if diagnostics.full() {
            diagnostics.check()?; // the rest was not read
            unreachable!("there are problems");
        }
        if records.client.is_empty() {
            diagnostics.note("the table has a header but no rows");
            diagnostics.check()?;
            unreachable!("a problem was noted");
        }
        let assignment = match &self.partition {
            None => None,
            Some(partition) => Some(
                self.assign(partition, &mut records)
                    .map_err(|e| in_source(source, e))?,
            ),
        };
        // Consequences of invalid rows are not reported beside them.
        let mut consequences = Diagnostics::default();
        let parts = if diagnostics.is_empty() {
            self.parts(&mut records, &mut diagnostics)
        } else {
            self.parts(&mut records, &mut consequences)
        };
        let mut surveyed = Surveyed {
            surveys: vec![Survey::new(layout.features.len()); parts.kept.len()],
            samples: Samples(vec![Vec::new(); layout.features.len()]),
            layout,
            records,
            parts,
            assignment,
            files,
            diagnostics,
        };
        self.read_surveys(source, &mut surveyed)?;
        Ok(surveyed)
    }

    /// Derives preparation and task from the merged survey of a federation.
    ///
    /// # Errors
    /// The reasons why it cannot, each with the index of its column if it has one.
    pub fn agree(
        &self,
        columns: &[String],
        all: &Survey,
    ) -> std::result::Result<Agreed, Vec<(Option<usize>, String)>> {
        let mut all = all.clone();
        self.declared.apply(columns, &mut all);
        let all = &all;
        let mut refused = Vec::new();
        let task = match self.task(all) {
            Ok(task) => task,
            Err(why) => {
                refused.push((None, why));
                Task::Regression
            }
        };
        let categorical: Vec<bool> = (columns.iter())
            .map(|name| self.categorical.contains(name))
            .collect();
        match Preparation::from_survey(columns, all, &categorical, self.standardize) {
            Err(columns) => {
                refused.extend(columns.into_iter().map(|(k, why)| (Some(k), why)));
                Err(refused)
            }
            Ok(_) if !refused.is_empty() => Err(refused),
            Ok(mut preparation) => {
                preparation.ignored = self.ignore.clone();
                preparation.missing = self.missing.clone();
                if self.standardize != Standardize::No && self.regression {
                    preparation.label = Some(Scale::of(&all.values));
                }
                Ok(Agreed { preparation, task })
            }
        }
    }

    fn require_one_client_a_file(&self, diagnostics: &mut Diagnostics) {
        if self.client != ClientSource::File {
            return;
        }
        let mut seen: HashMap<String, &Path> = HashMap::new();
        for path in &self.paths {
            let name = client_of_file(path);
            if let Some(before) = seen.insert(name.clone(), path) {
                diagnostics.note(format!(
                    "{} and {} would both be the client '{name}' (data.client = {{ file = true }}); \
                     rename one",
                    before.display(),
                    path.display()
                ));
            }
        }
    }

    /// Reads the table a second time: surveys every client's training rows and samples cells that
    /// are not numbers.
    fn read_surveys(&self, source: &dyn TableSource, surveyed: &mut Surveyed) -> Result<()> {
        let missing = Missing::new(&self.missing);
        let Surveyed {
            layout,
            records,
            parts,
            surveys,
            samples,
            ..
        } = surveyed;
        self.reread(source, parts.owner.len(), |row, rows| {
            let Some((client, Split::Train)) = parts.of(row) else {
                return true;
            };
            let survey = &mut surveys[client];
            survey.rows += 1;
            match &records.targets {
                RowTargets::Values(values) => survey.values.add(values[row]),
                RowTargets::Labels { names, indices } => {
                    let name = &names[indices[row] as usize];
                    match survey.labels.get_mut(name) {
                        Some(count) => *count += 1,
                        None => {
                            survey.labels.insert(name.clone(), 1);
                        }
                    }
                }
            }
            for (k, place) in layout.features.iter().enumerate() {
                let cell = rows.cell(*place);
                let value = value_of(&cell, &missing);
                if !matches!(value, Value::Missing | Value::Number(_)) {
                    samples.note(k, &cell, rows);
                }
                survey.columns[k].add(&value, &cell, layout.categorical[k]);
            }
            true
        })
    }

    /// Reads the table a third time and encodes every client's rows as agreed.
    pub fn encode(
        &self,
        source: &dyn TableSource,
        surveyed: Surveyed,
        agreed: Agreed,
    ) -> Result<InMemory> {
        let Surveyed {
            layout,
            records,
            parts,
            surveys,
            assignment,
            mut files,
            ..
        } = surveyed;
        let Agreed {
            mut preparation,
            task,
        } = agreed;
        let name = |client: usize| &records.clients[client];
        if self.standardize == Standardize::Client {
            let own = (parts.kept.iter().zip(&surveys))
                .map(|((client, _), survey)| {
                    (name(*client).clone(), preparation.local_scales(survey))
                })
                .collect();
            preparation.clients = own;
        }
        let mut notes = Vec::new();
        if let Some(assignment) = &assignment {
            notes.extend(assignment.notes.iter().cloned());
            files.extend(assignment.file.clone());
        }
        if parts.left_out > 0 {
            notes.push(format!(
                "{} of {} clients have fewer than {} examples and are left out",
                parts.left_out,
                records.clients.len(),
                self.common.min_examples
            ));
        }
        notes.extend(missing_parts(&parts));
        notes.extend(preparation.describe_unless_plain());
        if self.standardize == Standardize::No {
            notes.extend(scale_warning_of(&preparation, &surveys));
        }
        drop(surveys);

        let features = preparation.features();
        let width = features.len();
        let mut diagnostics = Diagnostics::new(source.place().map(Into::into));
        let mut builders: Vec<[ExamplesBuilder; 3]> = (parts.kept.iter())
            .map(|(_, sizes)| sizes.map(|rows| ExamplesBuilder::new(rows, width, self.regression)))
            .collect();
        let scales: Vec<_> = (parts.kept.iter())
            .map(|(client, _)| preparation.client_scales(name(*client)))
            .collect();
        let class: Vec<Option<u32>> = match (&records.targets, &task) {
            (RowTargets::Labels { names, .. }, Task::Classification { classes }) => {
                let index = index_of(classes);
                let class = |name: &String| index.get(name.as_str()).copied();
                names.iter().map(class).collect()
            }
            _ => Vec::new(),
        };
        let label = preparation.label;
        let mut encoder = preparation.encoder();
        self.reread(source, parts.owner.len(), |row, rows| {
            let Some((client, split)) = parts.of(row) else {
                return true;
            };
            let builder = &mut builders[client][split as usize];
            match &records.targets {
                RowTargets::Labels { names, indices } => {
                    let label = indices[row] as usize;
                    if class[label].is_none() {
                        let whose = name(parts.kept[client].0);
                        let message =
                            untrained_label(&names[label], whose, split, layout.split.is_some());
                        diagnostics.note_row(rows, &message);
                    }
                    builder.classes.push(class[label].unwrap_or(0));
                }
                RowTargets::Values(values) => builder.values.push(match label {
                    None => values[row] as f32,
                    Some(scale) => ((values[row] - scale.mean) / scale.deviation) as f32,
                }),
            }
            for (k, place) in layout.features.iter().enumerate() {
                let cell = rows.cell(*place);
                if let Err(e) = encoder.encode(k, &cell, scales[client], &mut builder.x) {
                    let name = &layout.names[k];
                    diagnostics.note_row(rows, &format!(", column '{name}': {e}"));
                }
            }
            !diagnostics.full()
        })?;
        diagnostics.check()?;
        notes.extend(encoder.unseen.notes());
        let shard = |((client, _), parts): (&(usize, [usize; 3]), [ExamplesBuilder; 3])| {
            let [train, valid, test] =
                parts.map(|builder| builder.examples(width, self.regression));
            Arc::new(Shard {
                name: name(*client).clone(),
                train,
                valid,
                test,
            })
        };
        let shards = parts.kept.iter().zip(builders).map(shard).collect();
        let schema = Schema {
            task,
            shape: vec![width],
            features,
            normalization: Normalization::Prepared(preparation),
        };
        let mut data = InMemory::new(schema, shards);
        (data.files, data.notes, data.assignment) = (files, notes, assignment);
        Ok(data)
    }

    /// Reads all rows again until `each` returns false.
    pub(super) fn reread(
        &self,
        source: &dyn TableSource,
        count: usize,
        mut each: impl FnMut(usize, &dyn RowReader) -> bool,
    ) -> Result<()> {
        let mut rows = source.open()?;
        let mut row = 0;
        while rows.advance().map_err(|e| source_error(&*rows, e))? {
            if row >= count {
                return Err(changed(&*rows));
            }
            if rows.defect().is_none() && !each(row, &*rows) {
                return Ok(());
            }
            row += 1;
        }
        if row == count {
            Ok(())
        } else {
            Err(changed(&*rows))
        }
    }
}

/// Makes an error about a source whose rows are not the same as before.
fn changed(rows: &dyn RowReader) -> Error {
    source_error(rows, "changed while it was being read".into())
}

/// Adds the source's file to an error.
fn in_source(source: &dyn TableSource, error: Error) -> Error {
    match source.place() {
        Some(path) => Error::in_file(path, error),
        None => error,
    }
}

/// Builds the examples of one part of a client's rows.
struct ExamplesBuilder {
    x: Vec<f32>,
    classes: Vec<u32>,
    values: Vec<f32>,
}

impl ExamplesBuilder {
    fn new(rows: usize, width: usize, regression: bool) -> Self {
        Self {
            x: Vec::with_capacity(rows * width),
            classes: Vec::with_capacity(if regression { 0 } else { rows }),
            values: Vec::with_capacity(if regression { rows } else { 0 }),
        }
    }

    fn examples(self, width: usize, regression: bool) -> Examples {
        let targets = if regression {
            Targets::Values(self.values)
        } else {
            Targets::Classes(self.classes)
        };
        Examples::new(width, Features::Floats(self.x), targets)
    }
}

/// Holds a few cells of each column that are not numbers: their place and content.
struct Samples(Vec<Vec<(String, String)>>);

impl Samples {
    fn note(&mut self, column: usize, cell: &Cell<'_>, rows: &dyn RowReader) {
        let samples = &mut self.0[column];
        if samples.len() >= 3 {
            return;
        }
        let text = cell.text().map_or_else(
            |kind| kind,
            |text| format!("found '{}'", text.chars().take(60).collect::<String>()),
        );
        samples.push((format!("{} {}", rows.unit(), rows.number()), text));
    }

    /// Describes a problem of a column, with cells that show it.
    fn describe(&self, column: usize, name: &str, why: &str) -> String {
        let Some(((place, text), more)) = self.0[column].split_first() else {
            return format!("column '{name}' {why}");
        };
        let more: Vec<String> = (more.iter().filter(|(_, other)| other != text))
            .map(|(place, text)| format!("{place}: {text}"))
            .collect();
        let more = if more.is_empty() {
            String::new()
        } else {
            format!(" ({})", more.join("; "))
        };
        format!("{place}, column '{name}': {text}{more}; the column {why}")
    }
}

/// Describes a label that occurs in no training row.
fn untrained_label(label: &str, client: &str, split: Split, has_split_column: bool) -> String {
    format!(
        ": the label '{label}' of client '{client}' is in its {} rows but in no client's training \
         rows; {}, or remove such rows",
        if split == Split::Test {
            "test"
        } else {
            "validation"
        },
        if has_split_column {
            "move such a row to training"
        } else {
            "another data.seed may hold out other rows, a split column says which"
        }
    )
}

/// Returns notes about clients without validation or test rows.
fn missing_parts(parts: &SplitRows) -> Vec<String> {
    let count = parts.kept.len();
    let tested = parts.kept.iter().any(|(_, sizes)| sizes[2] > 0);
    [(1, "validation"), (2, "test")]
        .into_iter()
        .filter(|(part, _)| *part == 1 || tested)
        .filter_map(|(part, name)| {
            let none = parts
                .kept
                .iter()
                .filter(|(_, sizes)| sizes[part] == 0)
                .count();
            (none > 0).then(|| {
                format!("{none} of {count} clients have no {name} rows and no {name} scores")
            })
        })
        .collect()
}

/// Returns a warning if the scales of the numeric columns differ widely.
fn scale_warning_of(preparation: &Preparation, surveys: &[Survey]) -> Option<String> {
    let all = Survey::merged(surveys)?;
    let moments: BTreeMap<&str, Moments> = (preparation.columns.iter().zip(&all.columns))
        .filter(|(column, _)| matches!(column.encoding, super::Encoding::Number { .. }))
        .map(|(column, seen)| (column.name.as_str(), seen.numbers))
        .collect();
    scale_warning(&moments)
}
