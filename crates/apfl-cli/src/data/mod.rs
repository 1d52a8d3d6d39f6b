//! `apfl data`: what data there is, how it gets here, how it falls on clients.

mod catalogue;
mod checksum;
mod cifar;
mod get;
mod inspect;
mod list;
mod picture;
mod ways;

use apfl::error::Result;

use crate::args;

/// Does what was asked.
pub fn data(command: &args::Data) -> Result<()> {
    match command {
        args::Data::List(args) => list::list(args),
        args::Data::Get(args) => get::get(args),
        args::Data::Inspect(args) => inspect::inspect(args),
    }
}
