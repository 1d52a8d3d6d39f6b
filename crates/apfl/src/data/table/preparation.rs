//! How the columns of a table become features: derived from a survey, kept in `schema.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::survey::{ColumnSurvey, MOST_CATEGORIES, NonNumeric, Survey};
use super::value::{Missing, Value, category_name, sort_names, value_of};
use crate::data::rows::Cell;
use crate::moments::Moments;

/// A shift and a scale: (x − mean)/deviation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The number that is subtracted.
    pub mean: f64,
    /// The number that is divided by.
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

/// Represents how one column becomes features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum Encoding {
    /// A number.
    Number {
        /// The value of missing cells.
        fill: f64,
        /// The standardization, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        scale: Option<Scale>,
        /// Whether a 0/1 feature marks missing cells.
        indicator: bool,
    },
    /// True or false, as 1 and 0.
    #[serde(rename = "truth")]
    Boolean {
        /// The value of missing cells.
        fill: f64,
        /// Whether a 0/1 feature marks missing cells.
        indicator: bool,
    },
    /// A category: one 0/1 feature per value and one for any other value.
    Category {
        /// The values, in order.
        values: Vec<String>,
    },
}

/// Represents a column and its encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PreparedColumn {
    /// Its name in the table.
    pub name: String,
    /// The number of missing cells in training rows.
    pub missing: u64,
    /// Its encoding.
    #[serde(flatten)]
    pub encoding: Encoding,
}

/// Represents the conversion of a table's raw rows into features.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preparation {
    /// The columns that are used, in the order of the features.
    pub columns: Vec<PreparedColumn>,
    /// The columns that the spec leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// The cells that mean "not known".
    pub missing: Vec<String>,
    /// The standardization of the label, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Scale>,
    /// Each client's own scales by column, if clients are standardized by their own moments. Other
    /// clients use the federation's, which are in `columns`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub clients: BTreeMap<String, Vec<Option<Scale>>>,
}

/// Says whose moments standardize the features.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standardize {
    /// Features are not standardized.
    No,
    /// The federation's.
    Federation,
    /// Each client's own.
    Client,
}

/// Counts cells that did not occur in training, by column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UnseenCells {
    /// Missing cells of columns that had none in training.
    pub missing: BTreeMap<String, u64>,
    /// Values that are not among the categories of training.
    pub categories: BTreeMap<String, u64>,
}

impl UnseenCells {
    /// Returns one sentence per kind of cell that occurred.
    pub fn notes(&self) -> Vec<String> {
        let each = |counts: &BTreeMap<String, u64>| -> String {
            let counts = counts.iter().map(|(name, n)| format!("{name} ({n})"));
            counts.collect::<Vec<_>>().join(", ")
        };
        let mut notes = Vec::new();
        if !self.missing.is_empty() {
            notes.push(format!(
                "missing cells in columns that had none in training, filled with the mean: {}",
                each(&self.missing)
            ));
        }
        if !self.categories.is_empty() {
            notes.push(format!(
                "values not seen in training, encoded as \"none of these\": {}",
                each(&self.categories)
            ));
        }
        notes
    }
}

/// The index of a column that cannot be used and the reason.
pub(super) type Refused = (usize, String);

impl Preparation {
    /// Derives the preparation of the columns from a survey, or returns every column that cannot be
    /// used.
    pub(super) fn from_survey(
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

    /// Returns a client's own scales, from its own survey.
    pub(super) fn local_scales(&self, survey: &Survey) -> Vec<Option<Scale>> {
        let columns = self.columns.iter().zip(&survey.columns);
        let scale = |(column, seen): (&PreparedColumn, &ColumnSurvey)| {
            let moments = match column.encoding {
                Encoding::Number { .. } => seen.numbers,
                Encoding::Boolean { .. } => seen.booleans(),
                Encoding::Category { .. } => return None,
            };
            (moments.n > 0).then(|| Scale::of(&moments))
        };
        columns.map(scale).collect()
    }

    /// Returns the names of the features.
    pub fn features(&self) -> Vec<String> {
        let mut names = Vec::new();
        for PreparedColumn { name, encoding, .. } in &self.columns {
            match encoding {
                Encoding::Number { indicator, .. } | Encoding::Boolean { indicator, .. } => {
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

    /// Returns [`Preparation::describe`] unless all columns are plain numbers.
    pub(super) fn describe_unless_plain(&self) -> Option<String> {
        let is_plain = |column: &PreparedColumn| {
            let unscaled = matches!(column.encoding, Encoding::Number { scale: None, .. });
            unscaled && column.missing == 0
        };
        let plain = self.columns.iter().all(is_plain) && self.ignored.is_empty();
        (!plain).then(|| self.describe())
    }

    /// Describes the preparation in one sentence.
    pub fn describe(&self) -> String {
        let mut numbers = Vec::new();
        let mut sentences = Vec::new();
        for column in &self.columns {
            let PreparedColumn { name, missing, .. } = column;
            match &column.encoding {
                Encoding::Number { fill, .. } | Encoding::Boolean { fill, .. } if *missing > 0 => {
                    let cells = if *missing == 1 { "cell" } else { "cells" };
                    let whose = if self.clients.is_empty() {
                        short(*fill)
                    } else {
                        "the client's mean".into()
                    };
                    sentences.push(format!(
                        "{name}: {missing} missing {cells} filled with {whose}"
                    ));
                }
                Encoding::Number { .. } => numbers.push(name.as_str()),
                Encoding::Boolean { .. } => sentences.push(format!("{name}: true or false")),
                Encoding::Category { values } => {
                    let n = values.len();
                    let word = if n == 1 { "category" } else { "categories" };
                    let gaps = match missing {
                        0 => String::new(),
                        1 => ", 1 missing cell is none of these".into(),
                        m => format!(", {m} missing cells are none of these"),
                    };
                    sentences.push(format!("{name}: {n} {word}{gaps}"));
                }
            }
        }
        sentences.extend(self.ignored.iter().map(|name| match name.as_str() {
            "" => "the column without a name ignored".into(),
            name => format!("{name} ignored"),
        }));
        if !numbers.is_empty() {
            let more = if sentences.is_empty() { "" } else { "other " };
            let (plain, they) = match numbers.len() {
                1 => ("number", "it is"),
                _ => ("numbers", "they are"),
            };
            let names = match numbers.len() {
                ..=MOST_NAMED => numbers.join(", "),
                n => format!("{}, … {n} in all", numbers[..MOST_NAMED].join(", ")),
            };
            sentences.push(format!("{more}{plain} as {they}: {names}"));
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
        let text = format!("columns: {}{whose}{label}", sentences.join("; "));
        match whose {
            "" => text,
            _ => text
                .replace(" as they are:", ":")
                .replace(" as it is:", ":"),
        }
    }

    /// Returns a client's own scales, if it has any.
    pub fn client_scales(&self, client: &str) -> Option<&[Option<Scale>]> {
        self.clients.get(client).map(Vec::as_slice)
    }

    /// Returns an encoder of rows.
    pub(super) fn encoder(&self) -> Encoder<'_> {
        let index = |column: &PreparedColumn| match &column.encoding {
            Encoding::Category { values } => values.iter().cloned().zip(0..).collect(),
            _ => BTreeMap::new(),
        };
        Encoder {
            missing: Missing::new(&self.missing),
            places: self.columns.iter().map(index).collect(),
            preparation: self,
            unseen: UnseenCells::default(),
        }
    }
}

/// Decides how a column is encoded.
fn encoding(
    seen: &ColumnSurvey,
    categorical: bool,
    standardize: Standardize,
) -> Result<Encoding, String> {
    let none = NonNumeric::default();
    let other = seen.non_numeric.as_deref().unwrap_or(&none);
    let numbers = seen.numbers.n;
    let booleans = other.trues + other.falses;
    let indicator = seen.missing > 0;
    let way_out = "leave it out with data.ignore";
    if other.unsupported > 0 {
        return Err(format!(
            "is neither text nor number; {way_out}, or save it as text or numbers"
        ));
    }
    if categorical || (other.texts > 0 && numbers + other.huge == 0) {
        if !categorical && other.dates == other.texts && booleans == 0 {
            return Err(format!(
                "contains dates or times, which models cannot use as numbers; {way_out}, or use \
                 each different one as a category with data.categorical"
            ));
        }
        return match other.values.len() {
            0 => Err(format!("is empty in every training row; {way_out}")),
            1..=MOST_CATEGORIES => {
                let mut values: Vec<String> = other.values.iter().cloned().collect();
                sort_names(&mut values);
                Ok(Encoding::Category { values })
            }
            _ => Err(format!(
                "has more than {MOST_CATEGORIES} different values, too many for a category; \
                 {way_out}"
            )),
        };
    }
    match (numbers + other.huge, booleans, other.texts) {
        (0, 0, _) => Err(format!("is empty in every training row; {way_out}")),
        (0, _, _) => Ok(Encoding::Boolean {
            fill: seen.booleans().mean,
            indicator,
        }),
        (_, 0, 0) if other.huge == 0 => Ok(Encoding::Number {
            fill: seen.numbers.mean,
            scale: (standardize != Standardize::No).then(|| Scale::of(&seen.numbers)),
            indicator,
        }),
        (_, 0, 0) => Err(
            "contains numbers that are infinite or too large (at most 3.4e38 is allowed); correct \
             them, or name them in data.missing if they mean \"not known\""
                .into(),
        ),
        _ => Err(
            "has numbers and text; name the texts in data.missing if they mean \"not known\", or \
             the column in data.categorical"
                .into(),
        ),
    }
}

/// The most numeric columns that a description names.
const MOST_NAMED: usize = 12;

fn short(x: f64) -> String {
    match x.abs() {
        a if a >= 100.0 => format!("{x:.1}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    }
}

/// Encodes rows as features.
pub(super) struct Encoder<'p> {
    preparation: &'p Preparation,
    missing: Missing,
    /// For each column, the index of each category.
    places: Vec<BTreeMap<String, usize>>,
    /// Cells that did not occur in training.
    pub(super) unseen: UnseenCells,
}

impl Encoder<'_> {
    /// Appends the features of a cell of column `k`.
    ///
    /// # Errors
    /// The cell does not fit the column's type.
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
                let name = category_name(value.clone(), cell);
                if let Value::Other(kind) = value {
                    return Err(format!("is a {kind}, which is neither text nor number"));
                }
                let place = name.as_ref().and_then(|name| self.places[k].get(&**name));
                if place.is_none() && name.is_some() {
                    note(&mut self.unseen.categories);
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
                // The client's own scale, if it has one.
                let scale = scale.map(|all| own.unwrap_or(all));
                let fill = own
                    .filter(|_| scale.is_some())
                    .map_or(*fill, |own| own.mean);
                match value {
                    Value::Number(x) => (*indicator, Some(*x), (scale, fill)),
                    Value::Missing => (*indicator, None, (scale, fill)),
                    _ => {
                        return Err(cell.number().err().unwrap_or_else(|| {
                            "is true or false; the column is numeric in training".into()
                        }));
                    }
                }
            }
            (Encoding::Boolean { indicator, fill }, value) => {
                let fill = own.map_or(*fill, |own| own.mean);
                match value {
                    Value::Boolean(x) => (*indicator, Some(f64::from(u8::from(*x))), (None, fill)),
                    // A file that has lost the type: 1 and 0 are true and false.
                    Value::Number(x) if *x == 0.0 || *x == 1.0 => {
                        (*indicator, Some(*x), (None, fill))
                    }
                    Value::Missing => (*indicator, None, (None, fill)),
                    _ => {
                        let text = cell.text()?;
                        let shown: String = text.chars().take(60).collect();
                        return Err(format!(
                            "found '{shown}'; the column is true or false in training"
                        ));
                    }
                }
            }
        };
        if x.is_none() && !indicator {
            note(&mut self.unseen.missing);
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
