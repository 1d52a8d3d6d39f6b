//! Reads raw rows for a trained model and applies the run's preparation.

use std::collections::HashMap;
use std::path::Path;

use super::diagnostics::Diagnostics;
use super::preparation::{Encoder, Scale, UnseenCells};
use super::records::{Split, client_of_file, list_names, suggestion};
use super::source::{Files, TableSource};
use super::value::{MISSING, Missing};
use super::{ClientSource, Table};
use crate::data::rows::Cell;
use crate::data::{Normalization, Schema, Targets, Task};
use crate::error::{Error, Result};

/// Reads new rows for inference.
#[derive(Clone, Copy, Debug)]
pub struct InferenceReader<'a> {
    /// The schema of the model's inputs.
    pub schema: &'a Schema,
    /// The settings of the training table, if the run was trained on one.
    pub table: Option<&'a Table>,
    /// The client that owns the rows; `None` reads it from the table's client column, if it has
    /// one.
    pub client: Option<&'a str>,
    /// The label column, if labels are needed.
    pub label: Option<&'a str>,
    /// The split column, used if the rows have it.
    pub split: Option<&'a str>,
    /// Columns to pass through.
    pub ids: &'a [String],
}

/// Represents rows that are ready for a model.
#[derive(Clone, Debug)]
pub struct InferenceRows {
    /// The number of rows.
    pub rows: usize,
    /// The features, row by row.
    pub x: Vec<f32>,
    /// The clients' names and, for each row, an index into them; `None` if the rows name no client.
    pub clients: Option<(Vec<String>, Vec<u32>)>,
    /// The labels, encoded as in training.
    pub targets: Option<Targets>,
    /// Training, validation and test rows, if there is a split column.
    pub split: Option<[Vec<u32>; 3]>,
    /// The passed-through cells of each row.
    pub ids: Vec<Vec<String>>,
    /// Missing cells and categories that training did not have.
    pub unseen: UnseenCells,
}

/// Reads the feature columns of a file in the schema's order and scale; other columns are ignored.
pub fn read_features(path: &Path, schema: &Schema) -> Result<Vec<f32>> {
    let paths = [path.to_path_buf()];
    let reader = InferenceReader {
        schema,
        table: None,
        client: None,
        label: None,
        split: None,
        ids: &[],
    };
    let files = Files {
        paths: &paths,
        header: None,
    };
    Ok(reader.read(&files)?.x)
}

/// Encodes the cells of a row as features.
enum FeatureEncoder<'a> {
    Prepared(Encoder<'a>),
    Plain(&'a Normalization, usize),
}

impl FeatureEncoder<'_> {
    fn encode(
        &mut self,
        k: usize,
        cell: &Cell<'_>,
        own: Option<&[Option<Scale>]>,
        out: &mut Vec<f32>,
    ) -> std::result::Result<(), String> {
        let (normalization, width) = match self {
            FeatureEncoder::Prepared(encoder) => return encoder.encode(k, cell, own, out),
            FeatureEncoder::Plain(normalization, width) => (normalization, *width),
        };
        let raw = cell.number()?;
        out.push(match normalization {
            Normalization::None | Normalization::Prepared(_) => raw as f32,
            Normalization::Standardized { mean, deviation } => {
                ((raw - mean[k]) / deviation[k]) as f32
            }
            Normalization::Bytes { channels } => {
                let (scale, shift) = channels[k * channels.len() / width];
                raw as f32 * scale + shift
            }
        });
        Ok(())
    }
}

impl InferenceReader<'_> {
    /// Reads all rows and reports up to twenty problems together.
    pub fn read(&self, source: &dyn TableSource) -> Result<InferenceRows> {
        let mut rows = source.open()?;
        let header = rows.header().to_vec();
        let error = |message: String| match source.place() {
            Some(path) => Error::in_file(path, message),
            None => Error::data(message),
        };
        let find = |name: &str, what: &str| {
            let mut named = (0..header.len()).filter(|k| header[*k] == *name);
            match (named.next(), named.next()) {
                (Some(k), None) => Ok(k),
                (Some(a), Some(b)) => {
                    let (a, b) = (a + 1, b + 1);
                    Err(error(format!(
                        "columns {a} and {b} are both named '{name}'"
                    )))
                }
                (None, _) => Err(error(format!(
                    "there is no column '{name}', {what}{}; the columns are {}",
                    suggestion(name, &header),
                    list_names(&header)
                ))),
            }
        };
        let (names, mut encoder, missing): (Vec<&str>, _, _) = match &self.schema.normalization {
            Normalization::Prepared(preparation) => (
                preparation
                    .columns
                    .iter()
                    .map(|c| c.name.as_str())
                    .collect(),
                FeatureEncoder::Prepared(preparation.encoder()),
                Missing::new(&preparation.missing),
            ),
            plain => (
                self.schema.features.iter().map(String::as_str).collect(),
                FeatureEncoder::Plain(plain, self.schema.features.len()),
                Missing::new(&MISSING),
            ),
        };
        let trained_on = "which the model was trained on";
        let absent: Vec<&str> = (names.iter().copied())
            .filter(|name| !header.iter().any(|column| column == name))
            .collect();
        if header.iter().all(String::is_empty) {
            return Err(error(
                "the input is empty; its first line must name the columns".into(),
            ));
        }
        if absent.len() > 1 {
            let absent: Vec<String> = absent.iter().map(|name| format!("'{name}'")).collect();
            return Err(error(format!(
                "there are no columns {}, {trained_on}; the columns are {}",
                list_names(&absent),
                list_names(&header)
            )));
        }
        let columns: Vec<usize> = (names.iter())
            .map(|name| find(name, trained_on))
            .collect::<Result<_>>()?;
        let label = self
            .label
            .map(|name| find(name, "the label that the run was trained on"));
        let label = label.transpose()?;
        let ids: Vec<usize> = (self.ids.iter())
            .map(|name| find(name, "which is to be passed through"))
            .collect::<Result<_>>()?;
        let optional = |name: &str| header.iter().position(|column| column == name);
        let split = self.split.and_then(optional);
        let client = match (self.client, self.table.map(|table| &table.client)) {
            (None, Some(ClientSource::Column(name))) => optional(name),
            _ => None,
        };
        let by_file = self.client.is_none()
            && self
                .table
                .is_some_and(|table| table.client == ClientSource::File);

        let mut inference = InferenceRows {
            rows: 0,
            x: Vec::new(),
            clients: (client.is_some() || by_file).then(Default::default),
            targets: label.map(|_| match self.schema.task {
                Task::Regression => Targets::Values(Vec::new()),
                Task::Classification { .. } => Targets::Classes(Vec::new()),
            }),
            split: split.map(|_| Default::default()),
            ids: Vec::new(),
            unseen: UnseenCells::default(),
        };
        let classes: HashMap<&str, u32> = match &self.schema.task {
            Task::Classification { classes } => {
                classes.iter().map(String::as_str).zip(0..).collect()
            }
            Task::Regression => HashMap::new(),
        };
        let mut numbers: HashMap<String, u32> = HashMap::new();
        let mut diagnostics = Diagnostics::new(source.place().map(Into::into));
        let own_scales = |name: &str| match &self.schema.normalization {
            Normalization::Prepared(preparation) => preparation.client_scales(name),
            _ => None,
        };
        while rows.advance().map_err(error)? {
            if diagnostics.full() {
                break;
            }
            if let Some(defect) = rows.defect() {
                diagnostics.note_file(&*rows, defect);
                continue;
            }
            let at = |k: usize, e: String| format!(", column '{}': {e}", header[k]);
            let text = |k: usize| match rows.cell(k).text() {
                Ok(text) => Ok(text.into_owned()),
                Err(e) => Err(at(k, e)),
            };
            let row = inference.rows as u32;
            let mut read = || -> std::result::Result<(), String> {
                let name = match (client, by_file) {
                    (Some(k), _) => Some(text(k)?),
                    (None, true) => Some(rows.origin().map(client_of_file).unwrap_or_default()),
                    (None, false) => None,
                };
                let own = own_scales(name.as_deref().or(self.client).unwrap_or_default());
                if let (Some((names, indices)), Some(name)) = (&mut inference.clients, name) {
                    let number = *numbers.entry(name.clone()).or_insert(names.len() as u32);
                    if number as usize == names.len() {
                        names.push(name);
                    }
                    indices.push(number);
                }
                if let Some(k) = label {
                    let target = self.target(&rows.cell(k), &missing, &classes);
                    match (&mut inference.targets, target.map_err(|e| at(k, e))?) {
                        (Some(Targets::Classes(classes)), Target::Class(class)) => {
                            classes.push(class)
                        }
                        (Some(Targets::Values(values)), Target::Value(value)) => values.push(value),
                        _ => unreachable!("made of one task"),
                    }
                }
                if let (Some(k), Some(split)) = (split, &mut inference.split) {
                    let part = match text(k)?.as_str() {
                        "train" => Split::Train,
                        "valid" => Split::Valid,
                        "test" => Split::Test,
                        other => {
                            let found = format!("found '{other}', allowed is train, valid or test");
                            return Err(at(k, found));
                        }
                    };
                    split[part as usize].push(row);
                }
                for (j, k) in columns.iter().enumerate() {
                    let cell = rows.cell(*k);
                    encoder
                        .encode(j, &cell, own, &mut inference.x)
                        .map_err(|e| at(*k, e))?;
                }
                if !ids.is_empty() {
                    let passed: std::result::Result<_, String> =
                        ids.iter().map(|k| text(*k)).collect();
                    inference.ids.push(passed?);
                }
                Ok(())
            };
            if let Err(message) = read() {
                diagnostics.note_row(&*rows, &message);
            }
            inference.rows += 1;
        }
        diagnostics.check()?;
        if let FeatureEncoder::Prepared(encoder) = encoder {
            inference.unseen = encoder.unseen;
        }
        Ok(inference)
    }

    /// Encodes a label as in training.
    fn target(
        &self,
        cell: &Cell<'_>,
        missing: &Missing,
        classes: &HashMap<&str, u32>,
    ) -> std::result::Result<Target, String> {
        let Task::Classification { classes: all } = &self.schema.task else {
            let value = cell.number()?;
            return Ok(Target::Value(match self.schema.label_scale() {
                None => value as f32,
                Some(scale) => ((value - scale.mean) / scale.deviation) as f32,
            }));
        };
        let name = match self.table {
            Some(table) => table.label_of(cell, missing)?,
            None => cell.text()?.into_owned(),
        };
        classes
            .get(name.as_str())
            .map(|k| Target::Class(*k))
            .ok_or_else(|| format!("found '{name}', the run's labels are {}", list_names(all)))
    }
}

enum Target {
    Class(u32),
    Value(f32),
}
