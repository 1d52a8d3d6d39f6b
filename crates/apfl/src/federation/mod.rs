//! A federation over real sites: the data stay there, the server sees updates and sums.
//!
//! Before training, every site sends a survey of its table, and all sites accept an
//! [`Agreement`] on the preparation of columns and the list of sites. Then the server trains on an
//! engine whose requests a [`Transport`] carries; a [`Node`] handles them at each site.

mod agreement;
mod log;
mod node;
mod preview;
mod releases;
mod server;
mod state;
mod survey;

pub use crate::engine::remote::{Disclose, Message, Transport};
pub use agreement::{Agreement, Terms};
pub use node::{Accept, Node, Site};
pub use preview::{ColumnPreview, SurveyPreview, preview};
pub use server::{Server, terms_of};
pub use state::SiteStatus;
