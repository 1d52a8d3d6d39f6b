//! `apfl advise`: is joining worth it, for whom, and which model should serve each client?

use apfl::advise::Advice;
use apfl::error::Result;
use apfl::run::run_dir::FinishedRun;
use apfl_report::advise::text;

use crate::args;
use crate::output::{note_batches, print, print_json};

/// Prints whether joining was worth it in a run.
pub fn run(args: &args::Advise) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let advice = Advice::of_run(&run)?;
    note_batches(&run.plan);
    if args.json {
        return print_json(&advice);
    }
    print(&text(&advice))
}
