//! `apfl init`: writes a commented spec.

use apfl::error::{Error, Result};
use apfl::files::write_atomically;

use crate::args;
use crate::kinds;
use crate::output::print;

/// The one line in which the template differs from the defaults: the learned α reproduces the
/// paper, a chosen α is better for one's own data.
const LEARNED: &str = "mixing = { adaptive = 0.01 }";
const CHOSEN: &str = "mixing = { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1], folds = 5, prior = 50 }   \
    # α: the best one on held-out rows, in folds + 1 passes; default: { adaptive = 0.01 }, the \
    paper's learned α";

/// Returns the commented spec: `template.toml` with its placeholders filled from the registries.
pub fn template() -> String {
    let plain = plain_template();
    let line = plain.lines().find(|line| line.starts_with(LEARNED));
    let line = line.expect("the default algorithm is APFL");
    plain.replacen(line, CHOSEN, 1)
}

fn plain_template() -> String {
    let filled = |line: &str| {
        let placeholder = line.strip_prefix("{{").and_then(|l| l.strip_suffix("}}"));
        placeholder.map_or_else(|| format!("{line}\n"), kinds::expand)
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
            "{}: the file exists already; give another name or remove it",
            file.display()
        )));
    }
    write_atomically(file, template())?;
    print(&format!(
        "wrote {}; edit it, then: apfl check {0} && apfl run {0}\n",
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
        // Except for the mixing.
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

    /// Returns a table's commented-out settings, without their comments.
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

    /// Every commented-out key is a key of some kind.
    #[test]
    fn commented_out_keys_exist() {
        for registry in registries() {
            let table = registry.table;
            if table.contains('.') {
                continue; // its lines are in the enclosing table
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
                        // Another key may be missing.
                        Err(Error::Spec(problems)) => !problems.to_string().contains("unknown key"),
                        Err(e) => panic!("{e}"),
                    }
                });
                assert!(known, "{table}.{line}");
            }
        }
    }
}
