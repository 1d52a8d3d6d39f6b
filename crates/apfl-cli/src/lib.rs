//! What the program `apfl` shares with the Python module: the report with its advice, and how
//! both name themselves in a run directory.

pub mod advise;
pub mod chart;
pub mod output;
pub mod report;
pub mod statistics;

/// This program, as `environment.json` names it.
pub fn program() -> apfl::Program {
    apfl::Program {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("APFL_COMMIT").into(),
    }
}
