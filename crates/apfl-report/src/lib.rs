//! Draws charts, tables and an HTML page about runs: numbers in, SVG, PNG and HTML out.
//!
//! Used by the program `apfl`, the Python module and `apfl-paper`. Never prints or trains.

pub mod advise;
pub mod chart;
pub mod format;
mod report;
pub mod statistics;
pub mod table;

pub use report::{ERRORS, write, write_groups};
