//! `apfl predict`

use apfl::Prediction;
use apfl::data::Task;
use apfl::data::table::read_features;
use apfl::error::Result;
use apfl::store::run_dir::FinishedRun;

use crate::args;
use crate::export::read_model;
use crate::output::print;

/// Prints a line for each row of the input: class and scores, or the value.
pub fn predict(args: &args::Predict) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let model = read_model(&run, args.model, args.client.as_deref())?;
    let rows = read_features(&args.input, &run.schema)?;
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
    let number = |x: &f64| (*x as f32).to_string();
    for prediction in model.predict(&rows)? {
        let row = match prediction {
            Prediction::Value(value) => vec![number(&value)],
            Prediction::Class { index, scores } => {
                let class = std::iter::once(classes[index].clone());
                class.chain(scores.iter().map(number)).collect()
            }
        };
        put(&mut out, &row);
    }
    let bytes = out.into_inner().expect("writing to memory");
    print(&String::from_utf8_lossy(&bytes))
}
