//! `apfl predict`: applies a run's preparation and models to new rows.

use apfl::Prediction;
use apfl::data::Task;
use apfl::error::Result;
use apfl::run::run_dir::FinishedRun;

use crate::args;
use crate::output::print;
use crate::served::{Served, print_notes, read};

/// Prints the class and scores, or the value, of every row of the input.
pub fn predict(args: &args::Predict) -> Result<()> {
    let run = FinishedRun::open(&args.run)?;
    let client = args.client.as_deref().or(run.site.as_deref());
    let input = read(&run, &args.input, client, None, &args.id)?;
    let served = Served::new(&run, &input, args.model, client)?;
    let classes: &[String] = match &run.schema.task {
        Task::Classification { classes } => classes,
        Task::Regression => &[],
    };
    let mut added = Vec::new();
    let named = input.clients.is_some() || client.is_some();
    added.extend(named.then(|| "client".to_string()));
    added.push(if classes.is_empty() { "value" } else { "class" }.into());
    added.extend(classes.iter().map(|class| format!("score:{class}")));
    let ids = args.id.iter().map(|id| {
        if added.contains(id) {
            format!("input:{id}")
        } else {
            id.clone()
        }
    });
    let header: Vec<String> = ids.chain(added.iter().cloned()).collect();

    let mut predictions: Vec<Option<Prediction>> = vec![None; input.rows];
    let width: usize = run.schema.shape.iter().product();
    for (model, rows) in &served.groups {
        let mut x = Vec::with_capacity(rows.len() * width);
        for row in rows {
            x.extend_from_slice(&input.x[*row as usize * width..][..width]);
        }
        for (row, prediction) in rows.iter().zip(model.predict(&x)?) {
            predictions[*row as usize] = Some(prediction);
        }
    }
    let mut out = csv::Writer::from_writer(Vec::new());
    let write = |out: &mut csv::Writer<Vec<u8>>, row: &[String]| {
        out.write_record(row).expect("writing to memory");
    };
    write(&mut out, &header);
    let number = |x: &f64| (*x as f32).to_string();
    for (row, prediction) in predictions.into_iter().flatten().enumerate() {
        let mut cells = input.ids.get(row).cloned().unwrap_or_default();
        if named {
            cells.push(served.client_of(&input, row, client).into());
        }
        match prediction {
            Prediction::Value(value) => cells.push(value.to_string()),
            Prediction::Class { index, scores } => {
                cells.push(classes[index].clone());
                cells.extend(scores.iter().map(number));
            }
        }
        write(&mut out, &cells);
    }
    let bytes = out.into_inner().expect("writing to memory");
    print(&String::from_utf8_lossy(&bytes))?;
    print_notes(&run, &input, &served);
    Ok(())
}
