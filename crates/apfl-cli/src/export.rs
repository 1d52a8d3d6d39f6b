//! `apfl export`

use std::path::Path;

use apfl::error::{Error, Result};
use apfl::model::{Layout, Model};
use apfl::params::Params;
use apfl::store::run_dir::FinishedRun;
use apfl::store::{tensors, write_atomically};

use crate::args::{self, Which};
use crate::npz;
use crate::output::print;

/// Writes one model of a run to a file.
pub fn export(args: &args::Export) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let model = run.plan.architecture.build(&run.schema)?;
    let (layout, params) = read_model(&run, &*model, args.model, args.client.as_deref())?;
    match args.out.extension().and_then(|e| e.to_str()) {
        Some("safetensors") => tensors::write_one(&args.out, &layout, &params)?,
        Some("npz") => write_npz(&args.out, &layout, &params)?,
        _ => {
            return Err(Error::Request(format!(
                "--out {}: the name must end in .safetensors or .npz",
                args.out.display()
            )));
        }
    }
    print(&format!(
        "{}: {} tensors, {} parameters\n",
        args.out.display(),
        layout.tensors.len(),
        params.len()
    ))
}

/// A model of a run with its tensors' names: the shared one, or one of a client's.
pub fn read_model(
    run: &FinishedRun,
    model: &dyn Model,
    which: Which,
    client: Option<&str>,
) -> Result<(Layout, Params)> {
    let models = run.path.join("models");
    let (file, client) = match (which, client) {
        (Which::Shared, _) => ("shared.safetensors", ""),
        (_, None) => {
            return Err(Error::Request(
                "--client is missing: each client has a model of its own (or use --model shared)"
                    .into(),
            ));
        }
        (Which::Local, Some(client)) => ("local.safetensors", client),
        (Which::Personal, Some(client)) => ("personal.safetensors", client),
    };
    let file = models.join(file);
    if !client.is_empty() {
        run.require_client(client)?;
        if !file.exists() {
            return Err(Error::Data(format!(
                "{}: the clients' models were not kept (delivery.keep = false)",
                run.path.display()
            )));
        }
    }
    let layout = match which {
        Which::Personal => run.personal_layout(model.layout()),
        _ => model.layout().clone(),
    };
    let params = tensors::read_one(&file, &layout, client)?;
    Ok((layout, params))
}

fn write_npz(path: &Path, layout: &Layout, params: &[f32]) -> Result<()> {
    let tensors = layout.tensors.iter();
    let arrays = tensors.map(|t| (t.name.as_str(), &t.shape[..], &params[t.range()]));
    let bytes = npz::archive(arrays)
        .map_err(|e| Error::Request(format!("--out {}: {e}", path.display())))?;
    write_atomically(path, bytes)
}
