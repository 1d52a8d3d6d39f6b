//! The outcome of an agreement on a table, and its verification by a client that knows the
//! settings and its own survey.
//!
//! The verifier does not trust the party that merged the surveys. It reads a survey of all clients back
//! from the outcome, derives the outcome from it again, and requires the same. Then it requires
//! that its own survey can be a part of that survey.

use std::collections::BTreeMap;

use super::own_part::{own_is_part, require_possible, trues};
use super::plausible::LARGEST;
use super::preparation::PreparedColumn;
use super::survey::{ColumnSurvey, NonNumeric, Survey};
use super::{Encoding, Preparation, Scale, Table};
use crate::data::Task;
use crate::moments::Moments;
use crate::quote::in_quotes;

/// Represents what a federation agrees on before its clients encode their rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreed {
    /// How columns become features.
    pub preparation: Preparation,
    /// The prediction task.
    pub task: Task,
}

/// Represents the counts of an agreement.
#[derive(Clone, Copy, Debug)]
pub struct AgreedCounts<'a> {
    /// The training rows of all clients.
    pub rows: u64,
    /// The training rows of each class.
    pub classes: &'a [u64],
    /// Whether clients disclosed the counts of their labels.
    pub counted: bool,
}

/// The result of a verification, or how the agreement contradicts settings or survey.
pub(super) type Verified = Result<(), String>;

impl Table {
    /// Verifies an agreement. `own` is the client's own survey with the columns in the agreed
    /// order, complete with what the settings declare.
    ///
    /// # Errors
    /// How the agreement contradicts the settings or the survey.
    pub fn verify(&self, agreed: &Agreed, own: &Survey, counts: AgreedCounts<'_>) -> Verified {
        let columns = &agreed.preparation.columns;
        if columns.len() != own.columns.len() || counts.rows < own.rows {
            return Err(format!(
                "found {} columns and {} training rows, this site alone has {} and {}",
                columns.len(),
                counts.rows,
                own.columns.len(),
                own.rows
            ));
        }
        for column in columns {
            let fault = column.encoding.out_of_range();
            fault.map_or(Ok(()), |fault| {
                Err(format!("column {}: {fault}", in_quotes(&column.name)))
            })?;
        }
        if let Some(fault) = agreed.preparation.label.and_then(|scale| scale.fault()) {
            return Err(format!("the label: {fault}"));
        }
        self.verify_derivation(agreed, counts)?;
        for (column, own_column) in columns.iter().zip(&own.columns) {
            let declared = self.declares(&column.name);
            let within = own_is_part(column, own_column, own.rows, counts.rows, declared);
            within.map_err(|why| format!("column {}: {why}", in_quotes(&column.name)))?;
        }
        if let Some(scale) = agreed.preparation.label {
            require_possible(&own.values, counts.rows, scale.mean, Some(scale.deviation))
                .map_err(|why| format!("the label: {why}"))?;
        }
        self.verify_classes(&agreed.task, own, counts)
    }

    fn declares(&self, column: &String) -> bool {
        self.declared.categories.contains_key(column) || self.declared.moments.contains_key(column)
    }

    /// Derives the agreement again from what it says of all clients' rows.
    fn verify_derivation(&self, agreed: &Agreed, counts: AgreedCounts<'_>) -> Verified {
        let all = agreed.survey_of_all(counts)?;
        let names: Vec<String> = (agreed.preparation.columns.iter())
            .map(|column| column.name.clone())
            .collect();
        let derived = self.agree(&names, &all).map_err(|refused| {
            let (k, why) = &refused[0];
            match k.and_then(|k| names.get(k)) {
                Some(name) => format!("column {} {why}", in_quotes(name)),
                None => why.clone(),
            }
        })?;
        if derived == *agreed {
            return Ok(());
        }
        let (found, expected) = (&agreed.preparation, &derived.preparation);
        let differs = (found.columns.iter().zip(&expected.columns)).find(|(a, b)| a != b);
        Err(match differs {
            Some((a, b)) => format!(
                "column {} is {}, the terms make it {}",
                in_quotes(&a.name),
                describe(a),
                describe(b)
            ),
            None if found.missing != expected.missing => {
                "its cells that mean \"not known\" are not data.missing".into()
            }
            None if found.ignored != expected.ignored => {
                "its columns to leave out are not data.ignore".into()
            }
            None if found.label != expected.label => {
                "the label's standardization is not that of data.standardize".into()
            }
            None if agreed.task != derived.task => {
                "its task or its classes, or their order, are not those of the terms".into()
            }
            None => "it has scales of single clients".into(),
        })
    }

    /// Verifies classes and their counts.
    fn verify_classes(&self, task: &Task, own: &Survey, counts: AgreedCounts<'_>) -> Verified {
        let Task::Classification { classes } = task else {
            return match counts.classes {
                [] => Ok(()),
                _ => Err("it counts classes of a regression".into()),
            };
        };
        if counts.classes.len() != classes.len() {
            return Err("its class counts do not match its classes".into());
        }
        let mapped = |class: &&String| self.label_map.iter().any(|(_, name)| name == *class);
        let stranger = classes.iter().find(|class| !mapped(class));
        if let Some(class) = stranger.filter(|_| !self.label_map.is_empty()) {
            return Err(format!(
                "class {} is not a name of data.label_map",
                in_quotes(class)
            ));
        }
        if !counts.counted {
            if counts.classes.iter().any(|count| *count > 0) {
                return Err("it counts classes that nobody counted".into());
            }
            return Ok(());
        }
        let undeclared = self.declared.classes.is_none();
        for (class, count) in classes.iter().zip(counts.classes) {
            let own = own.labels.get(class).copied().unwrap_or(0);
            if *count < own || (undeclared && *count == 0) {
                return Err(format!(
                    "class {} has {count} training rows, this site alone has {own}",
                    in_quotes(class)
                ));
            }
        }
        let sum = (counts.classes.iter()).try_fold(0u64, |sum, count| sum.checked_add(*count));
        if sum != Some(counts.rows) {
            return Err(format!(
                "its class counts do not add up to its {} training rows",
                counts.rows
            ));
        }
        match own.labels.keys().find(|label| !classes.contains(label)) {
            Some(label) => Err(format!("this site's label {} is missing", in_quotes(label))),
            None => Ok(()),
        }
    }
}

impl Agreed {
    /// Returns a survey of all clients from which this agreement follows, if there is one.
    fn survey_of_all(&self, counts: AgreedCounts<'_>) -> Result<Survey, String> {
        let mut all = Survey::new(0);
        all.rows = counts.rows;
        for column in &self.preparation.columns {
            let known = counts.rows.checked_sub(column.missing).ok_or_else(|| {
                let name = in_quotes(&column.name);
                format!("column {name} has more missing cells than there are training rows")
            })?;
            all.columns.push(ColumnSurvey {
                missing: column.missing,
                ..column.encoding.survey(known)
            });
        }
        if let Task::Classification { classes } = &self.task {
            let counts = counts.classes.iter().copied();
            let labels = classes
                .iter()
                .cloned()
                .zip(counts.chain(std::iter::repeat(0)));
            all.labels = labels.collect::<BTreeMap<_, _>>();
        }
        if let Some(scale) = self.preparation.label {
            all.values = scale.moments();
        }
        Ok(all)
    }
}

impl Scale {
    /// Returns moments with this mean and deviation.
    fn moments(&self) -> Moments {
        Moments {
            n: 1,
            mean: self.mean,
            m2: self.deviation * self.deviation,
        }
    }

    /// Returns what is out of range, if something is.
    fn fault(&self) -> Option<String> {
        if self.mean.is_nan() || self.mean.abs() > LARGEST {
            return Some(format!("the mean {:e} is out of range", self.mean));
        }
        let positive = self.deviation > 0.0 && self.deviation <= LARGEST;
        (!positive).then(|| {
            let deviation = self.deviation;
            format!("the deviation {deviation:e} is out of range; it must be above 0")
        })
    }
}

impl Encoding {
    fn out_of_range(&self) -> Option<String> {
        match self {
            Encoding::Number { fill, scale, .. } => match scale {
                _ if fill.is_nan() || fill.abs() > LARGEST => Some(format!(
                    "the value {fill:e} of missing cells is out of range"
                )),
                Some(scale) => scale.fault(),
                None => None,
            },
            Encoding::Boolean { fill, .. } => (!(0.0..=1.0).contains(fill))
                .then(|| format!("the share {fill:e} of true cells is not between 0 and 1")),
            Encoding::Category { .. } => None, // compared whole
        }
    }

    /// Returns a survey of `known` cells from which this encoding follows, but for the missing
    /// ones.
    fn survey(&self, known: u64) -> ColumnSurvey {
        let other = |other: NonNumeric| ColumnSurvey {
            non_numeric: Some(Box::new(other)),
            ..ColumnSurvey::default()
        };
        match self {
            Encoding::Number { fill, scale, .. } => ColumnSurvey {
                numbers: match scale {
                    Some(scale) => scale.moments(),
                    None => Moments {
                        n: 1,
                        mean: *fill,
                        m2: 0.0,
                    },
                },
                ..ColumnSurvey::default()
            },
            Encoding::Boolean { fill, .. } => {
                let trues = trues(*fill, known);
                other(NonNumeric {
                    trues,
                    falses: known - trues,
                    ..NonNumeric::default()
                })
            }
            Encoding::Category { values } => other(NonNumeric {
                texts: known.max(1),
                values: values.iter().cloned().collect(),
                ..NonNumeric::default()
            }),
        }
    }
}

/// Describes a column's encoding in a few words.
fn describe(column: &PreparedColumn) -> String {
    let gaps = |indicator: &bool| match indicator {
        true => "with a mark of missing cells",
        false => "without a mark of missing cells",
    };
    match &column.encoding {
        Encoding::Number {
            fill,
            scale,
            indicator,
        } => {
            let scale = match scale {
                None => "not standardized".into(),
                Some(scale) => format!("by mean {} and deviation {}", scale.mean, scale.deviation),
            };
            format!("a number filled with {fill}, {scale}, {}", gaps(indicator))
        }
        Encoding::Boolean { fill, indicator } => {
            format!("true or false filled with {fill}, {}", gaps(indicator))
        }
        Encoding::Category { values } => {
            let shown: Vec<String> = values.iter().take(5).map(|v| in_quotes(v)).collect();
            format!(
                "a category of {} values: {}",
                values.len(),
                shown.join(", ")
            )
        }
    }
}
