//! `[data]` of a table.

use toml::Value;

use super::value::{MISSING, name_of};
use super::{ClientOf, Declared, Standardize, Table};
use crate::data::partition::Partition;
use crate::data::{Common, Source, SourceKind};
use crate::settings::{Kind, Section, shown};

pub(in crate::data) const KIND: SourceKind = Kind {
    name: "table",
    about: "your own table, CSV or Parquet: one row an example",
    keys: &[
        (
            "path = \"my.csv\"",
            "columns: client, label and features; [\"a.csv\", \"b.csv\"] for several files",
        ),
        (
            "client = \"client\"",
            "the column that names the client; { file = true }: the file's name does; \"\" deals \
             the rows to `clients`, by a partition",
        ),
        (
            "label = \"label\"",
            "the column to predict: any text or number",
        ),
        (
            "task = \"classification\"",
            "or \"regression\": the label is a number to predict",
        ),
        (
            "# split = \"split\"",
            "a column with `train`, `valid` or `test`, if there is one",
        ),
        ("ignore = []", "columns to leave out"),
        (
            "categorical = []",
            "columns whose numbers are names; text is a category anyway",
        ),
        (
            "missing = [\"\", \"NA\", \"N/A\", \"NaN\", \"nan\", \"null\", \"?\"]",
            "cells that mean: not known",
        ),
        (
            "standardize = false",
            "true: numbers to mean 0 and deviation 1; \"client\": by each client's own",
        ),
        (
            "# header = [\"age\", \"label\"]",
            "the columns' names, where the file's first line does not say them",
        ),
        (
            "# categories = { sex = [\"F\", \"M\"] }",
            "a category's values, where they shall not be looked for",
        ),
        ("# classes = [\"healthy\", \"ill\"]", "the labels, likewise"),
        (
            "# moments = { age = { mean = 54.0, deviation = 9.0 } }",
            "mean and deviation of a number, likewise",
        ),
        (
            "# label_map = { \"0\" = \"healthy\", \"*\" = \"ill\" }",
            "other names for labels; * is every other one",
        ),
    ],
    examples: &[
        "{ kind = 'table', path = 't.csv', task = 'regression' }",
        "{ kind = 'table', path = 't.csv', client = '', clients = 5, partition = 'iid' }",
        "{ kind = 'table', path = ['a.csv', 'b.csv'], client = { file = true }, \
         header = ['x', 'label'], label_map = { '0' = 'no', '*' = 'yes' }, \
         standardize = 'client', test = 0.1 }",
    ],
    read: |s, common| Source::Table(Table::read(s, common)),
};

impl Table {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let paths = read_paths(s);
        s.knows(&["split", "header"]);
        let split_required = s.has("split");
        let client = read_client(s);
        let partition = (client == ClientOf::Nobody).then(|| Partition::read(s, "iid"));
        let regression = s.choice(
            "task",
            "classification",
            &[("classification", false), ("regression", true)],
        );
        match &partition {
            Some(Partition::Iid { .. } | Partition::File(_)) | None => {}
            Some(by_class) => {
                let kind = by_class.kind();
                if regression {
                    s.problem(
                        "partition.kind",
                        format!("found \"{kind}\", but regression has no classes: iid or file"),
                    );
                }
            }
        }
        let label_map = read_map(s);
        if regression && !label_map.is_empty() {
            s.problem("label_map", "regression has numbers, no labels to name");
        }
        let declared = Declared::read(s);
        if regression && declared.classes.is_some() {
            s.problem("classes", "regression has numbers, no classes");
        }
        let mut categorical = s.texts("categorical", &[]);
        let more = declared.categories.keys();
        let more = more.filter(|name| !categorical.contains(name)).cloned();
        let more: Vec<String> = more.collect();
        categorical.extend(more);
        let header = s.has("header").then(|| s.texts("header", &[]));
        if header.as_ref().is_some_and(Vec::is_empty) {
            s.problem("header", "found none, allowed are the names of all columns");
        }
        Self {
            paths,
            client,
            partition,
            label: s.text("label", "label"),
            split: match split_required {
                true => s.text("split", "split"),
                false => "split".into(),
            },
            split_required,
            regression,
            ignore: s.texts("ignore", &[]),
            categorical,
            declared: Box::new(declared),
            missing: s.texts("missing", &MISSING),
            standardize: read_standardize(s),
            header,
            label_map,
            common,
        }
    }
}

fn read_paths(s: &mut Section<'_>) -> Vec<std::path::PathBuf> {
    let found = s.take("path");
    let listed = matches!(found, Some(Value::Array(_)));
    let texts: Option<Vec<String>> = match found {
        None => {
            s.problem(
                "path",
                "missing: the CSV or Parquet file to read, such as \"my.csv\", or a list of files",
            );
            return Vec::new();
        }
        Some(Value::String(path)) => Some(vec![path]),
        Some(Value::Array(paths)) => {
            let text = |path: &Value| path.as_str().map(str::to_owned);
            paths.iter().map(text).collect()
        }
        Some(_) => None,
    };
    let Some(texts) = texts else {
        s.problem("path", "allowed is a file's name, or a list of them");
        return Vec::new();
    };
    let absolute = |path: &String| std::path::absolute(path).unwrap_or_else(|_| path.into());
    let paths: Vec<_> = texts.iter().map(absolute).collect();
    let shown: Vec<Value> = (paths.iter())
        .map(|path| path.display().to_string().into())
        .collect();
    match (listed, shown.into_iter().next()) {
        (false, Some(path)) => s.resolve("path", path),
        _ => {
            let all = paths
                .iter()
                .map(|path| Value::from(path.display().to_string()));
            s.resolve("path", Value::Array(all.collect()));
        }
    }
    paths
}

fn read_client(s: &mut Section<'_>) -> ClientOf {
    let by_file = |table: &toml::Table| {
        table.len() == 1 && table.get("file").and_then(Value::as_bool) == Some(true)
    };
    let (client, resolved): (ClientOf, Value) = match s.take("client") {
        None => (ClientOf::Column("client".into()), "client".into()),
        Some(Value::String(name)) if name.is_empty() => (ClientOf::Nobody, "".into()),
        Some(Value::String(name)) => (ClientOf::Column(name.clone()), name.into()),
        Some(Value::Table(table)) if by_file(&table) => (ClientOf::File, table.into()),
        Some(found) => {
            let found = shown(&found);
            s.problem(
                "client",
                format!("found {found}, allowed is a column's name, \"\" or {{ file = true }}"),
            );
            (ClientOf::File, "client".into())
        }
    };
    s.resolve("client", resolved);
    client
}

fn read_standardize(s: &mut Section<'_>) -> Standardize {
    let (standardize, resolved): (_, Value) = match s.take("standardize") {
        None | Some(Value::Boolean(false)) => (Standardize::No, false.into()),
        Some(Value::Boolean(true)) => (Standardize::Federation, true.into()),
        Some(Value::String(word)) if word == "client" => (Standardize::Client, word.into()),
        Some(found) => {
            let found = shown(&found);
            let allowed = "allowed is false, true or \"client\"";
            s.problem("standardize", format!("found {found}, {allowed}"));
            (Standardize::No, false.into())
        }
    };
    s.resolve("standardize", resolved);
    standardize
}

/// `label_map`, its keys as labels are called; `*` last.
fn read_map(s: &mut Section<'_>) -> Vec<(String, String)> {
    let Some(found) = s.take("label_map") else {
        return Vec::new();
    };
    let pairs: Option<Vec<(String, String)>> = found.as_table().and_then(|table| {
        let pair = |(label, name): (&String, &Value)| {
            let name = match name {
                Value::String(name) => name.clone(),
                Value::Integer(name) => name.to_string(),
                _ => return None,
            };
            let called = match label.trim().parse::<f64>() {
                Ok(x) if x.is_finite() => name_of(x),
                _ => label.trim().to_owned(),
            };
            (!name.trim().is_empty()).then_some((called, name))
        };
        table.iter().map(pair).collect()
    });
    match pairs {
        Some(pairs) if !pairs.is_empty() => {
            s.resolve("label_map", found);
            pairs
        }
        _ => {
            let found = shown(&found);
            s.problem(
                "label_map",
                format!("found {found}, allowed is {{ \"label\" = \"name\", \"*\" = \"name\" }}"),
            );
            Vec::new()
        }
    }
}
