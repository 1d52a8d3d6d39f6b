//! What a spec says of a table beforehand, so that nobody has to look for it: categories,
//! classes, moments.

use std::collections::BTreeMap;

use toml::Value;

use super::survey::Survey;
use super::value::name_of;
use crate::moments::Moments;
use crate::settings::{Custom, Section, Setting, as_number};

/// `data.categories`, `data.classes`, `data.moments`.
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
    /// Takes out of a survey what is declared: that much is not told. `counts`: labels are
    /// counted all the same.
    pub fn strip(&self, columns: &[String], survey: &mut Survey, counts: bool) {
        for (name, seen) in columns.iter().zip(&mut survey.columns) {
            if self.categories.contains_key(name) {
                seen.words = None;
            }
            if self.moments.contains_key(name) {
                seen.numbers = Moments::default();
            }
        }
        if self.classes.is_some() && !counts {
            survey.labels.clear();
        }
    }

    /// Puts into the federation's survey what is declared.
    pub(super) fn apply(&self, columns: &[String], survey: &mut Survey) {
        for (name, seen) in columns.iter().zip(&mut survey.columns) {
            if let Some(values) = self.categories.get(name) {
                let words = seen.words.get_or_insert_default();
                words.values = values.iter().cloned().collect();
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

    /// Reads the keys, where they are written.
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

/// Something of a table, and how it was written.
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
.help("a category's values, where they shall not be looked for")
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
.help("the labels, likewise")
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
.help("mean and deviation of a number, likewise")
.example("{ age = { mean = 54.0, deviation = 9.0 } }")
.seldom();

/// Different names, as cells are called; none where there is one that cannot be.
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
