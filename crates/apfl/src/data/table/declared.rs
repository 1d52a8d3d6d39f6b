//! Properties of a table that the spec declares, so that clients need not reveal them: categories,
//! classes, moments.

use std::collections::BTreeMap;

use toml::Value;

use super::survey::Survey;
use super::value::name_of;
use crate::moments::Moments;
use crate::settings::{Custom, Section, Setting, as_number};

/// Represents `data.categories`, `data.classes` and `data.moments`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declared {
    /// The values of columns that are categories.
    pub categories: BTreeMap<String, Vec<String>>,
    /// The labels.
    pub classes: Option<Vec<String>>,
    /// Mean and standard deviation of columns that are numbers.
    pub moments: BTreeMap<String, (f64, f64)>,
}

impl Declared {
    /// Removes what is declared from a survey, so that it is not disclosed. Counts of declared
    /// labels stay where `counts` is true.
    pub fn strip(&self, columns: &[String], survey: &mut Survey, counts: bool) {
        for (name, seen) in columns.iter().zip(&mut survey.columns) {
            if self.categories.contains_key(name) {
                seen.non_numeric = None;
            }
            if self.moments.contains_key(name) {
                seen.numbers = Moments::default();
            }
        }
        if let Some(classes) = &self.classes {
            (survey.labels).retain(|label, _| counts && classes.contains(label));
        }
    }

    /// Inserts what is declared into the federation's survey.
    pub(super) fn apply(&self, columns: &[String], survey: &mut Survey) {
        for (name, seen) in columns.iter().zip(&mut survey.columns) {
            if let Some(values) = self.categories.get(name) {
                let other = seen.non_numeric.get_or_insert_default();
                other.values = values.iter().cloned().collect();
            }
            if let Some((mean, deviation)) = self.moments.get(name) {
                seen.numbers = Moments {
                    n: 1,
                    mean: *mean,
                    m2: deviation * deviation,
                };
            }
        }
        if let Some(classes) = &self.classes {
            let count = |class: &String| survey.labels.get(class).copied().unwrap_or(0);
            let counts = classes.iter().map(|class| (class.clone(), count(class)));
            survey.labels = counts.collect();
        }
    }

    /// Reads the three keys.
    pub(super) fn read(s: &mut Section<'_>) -> Self {
        s.knows(&["categories", "classes", "moments"]);
        let categories = s.optional(&CATEGORIES);
        let classes = s.optional(&CLASSES);
        let moments = s.optional(&MOMENTS);
        Self {
            categories: categories.map_or(BTreeMap::new(), |(categories, _)| categories),
            classes: classes.map(|(classes, _)| classes),
            moments: moments.map_or(BTreeMap::new(), |(moments, _)| moments),
        }
    }
}

/// A parsed value with its TOML as written.
pub(super) type AsWritten<T> = Setting<Custom<(T, Value)>>;

pub(super) const CATEGORIES: AsWritten<BTreeMap<String, Vec<String>>> = Setting::custom(
    "categories",
    Custom {
        name: "table",
        default: || None,
        allowed: "{ column = [\"value\", …], … }",
        parse: |found| {
            let column = |(name, values): (&String, &Value)| Some((name.clone(), names(values)?));
            let columns: Option<_> = found.as_table()?.iter().map(column).collect();
            Some((columns?, found.clone()))
        },
        write: |(_, found)| found.clone(),
    },
)
.help("the values of categorical columns; they are then not collected from the clients")
.example("{ sex = [\"F\", \"M\"] }")
.seldom();

pub(super) const CLASSES: AsWritten<Vec<String>> = Setting::custom(
    "classes",
    Custom {
        name: "list",
        default: || None,
        allowed: "a list of two or more different labels, such as [\"no\", \"yes\"]",
        parse: |found| {
            let classes = names(found).filter(|classes| classes.len() > 1)?;
            Some((classes, found.clone()))
        },
        write: |(_, found)| found.clone(),
    },
)
.help("the labels; they are then not collected from the clients")
.example("[\"healthy\", \"ill\"]")
.seldom();

pub(super) const MOMENTS: AsWritten<BTreeMap<String, (f64, f64)>> = Setting::custom(
    "moments",
    Custom {
        name: "table",
        default: || None,
        allowed: "{ column = { mean = 0.0, deviation = 1.0 }, … }",
        parse: |found| {
            let number = |value: &Value| as_number(value).filter(|x| x.is_finite());
            let column = |(name, value): (&String, &Value)| {
                let table = value.as_table().filter(|table| table.len() == 2)?;
                let mean = number(table.get("mean")?)?;
                let deviation = number(table.get("deviation")?).filter(|d| *d > 0.0)?;
                Some((name.clone(), (mean, deviation)))
            };
            let columns: Option<_> = found.as_table()?.iter().map(column).collect();
            Some((columns?, found.clone()))
        },
        write: |(_, found)| found.clone(),
    },
)
.help("mean and deviation of numeric columns; they are then not collected from the clients")
.example("{ age = { mean = 54.0, deviation = 9.0 } }")
.seldom();

/// Reads distinct category names; returns `None` if one is invalid.
fn names(value: &Value) -> Option<Vec<String>> {
    let name = |value: &Value| match value {
        Value::String(text) => match text.trim().parse::<f64>() {
            Ok(x) if x.is_finite() => Some(name_of(x)),
            _ => Some(text.clone()),
        },
        Value::Integer(x) => Some(name_of(*x as f64)),
        Value::Float(x) if x.is_finite() => Some(name_of(*x)),
        _ => None,
    };
    let names: Vec<String> = value.as_array()?.iter().map(name).collect::<Option<_>>()?;
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    (!names.is_empty() && different.len() == names.len()).then_some(names)
}
