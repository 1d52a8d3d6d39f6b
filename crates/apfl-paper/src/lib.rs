//! Reproduces the paper that `apfl` is named after: its figures and tables with a verdict for
//! every claim, its quantities measured on a run, its theorems simulated, and grids of runs.
//!
//! Writes files into given directories and reports progress to its caller. Never prints.

pub mod grid;
pub mod reproduce;
pub mod theory;
