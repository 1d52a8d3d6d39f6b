//! `apfl data`: lists and fetches data sets, and shows their assignment to clients.

mod catalogue;
mod checksum;
mod cifar;
mod get;
mod inspect;
mod list;
mod picture;
mod sources;

use apfl::error::Result;

use crate::args;

/// Runs a subcommand.
pub fn data(command: &args::Data) -> Result<()> {
    match command {
        args::Data::List(args) => list::list(args),
        args::Data::Get(args) => get::get(args),
        args::Data::Inspect(args) => inspect::inspect(args),
    }
}
