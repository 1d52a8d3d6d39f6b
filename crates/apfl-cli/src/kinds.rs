//! The kinds a spec may name, as a person sees them: in the template and in the help.

use apfl::algorithm::AlgorithmSpec;
use apfl::settings::Kind;
use apfl::spec::{Registry, registries};

/// A line of the template with its comment.
fn line(setting: &str, comment: &str) -> String {
    match (comment, setting.chars().count()) {
        ("", _) => format!("{setting}\n"),
        (_, ..26) => format!("{setting:<26}# {comment}\n"),
        _ => format!("{setting}   # {comment}\n"),
    }
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
    let mut text = line(
        &format!("{key} = \"{}\"", kind.name),
        &names(&registry.kinds),
    );
    for (setting, meaning) in kind.keys {
        text += &line(setting, meaning);
    }
    text
}

/// A kind and its settings, commented out.
fn commented(registry: &Registry, kind: &Kind<()>) -> String {
    let settings = kind
        .keys
        .iter()
        .map(|(setting, meaning)| (setting.trim_start_matches("# "), meaning));
    if let Some(key) = inline(registry) {
        let inner = settings.clone().map(|(setting, _)| format!(", {setting}"));
        let inner: String = inner.collect();
        let meant = settings.map(|(setting, meaning)| {
            let name = setting.split(" = ").next().unwrap_or_default();
            format!("; {name}: {meaning}")
        });
        return format!(
            "# {key} = {{ kind = \"{}\"{inner} }}\n#   {}{}\n",
            kind.name,
            kind.about,
            meant.collect::<String>()
        );
    }
    let mut text = line(
        &format!("# {} = \"{}\"", registry.key, kind.name),
        kind.about,
    );
    for (setting, meaning) in settings {
        text += &line(&format!("# {setting}"), meaning);
    }
    text
}

/// What stands for a placeholder of the template: `chosen algorithm`, `others algorithm`
/// or `all data.partition`.
pub fn written(placeholder: &str) -> String {
    let (what, table) = placeholder.split_once(' ').expect("two words");
    let registries = registries();
    let registry = registries.iter().find(|registry| registry.table == table);
    let registry = registry.unwrap_or_else(|| panic!("no registry of {table}"));
    let some = match what {
        "chosen" => return chosen(registry),
        "others" => &registry.kinds[1..],
        "all" => &registry.kinds[..],
        _ => panic!("no placeholder '{what}'"),
    };
    let blocks: Vec<String> = some.iter().map(|kind| commented(registry, kind)).collect();
    // Whole tables stand apart; what is one key of a table stands together.
    let apart = registry.key == "kind" && inline(registry).is_none();
    blocks.join(if apart { "\n" } else { "" })
}

/// What the shared, the localized and the personal model are: algorithms whose are the same
/// stand together.
fn rows() -> Vec<(String, [&'static str; 3])> {
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
            for (setting, meaning) in kind.keys.iter().filter(|_| settings) {
                let setting = setting.trim_start_matches("# ");
                text += &format!("      {}\n", line(setting, meaning).trim_end());
            }
        }
    }
    text += "\nWhat shared · localized · personal are:\n\n";
    for (kinds, models) in rows() {
        text += &format!("    {kinds}\n        {}\n", models.join(" · "));
    }
    text
}
