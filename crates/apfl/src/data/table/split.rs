//! Splits every client's rows into training, validation and test rows, and derives the task.

use std::collections::{HashMap, HashSet};

use super::diagnostics::Diagnostics;
use super::records::{NO_CLIENT, Records, RowTargets, Split};
use super::survey::Survey;
use super::{ClientSource, Table};
use crate::data::Task;
use crate::data::partition::{Assignment, Partition, digest_of_labels, hold_out_parts};
use crate::error::Result;
use crate::quote::quoted;

/// The client and part of every row.
pub(super) struct SplitRows {
    /// The clients that take part: their index among all clients and the sizes of their three
    /// parts.
    pub(super) kept: Vec<(usize, [usize; 3])>,
    /// Every row's client, as an index into `kept`, or [`NO_CLIENT`].
    pub(super) owner: Vec<u32>,
    /// Every row's part.
    pub(super) part: Vec<Split>,
    /// The number of clients with too few rows.
    pub(super) left_out: usize,
}

impl SplitRows {
    /// Returns the client and part of a row, if it is used.
    pub(super) fn of(&self, row: usize) -> Option<(usize, Split)> {
        match self.owner.get(row) {
            Some(owner) if *owner != NO_CLIENT => Some((*owner as usize, self.part[row])),
            _ => None,
        }
    }
}

impl Table {
    /// Splits every client's rows.
    pub(super) fn parts(&self, records: &mut Records, diagnostics: &mut Diagnostics) -> SplitRows {
        let split_given = !records.split.is_empty();
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); records.clients.len()];
        for (row, client) in records.client.iter().enumerate() {
            if *client != NO_CLIENT {
                rows[*client as usize].push(row as u32);
            }
        }
        let mut parts = SplitRows {
            kept: Vec::new(),
            owner: std::mem::take(&mut records.client),
            part: if split_given {
                std::mem::take(&mut records.split)
            } else {
                Vec::new()
            },
            left_out: 0,
        };
        parts.owner.fill(NO_CLIENT);
        parts.part.resize(parts.owner.len(), Split::Train);
        for (client, rows) in rows.into_iter().enumerate() {
            if rows.is_empty() && !split_given && self.client == ClientSource::Unnamed {
                continue; // reported by the partition
            }
            if rows.len() < self.common.min_examples {
                parts.left_out += 1;
                continue;
            }
            if !split_given {
                let common = &self.common;
                let [_, valid, test] = hold_out_parts(
                    rows.len(),
                    [common.validation, common.test],
                    common.seed,
                    self.client_index(client) as u64,
                );
                for (held, part) in [(valid, Split::Valid), (test, Split::Test)] {
                    for k in held {
                        parts.part[rows[k as usize] as usize] = part;
                    }
                }
            }
            let mut sizes = [0; 3];
            for row in &rows {
                parts.owner[*row as usize] = parts.kept.len() as u32;
                sizes[parts.part[*row as usize] as usize] += 1;
            }
            if sizes[0] == 0 {
                let way_out = if split_given {
                    format!("give it one in column '{}'", self.split)
                } else {
                    let more = rows.len() + 1;
                    let fewer = match self.client {
                        ClientSource::Unnamed => "lower data.clients, ",
                        _ => "",
                    };
                    // A single row is held out for any share.
                    let share = match rows.len() {
                        1 => "",
                        _ => "lower data.validation, or ",
                    };
                    format!("{fewer}{share}leave such clients out with data.min_examples = {more}")
                };
                let plural = if rows.len() == 1 { "" } else { "s" };
                diagnostics.note(format!(
                    "client '{}' has {} row{plural} but no training example; {way_out}",
                    records.clients[client],
                    rows.len(),
                ));
            }
            parts.kept.push((client, sizes));
        }
        if parts.kept.is_empty() {
            diagnostics.note(format!(
                "no client has data.min_examples = {} rows or more",
                self.common.min_examples
            ));
        }
        parts
    }

    /// Derives the task; its classes are the labels of all training rows.
    pub(super) fn task(&self, all: &Survey) -> std::result::Result<Task, String> {
        if self.regression {
            return Ok(Task::Regression);
        }
        if let Some(problem) = self.label_problem(all.labels.keys()) {
            return Err(problem);
        }
        let classes = distinct_labels(all.labels.keys().map(String::as_str));
        let numeric = classes.iter().all(|c| c.parse::<f64>().is_ok());
        if let [class] = classes[..] {
            return Err(format!(
                "every training row has the label '{}' (column '{}'): classification needs \
                 at least two labels",
                quoted(class),
                self.label
            ));
        }
        let mostly_different = classes.len() > 20 && 2 * classes.len() as u64 > all.rows;
        if numeric && mostly_different {
            return Err(format!(
                "column '{}' has {} different numbers as classes; \
                 data.task = \"regression\" predicts the number itself",
                self.label,
                classes.len()
            ));
        }
        Ok(Task::Classification {
            classes: classes.into_iter().map(str::to_owned).collect(),
        })
    }

    /// Assigns the rows of a table without clients by a partition.
    pub(super) fn assign(
        &self,
        partition: &Partition,
        records: &mut Records,
    ) -> Result<Assignment> {
        let (labels, classes, digest) = match &records.targets {
            RowTargets::Values(values) => (vec![0; values.len()], 1, digest_of_labels(values)),
            RowTargets::Labels { names, indices } => {
                let classes = distinct_labels(names.iter().map(String::as_str));
                let index = index_of(&classes);
                let class: Vec<u32> = names.iter().map(|name| index[name.as_str()]).collect();
                let names_by_row: Vec<&str> = indices
                    .iter()
                    .map(|k| names[*k as usize].as_str())
                    .collect();
                (
                    indices.iter().map(|label| class[*label as usize]).collect(),
                    classes.len(),
                    digest_of_labels(&names_by_row),
                )
            }
        };
        let assignment = partition.assign(&labels, classes, digest, self.common.seed)?;
        records.client.fill(NO_CLIENT);
        for (client, (name, rows)) in assignment.clients.iter().enumerate() {
            records.clients.push(name.clone());
            for row in rows {
                records.client[*row as usize] = client as u32;
            }
        }
        Ok(assignment)
    }
}

/// Returns the distinct labels, sorted by value if all are numbers, else by text.
pub(super) fn distinct_labels<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let different: HashSet<&str> = labels.collect();
    let mut classes: Vec<&str> = different.into_iter().collect();
    let value = |c: &str| c.parse::<f64>();
    let numeric = classes.iter().all(|c| value(c).is_ok());
    classes.sort_unstable_by(|a, b| match (numeric, value(a), value(b)) {
        (true, Ok(x), Ok(y)) => x.total_cmp(&y).then(a.cmp(b)),
        _ => a.cmp(b),
    });
    classes
}

/// Returns the index of each class.
pub(super) fn index_of<T: AsRef<str>>(classes: &[T]) -> HashMap<&str, u32> {
    let named = classes.iter().enumerate();
    named.map(|(k, name)| (name.as_ref(), k as u32)).collect()
}
