//! `apfl export`

use std::io::Write;
use std::path::Path;

use apfl::TrainedModel;
use apfl::error::{Error, Result};
use apfl::model::Layout;
use apfl::store::AtomicFile;
use apfl::store::run_dir::FinishedRun;
use apfl::store::tensors;

use crate::args::{self, Which};
use crate::output::print;

/// Writes one model of a run to a file.
pub fn export(args: &args::Export) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let model = read_model(&run, args.model, args.client.as_deref())?;
    let (layout, params) = (model.layout(), model.params());
    match args.out.extension().and_then(|e| e.to_str()) {
        Some("safetensors") => tensors::write_one(&args.out, &layout, params)?,
        Some("npz") => write_npz(&args.out, &layout, params)?,
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

/// A model of a run: the shared one, or one of a client's.
pub fn read_model(run: &FinishedRun, which: Which, client: Option<&str>) -> Result<TrainedModel> {
    match (which, client) {
        (Which::Shared, _) => run.model(which.into(), ""),
        (_, Some(client)) => run.model(which.into(), client),
        (_, None) => Err(Error::Request(
            "--client is missing: each client has a model of its own (or use --model shared)"
                .into(),
        )),
    }
}

fn write_npz(path: &Path, layout: &Layout, params: &[f32]) -> Result<()> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let filled = fill_npz(&mut bytes, layout, params);
    filled.map_err(|source| Error::File {
        path: path.into(),
        action: "write",
        source,
    })?;
    let mut file = AtomicFile::create(path)?;
    file.write(bytes.get_ref())?;
    file.commit()
}

fn fill_npz(
    bytes: &mut std::io::Cursor<Vec<u8>>,
    layout: &Layout,
    params: &[f32],
) -> std::io::Result<()> {
    use npyz::WriterBuilder;
    let mut npz = npyz::npz::NpzWriter::new(&mut *bytes);
    for tensor in &layout.tensors {
        let shape: Vec<u64> = tensor.shape.iter().map(|n| *n as u64).collect();
        let mut array = npz
            .array(&tensor.name, Default::default())?
            .default_dtype()
            .shape(&shape)
            .begin_nd()?;
        array.extend(params[tensor.range()].iter().copied())?;
        array.finish()?;
    }
    npz.zip_writer().flush()
}
