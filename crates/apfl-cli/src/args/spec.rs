//! A spec file with its overrides, and the arguments of `apfl init` and `apfl check`.

use std::io::Read;
use std::path::PathBuf;

use apfl::error::{Error, Result};
use apfl::spec::Spec;

use crate::kinds;

/// Represents overrides of a spec's keys.
#[derive(Debug, Default, clap::Args)]
pub struct Overrides {
    /// Override a key of the spec, such as training.rounds=5; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Reads a spec file and applies overrides. Without a file, starts from the built-in example.
pub fn read_spec(path: Option<&PathBuf>, overrides: &Overrides) -> Result<Spec> {
    let text = match path {
        None => String::new(),
        Some(path) => read_text(path)?,
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

/// The largest spec file in bytes; a resolved spec has a few thousand.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a spec's text, which must be UTF-8 as TOML requires.
fn read_text(path: &PathBuf) -> Result<String> {
    let failed = |source| Error::File {
        path: path.clone(),
        action: "read",
        source,
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        let what = format!("is larger than {} MB and cannot be a spec", MAX_BYTES >> 20);
        return Err(Error::Request(format!("{}: {what}", path.display())));
    }
    let utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    String::from_utf8(bytes).map_err(|_| {
        let what = if utf16 {
            "is UTF-16 text; save it as UTF-8"
        } else {
            "is not UTF-8 text; a spec is TOML, which must be UTF-8"
        };
        Error::Request(format!("{}: {what}", path.display()))
    })
}

/// Applies one `--set` argument.
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

/// Appends the list of all registered kinds, for the long help.
fn with_kinds(examples: &str) -> String {
    format!("{examples}\n\n{}", kinds::help())
}

/// `apfl init`
#[derive(Debug, clap::Args)]
#[command(after_help = INIT, after_long_help = with_kinds(INIT))]
pub struct Init {
    /// The file to write [default: print to stdout]
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
    /// Run the check even if the memory estimate exceeds this machine's
    #[arg(long)]
    pub force: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
