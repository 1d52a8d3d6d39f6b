//! `apfl export`: writes a trained model to a file.

use std::path::Path;

use apfl::TrainedModel;
use apfl::error::{Error, Result};
use apfl::files::{tensors, write_atomically};
use apfl::model::Layout;
use apfl::run::run_dir::FinishedRun;

use crate::args::{self, Which};
use crate::npz;
use crate::output::{note_batches, print, require_free};

/// Writes one model of a run to a file.
pub fn export(args: &args::Export) -> Result<()> {
    require_free("--out", &args.out, &["safetensors", "npz"])?;
    let run = FinishedRun::open(&args.run)?;
    let model = read_model(
        &run,
        args.model,
        args.client.as_deref().or(run.site.as_deref()),
    )?;
    note_batches(&run.plan);
    let (layout, params) = (model.layout(), model.params());
    if args.out.extension().is_some_and(|ending| ending == "npz") {
        write_npz(&args.out, &layout, params, &schema(&run))?
    } else {
        let schema = ("schema", schema(&run));
        tensors::write_one_with_metadata(&args.out, &layout, params, &[schema])?;
    }
    print(&format!(
        "{}: {} tensors, {} parameters\n",
        args.out.display(),
        layout.tensors.len(),
        params.len()
    ))
}

/// Reads one of a run's models.
pub fn read_model(run: &FinishedRun, which: Which, client: Option<&str>) -> Result<TrainedModel> {
    match (which, client) {
        (Which::Shared, _) => run.model(which.into(), ""),
        (_, Some(client)) => run.model(which.into(), client),
        (_, None) => Err(Error::Request(
            "--client is missing: each client has its own model; give --client ID or --model shared"
                .into(),
        )),
    }
}

/// Returns the content of `schema.json`: what the model's inputs and outputs mean.
fn schema(run: &FinishedRun) -> String {
    serde_json::to_string(&run.schema).expect("plain JSON")
}

fn write_npz(path: &Path, layout: &Layout, params: &[f32], schema: &str) -> Result<()> {
    let tensors = layout.tensors.iter();
    let arrays = tensors.map(|t| (t.name.as_str(), &t.shape[..], &params[t.range()]));
    let bytes = npz::archive(arrays, &[("schema.json", schema.as_bytes())])
        .map_err(|e| Error::Request(format!("--out {}: {e}", path.display())))?;
    write_atomically(path, bytes)
}
