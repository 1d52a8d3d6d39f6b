//! The rows of a table: which column is what, and what stands in each row.

use std::collections::HashMap;

use super::Table;
use crate::data::rows::RowReader;
use crate::error::Result;

/// The most bytes of a client's name or a label.
const LONGEST_NAME: usize = 1000;

pub(super) struct Columns {
    pub(super) client: Option<usize>,
    pub(super) label: usize,
    pub(super) split: Option<usize>,
    pub(super) features: Vec<(usize, String)>,
}

#[derive(Default)]
pub(super) struct Records {
    pub(super) clients: Vec<String>,
    /// `line` or `row`, and every row's number in the file.
    pub(super) unit: &'static str,
    pub(super) numbers: Vec<u64>,
    /// None: of no client.
    pub(super) client: Vec<Option<usize>>,
    pub(super) held: Vec<Option<bool>>,
    pub(super) labels: Vec<String>,
    pub(super) features: Vec<f64>,
}

impl Table {
    pub(super) fn columns(&self, header: &[String]) -> Result<Columns> {
        if header.is_empty() || header.iter().all(String::is_empty) {
            return Err(self.error("the file is empty; its first line must name the columns"));
        }
        let mut seen = HashMap::new();
        for (k, name) in header.iter().enumerate() {
            // pandas writes a data frame's index so: a number that would give the order away.
            if name.is_empty() || name.starts_with("__index_level_") {
                return Err(self.error(format!(
                    "column {} is {}; name it, or take it out (pandas leaves its index out with \
                     index=False)",
                    k + 1,
                    match name.as_str() {
                        "" => "without a name".into(),
                        name => format!("'{name}', a data frame's index"),
                    }
                )));
            }
            if let Some(before) = seen.insert(name.as_str(), k) {
                return Err(self.error(format!(
                    "columns {} and {} are both named '{name}'",
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
                    return self.error(format!(
                        "the columns seem to be separated by {c:?}; save the file with commas \
                         (and points in numbers)"
                    ));
                }
                self.error(format!(
                    "there is no column '{name}' (data.{key}); the columns are {}{way_out}",
                    listed(header)
                ))
            })
        };
        let client = match self.client.as_str() {
            "" => None,
            name => Some(need(
                "client",
                name,
                "; data.client = \"\" deals the rows to data.clients clients",
            )?),
        };
        let label = need("label", &self.label, "")?;
        if client == Some(label) {
            return Err(self.error(format!(
                "column '{}' is both the client and the label (data.client, data.label)",
                self.label
            )));
        }
        let split = match self.split_required {
            true if self.split.is_empty() => None,
            true => Some(need("split", &self.split, "")?),
            false => seen.get(self.split.as_str()).copied(),
        };
        let special = [client, Some(label), split];
        let features: Vec<_> = header
            .iter()
            .enumerate()
            .filter(|(k, _)| !special.contains(&Some(*k)))
            .map(|(k, name)| (k, name.clone()))
            .collect();
        if features.is_empty() {
            return Err(self.error("no column is left for features"));
        }
        Ok(Columns {
            client,
            label,
            split,
            features,
        })
    }

    pub(super) fn records(&self, rows: &mut dyn RowReader, columns: &Columns) -> Result<Records> {
        let mut records = Records {
            unit: rows.unit(),
            ..Records::default()
        };
        let mut index: HashMap<String, usize> = HashMap::new();
        while rows.advance().map_err(|e| self.error(e))? {
            let at = || format!("{} {}", rows.unit(), rows.number());
            let text = |k: usize| -> Result<String> {
                let cell = rows.cell(k);
                let text = cell.text().and_then(|text| match text.len() {
                    ..=LONGEST_NAME => Ok(text.into_owned()),
                    n => Err(format!("has {n} bytes, at most {LONGEST_NAME} are allowed")),
                });
                text.map_err(|what| {
                    self.error(format!("{}, column '{}': {what}", at(), rows.header()[k]))
                })
            };
            let client = match columns.client {
                None => 0,
                Some(k) => {
                    let name = text(k)?;
                    if name.is_empty() {
                        return Err(self.error(format!("{}: the client is empty", at())));
                    }
                    let next = records.clients.len();
                    let client = *index.entry(name.clone()).or_insert(next);
                    if client == next {
                        records.clients.push(name);
                    }
                    client
                }
            };
            let held = match columns.split.map(text).transpose()?.as_deref() {
                None => None,
                Some("train") => Some(false),
                Some("valid") => Some(true),
                Some(other) => {
                    return Err(self.error(format!(
                        "{}, column '{}': found '{other}', allowed is train or valid",
                        at(),
                        self.split
                    )));
                }
            };
            let label = text(columns.label)?;
            if label.is_empty() {
                return Err(self.error(format!("{}: the label is empty", at())));
            }
            for (k, name) in &columns.features {
                let number = rows.cell(*k).number();
                records.features.push(
                    number.map_err(|found| {
                        self.error(format!("{}, column '{name}': {found}", at()))
                    })?,
                );
            }
            records.numbers.push(rows.number());
            records.client.push(Some(client));
            records.held.push(held);
            records.labels.push(label);
            if u32::try_from(records.numbers.len()).is_err() {
                return Err(self.error(format!("has more than {} rows", u32::MAX)));
            }
        }
        Ok(records)
    }
}

pub(super) fn listed(names: &[String]) -> String {
    let shown: Vec<_> = names.iter().take(20).map(String::as_str).collect();
    let more = if names.len() > 20 { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}
