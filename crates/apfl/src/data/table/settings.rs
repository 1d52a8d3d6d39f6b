//! The settings of a table in `[data]`.

use std::path::PathBuf;

use toml::{Table as Toml, Value};

use super::value::{MISSING, name_of};
use super::{ClientSource, Declared, Standardize, Table, declared};
use crate::data::classes::MAX_CLASSES;
use crate::data::partition::{CLIENTS, PARTITION, Partition};
use crate::data::{Common, Source, SourceKind};
use crate::settings::{Custom, Inner, Kind, Section, Setting, Text, Texts, Whole, Words};

pub(in crate::data) const KIND: SourceKind = Kind {
    name: "table",
    about: "your own table, CSV or Parquet: one row per example",
    settings: &[
        &PATH,
        &CLIENT,
        &ASSIGNED_CLIENTS,
        &ASSIGNED_BY,
        &LABEL,
        &TASK,
        &SPLIT,
        &IGNORE,
        &CATEGORICAL,
        &MISSING_CELLS,
        &STANDARDIZE,
        &HEADER,
        &declared::CATEGORIES,
        &declared::CLASSES,
        &declared::MOMENTS,
        &LABEL_MAP,
        &MAX_CLASSES,
    ],
    examples: &[
        "{ kind = 'table', path = 't.csv', task = 'regression' }",
        "{ kind = 'table', path = 't.csv', client = '', clients = 5, partition = 'iid' }",
        "{ kind = 'table', path = ['a.csv', 'b.csv'], client = { file = true }, \
         header = ['x', 'label'], label_map = { '0' = 'no', '*' = 'yes' }, \
         standardize = 'client', test = 0.1 }",
    ],
    value: |s, common| Source::Table(Table::read(s, common)),
};

impl Table {
    /// Reads `[data]`.
    pub fn read(s: &mut Section<'_>, common: Common) -> Self {
        let (paths, _) = s.get_or(&PATH, (Vec::new(), true));
        s.knows(&["split", "header"]);
        let split_required = s.has("split");
        let client = s.get(&CLIENT);
        let partition = (client == ClientSource::Unnamed).then(|| Partition::read(s, "iid"));
        let regression = s.get(&TASK);
        match &partition {
            Some(Partition::Iid { .. } | Partition::File(_)) | None => {}
            Some(by_class) => {
                let kind = by_class.kind();
                if regression {
                    s.problem(
                        "partition.kind",
                        format!("found \"{kind}\", which needs classes; allowed is iid or file"),
                    );
                }
            }
        }
        let label_map = s.optional(&LABEL_MAP);
        let label_map = label_map.map_or(Vec::new(), |(pairs, _)| pairs);
        if regression && !label_map.is_empty() {
            s.problem("label_map", "regression has no class labels; remove it");
        }
        let declared = Declared::read(s);
        if regression && declared.classes.is_some() {
            s.problem("classes", "regression has no classes; remove it");
        }
        let mut categorical = s.get(&CATEGORICAL);
        let more = declared.categories.keys();
        let more = more.filter(|name| !categorical.contains(name)).cloned();
        let more: Vec<String> = more.collect();
        categorical.extend(more);
        let header = s.has("header").then(|| s.get(&HEADER));
        if header.as_ref().is_some_and(Vec::is_empty) {
            s.problem("header", "found none, allowed are the names of all columns");
        }
        Self {
            paths,
            client,
            partition,
            label: s.get(&LABEL),
            split: if split_required {
                s.get(&SPLIT)
            } else {
                "split".into()
            },
            split_required,
            regression,
            ignore: s.get(&IGNORE),
            categorical,
            declared: Box::new(declared),
            missing: s.get(&MISSING_CELLS),
            standardize: s.get(&STANDARDIZE),
            header,
            label_map,
            max_classes: s.get(&MAX_CLASSES) as usize,
            common,
        }
    }
}

/// The files, and whether they are written as a list.
const PATH: Setting<Custom<(Vec<PathBuf>, bool)>> = Setting::custom(
    "path",
    Custom {
        name: "text or list of texts",
        default: || None,
        allowed: "a file's name, or a list of them",
        parse: |found| {
            let absolute = |path: &Value| {
                let path = path.as_str()?;
                Some(std::path::absolute(path).unwrap_or_else(|_| path.into()))
            };
            match found.as_array() {
                None => Some((vec![absolute(found)?], false)),
                Some(paths) => Some((paths.iter().map(absolute).collect::<Option<_>>()?, true)),
            }
        },
        write: |(paths, listed)| {
            let mut paths = paths
                .iter()
                .map(|path| Value::from(path.display().to_string()));
            match (paths.next(), listed) {
                (Some(path), false) => path,
                (first, _) => Value::Array(first.into_iter().chain(paths).collect()),
            }
        },
    },
)
.help("CSV or Parquet, columns: client, label and features; a list for several files")
.example("\"my.csv\"")
.required("missing: the CSV or Parquet file to read, such as \"my.csv\", or a list of files");

const CLIENT: Setting<Custom<ClientSource>> = Setting::custom(
    "client",
    Custom {
        name: "text or table",
        default: || Some(ClientSource::Column("client".into())),
        allowed: "a column's name, \"\" or { file = true }",
        parse: |found| match found {
            Value::String(name) if name.is_empty() => Some(ClientSource::Unnamed),
            Value::String(name) => Some(ClientSource::Column(name.clone())),
            Value::Table(table) => (table.len() == 1
                && table.get("file").and_then(Value::as_bool) == Some(true))
            .then_some(ClientSource::File),
            _ => None,
        },
        write: |client| match client {
            ClientSource::Column(name) => name.as_str().into(),
            ClientSource::File => Toml::from_iter([("file".to_string(), true.into())]).into(),
            ClientSource::Unnamed | ClientSource::Only { .. } => "".into(),
        },
    },
)
.help(
    "the column that names the client; { file = true }: the file's name does; \"\" assigns the \
     rows \
     to `clients`, by a partition",
);

const ASSIGNED_CLIENTS: Setting<Whole> = CLIENTS.with("client = \"\"").seldom();
const ASSIGNED_BY: Setting<Inner> = PARTITION
    .with("client = \"\"")
    .usually("`\"iid\"`")
    .example("\"iid\"")
    .seldom();

const LABEL: Setting<Text> = Setting::text("label", || Some("label".into()))
    .help("the column to predict: any text or number");

const TASK: Setting<Words<bool>> = Setting::words(
    "task",
    "classification",
    &[
        ("classification", false, "the label is a class"),
        ("regression", true, "a number to predict"),
    ],
)
.help("what is predicted");

const SPLIT: Setting<Text> = Setting::text("split", || Some("split".into()))
    .help("a column with `train`, `valid` or `test`, if there is one")
    .seldom();

const IGNORE: Setting<Texts> =
    Setting::texts("ignore", || Some(Vec::new())).help("columns to leave out");

const CATEGORICAL: Setting<Texts> = Setting::texts("categorical", || Some(Vec::new()))
    .help("columns whose numbers are names; text is a category anyway");

const MISSING_CELLS: Setting<Texts> =
    Setting::texts("missing", || Some(MISSING.map(str::to_owned).to_vec()))
        .help("cells that mean \"not known\"");

const STANDARDIZE: Setting<Custom<Standardize>> = Setting::custom(
    "standardize",
    Custom {
        name: "true or false, or word",
        default: || Some(Standardize::No),
        allowed: "false, true or \"client\"",
        parse: |found| match found {
            Value::Boolean(true) => Some(Standardize::Federation),
            Value::Boolean(false) => Some(Standardize::No),
            Value::String(word) if word == "client" => Some(Standardize::Client),
            _ => None,
        },
        write: |standardize| match standardize {
            Standardize::No => false.into(),
            Standardize::Federation => true.into(),
            Standardize::Client => "client".into(),
        },
    },
)
.help("numbers to mean 0 and deviation 1, by the federation's (true) or by each client's own");

const HEADER: Setting<Texts> = Setting::texts("header", || Some(Vec::new()))
    .help("the columns' names, of files without a header")
    .usually("the file's first line")
    .example("[\"age\", \"label\"]")
    .seldom();

/// Pairs of a label and its name.
type LabelNames = Vec<(String, String)>;

const LABEL_MAP: declared::AsWritten<LabelNames> = Setting::custom(
    "label_map",
    Custom {
        name: "table",
        default: || None,
        allowed: "{ \"label\" = \"name\", \"*\" = \"name\" }",
        parse: |found| Some((label_map(found)?, found.clone())),
        write: |(_, found)| found.clone(),
    },
)
.help("other names for labels; * is every other one")
.example("{ \"0\" = \"healthy\", \"*\" = \"ill\" }")
.seldom();

/// Reads `label_map`; its keys are named as labels are.
fn label_map(found: &Value) -> Option<LabelNames> {
    let pair = |(label, name): (&String, &Value)| {
        let name = match name {
            Value::String(name) => name.clone(),
            Value::Integer(name) => name.to_string(),
            _ => return None,
        };
        let key = match label.trim().parse::<f64>() {
            Ok(x) if x.is_finite() => name_of(x),
            _ => label.trim().to_owned(),
        };
        (!name.trim().is_empty()).then_some((key, name))
    };
    let pairs: Vec<_> = found.as_table()?.iter().map(pair).collect::<Option<_>>()?;
    (!pairs.is_empty()).then_some(pairs)
}
