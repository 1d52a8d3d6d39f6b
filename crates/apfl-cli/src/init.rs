//! `apfl init`

use apfl::error::{Error, Result};
use apfl::store::write_atomically;

use crate::args;
use crate::output::print;

/// The commented spec.
pub const TEMPLATE: &str = include_str!("template.toml");

/// Writes or prints the template.
pub fn init(args: &args::Init) -> Result<()> {
    let Some(file) = &args.file else {
        return print(TEMPLATE);
    };
    if file.exists() {
        return Err(Error::Request(format!(
            "{}: the file is there already; give another name, or remove it",
            file.display()
        )));
    }
    write_atomically(file, TEMPLATE)?;
    print(&format!(
        "{} written; look it over, then: apfl check {0} && apfl run {0}\n",
        file.display()
    ))
}

#[cfg(test)]
mod tests {
    use apfl::spec::Spec;

    #[test]
    fn the_template_spells_out_the_defaults() {
        let of = |text| Spec::parse(text).unwrap().plan().unwrap().to_toml();
        assert_eq!(of(super::TEMPLATE), of(""));
    }

    /// Keys that are commented out are keys there are: of some kind, at their default.
    #[test]
    fn what_the_template_comments_out_is_true() {
        let section = |name: &str| {
            let text = super::TEMPLATE
                .split(&format!("\n[{name}]\n"))
                .nth(1)
                .unwrap();
            text.split("\n\n").next().unwrap()
        };
        let commented = |name: &str| {
            let lines = section(name)
                .lines()
                .filter_map(|line| line.strip_prefix("# "));
            let lines = lines.filter(|line| line.contains(" = "));
            lines
                .map(|line| format!("{name}.{line}"))
                .collect::<Vec<_>>()
        };
        let kinds = [
            ("model", vec!["logistic", "mlp", "cnn"]),
            ("algorithm", vec!["apfl", "scaffold", "perfedavg", "pfedme"]),
        ];
        for (name, kinds) in kinds {
            let plain = |kind: &str| {
                let mut spec = Spec::parse("").unwrap();
                spec.set(&format!("{name}.kind={kind}")).unwrap();
                spec
            };
            assert!(commented(name).len() > 4, "{name}");
            for line in commented(name) {
                let line = line.split('#').next().unwrap().trim();
                let accepted = kinds.iter().any(|kind| {
                    let mut spec = plain(kind);
                    spec.set(line).unwrap();
                    spec.plan().is_ok()
                });
                assert!(accepted || line.contains("averaging_shift"), "{line}");
            }
        }
    }
}
