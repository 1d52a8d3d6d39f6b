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
}
