//! The registries: names, help and examples of every kind are right.

use std::collections::BTreeSet;

use apfl::error::Error;
use apfl::settings::Description;
use apfl::spec::{Plan, Registry, Spec, registries};
use toml::{Table, Value};

/// A spec in which the registry's choice can be made.
fn base(registry: &Registry) -> Spec {
    let data = match registry.table {
        "data.partition" => "data.kind = 'mnist'",
        // Of two layers some can be shared.
        "algorithm" => "model.kind = 'mlp'",
        _ => "",
    };
    Spec::parse(data).unwrap()
}

fn with(registry: &Registry, settings: &[String]) -> Spec {
    let mut spec = base(registry);
    settings.iter().for_each(|pair| spec.set(pair).unwrap());
    spec
}

fn chosen(registry: &Registry, kind: &str) -> String {
    format!("{}.{}={kind}", registry.table, registry.key)
}

/// The resolved table that the choice stands in.
fn resolved<'p>(registry: &Registry, plan: &'p Plan) -> &'p Table {
    let parts = registry.table.split('.');
    parts.fold(&plan.resolved, |table, part| {
        table[part].as_table().expect("a table of the spec")
    })
}

/// Returns the name of the value that was read.
fn own_name(registry: &Registry, plan: &Plan) -> String {
    match registry.table {
        "data" => plan.data.kind(),
        "model" => plan.architecture.kind(),
        "algorithm" => plan.algorithm.kind(),
        "federation" => plan.aggregation.kind(),
        "federation.attack" => plan.attack.map_or("none", |attack| attack.kind()),
        _ => resolved(registry, plan)[registry.key].as_str().unwrap(),
    }
    .into()
}

#[test]
fn every_example_is_a_spec_of_its_kind() {
    for registry in registries() {
        for kind in &registry.kinds {
            assert!(!kind.examples.is_empty(), "{}: no example", kind.name);
            for example in kind.examples {
                let place = match registry.key {
                    "kind" => registry.table.to_string(),
                    key => format!("{}.{key}", registry.table),
                };
                let plan = with(&registry, &[format!("{place}={example}")]).plan();
                let plan = plan.unwrap_or_else(|e| panic!("{example}: {e}"));
                assert_eq!(own_name(&registry, &plan), kind.name, "{example}");
                let named = &resolved(&registry, &plan)[registry.key];
                assert_eq!(named.as_str(), Some(kind.name), "{example}");
                let again = Spec::parse(&plan.to_toml()).unwrap().plan().unwrap();
                assert_eq!(again.resolved, plan.resolved, "{example}");
            }
        }
    }
}

#[test]
fn every_kind_has_a_name_of_its_own_and_one_line_of_help() {
    for registry in registries() {
        let names: BTreeSet<&str> = registry.kinds.iter().map(|kind| kind.name).collect();
        assert_eq!(names.len(), registry.kinds.len(), "{names:?}");
        for kind in &registry.kinds {
            let (name, about) = (kind.name, kind.about);
            // In the help it stands behind a name, on a line of 100.
            let fits = (5..=78).contains(&about.chars().count());
            assert!(fits && !about.contains('\n'), "{name}: {about:?}");
            for setting in kind.settings.iter().map(|s| s.describe()) {
                let (line, comment) = (setting.line(), setting.comment());
                assert!(!setting.shown.is_empty(), "{name}: {line}");
                assert!(
                    !comment.is_empty() && !comment.contains('\n'),
                    "{name}: {comment}"
                );
            }
        }
    }
}

/// Returns whether the value that a template shows is the default, or must be given.
fn shows_default(setting: &Description) -> bool {
    let shown = format!("`{}`", setting.shown);
    let default = setting.default.as_ref() == Some(&shown);
    !setting.about.missing.is_empty() || default
}

/// The settings that stand in a kind's help are those it reads, at their defaults.
#[test]
fn what_is_shown_of_a_kinds_settings_is_true() {
    for registry in registries() {
        let set = |line: &str| format!("{}.{line}", registry.table);
        let full: Vec<(Vec<String>, Plan)> = registry
            .kinds
            .iter()
            .map(|kind| {
                let mut settings = vec![chosen(&registry, kind.name)];
                let written = kind.settings.iter().map(|s| s.describe());
                let written =
                    written.filter(|setting| !setting.is_commented() && shows_default(setting));
                settings.extend(written.map(|setting| set(&setting.line())));
                let plan = with(&registry, &settings).plan();
                let plan = plan.unwrap_or_else(|e| panic!("{settings:?}: {e}"));
                (settings, plan)
            })
            .collect();
        // What all kinds have is not this one's.
        let keys = |plan: &Plan| -> BTreeSet<String> {
            resolved(&registry, plan).keys().cloned().collect()
        };
        let common = full.iter().map(|(_, plan)| keys(plan));
        let common = common.reduce(|a, b| &a & &b).unwrap();
        for (kind, (settings, plan)) in registry.kinds.iter().zip(&full) {
            let settings_of = || kind.settings.iter().map(|s| s.describe());
            let shown: BTreeSet<String> = settings_of().map(|s| s.key.to_string()).collect();
            let missing: Vec<String> = keys(plan)
                .into_iter()
                .filter(|key| !common.contains(key) && !shown.contains(key))
                .collect();
            assert!(missing.is_empty(), "{} has {missing:?} too", kind.name);

            if let Ok(alone) = with(&registry, &settings[..1]).plan() {
                assert_eq!(alone.resolved, plan.resolved, "{}: defaults", kind.name);
            }
            for setting in
                settings_of().filter(|setting| setting.is_commented() || !shows_default(setting))
            {
                let mut settings = settings.clone();
                settings.extend((!setting.about.with.is_empty()).then(|| set(setting.about.with)));
                settings.push(set(&setting.line()));
                let Err(Error::Spec(problems)) = with(&registry, &settings).plan() else {
                    continue;
                };
                // It may ask for another setting too, but it is known.
                assert!(!problems.to_string().contains("unknown"), "{problems}");
            }
        }
    }
}

#[test]
fn the_error_for_an_unknown_kind_lists_all_names_and_the_nearest() {
    for registry in registries() {
        let names: Vec<&str> = registry.kinds.iter().map(|kind| kind.name).collect();
        for name in &names {
            let wrong = format!("{name}x");
            let spec = with(&registry, &[chosen(&registry, &wrong)]);
            let Err(Error::Spec(problems)) = spec.plan() else {
                panic!("{wrong} is a kind");
            };
            let message = problems.to_string();
            let found = Value::from(wrong.as_str());
            for part in [
                format!("found {found}, allowed is one of {}", names.join(" · ")),
                "did you mean".into(),
            ] {
                assert!(message.contains(&part), "{part} is missing in\n{message}");
            }
        }
    }
}
