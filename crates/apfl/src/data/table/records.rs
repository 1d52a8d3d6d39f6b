//! The first reading of a table: which column is what, who has which row, and its label.

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use super::diagnostics::Diagnostics;
use super::value::{Missing, Value, called, value_of};
use super::{ClientOf, Table};
use crate::data::rows::{Cell, RowReader};
use crate::error::{Error, Result};
use crate::settings::nearest;

/// The most bytes of a client's name or a label.
const LONGEST_NAME: usize = 1000;

/// A row of nobody.
pub(super) const NOBODY: u32 = u32::MAX;

/// Which of a client's three parts a row is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Train,
    Valid,
    Test,
}

pub(super) struct Layout {
    pub(super) client: Option<usize>,
    pub(super) label: usize,
    pub(super) split: Option<usize>,
    /// Where the features are, and their names.
    pub(super) features: Vec<usize>,
    pub(super) names: Vec<String>,
    pub(super) categorical: Vec<bool>,
}

/// What is to be predicted, row by row.
pub(super) enum Answers {
    /// A label each.
    Labels { names: Vec<String>, of: Vec<u32> },
    /// A number each.
    Values(Vec<f64>),
}

pub(super) struct Records {
    pub(super) clients: Vec<String>,
    pub(super) client: Vec<u32>,
    /// What the split column says; empty where there is none.
    pub(super) split: Vec<Part>,
    pub(super) answers: Answers,
}

impl Table {
    pub(super) fn layout(&self, rows: &dyn RowReader) -> Result<Layout> {
        let header = rows.header();
        let error = |message: String| match rows.origin() {
            Some(path) => Error::in_file(path, message),
            None => Error::data(message),
        };
        if header.is_empty() || header.iter().all(String::is_empty) {
            let what = "the file is empty; its first line must name the columns";
            return Err(error(what.into()));
        }
        let mut seen = HashMap::new();
        for (k, name) in header.iter().enumerate() {
            // pandas writes a data frame's index so: a number that would give the order away.
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
                    meant(name, header),
                    listed(header)
                ))
            })
        };
        self.all_there(&seen, header).map_err(error)?;
        let client = match &self.client {
            ClientOf::Nobody | ClientOf::File | ClientOf::Only { column: None, .. } => None,
            ClientOf::Only {
                column: Some(name), ..
            } => Some(need("client", name, "")?),
            ClientOf::Column(name) => Some(need(
                "client",
                name,
                "; data.client = \"\" deals the rows to data.clients clients",
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
        Ok(Layout {
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

    /// Where several columns that the spec names are not there, all of them.
    fn all_there(
        &self,
        seen: &HashMap<&str, usize>,
        header: &[String],
    ) -> std::result::Result<(), String> {
        let mut named: Vec<(&str, &String)> = vec![("label", &self.label)];
        if let ClientOf::Column(name) = &self.client {
            named.insert(0, ("client", name));
        }
        if self.split_required && !self.split.is_empty() {
            named.push(("split", &self.split));
        }
        named.extend(self.ignore.iter().map(|name| ("ignore", name)));
        named.extend(self.categorical.iter().map(|name| ("categorical", name)));
        let missing: Vec<String> = (named.into_iter())
            .filter(|(_, name)| !seen.contains_key(name.as_str()))
            .map(|(key, name)| format!("'{name}' (data.{key}){}", meant(name, header)))
            .collect();
        match missing.len() {
            ..2 => Ok(()), // told in its own words
            _ => Err(format!(
                "there are no columns {}; the columns are {}",
                missing.join(", "),
                listed(header)
            )),
        }
    }

    /// Reads everything but the features.
    pub(super) fn records(
        &self,
        rows: &mut dyn RowReader,
        layout: &Layout,
        diagnostics: &mut Diagnostics,
    ) -> Result<Records> {
        let missing = Missing::new(&self.missing);
        let mut clients = Names::default();
        let mut labels = Names::default();
        let mut records = Records {
            clients: Vec::new(),
            client: Vec::new(),
            split: Vec::new(),
            answers: if self.regression {
                Answers::Values(Vec::new())
            } else {
                Answers::Labels {
                    names: Vec::new(),
                    of: Vec::new(),
                }
            },
        };
        while rows.advance().map_err(|e| self.broken(rows, e))? {
            if diagnostics.full() {
                break;
            }
            let read = self.record(rows, layout, &missing);
            let (client, part, answer) = match read {
                Ok(read) => read,
                Err(message) => {
                    match rows.defect() {
                        Some(defect) => diagnostics.note_file(rows, defect),
                        None => diagnostics.note_row(rows, &message),
                    }
                    // In its place stands a row of nobody, so that the next are counted right.
                    (None, Part::Train, Answer::None)
                }
            };
            records.client.push(match (&self.client, client) {
                (ClientOf::Nobody, Some(_)) => 0,
                (_, Some(name)) => clients.number(&name),
                (_, None) => NOBODY,
            });
            if layout.split.is_some() {
                records.split.push(part);
            }
            match (&mut records.answers, answer) {
                (Answers::Labels { of, .. }, Answer::Label(name)) => of.push(labels.number(&name)),
                (Answers::Labels { of, .. }, _) => of.push(0),
                (Answers::Values(values), Answer::Value(x)) => values.push(x),
                (Answers::Values(values), _) => values.push(0.0),
            }
            if records.client.len() == NOBODY as usize {
                return Err(self.broken(rows, format!("has more than {NOBODY} rows")));
            }
        }
        records.clients = clients.names;
        if let Answers::Labels { names, .. } = &mut records.answers {
            *names = labels.names;
        }
        Ok(records)
    }

    /// A row's client, part and answer, or what is wrong with it.
    fn record<'a>(
        &'a self,
        rows: &'a dyn RowReader,
        layout: &Layout,
        missing: &Missing,
    ) -> std::result::Result<(Option<Cow<'a, str>>, Part, Answer<'a>), String> {
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
                // A label is called as a category is; a client and a split by their text.
                value if what == "label" => match called(value, &cell) {
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
            (ClientOf::File, _) => match rows.origin() {
                Some(path) => Cow::Owned(stem(path)),
                None => return Err(": it is in no file, as data.client asks for".into()),
            },
            (ClientOf::Only { name: own, .. }, k) => {
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
            None | Some("train") => Part::Train,
            Some("valid") => Part::Valid,
            Some("test") => Part::Test,
            Some(other) => {
                return Err(format!(
                    ", column '{}': found '{other}', allowed is train, valid or test",
                    self.split
                ));
            }
        };
        let at = |e: String| format!(", column '{}': {e}", self.label);
        let answer = if self.regression {
            let cell = rows.cell(layout.label);
            match value_of(&cell, missing) {
                Value::Missing => return Err(": the label is empty".into()),
                _ => Answer::Value(cell.number().map_err(at)?),
            }
        } else {
            Answer::Label(self.named(name(layout.label, "label")?).map_err(at)?)
        };
        Ok((Some(client), part, answer))
    }

    /// The name of a label, by `label_map`.
    pub(super) fn named<'a>(
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
                "found '{label}', which data.label_map does not name; \"*\" names every other label"
            )),
        }
    }

    /// An error of a file that cannot be read on.
    pub(super) fn broken(&self, rows: &dyn RowReader, message: String) -> Error {
        match rows.origin() {
            Some(path) => Error::in_file(path, message),
            None => Error::data(message),
        }
    }

    /// A label as the run calls it, of a row that is new to it.
    pub(super) fn label_of(
        &self,
        cell: &Cell<'_>,
        missing: &Missing,
    ) -> std::result::Result<String, String> {
        match value_of(cell, missing) {
            Value::Missing => Err("the label is empty".into()),
            value => match called(value, cell) {
                Some(name) => self.named(name).map(Cow::into_owned),
                None => Err(cell.text().err().unwrap_or_default()),
            },
        }
    }
}

/// The client that a file is: its name without its ending.
pub(super) fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    stem.to_owned()
}

enum Answer<'a> {
    Label(Cow<'a, str>),
    Value(f64),
    None,
}

/// Names, numbered in the order in which they come.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    index: HashMap<String, u32>,
}

impl Names {
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

/// A column whose name is nearly that one.
pub(super) fn meant(name: &str, header: &[String]) -> String {
    match nearest(name, header.iter().map(String::as_str)) {
        Some(near) => format!(", did you mean '{near}'?"),
        None => String::new(),
    }
}

pub(super) fn listed(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(String::as_str).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
