//! The settings and kinds that a spec may have, as a person sees them: in the template and in
//! the help.

use apfl::settings::{Declaration, Description, Kind};
use apfl::spec::{Registry, registries, tables};

/// A line of the template with its comment.
fn line(setting: &str, comment: &str) -> String {
    match (comment, setting.chars().count()) {
        ("", _) => format!("{setting}\n"),
        (_, ..26) => format!("{setting:<26}# {comment}\n"),
        _ => format!("{setting}   # {comment}\n"),
    }
}

/// A setting's line, commented out where most specs are better without it.
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

/// `attack` of `federation.attack`, which stands in `[federation]` as an inline table.
fn inline(registry: &Registry) -> Option<&'static str> {
    registry.table.split_once('.').map(|(_, key)| key)
}

/// The kind that a spec has where it does not say, the names of all, and its settings.
fn chosen(registry: &Registry) -> String {
    let kind = &registry.kinds[0];
    let key = inline(registry).unwrap_or(registry.key);
    let first = format!("{key} = \"{}\"", kind.name);
    let settings = described(kind.settings);
    let settings: String = settings.iter().map(setting_line).collect();
    line(&first, &names(&registry.kinds)) + &settings
}

/// A kind and its settings, commented out.
fn commented(registry: &Registry, kind: &Kind<()>) -> String {
    let settings = described(kind.settings);
    if let Some(key) = inline(registry) {
        let inner = settings
            .iter()
            .map(|setting| format!(", {}", setting.line()));
        let inner: String = inner.collect();
        let meant = settings.iter();
        let meant = meant.map(|setting| format!("; {}: {}", setting.key, setting.comment()));
        return format!(
            "# {key} = {{ kind = \"{}\"{inner} }}\n#   {}{}\n",
            kind.name,
            kind.about,
            meant.collect::<String>()
        );
    }
    let first = format!("# {} = \"{}\"", registry.key, kind.name);
    settings
        .iter()
        .fold(line(&first, kind.about), |text, setting| {
            text + &line(&format!("# {}", setting.line()), &setting.comment())
        })
}

/// The settings that every kind of a table has, but for tables that have a registry.
fn keys(table: &str, shown: impl Fn(&Description) -> bool) -> String {
    let registries = registries();
    let of_kinds = |setting: &Description| {
        let path = format!("{table}.{}", setting.key);
        registries.iter().any(|registry| registry.table == path)
    };
    let tables = tables();
    let table = tables.iter().find(|there| there.path == table);
    let settings = described(&table.expect("a table of a spec").settings);
    let shown = settings.iter().filter(|s| !of_kinds(s) && shown(s));
    shown.map(setting_line).collect()
}

/// What stands for a placeholder of the template: `keys training` (or only the `usual` or the
/// `seldom` ones), `chosen algorithm`, `others algorithm` or `all data.partition`.
pub fn written(placeholder: &str) -> String {
    let (what, table) = placeholder.split_once(' ').unwrap_or((placeholder, ""));
    let registry = || {
        let found = registries().into_iter().find(|there| there.table == table);
        found.unwrap_or_else(|| panic!("no registry of {table}"))
    };
    let blocks = |registry: &Registry, kinds: &[Kind<()>]| {
        let blocks: Vec<String> = kinds.iter().map(|kind| commented(registry, kind)).collect();
        // Whole tables stand apart; what is one key of a table stands together.
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

/// What the rows of a result are: (algorithms, shared, localized, personal).
const ROWS: [(&str, &str, &str, &str); 10] = [
    ("apfl", "w", "wᵢ after the local steps", "αᵢvᵢ + (1−αᵢ)wᵢ"),
    (
        "fedavg scaffold fedprox",
        "w",
        "wᵢ after the local steps",
        "the same",
    ),
    (
        "perfedavg",
        "w",
        "wᵢ after the local steps",
        "one step of rate α from wᵢ",
    ),
    ("pfedme", "w", "wᵢ after the local steps", "θᵢ"),
    ("local", "w⁰ for ever", "vᵢ", "the same"),
    ("ditto", "w", "wᵢ after the local steps", "vᵢ"),
    (
        "fedper fedrep",
        "the mean base with w⁰'s head",
        "base and head of one's own",
        "the same",
    ),
    (
        "lgfedavg",
        "the mean head on w⁰'s base",
        "base of one's own and head",
        "the same",
    ),
    ("l2gd", "x̄, the mean of all", "xᵢ", "the same"),
    ("mapper", "w", "wᵢ after its one step", "λᵢvᵢ + (1−λᵢ)wᵢ"),
];

/// HypCluster's, which has no one shared model.
const CLUSTERS: (&str, &str, &str, &str) = (
    "hypcluster",
    "the model of the client's cluster",
    "it after the local steps",
    "the same",
);

/// Those whose settings the help has too: what one compares by.
const WITH_SETTINGS: [&str; 2] = ["algorithm", "federation.server"];

/// Every kind with its line of help; of algorithms and the server's optimizers also the settings,
/// at their defaults.
pub fn help() -> String {
    let mut text = String::from("What a spec may name (`apfl init` has all settings):\n");
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
    text += "\nWhat shared · localized · personal are:\n\n";
    for (kinds, shared, localized, personal) in ROWS.iter().chain([&CLUSTERS]) {
        text += &format!("    {kinds}\n        {shared} · {localized} · {personal}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An algorithm whose rows nobody explains would be a riddle.
    #[test]
    fn every_algorithms_rows_are_explained_once() {
        let rows = ROWS.iter().chain([&CLUSTERS]);
        let mut explained: Vec<&str> = rows.flat_map(|row| row.0.split(' ')).collect();
        explained.sort_unstable();
        let registries = registries();
        let algorithms = registries.iter().find(|r| r.table == "algorithm").unwrap();
        let mut there: Vec<&str> = algorithms.kinds.iter().map(|kind| kind.name).collect();
        there.sort_unstable();
        assert_eq!(explained, there);
    }
}
