//! A federation over real sites: data stay there, the server sees updates and sums.
//!
//! Before training every site tells once what its table looks like (a survey), and all agree
//! on what the columns become and who takes part (an [`Agreement`]). Then the server trains as
//! ever, on an engine whose letters a [`Courier`] carries; a [`Node`] answers them at each site.

mod agreement;
mod node;
mod server;
mod state;

pub use crate::engine::remote::{Courier, Disclose, Letter};
pub use agreement::{Agreement, Terms};
pub use node::{Accept, Node, Site};
pub use server::{Server, terms_of};
pub use state::SiteStatus;
