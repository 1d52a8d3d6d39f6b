//! The laboratory of the paper that `apfl` is named after: its figures and tables, each with a
//! verdict for every claim; its quantities, measured on a run; its theorems, simulated; and
//! grids of many runs.
//!
//! It writes files into directories that it is given and tells its caller how far it is. It never
//! prints: the program `apfl` does.

pub mod grid;
pub mod reproduce;
pub mod theory;
