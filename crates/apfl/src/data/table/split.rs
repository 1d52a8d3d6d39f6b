//! Training and validation rows of every client, and what is to be predicted.

use std::collections::{HashMap, HashSet};

use super::{Records, Table};
use crate::data::partition::hold_out;
use crate::data::rows::Cell;
use crate::data::{Targets, Task};
use crate::error::Result;

pub(super) struct Part {
    pub(super) client: usize,
    pub(super) train: Vec<u32>,
    pub(super) valid: Vec<u32>,
}

impl Table {
    /// Every client's training and validation rows, and how many clients are too small.
    pub(super) fn parts(&self, records: &Records) -> Result<(Vec<Part>, usize)> {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); records.clients.len()];
        for (row, client) in records.client.iter().enumerate() {
            if let Some(client) = client {
                rows[*client].push(row as u32);
            }
        }
        let mut parts = Vec::new();
        let mut left_out = 0;
        let split_given = records.held.iter().any(Option::is_some);
        for (client, rows) in rows.into_iter().enumerate() {
            if rows.len() < self.common.min_examples {
                left_out += 1;
                continue;
            }
            let (train, valid) = if split_given {
                rows.iter()
                    .partition(|row| records.held[**row as usize] == Some(false))
            } else {
                let share = self.common.validation;
                let (train, valid) = hold_out(rows.len(), share, self.common.seed, client as u64);
                let pick = |k: Vec<u32>| k.iter().map(|k| rows[*k as usize]).collect();
                (pick(train), pick(valid))
            };
            for (kind, part) in [("training", &train), ("validation", &valid)] {
                if Vec::is_empty(part) {
                    let way_out = if split_given {
                        format!("give it one in column '{}'", self.split)
                    } else {
                        let more = rows.len() + 1;
                        let dealt = self.client.is_empty();
                        let fewer = if dealt { "lower data.clients, " } else { "" };
                        format!(
                            "{fewer}lower data.validation, or leave such clients out with \
                             data.min_examples = {more}"
                        )
                    };
                    let plural = if rows.len() == 1 { "" } else { "s" };
                    return Err(self.error(format!(
                        "client '{}' has {} row{plural} but no {kind} example; {way_out}",
                        records.clients[client],
                        rows.len(),
                    )));
                }
            }
            parts.push(Part {
                client,
                train,
                valid,
            });
        }
        if parts.is_empty() {
            return Err(self.error(format!(
                "no client has data.min_examples = {} rows",
                self.common.min_examples
            )));
        }
        Ok((parts, left_out))
    }

    /// The classes are those of some client's training rows.
    pub(super) fn task(&self, records: &Records, parts: &[Part]) -> Result<Task> {
        if self.regression {
            return Ok(Task::Regression);
        }
        let train = parts.iter().flat_map(|part| &part.train);
        let classes = in_order(train.map(|row| records.labels[*row as usize].as_str()));
        let numeric = classes.iter().all(|c| c.parse::<f64>().is_ok());
        if classes.len() < 2 {
            return Err(self.error(format!(
                "every training row has the label '{}' (column '{}'): there is nothing to learn",
                classes[0], self.label
            )));
        }
        let rows: usize = parts.iter().map(|part| part.train.len()).sum();
        let mostly_different = classes.len() > 20 && 2 * classes.len() > rows;
        if numeric && (classes.len() > 1000 || mostly_different) {
            return Err(self.error(format!(
                "column '{}' has {} different numbers as classes; \
                 data.task = \"regression\" predicts the number itself",
                self.label,
                classes.len()
            )));
        }
        Ok(Task::Classification {
            classes: classes.into_iter().map(str::to_owned).collect(),
        })
    }

    pub(super) fn targets(
        &self,
        records: &Records,
        task: &Task,
        parts: &[Part],
    ) -> Result<Targets> {
        let Task::Classification { classes } = task else {
            let value = |(label, number): (&String, &u64)| {
                Cell::Text(label).number().map_err(|found| {
                    let unit = records.unit;
                    self.error(format!("{unit} {number}, column '{}': {found}", self.label))
                })
            };
            let rows = records.labels.iter().zip(&records.numbers);
            let single = |pair| value(pair).map(|x| x as f32);
            return Ok(Targets::Values(rows.map(single).collect::<Result<_>>()?));
        };
        let index = index_of(classes);
        let way_out = match records.held.iter().any(Option::is_some) {
            true => "move such a row to training",
            false => "another data.seed may hold out other rows, a split column says which",
        };
        for part in parts {
            for row in part.valid.iter().map(|row| *row as usize) {
                if !index.contains_key(records.labels[row].as_str()) {
                    return Err(self.error(format!(
                        "{} {}: the label '{}' of client '{}' is in its validation rows but in \
                         no client's training rows; {way_out}, or remove such rows",
                        records.unit,
                        records.numbers[row],
                        records.labels[row],
                        records.clients[part.client]
                    )));
                }
            }
        }
        // Rows of clients that are left out may have any label: nobody looks at them.
        let class = |label: &String| index.get(label.as_str()).copied().unwrap_or(0);
        Ok(Targets::Classes(records.labels.iter().map(class).collect()))
    }
}

/// The different labels, by value where all are numbers, else by text.
pub(super) fn in_order<'a>(labels: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
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

pub(super) fn index_of<T: AsRef<str>>(classes: &[T]) -> HashMap<&str, u32> {
    let named = classes.iter().enumerate();
    named.map(|(k, name)| (name.as_ref(), k as u32)).collect()
}
