//! The first reading of a table: the roles of the columns, and each row's client, part and label.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use super::diagnostics::Diagnostics;
use super::value::{Missing, Value, category_name, value_of};
use super::{ClientSource, Table};
use crate::data::classes::MAX_LABEL_BYTES;
use crate::data::rows::{Cell, RowReader};
use crate::error::{Error, Result};
use crate::settings::nearest;

/// The most bytes of a client's name or a label.
pub(super) const LONGEST_NAME: usize = MAX_LABEL_BYTES;

/// The client of a row that belongs to no client.
pub(super) const NO_CLIENT: u32 = u32::MAX;

/// The part of a client's data that a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    Train,
    Valid,
    Test,
}

/// The roles of a table's columns, by index.
pub(super) struct ColumnLayout {
    pub(super) client: Option<usize>,
    pub(super) label: usize,
    pub(super) split: Option<usize>,
    /// The feature columns; `names` and `categorical` are in the same order.
    pub(super) features: Vec<usize>,
    pub(super) names: Vec<String>,
    pub(super) categorical: Vec<bool>,
}

/// The targets of all rows.
pub(super) enum RowTargets {
    /// Different labels, and each row's index into them.
    Labels {
        names: Vec<String>,
        indices: Vec<u32>,
    },
    /// Numbers.
    Values(Vec<f64>),
}

/// Each row's client, part and target.
pub(super) struct Records {
    pub(super) clients: Vec<String>,
    pub(super) client: Vec<u32>,
    /// Each row's part; empty if there is no split column.
    pub(super) split: Vec<Split>,
    pub(super) targets: RowTargets,
}

impl Table {
    pub(super) fn layout(&self, rows: &dyn RowReader) -> Result<ColumnLayout> {
        let header = rows.header();
        let error = |message: String| source_error(rows, message);
        if header.is_empty() || header.iter().all(String::is_empty) {
            let what = "the file is empty; its first line must name the columns";
            return Err(error(what.into()));
        }
        let mut seen = HashMap::new();
        for (k, name) in header.iter().enumerate() {
            // pandas names a data frame's index so; it would reveal the order of the rows.
            let unnamed = name.is_empty() || name.starts_with("__index_level_");
            if unnamed && !self.ignore.contains(name) {
                return Err(error(format!(
                    "column {} is {}; data.ignore = [\"{name}\"] leaves it out, or name it (pandas \
                     leaves its index out with index=False)",
                    k + 1,
                    match name.as_str() {
                        "" => "without a name".into(),
                        name => format!("'{name}', a data frame's index"),
                    }
                )));
            }
            if let Some(before) = seen.insert(name.as_str(), k) {
                // A row of numbers in the header's place.
                let way_out = match name.parse::<f64>() {
                    Ok(_) => "; if the file has no header, data.header = [names] gives it one",
                    Err(_) => "; rename one, or take it out",
                };
                return Err(error(format!(
                    "columns {} and {} are both named '{name}'{way_out}",
                    before + 1,
                    k + 1
                )));
            }
        }
        let need = |key: &str, name: &str, way_out: &str| {
            seen.get(name).copied().ok_or_else(|| {
                let separator = |c: &char| *c == ';' || *c == '\t';
                let found = header[0].chars().find(separator);
                if let Some(c) = found.filter(|_| header.len() == 1) {
                    return error(format!(
                        "the columns seem to be separated by {c:?}; save the file with commas \
                         (and points in numbers)"
                    ));
                }
                error(format!(
                    "there is no column '{name}' (data.{key}){}; the columns are {}{way_out}",
                    suggestion(name, header),
                    list_names(header)
                ))
            })
        };
        self.require_named_columns(&seen, header).map_err(error)?;
        let client = match &self.client {
            ClientSource::Unnamed
            | ClientSource::File
            | ClientSource::Only { column: None, .. } => None,
            ClientSource::Only {
                column: Some(name), ..
            } => Some(need("client", name, "")?),
            ClientSource::Column(name) => Some(need(
                "client",
                name,
                "; data.client = \"\" assigns the rows to data.clients clients",
            )?),
        };
        let label = need("label", &self.label, "")?;
        if client == Some(label) {
            return Err(error(format!(
                "column '{}' is both the client and the label (data.client, data.label)",
                self.label
            )));
        }
        let split = if !self.split_required {
            seen.get(self.split.as_str()).copied()
        } else if self.split.is_empty() {
            None
        } else {
            Some(need("split", &self.split, "")?)
        };
        let special = [client, Some(label), split];
        for (key, names) in [("ignore", &self.ignore), ("categorical", &self.categorical)] {
            for name in names {
                let place = need(key, name, "")?;
                if special.contains(&Some(place)) {
                    return Err(error(format!(
                        "data.{key} names '{name}', which is the client, the label or the split"
                    )));
                }
            }
        }
        let features: Vec<usize> = (0..header.len())
            .filter(|k| !special.contains(&Some(*k)) && !self.ignore.contains(&header[*k]))
            .collect();
        if features.is_empty() {
            return Err(error("no column is left for features".into()));
        }
        let names: Vec<String> = features.iter().map(|k| header[*k].clone()).collect();
        Ok(ColumnLayout {
            client,
            label,
            split,
            categorical: (names.iter())
                .map(|name| self.categorical.contains(name))
                .collect(),
            features,
            names,
        })
    }

    /// Returns an error naming all missing columns if there are several.
    fn require_named_columns(
        &self,
        seen: &HashMap<&str, usize>,
        header: &[String],
    ) -> std::result::Result<(), String> {
        let mut named: Vec<(&str, &String)> = vec![("label", &self.label)];
        if let ClientSource::Column(name) = &self.client {
            named.insert(0, ("client", name));
        }
        if self.split_required && !self.split.is_empty() {
            named.push(("split", &self.split));
        }
        named.extend(self.ignore.iter().map(|name| ("ignore", name)));
        named.extend(self.categorical.iter().map(|name| ("categorical", name)));
        let missing: Vec<String> = (named.into_iter())
            .filter(|(_, name)| !seen.contains_key(name.as_str()))
            .map(|(key, name)| format!("'{name}' (data.{key}){}", suggestion(name, header)))
            .collect();
        match missing.len() {
            ..2 => Ok(()), // reported where it is used
            _ => Err(format!(
                "there are no columns {}; the columns are {}",
                missing.join(", "),
                list_names(header)
            )),
        }
    }

    /// Reads everything but the features.
    pub(super) fn records(
        &self,
        rows: &mut dyn RowReader,
        layout: &ColumnLayout,
        diagnostics: &mut Diagnostics,
    ) -> Result<Records> {
        let missing = Missing::new(&self.missing);
        let mut clients = NameIndex::default();
        let mut labels = NameIndex::default();
        let mut records = Records {
            clients: Vec::new(),
            client: Vec::new(),
            split: Vec::new(),
            targets: if self.regression {
                RowTargets::Values(Vec::new())
            } else {
                RowTargets::Labels {
                    names: Vec::new(),
                    indices: Vec::new(),
                }
            },
        };
        while rows.advance().map_err(|e| source_error(rows, e))? {
            if diagnostics.full() {
                break;
            }
            let read = self.record(rows, layout, &missing);
            let (client, part, target) = match read {
                Ok(read) => read,
                Err(message) => {
                    match rows.defect() {
                        Some(defect) => diagnostics.note_file(rows, defect),
                        None => diagnostics.note_row(rows, &message),
                    }
                    // A row of no client takes its place, so that row numbers stay right.
                    (None, Split::Train, RowTarget::None)
                }
            };
            records.client.push(match (&self.client, client) {
                (ClientSource::Unnamed, Some(_)) => 0,
                (_, Some(name)) => clients.number(&name),
                (_, None) => NO_CLIENT,
            });
            if layout.split.is_some() {
                records.split.push(part);
            }
            match (&mut records.targets, target) {
                (RowTargets::Labels { indices, .. }, RowTarget::Label(name)) => {
                    indices.push(labels.number(&name))
                }
                (RowTargets::Labels { indices, .. }, _) => indices.push(0),
                (RowTargets::Values(values), RowTarget::Value(x)) => values.push(x),
                (RowTargets::Values(values), _) => values.push(0.0),
            }
            if records.client.len() == NO_CLIENT as usize {
                return Err(source_error(
                    rows,
                    format!("has more than {NO_CLIENT} rows"),
                ));
            }
        }
        records.clients = clients.names;
        if let RowTargets::Labels { names, .. } = &mut records.targets {
            *names = labels.names;
        }
        Ok(records)
    }

    /// Reads a row's client, part and target.
    fn record<'a>(
        &'a self,
        rows: &'a dyn RowReader,
        layout: &ColumnLayout,
        missing: &Missing,
    ) -> std::result::Result<(Option<Cow<'a, str>>, Split, RowTarget<'a>), String> {
        if let Some(defect) = rows.defect() {
            return Err(defect);
        }
        let name = |k: usize, what: &str| -> std::result::Result<Cow<'a, str>, String> {
            let cell = rows.cell(k);
            let at = |e: String| format!(", column '{}': {e}", rows.header()[k]);
            let text = match value_of(&cell, missing) {
                Value::Missing => {
                    let text = cell.text().map_err(at)?;
                    return Err(if text.is_empty() {
                        format!(": the {what} is empty; fill it in, or remove the row")
                    } else {
                        at(format!(
                            "found '{text}' as {what}, which means \"not known\"; if it is a name, \
                             take it out of data.missing, else fill it in or remove the row"
                        ))
                    });
                }
                // Labels are named as categories are; clients and splits by their text.
                value if what == "label" => match category_name(value, &cell) {
                    Some(name) => name,
                    None => cell.text().map_err(at)?,
                },
                _ => cell.text().map_err(at)?,
            };
            match text.len() {
                ..=LONGEST_NAME => Ok(text),
                n => Err(at(format!(
                    "has {n} bytes, at most {LONGEST_NAME} are allowed"
                ))),
            }
        };
        let client = match (&self.client, layout.client) {
            (ClientSource::File, _) => match rows.origin() {
                Some(path) => Cow::Owned(client_of_file(path)),
                None => return Err(": data.client = { file = true } needs rows from files".into()),
            },
            (ClientSource::Only { name: own, .. }, k) => {
                if let Some(k) = k
                    && name(k, "client")? != *own
                {
                    return Err(format!(": the row is of another client than '{own}'"));
                }
                Cow::Borrowed(own.as_str())
            }
            (_, Some(k)) => name(k, "client")?,
            (_, None) => Cow::Borrowed(""),
        };
        let part = match layout
            .split
            .map(|k| name(k, "split"))
            .transpose()?
            .as_deref()
        {
            None | Some("train") => Split::Train,
            Some("valid") => Split::Valid,
            Some("test") => Split::Test,
            Some(other) => {
                return Err(format!(
                    ", column '{}': found '{other}', allowed is train, valid or test",
                    self.split
                ));
            }
        };
        let at = |e: String| format!(", column '{}': {e}", self.label);
        let target = if self.regression {
            let cell = rows.cell(layout.label);
            match value_of(&cell, missing) {
                Value::Missing => return Err(": the label is empty".into()),
                _ => RowTarget::Value(cell.number().map_err(at)?),
            }
        } else {
            RowTarget::Label(
                self.mapped_label(name(layout.label, "label")?)
                    .map_err(at)?,
            )
        };
        Ok((Some(client), part, target))
    }

    /// Returns the name of a label, by `label_map`.
    pub(super) fn mapped_label<'a>(
        &'a self,
        label: Cow<'a, str>,
    ) -> std::result::Result<Cow<'a, str>, String> {
        if self.label_map.is_empty() {
            return Ok(label);
        }
        let find = |wanted: &str| self.label_map.iter().find(|(key, _)| key == wanted);
        match find(&label).or_else(|| find("*")) {
            Some((_, name)) => Ok(Cow::Borrowed(name)),
            None => Err(format!(
                "found '{label}', which is not in data.label_map; add it, or \"*\" for all others"
            )),
        }
    }

    /// Returns the label of a new row as the run names it.
    pub(super) fn label_of(
        &self,
        cell: &Cell<'_>,
        missing: &Missing,
    ) -> std::result::Result<String, String> {
        match value_of(cell, missing) {
            Value::Missing => Err("the label is empty".into()),
            value => match category_name(value, cell) {
                Some(name) => self.mapped_label(name).map(Cow::into_owned),
                None => Err(cell.text().err().unwrap_or_default()),
            },
        }
    }
}

/// Makes an error about the file that is being read, if it is one.
pub(super) fn source_error(rows: &dyn RowReader, message: String) -> Error {
    match rows.origin() {
        Some(path) => Error::in_file(path, message),
        None => Error::data(message),
    }
}

/// Returns the name of a file without its extension, which names its client.
pub(super) fn client_of_file(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let client_of_file = name
        .rsplit_once('.')
        .map_or(name, |(client_of_file, _)| client_of_file);
    client_of_file.to_owned()
}

enum RowTarget<'a> {
    Label(Cow<'a, str>),
    Value(f64),
    None,
}

/// Numbers names in the order in which they first occur.
#[derive(Default)]
struct NameIndex {
    names: Vec<String>,
    index: HashMap<String, u32>,
}

impl NameIndex {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.index.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.index.insert(name.to_owned(), number);
        number
    }
}

/// Suggests a column with a similar name.
pub(super) fn suggestion(name: &str, header: &[String]) -> String {
    match nearest(name, header.iter().map(String::as_str)) {
        Some(near) => format!(", did you mean '{near}'?"),
        None => String::new(),
    }
}

/// Joins the first twenty names.
pub(super) fn list_names(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(String::as_str).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
