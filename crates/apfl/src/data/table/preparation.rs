//! How the columns of a table become features: made of a survey, kept in `schema.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::survey::{ColumnSurvey, MOST_CATEGORIES, Survey, Words};
use super::value::{Missing, Value, called, in_order, value_of};
use crate::data::rows::Cell;
use crate::moments::Moments;

/// A shift and a scale: (x − mean)/deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Subtracted.
    pub mean: f64,
    /// Divided by.
    pub deviation: f64,
}

impl Scale {
    pub(super) fn of(moments: &Moments) -> Self {
        Self {
            mean: moments.mean,
            deviation: moments.deviation(),
        }
    }
}

/// What becomes of one column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Encoding {
    /// A number.
    Number {
        /// What stands for a missing one.
        fill: f64,
        /// How it is standardized, where it is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Scale>,
        /// Whether a 0/1 column tells that it was missing.
        indicator: bool,
    },
    /// True or false, as 1 and 0.
    Truth {
        /// What stands for a missing one.
        fill: f64,
        /// Whether a 0/1 column tells that it was missing.
        indicator: bool,
    },
    /// One 0/1 column for each of these values and one for none of them.
    Category {
        /// The values, in order.
        values: Vec<String>,
    },
}

/// A column and what becomes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreparedColumn {
    /// Its name in the table.
    pub name: String,
    /// Cells of training rows that were missing.
    pub missing: u64,
    /// What becomes of it.
    #[serde(flatten)]
    pub encoding: Encoding,
}

/// How the raw rows of a table become what models see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// The columns that are used, in the order of the features.
    pub columns: Vec<PreparedColumn>,
    /// Columns that were named to be left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The words that mean: not known.
    pub missing: Vec<String>,
    /// How the label was standardized, where it is a number and was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Scale>,
    /// Every client's own scales, column by column, where each has its own; others take the
    /// columns' own, which are the federation's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, Vec<Option<Scale>>>,
}

/// Whose mean and deviation features are brought to 0 and 1 by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standardize {
    /// Nobody's: they stay.
    No,
    /// The federation's.
    Federation,
    /// Each client's own.
    Client,
}

/// Cells that training did not show: counted, column by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Strange {
    /// Missing cells of columns that had none.
    pub missing: BTreeMap<String, u64>,
    /// Values of a category that are none of its own.
    pub unseen: BTreeMap<String, u64>,
}

impl Strange {
    /// A sentence about each; none where there is nothing to tell.
    pub fn notes(&self) -> Vec<String> {
        let each = |counts: &BTreeMap<String, u64>| -> String {
            let said = counts.iter().map(|(name, n)| format!("{name} ({n})"));
            said.collect::<Vec<_>>().join(", ")
        };
        let mut notes = Vec::new();
        if !self.missing.is_empty() {
            notes.push(format!(
                "missing cells in columns that had none in training, filled with the mean: {}",
                each(&self.missing)
            ));
        }
        if !self.unseen.is_empty() {
            notes.push(format!(
                "values that training has not seen, taken as \"none of these\": {}",
                each(&self.unseen)
            ));
        }
        notes
    }
}

/// What a table's survey does not allow: the column and why.
pub(super) type Refused = (usize, String);

impl Preparation {
    /// What a survey makes of those columns, or every column that cannot be used.
    pub(super) fn of(
        names: &[String],
        survey: &Survey,
        categorical: &[bool],
        standardize: Standardize,
    ) -> Result<Self, Vec<Refused>> {
        let mut refused = Vec::new();
        let mut columns = Vec::with_capacity(names.len());
        for (k, (name, seen)) in names.iter().zip(&survey.columns).enumerate() {
            match encoding(seen, categorical[k], standardize) {
                Ok(encoding) => columns.push(PreparedColumn {
                    name: name.clone(),
                    missing: seen.missing,
                    encoding,
                }),
                Err(why) => refused.push((k, why)),
            }
        }
        if refused.is_empty() {
            Ok(Self {
                columns,
                ignored: Vec::new(),
                missing: Vec::new(),
                label: None,
                clients: BTreeMap::new(),
            })
        } else {
            Err(refused)
        }
    }

    /// A client's own scales, from its own survey.
    pub(super) fn scales_of(&self, survey: &Survey) -> Vec<Option<Scale>> {
        let columns = self.columns.iter().zip(&survey.columns);
        let scale = |(column, seen): (&PreparedColumn, &ColumnSurvey)| {
            let moments = match column.encoding {
                Encoding::Number { .. } => seen.numbers,
                Encoding::Truth { .. } => seen.truths(),
                Encoding::Category { .. } => return None,
            };
            (moments.n > 0).then(|| Scale::of(&moments))
        };
        columns.map(scale).collect()
    }

    /// The names of the features.
    pub fn features(&self) -> Vec<String> {
        let mut names = Vec::new();
        for PreparedColumn { name, encoding, .. } in &self.columns {
            match encoding {
                Encoding::Number { indicator, .. } | Encoding::Truth { indicator, .. } => {
                    names.push(name.clone());
                    names.extend(indicator.then(|| format!("{name}?")));
                }
                Encoding::Category { values } => {
                    names.extend(values.iter().map(|value| format!("{name}={value}")));
                    names.push(format!("{name}=*"));
                }
            }
        }
        names
    }

    /// The same where it is more than plain numbers.
    pub(super) fn notable(&self) -> Option<String> {
        let plain = |column: &PreparedColumn| {
            let plain = matches!(column.encoding, Encoding::Number { scale: None, .. });
            plain && column.missing == 0
        };
        let nothing = self.columns.iter().all(plain) && self.ignored.is_empty();
        (!nothing).then(|| self.words())
    }

    /// What was done, in words.
    pub fn words(&self) -> String {
        let mut numbers = Vec::new();
        let mut said = Vec::new();
        for column in &self.columns {
            let PreparedColumn { name, missing, .. } = column;
            match &column.encoding {
                Encoding::Number { fill, .. } | Encoding::Truth { fill, .. } if *missing > 0 => {
                    let cells = if *missing == 1 { "cell" } else { "cells" };
                    let whose = if self.clients.is_empty() {
                        short(*fill)
                    } else {
                        "the client's mean".into()
                    };
                    said.push(format!(
                        "{name}: {missing} missing {cells} filled with {whose}"
                    ));
                }
                Encoding::Number { .. } => numbers.push(name.as_str()),
                Encoding::Truth { .. } => said.push(format!("{name}: true or false")),
                Encoding::Category { values } => {
                    let n = values.len();
                    let word = if n == 1 { "category" } else { "categories" };
                    let gaps = match missing {
                        0 => String::new(),
                        1 => ", 1 missing cell is none of these".into(),
                        m => format!(", {m} missing cells are none of these"),
                    };
                    said.push(format!("{name}: {n} {word}{gaps}"));
                }
            }
        }
        said.extend(self.ignored.iter().map(|name| match name.as_str() {
            "" => "the column without a name ignored".into(),
            name => format!("{name} ignored"),
        }));
        if !numbers.is_empty() {
            let more = if said.is_empty() { "" } else { "other " };
            let (plain, they) = match numbers.len() {
                1 => ("number", "it is"),
                _ => ("numbers", "they are"),
            };
            let names = match numbers.len() {
                ..=NAMED => numbers.join(", "),
                n => format!("{}, … {n} in all", numbers[..NAMED].join(", ")),
            };
            said.push(format!("{more}{plain} as {they}: {names}"));
        }
        let scaled = |column: &PreparedColumn| {
            matches!(column.encoding, Encoding::Number { scale: Some(_), .. })
        };
        let whose = match (self.columns.iter().any(scaled), self.clients.is_empty()) {
            (false, _) => "",
            (true, true) => "; numbers standardized",
            (true, false) => "; numbers standardized by each client's own mean and deviation",
        };
        let label = if self.label.is_some() {
            ", the label too"
        } else {
            ""
        };
        let text = format!("columns: {}{whose}{label}", said.join("; "));
        match whose {
            "" => text,
            _ => text
                .replace(" as they are:", ":")
                .replace(" as it is:", ":"),
        }
    }

    /// How the rows of a client are prepared; the federation's way for one that has no scales
    /// of its own.
    pub fn of_client(&self, client: &str) -> Option<&[Option<Scale>]> {
        self.clients.get(client).map(Vec::as_slice)
    }

    /// What reads rows by this preparation.
    pub(super) fn encoder(&self) -> Encoder<'_> {
        let index = |column: &PreparedColumn| match &column.encoding {
            Encoding::Category { values } => values.iter().cloned().zip(0..).collect(),
            _ => BTreeMap::new(),
        };
        Encoder {
            missing: Missing::new(&self.missing),
            places: self.columns.iter().map(index).collect(),
            preparation: self,
            strange: Strange::default(),
        }
    }
}

/// The type of a column: the federation's.
fn encoding(
    seen: &ColumnSurvey,
    categorical: bool,
    standardize: Standardize,
) -> Result<Encoding, String> {
    let nothing = Words::default();
    let words = seen.words.as_deref().unwrap_or(&nothing);
    let numbers = seen.numbers.n;
    let truths = words.trues + words.falses;
    let indicator = seen.missing > 0;
    let way_out = "leave it out with data.ignore";
    if words.others > 0 {
        return Err(format!(
            "is neither text nor number; {way_out}, or save it as text or numbers"
        ));
    }
    if categorical || (words.texts > 0 && numbers + words.huge == 0) {
        if !categorical && words.dates == words.texts && truths == 0 {
            return Err(format!(
                "holds dates or times, which are no numbers to a model; {way_out}, or take every \
                 different one as a category with data.categorical"
            ));
        }
        return match words.values.len() {
            0 => Err(format!("is empty in every training row; {way_out}")),
            1..=MOST_CATEGORIES => {
                let mut values: Vec<String> = words.values.iter().cloned().collect();
                in_order(&mut values);
                Ok(Encoding::Category { values })
            }
            _ => Err(format!(
                "has more than {MOST_CATEGORIES} different values, too many for a category; \
                 {way_out}"
            )),
        };
    }
    match (numbers + words.huge, truths, words.texts) {
        (0, 0, _) => Err(format!("is empty in every training row; {way_out}")),
        (0, _, _) => Ok(Encoding::Truth {
            fill: seen.truths().mean,
            indicator,
        }),
        (_, 0, 0) if words.huge == 0 => Ok(Encoding::Number {
            fill: seen.numbers.mean,
            scale: (standardize != Standardize::No).then(|| Scale::of(&seen.numbers)),
            indicator,
        }),
        (_, 0, 0) => Err(
            "holds numbers that are too large or have no end (3.4e38 at most); mend them, or name \
             them in data.missing if they mean \"not known\""
                .into(),
        ),
        _ => Err(
            "has numbers and text; name the texts in data.missing if they mean \"not known\", or \
             the column in data.categorical"
                .into(),
        ),
    }
}

/// Columns of plain numbers that are named one by one.
const NAMED: usize = 12;

fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// Turns rows into features.
pub(super) struct Encoder<'p> {
    preparation: &'p Preparation,
    missing: Missing,
    /// Where the values of a category are.
    places: Vec<BTreeMap<String, usize>>,
    /// What training did not show.
    pub(super) strange: Strange,
}

impl Encoder<'_> {
    /// Appends what column `k`'s cell becomes; an error tells what is wrong with it.
    pub(super) fn encode(
        &mut self,
        k: usize,
        cell: &Cell<'_>,
        own: Option<&[Option<Scale>]>,
        out: &mut Vec<f32>,
    ) -> Result<(), String> {
        let column = &self.preparation.columns[k];
        let own = own.and_then(|scales| scales[k]);
        let value = value_of(cell, &self.missing);
        let note = |counts: &mut BTreeMap<String, u64>| {
            *counts.entry(column.name.clone()).or_default() += 1;
        };
        let (indicator, x, scale) = match (&column.encoding, &value) {
            (Encoding::Category { values }, value) => {
                let name = called(value.clone(), cell);
                if let Value::Other(kind) = value {
                    return Err(format!("is a {kind}, which is neither text nor number"));
                }
                let place = name.as_ref().and_then(|name| self.places[k].get(&**name));
                if place.is_none() && name.is_some() {
                    note(&mut self.strange.unseen);
                }
                let place = place.copied().unwrap_or(values.len());
                let first = out.len();
                out.resize(first + values.len() + 1, 0.0);
                out[first + place] = 1.0;
                return Ok(());
            }
            (
                Encoding::Number {
                    indicator,
                    fill,
                    scale,
                },
                value,
            ) => {
                // The client's own scale, where it has one.
                let scale = scale.map(|all| own.unwrap_or(all));
                let fill = own
                    .filter(|_| scale.is_some())
                    .map_or(*fill, |own| own.mean);
                match value {
                    Value::Number(x) => (*indicator, Some(*x), (scale, fill)),
                    Value::Missing => (*indicator, None, (scale, fill)),
                    _ => {
                        return Err(cell.number().err().unwrap_or_else(|| {
                            "says true or false, where training has numbers".into()
                        }));
                    }
                }
            }
            (Encoding::Truth { indicator, fill }, value) => {
                let fill = own.map_or(*fill, |own| own.mean);
                match value {
                    Value::Truth(x) => (*indicator, Some(f64::from(u8::from(*x))), (None, fill)),
                    // A file that has lost the type: 1 and 0 are true and false.
                    Value::Number(x) if *x == 0.0 || *x == 1.0 => {
                        (*indicator, Some(*x), (None, fill))
                    }
                    Value::Missing => (*indicator, None, (None, fill)),
                    _ => {
                        let text = cell.text()?;
                        let shown: String = text.chars().take(60).collect();
                        return Err(format!(
                            "found '{shown}', where training has true and false"
                        ));
                    }
                }
            }
        };
        if x.is_none() && !indicator {
            note(&mut self.strange.missing);
        }
        let (scale, fill) = scale;
        let raw = x.unwrap_or(fill);
        out.push(match scale {
            None => raw as f32,
            Some(Scale { mean, deviation }) => ((raw - mean) / deviation) as f32,
        });
        if indicator {
            out.push(f32::from(u8::from(x.is_none())));
        }
        Ok(())
    }
}
