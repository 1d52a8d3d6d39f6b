//! docs/reference/spec.md: every key of a spec, from the declarations that the reader follows.
//!
//! `APFL_BLESS=1 cargo test -p apfl spec_page` writes the page anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use apfl::error::Error;
use apfl::settings::{Declaration, Description, Kind};
use apfl::spec::{Registry, Spec, registries, tables};
use toml::{Table, Value};

const HEAD: &str = "# Reference: every key of a spec

This page is for those who write or generate a spec. [GUIDE.md](../GUIDE.md) shows specs in use;
`apfl init` prints a commented one.

The page is generated from the declarations that the program reads specs with
(`APFL_BLESS=1 cargo test -p apfl spec_page`). Unknown keys are errors. A key whose meaning starts
with \"with …\" is allowed only together with that setting.
";

/// A page of all of them.
fn page() -> String {
    let registries = registries();
    let mut page = String::from(HEAD);
    for table in tables() {
        let title = match table.path {
            "" => "Top level".to_string(),
            path => format!("`[{path}]`"),
        };
        write!(page, "\n## {title}\n\n{}.\n", sentence(table.about)).unwrap();
        page += &rows(table.path, &table.settings);
        for registry in registries.iter().filter(|own| own.table == table.path) {
            page += &kinds(registry);
        }
    }
    page
}

fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().expect("a text").to_uppercase();
    first.chain(letters).collect()
}

fn kinds(registry: &Registry) -> String {
    let Registry { table, key, kinds } = registry;
    let names: Vec<String> = kinds
        .iter()
        .map(|kind| format!("`{}`", kind.name))
        .collect();
    let mut text = format!(
        "\n`{table}.{key}` is one of {}; by default {}.\n",
        names.join(" · "),
        match *table {
            "data.partition" => "the first, for a table `iid`",
            _ => "the first",
        }
    );
    for Kind {
        name,
        about,
        settings,
        ..
    } in kinds
    {
        write!(
            text,
            "\n### `{table}.{key} = \"{name}\"`\n\n{}.\n",
            sentence(about)
        )
        .unwrap();
        text += &rows(table, settings);
    }
    text
}

fn rows(table: &str, settings: &[&dyn Declaration]) -> String {
    if settings.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n| key | type | default | allowed | meaning | symbol | source |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for setting in settings.iter().map(|setting| setting.describe()) {
        let allowed = match setting.values {
            "word" => setting.hint.trim_start_matches([':', ' ']),
            _ => &setting.allowed,
        };
        let cells = [
            &format!("`{}`", path(table, setting.key)),
            setting.values,
            &default(&setting),
            allowed,
            &meaning(&setting),
            setting.about.symbol,
            setting.about.source,
        ];
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        writeln!(text, "| {} |", cells.join(" | ")).unwrap();
    }
    text
}

fn path(table: &str, key: &str) -> String {
    match table {
        "" => key.into(),
        table => format!("{table}.{key}"),
    }
}

fn default(setting: &Description) -> String {
    match (&setting.default, setting.about.missing) {
        (_, missing) if !missing.is_empty() => "must be given".into(),
        (Some(default), _) => default.clone(),
        (None, _) => "–".into(),
    }
}

fn meaning(setting: &Description) -> String {
    match setting.about.with {
        "" => setting.about.help.into(),
        with => format!("with `{with}`: {}", setting.about.help),
    }
}

fn written() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/spec.md");
    if std::env::var_os("APFL_BLESS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, page()).unwrap();
    }
    std::fs::read_to_string(&file).unwrap()
}

#[test]
fn the_page_is_what_the_program_reads_by() {
    let (written, now) = (written(), page());
    let other = written.lines().zip(now.lines()).find(|(a, b)| a != b);
    assert!(
        written == now,
        "docs/reference/spec.md is out of date ({other:?}); write it anew with APFL_BLESS=1"
    );
}

#[test]
fn every_default_is_allowed() {
    let of_kinds = registries().into_iter().flat_map(|registry| registry.kinds);
    let of_kinds = of_kinds.flat_map(|kind| kind.settings);
    let of_tables = tables().into_iter().flat_map(|table| table.settings);
    let mut count = 0;
    for setting in of_kinds.copied().chain(of_tables) {
        assert!(setting.allows_its_default(), "{setting:?}");
        let described = setting.describe();
        assert!(!described.about.help.is_empty(), "{setting:?} has no help");
        count += 1;
    }
    assert!(count > 100, "{count}");
}

/// Returns the keys that the reader knows in a table.
fn known(spec: &str, table: &str) -> Vec<String> {
    let mut spec = Spec::parse(spec).unwrap();
    spec.set(&format!("{}=1", path(table, "qqzzqq"))).unwrap();
    let Err(Error::Spec(problems)) = spec.plan() else {
        panic!("qqzzqq is a key of [{table}]");
    };
    let unknown = problems.0.iter().find(|p| p.key.ends_with("qqzzqq"));
    let unknown = unknown.unwrap_or_else(|| panic!("{problems}"));
    let (_, keys) = unknown.message.split_once("known here: ").unwrap();
    keys.split(", ").map(|key| path(table, key)).collect()
}

/// The keys of a resolved spec, by their whole paths.
fn resolved(prefix: &str, table: &Table, keys: &mut BTreeSet<String>) {
    for (key, value) in table {
        let key = path(prefix, key);
        match value {
            Value::Table(table) if tables().iter().any(|own| own.path == key) => {
                resolved(&key, table, keys);
            }
            _ => {
                keys.insert(key);
            }
        }
    }
}

/// Every key that any spec can have is on the page.
#[test]
fn every_key_that_is_read_is_on_the_page() {
    let page = written();
    let mut keys = BTreeSet::new();
    let mut specs = vec![
        "engine.memory = 'disk'".to_string(),
        "training.local_epochs = 2".into(),
        "training.schedule = { kind = 'theory', mu = 1, smoothness = 1, a = 2 }".into(),
        "evaluation.batch = 3\ndata.augment = 'none'\nalgorithm.kind = 'fedavg'
         federation.privacy = { level = 'client', epsilon = 8, noise = 1 }"
            .into(),
        "data.kind = 'table'\nfederation.sites = ['a', 'b']".into(),
        "data = { kind = 'table', path = 'a', client = '', partition = 'stripe' }".into(),
        "data = { kind = 'idx', images = 'i', labels = 'l', valid_images = 'v',
                  valid_labels = 'w', valid_clients = 'c', clients = 'd' }"
            .into(),
    ];
    let mut tables_read: Vec<(String, &str)> = tables()
        .into_iter()
        .filter(|table| !table.path.contains('.'))
        .map(|table| (String::new(), table.path))
        .collect();
    for registry in registries() {
        let base = match registry.table {
            "data.partition" => "data.kind = 'mnist'",
            "algorithm" => "model.kind = 'mlp'",
            _ => "",
        };
        for example in registry.kinds.iter().flat_map(|kind| kind.examples) {
            let place = match registry.key {
                "kind" => registry.table.to_string(),
                key => path(registry.table, key),
            };
            specs.push(format!("{base}\n{place} = {example}"));
            tables_read.push((format!("{base}\n{place} = {example}"), registry.table));
        }
    }
    for (choice, table) in [
        ("{ chosen = [0, 1], folds = 1 }", "algorithm.mixing"),
        ("{ chosen = [0, 1], folds = 2 }", "algorithm.mixing"),
    ] {
        tables_read.push((format!("algorithm.mixing = {choice}"), table));
    }
    for kind in ["constant", "geometric", "inverse", "theory"] {
        let spec = format!("training.schedule = {{ kind = '{kind}' }}");
        tables_read.push((spec, "training.schedule"));
    }
    let private = "federation.privacy = { level = 'client', noise = 1 }";
    tables_read.push((private.into(), "federation.privacy"));
    for spec in &specs {
        let plan = Spec::parse(spec).unwrap().plan();
        let plan = plan.unwrap_or_else(|e| panic!("{spec}: {e}"));
        resolved("", &plan.resolved, &mut keys);
    }
    for (spec, table) in &tables_read {
        keys.extend(known(spec, table));
    }
    let names: BTreeSet<String> = registries()
        .iter()
        .map(|registry| path(registry.table, registry.key))
        .collect();
    let tables: BTreeSet<&str> = tables().iter().map(|table| table.path).collect();
    for key in keys {
        // A key of a whole table has a heading, and so does every kind.
        let documented = page.contains(&format!("| `{key}` |"))
            || names.contains(&key)
            || tables.contains(key.as_str());
        assert!(documented, "{key} is not on the page");
    }
}
