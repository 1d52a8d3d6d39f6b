//! `apfl predict`

use apfl::data::table::read_features;
use apfl::data::{Examples, Features, Targets, Task};
use apfl::error::Result;
use apfl::model::Workspace;
use apfl::model::loss::predicted;
use apfl::site::Predictor;
use apfl::store::run_dir::FinishedRun;

use crate::args;
use crate::export::read_model;
use crate::output::print;

/// Rows that go through the model at once.
const ROWS: usize = 1024;

/// Prints a line for each row of the input: class and scores, or the value.
pub fn predict(args: &args::Predict) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let model = run.plan.architecture.build(&run.schema)?;
    let (_, params) = read_model(&run, &*model, args.model, args.client.as_deref())?;
    let predictor = Predictor::of_flat(&params, model.layout().len());
    let x = read_features(&args.input, &run.schema)?;
    let width = run.schema.features.len();
    let rows = x.len() / width;
    let examples = Examples::new(width, Features::Floats(x), Targets::Values(vec![0.0; rows]));

    let classes: &[String] = match &run.schema.task {
        Task::Classification { classes } => classes,
        Task::Regression => &[],
    };
    let mut out = csv::Writer::from_writer(Vec::new());
    let put = |out: &mut csv::Writer<Vec<u8>>, row: &[String]| {
        out.write_record(row).expect("writing to memory");
    };
    let mut header = vec![if classes.is_empty() { "value" } else { "class" }.to_string()];
    header.extend(classes.iter().cloned());
    put(&mut out, &header);
    let mut ws = Workspace::default();
    for start in (0..rows).step_by(ROWS) {
        let outputs = predictor.outputs(&*model, &examples.batch(start, ROWS), &mut ws);
        for z in outputs.chunks_exact(model.outputs()) {
            let scores = model.loss().present(z, classes.len());
            let mut row: Vec<String> = scores.iter().map(|s| (*s as f32).to_string()).collect();
            if let Some(class) = classes.get(predicted(z) as usize) {
                row.insert(0, class.clone());
            }
            put(&mut out, &row);
        }
    }
    let bytes = out.into_inner().expect("writing to memory");
    print(&String::from_utf8_lossy(&bytes))
}
