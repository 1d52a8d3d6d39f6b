//! `apfl init`

use apfl::error::{Error, Result};
use apfl::files::write_atomically;

use crate::args;
use crate::kinds;
use crate::output::print;

/// The one line in which the template is not the default: the paper's learned α is right to
/// reproduce it, a chosen one for data of one's own.
const LEARNED: &str = "mixing = { adaptive = 0.01 }";
const CHOSEN: &str = "mixing = { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1], folds = 5, prior = 50 }   \
    # α: what is best on rows held out, in folds + 1 passes; the default is { adaptive = 0.01 }, \
    the paper's learned α";

/// The commented spec: `template.toml`, its placeholders filled from the registries.
pub fn template() -> String {
    let plain = plain_template();
    let line = plain.lines().find(|line| line.starts_with(LEARNED));
    let line = line.expect("the default algorithm is APFL");
    plain.replacen(line, CHOSEN, 1)
}

fn plain_template() -> String {
    let filled = |line: &str| {
        let placeholder = line.strip_prefix("{{").and_then(|l| l.strip_suffix("}}"));
        placeholder.map_or_else(|| format!("{line}\n"), kinds::written)
    };
    include_str!("template.toml").lines().map(filled).collect()
}

/// Writes or prints the template.
pub fn init(args: &args::Init) -> Result<()> {
    let Some(file) = &args.file else {
        return print(&template());
    };
    if file.exists() {
        return Err(Error::Request(format!(
            "{}: the file is there already; give another name, or remove it",
            file.display()
        )));
    }
    write_atomically(file, template())?;
    print(&format!(
        "{} written; look it over, then: apfl check {0} && apfl run {0}\n",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use apfl::error::Error;
    use apfl::spec::{Spec, registries};

    use super::template;

    #[test]
    fn the_template_spells_out_the_defaults() {
        let of = |text: &str| Spec::parse(text).unwrap().plan().unwrap().to_toml();
        assert_eq!(of(&super::plain_template()), of(""));
        // But for how α is found.
        let chosen = "algorithm.mixing = { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1] }";
        assert_eq!(of(&template()), of(chosen));
    }

    #[test]
    fn the_template_names_every_kind() {
        for registry in registries() {
            for kind in &registry.kinds {
                let quoted = format!("\"{}\"", kind.name);
                assert!(template().contains(&quoted), "{quoted} is missing");
            }
        }
    }

    /// The lines of a table that are commented out, without what follows the setting.
    fn commented(table: &str) -> Vec<String> {
        let template = template();
        let text = template.split(&format!("\n[{table}]\n")).nth(1).unwrap();
        let text = text.split("\n[").next().unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("# "));
        let lines = lines.filter(|line| line.contains(" = "));
        lines
            .map(|line| line.split('#').next().unwrap().trim().into())
            .collect()
    }

    /// Keys that are commented out are keys there are: of some kind.
    #[test]
    fn what_the_template_comments_out_is_true() {
        for registry in registries() {
            let table = registry.table;
            if table.contains('.') {
                continue; // its lines stand in the table around it
            }
            assert!(commented(table).len() > 4, "{table}");
            for line in commented(table) {
                let known = registry.kinds.iter().any(|kind| {
                    let mut spec = Spec::parse("").unwrap();
                    let name = format!("{table}.{}={}", registry.key, kind.name);
                    spec.set(&name).unwrap();
                    spec.set(&format!("{table}.{line}")).unwrap();
                    match spec.plan() {
                        Ok(_) => true,
                        // Another key may be missing beside it.
                        Err(Error::Spec(problems)) => !problems.to_string().contains("unknown key"),
                        Err(e) => panic!("{e}"),
                    }
                });
                assert!(known, "{table}.{line}");
            }
        }
    }
}
