//! A federation over real sites: data stay there, the server sees updates and sums.
//!
//! Before training every site tells once what its table looks like (a survey), and all agree
//! on what the columns become and who takes part (an [`Agreement`]). Then the server trains as
//! always, on an engine whose requests a [`Transport`] carries; a [`Node`] handles them at each
//! site.

mod agreement;
mod node;
mod server;
mod state;

pub use crate::engine::remote::{Disclose, Message, Transport};
pub use agreement::{Agreement, Terms};
pub use node::{Accept, Node, Site};
pub use server::{Server, terms_of};
pub use state::SiteStatus;
