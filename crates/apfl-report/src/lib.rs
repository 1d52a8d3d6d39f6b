//! Charts, tables and one HTML page about runs: numbers in, SVG, PNG and HTML out.
//!
//! The program `apfl`, the Python module and the paper's laboratory draw with it. It never
//! prints and never trains.

pub mod advise;
pub mod chart;
mod report;
pub mod statistics;
pub mod table;
pub mod words;

pub use report::{ERRORS, write, write_groups};
