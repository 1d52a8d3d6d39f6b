//! A spec as it was typed: a file and overrides; `apfl init` and `apfl check`.

use std::io::Read;
use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::spec::Spec;

use crate::kinds;

/// Overrides of a spec's keys.
#[derive(Debug, clap::Args)]
pub struct Overrides {
    /// Override a key of the spec, such as training.rounds=5; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Reads a spec file and applies overrides; no file is the built-in example.
pub fn read_spec(path: Option<&PathBuf>, overrides: &Overrides) -> Result<Spec> {
    let text = match path {
        None => String::new(),
        Some(path) => text_of(path)?,
    };
    let mut spec = Spec::parse(&text).map_err(|e| match (e, path) {
        (Error::Request(message), Some(path)) => {
            Error::Request(format!("{}: {message}", path.display()))
        }
        (e, _) => e,
    })?;
    let pairs = &overrides.set;
    pairs.iter().try_for_each(|pair| set(&mut spec, pair))?;
    Ok(spec)
}

/// The longest spec, in bytes: a resolved one has some thousand.
const LONGEST: u64 = 16 << 20;

/// A spec's text. TOML is UTF-8: anything else is not one.
fn text_of(path: &PathBuf) -> Result<String> {
    let failed = |source| Error::File {
        path: path.clone(),
        action: "read",
        source,
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(LONGEST + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > LONGEST {
        let what = format!("has more than {} MB; is it a spec?", LONGEST >> 20);
        return Err(Error::Request(format!("{}: {what}", path.display())));
    }
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    String::from_utf8(bytes).map_err(|_| {
        let what = if utf16 {
            "is UTF-16 text; save it as UTF-8"
        } else {
            "is not UTF-8 text, as a spec in TOML must be"
        };
        Error::Request(format!("{}: {what}", path.display()))
    })
}

/// Applies a `--set`.
pub fn set(spec: &mut Spec, pair: &str) -> Result<()> {
    spec.set(pair).map_err(|e| match e {
        Error::Request(message) => Error::Request(format!("--set {message}")),
        e => e,
    })
}

const INIT: &str = "\
Examples:
  apfl init                      print a commented spec
  apfl init my.toml              write it to my.toml";

const CHECK: &str = "\
Examples:
  apfl check my.toml
  apfl check my.toml --set model.kind=mlp --json";

/// Examples and, in the long help, every kind there is.
fn with_kinds(examples: &str) -> String {
    format!("{examples}\n\n{}", kinds::help())
}

/// `apfl init`
#[derive(Debug, clap::Args)]
#[command(after_help = INIT, after_long_help = with_kinds(INIT))]
pub struct Init {
    /// Where to write it; without a file it goes to stdout
    pub file: Option<PathBuf>,
}

/// `apfl check`
#[derive(Debug, clap::Args)]
#[command(after_help = CHECK, after_long_help = with_kinds(CHECK))]
pub struct Check {
    /// The spec
    pub spec: PathBuf,
    #[command(flatten)]
    pub overrides: Overrides,
    /// Try it although it should need more memory than this machine has
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
