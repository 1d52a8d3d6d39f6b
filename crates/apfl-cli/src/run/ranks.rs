//! `apfl run` on the ranks of an MPI job.

use std::process::ExitCode;

use apfl::engine::EngineKind;
use apfl::error::{Error, Result};
use apfl::spec::Resources;

use super::Prepared;
use crate::args;
use crate::cluster::{agree, join, serve};

/// Trains on all ranks: the first leads, the others serve.
pub fn run(args: &args::Run, prepared: Prepared) -> Result<ExitCode> {
    let (_membership, cluster) = join()?;
    let out = prepared.out.as_deref().map(|out| out.to_str());
    if out == Some(None) {
        let problem =
            "--out: the path is not UTF-8, so it cannot be sent to other ranks; give another one";
        return Err(Error::Request(problem.into()));
    }
    let finished = prepared.finished();
    // If ranks saw different directories, some would wait for others that have nothing to do.
    let directory = match (&prepared.out, &prepared.begun) {
        (None, _) => "a new one".into(),
        (Some(out), None) => format!("{}, empty", out.display()),
        (Some(out), Some(_)) if finished => format!("{}, with a finished run", out.display()),
        (Some(out), Some(_)) => format!("{}, with a run to continue", out.display()),
    };
    if finished {
        cluster.agree(Ok(vec![("the run directory".into(), directory)]))?;
        return if cluster.leads() {
            prepared.show_finished(args)
        } else {
            Ok(ExitCode::SUCCESS)
        };
    }
    let spec = prepared.plan.to_toml();
    let facts = vec![("the run directory".to_string(), directory)];
    // Only the leader creates a directory. Its error is returned after all ranks have agreed, so
    // that no rank waits for a leader that has ended.
    let out = if cluster.leads() {
        prepared.directory(args).map(Some)
    } else {
        Ok(None)
    };
    let setup = out.as_ref().map_err(engine_error).and_then(|out| {
        let resources = Resources {
            engine: EngineKind::Mpi(cluster),
            directory: out.as_deref(),
            ..Resources::default()
        };
        prepared
            .plan
            .setup_with(prepared.plan.data.load()?, resources)
    });
    let agreed = agree(cluster, facts, &spec, setup);
    if let (Err(_), Ok(Some(out)), None) = (&agreed, &out, &prepared.out) {
        let _ = std::fs::remove_dir(out); // created above, and still empty
    }
    let Some(setup) = agreed? else {
        return Ok(ExitCode::SUCCESS); // the leader returns the error
    };
    if let Ok(Some(out)) = out {
        let _leader = cluster.lead();
        return prepared.train(args, setup, &out);
    }
    crate::signals::leave_to_leader();
    serve(cluster, setup, &prepared.plan.algorithm);
    Ok(ExitCode::SUCCESS)
}

fn engine_error(error: &Error) -> Error {
    Error::Engine(error.to_string())
}
