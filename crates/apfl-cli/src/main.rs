//! `apfl`: personalized federated learning from the command line.

mod advise;
mod args;
mod bench;
mod check;
mod cluster;
mod data;
mod directory;
mod estimate;
mod evaluate;
mod export;
mod guard;
mod init;
mod join;
mod kinds;
mod memory;
mod npz;
mod output;
mod predict;
mod privacy;
mod progress;
mod report;
mod reproduce;
mod run;
mod served;
mod signals;
mod site;
mod summary;
mod sweep;
mod theory;

use std::process::ExitCode;

use apfl::error::Result;
use clap::Parser;

use args::{Args, Command};

#[global_allocator]
static MEMORY: apfl::model::CacheLines = apfl::model::CacheLines;

fn main() -> ExitCode {
    let args = Args::parse();
    match dispatch(args) {
        Ok(code) => code,
        Err(error) => {
            match cluster::launched_rank() {
                None | Some(0) => output::tell(format!("error: {}", output::describe(&error))),
                Some(rank) => {
                    // An error of all ranks is printed once: rank 0 ends at once, and the
                    // launcher ends the others while they wait here.
                    std::thread::sleep(std::time::Duration::from_secs(1));
                    output::tell(format!(
                        "error on rank {rank}: {}",
                        output::describe(&error)
                    ));
                }
            }
            // 2: invalid request; 1: failure.
            ExitCode::from(if error.is_request() { 2 } else { 1 })
        }
    }
}

fn dispatch(args: Args) -> Result<ExitCode> {
    if !matches!(
        args.command,
        Command::Run(_) | Command::Finish(_) | Command::Bench(_)
    ) {
        cluster::refuse_many()?;
    }
    match args.command {
        Command::Run(args) => return run::run(&args),
        Command::Finish(args) => return run::run(&args.as_run()),
        Command::Reproduce(args) => return reproduce::run(&args),
        Command::Sweep(args) => return sweep::run(&args),
        Command::Init(args) => init::init(&args)?,
        Command::Check(args) => check::check(&args)?,
        Command::Data(command) => data::data(&command)?,
        Command::Export(args) => export::export(&args)?,
        Command::Predict(args) => predict::predict(&args)?,
        Command::Evaluate(args) => evaluate::evaluate(&args)?,
        Command::Join(args) => join::run(&args)?,
        Command::Advise(args) => advise::run(&args)?,
        Command::Report(args) => report::run(&args)?,
        Command::Theory(args) => theory::run(&args)?,
        Command::Bench(args) => bench::run(&args)?,
        Command::Privacy(args) => privacy::run(&args)?,
        Command::Site(command) => site::site(&command)?,
        Command::Completions { shell } => args::completions(shell)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns this program's version and commit, as written to `environment.json`.
fn program() -> apfl::Program {
    apfl::Program {
        version: env!("CARGO_PKG_VERSION").into(),
        commit: env!("APFL_COMMIT").into(),
    }
}
