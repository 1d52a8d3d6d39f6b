//! Texts about a spec's settings and kinds, for the template and the help.

use apfl::algorithm::AlgorithmSpec;
use apfl::settings::{Declaration, Description, Kind};
use apfl::spec::{Registry, registries, tables};

/// Formats a line of the template with its comment.
fn line(setting: &str, comment: &str) -> String {
    match (comment, setting.chars().count()) {
        ("", _) => format!("{setting}\n"),
        (_, ..26) => format!("{setting:<26}# {comment}\n"),
        _ => format!("{setting}   # {comment}\n"),
    }
}

/// Formats a setting's line, commented out if most specs are better without it.
fn setting_line(setting: &Description) -> String {
    let shown = setting.line();
    if setting.is_commented() {
        line(&format!("# {shown}"), &setting.comment())
    } else {
        line(&shown, &setting.comment())
    }
}

fn described(settings: &[&dyn Declaration]) -> Vec<Description> {
    settings.iter().map(|setting| setting.describe()).collect()
}

fn names(kinds: &[Kind<()>]) -> String {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name).collect();
    names.join(" · ")
}

/// Returns the key of a registry that is an inline table: `attack` for `federation.attack`.
fn inline(registry: &Registry) -> Option<&'static str> {
    registry.table.split_once('.').map(|(_, key)| key)
}

/// Formats the default kind with its settings and the names of all kinds.
fn chosen(registry: &Registry) -> String {
    let kind = &registry.kinds[0];
    let key = inline(registry).unwrap_or(registry.key);
    let first = format!("{key} = \"{}\"", kind.name);
    let settings = described(kind.settings);
    let settings: String = settings.iter().map(setting_line).collect();
    line(&first, &names(&registry.kinds)) + &settings
}

/// Formats a kind and its settings, commented out.
fn commented(registry: &Registry, kind: &Kind<()>) -> String {
    let settings = described(kind.settings);
    if let Some(key) = inline(registry) {
        let inner = settings
            .iter()
            .map(|setting| format!(", {}", setting.line()));
        let inner: String = inner.collect();
        let comments = settings.iter();
        let comments = comments.map(|setting| format!("; {}: {}", setting.key, setting.comment()));
        return format!(
            "# {key} = {{ kind = \"{}\"{inner} }}\n#   {}{}\n",
            kind.name,
            kind.about,
            comments.collect::<String>()
        );
    }
    let first = format!("# {} = \"{}\"", registry.key, kind.name);
    settings
        .iter()
        .fold(line(&first, kind.about), |text, setting| {
            text + &line(&format!("# {}", setting.line()), &setting.comment())
        })
}

/// Formats a table's settings, except keys that have a registry of their own.
fn keys(table: &str, shown: impl Fn(&Description) -> bool) -> String {
    let registries = registries();
    let of_kinds = |setting: &Description| {
        let path = format!("{table}.{}", setting.key);
        registries.iter().any(|registry| registry.table == path)
    };
    let tables = tables();
    let table = tables.iter().find(|known| known.path == table);
    let settings = described(&table.expect("a table of a spec").settings);
    let shown = settings.iter().filter(|s| !of_kinds(s) && shown(s));
    shown.map(setting_line).collect()
}

/// Expands a placeholder of the template: `keys training` (or only the `usual` or the `seldom`
/// ones), `chosen algorithm`, `others algorithm` or `all data.partition`.
///
/// # Panics
///
/// Panics if there is no such placeholder or registry.
pub fn expand(placeholder: &str) -> String {
    let (what, table) = placeholder.split_once(' ').unwrap_or((placeholder, ""));
    let registry = || {
        let found = registries().into_iter().find(|known| known.table == table);
        found.unwrap_or_else(|| panic!("no registry of {table}"))
    };
    let blocks = |registry: &Registry, kinds: &[Kind<()>]| {
        let blocks: Vec<String> = kinds.iter().map(|kind| commented(registry, kind)).collect();
        // Blank lines separate kinds that are whole tables.
        let apart = registry.key == "kind" && inline(registry).is_none();
        blocks.join(if apart { "\n" } else { "" })
    };
    match what {
        "keys" => keys(table, |_| true),
        "usual" => keys(table, |setting| !setting.is_commented()),
        "seldom" => keys(table, Description::is_commented),
        "chosen" => chosen(&registry()),
        "others" => blocks(&registry(), &registry().kinds[1..]),
        "all" => blocks(&registry(), &registry().kinds),
        _ => panic!("no placeholder '{what}'"),
    }
}

/// Describes the shared, localized and personal model by algorithm, grouping equal descriptions.
fn model_descriptions() -> Vec<(String, [&'static str; 3])> {
    let mut rows: Vec<(String, [&str; 3])> = Vec::new();
    for algorithm in AlgorithmSpec::defaults() {
        let models = algorithm.properties().models;
        match rows.iter_mut().find(|row| row.1 == models) {
            Some((kinds, _)) => *kinds += &format!(" {}", algorithm.kind()),
            None => rows.push((algorithm.kind().into(), models)),
        }
    }
    rows
}

/// Tables whose settings the help shows.
const WITH_SETTINGS: [&str; 2] = ["algorithm", "federation.server"];

/// Formats every kind with its description, and the settings of algorithms and server optimizers
/// with their defaults.
pub fn help() -> String {
    let mut text = String::from("Kinds that a spec may name (`apfl init` lists all settings):\n");
    for registry in registries() {
        text += &format!("\n  {}.{}\n", registry.table, registry.key);
        let settings = WITH_SETTINGS.contains(&registry.table);
        for kind in &registry.kinds {
            text += &format!("    {:<17} {}\n", kind.name, kind.about);
            for setting in described(kind.settings).iter().filter(|_| settings) {
                let shown = line(&setting.line(), &setting.comment());
                text += &format!("      {}\n", shown.trim_end());
            }
        }
    }
    text += "\nThe shared · localized · personal models:\n\n";
    for (kinds, models) in model_descriptions() {
        text += &format!("    {kinds}\n        {}\n", models.join(" · "));
    }
    text
}
