//! Checks of data and model before a run starts, so that neither causes a panic or a NaN later.

use std::collections::HashSet;

use crate::data::{Dataset, Examples, Features, Schema, Shard, Targets, Task};
use crate::error::{Error, Result};
use crate::model::{Model, require_fit};

/// Checks that a model can be trained on the data. Of generated data only the sizes are checked,
/// so that nothing is generated here.
///
/// # Errors
/// The first problem, with its client and row.
pub(super) fn check(dataset: &dyn Dataset, model: &dyn Model) -> Result<()> {
    let schema = dataset.schema();
    require_fit(schema, model)?;
    if dataset.clients() == 0 {
        return Err(Error::data("the data has no clients"));
    }
    let mut held_out = 0;
    let mut names = HashSet::with_capacity(dataset.clients());
    for client in 0..dataset.clients() {
        let name = dataset.name(client);
        let (train, valid) = dataset.sizes(client);
        if train == 0 {
            let problem = match valid {
                0 => "has no rows; leave it out",
                _ => "has no training rows, only held-out ones; leave it out, or hold out fewer",
            };
            return Err(Error::at_place(place_of(&name), problem));
        }
        held_out += valid;
        if !dataset.is_generated() && dataset.is_local(client) {
            let own = dataset.shard(client)?;
            if (own.train.len(), own.valid.len()) != (train, valid) {
                let problem = format!(
                    "has {} training and {} validation rows, but the data set reports {train} and {valid}",
                    own.train.len(),
                    own.valid.len()
                );
                return Err(Error::at_place(place_of(&name), problem));
            }
            check_shard(&own, schema)?;
        }
        if let Some(name) = names.replace(name) {
            return Err(Error::at_place(
                place_of(&name),
                "two clients have this name; client names must be unique",
            ));
        }
    }
    match held_out {
        0 => Err(Error::data(
            "no client has validation rows, so nothing could be scored; hold some out",
        )),
        _ => Ok(()),
    }
}

fn place_of(name: &str) -> String {
    format!("client '{name}'")
}

/// Checks every number and label of a client.
fn check_shard(shard: &Shard, schema: &Schema) -> Result<()> {
    let splits = [
        ("training", &shard.train),
        ("validation", &shard.valid),
        ("test", &shard.test),
    ];
    for (split, examples) in splits {
        let place = |row: usize| format!("{}, {split} row {}", place_of(&shard.name), row + 1);
        check_examples(examples, schema, place)?;
    }
    Ok(())
}

/// Checks the examples of one split.
fn check_examples(
    examples: &Examples,
    schema: &Schema,
    place: impl Fn(usize) -> String,
) -> Result<()> {
    if examples.is_empty() {
        return Ok(());
    }
    let width: usize = schema.shape.iter().product();
    if examples.width() != width {
        let problem = format!(
            "has {} features, but the data has {width}",
            examples.width()
        );
        return Err(Error::at_place(place(0), problem));
    }
    if let Features::Bytes(_, scaling) = examples.features() {
        let finite = |(scale, shift): &(f32, f32)| scale.is_finite() && shift.is_finite();
        let channels = scaling.channels.len();
        if channels == 0 || !width.is_multiple_of(channels) || !scaling.channels.iter().all(finite)
        {
            let problem = format!("the scaling {scaling:?} does not fit bytes of {width} features");
            return Err(Error::at_place(place(0), problem));
        }
    }
    if let Features::Floats(x) = examples.features()
        && let Some(cell) = x.iter().position(|x| !x.is_finite())
    {
        let feature = match schema.features.get(cell % width) {
            Some(name) => format!("feature '{name}'"),
            None => format!("feature {}", cell % width + 1),
        };
        let problem = format!("{feature} is {}; fill it or leave the row out", x[cell]);
        return Err(Error::at_place(place(cell / width), problem));
    }
    match (examples.targets(), &schema.task) {
        (Targets::Classes(labels), Task::Classification { classes }) => {
            match labels.iter().position(|y| *y as usize >= classes.len()) {
                None => Ok(()),
                Some(row) => Err(Error::at_place(
                    place(row),
                    format!(
                        "the label is {}, allowed is 0 to {} ({} classes)",
                        labels[row],
                        classes.len().saturating_sub(1),
                        classes.len()
                    ),
                )),
            }
        }
        (Targets::Values(values), Task::Regression) => {
            match values.iter().position(|y| !y.is_finite()) {
                None => Ok(()),
                Some(row) => Err(Error::at_place(
                    place(row),
                    format!("the target is {}; targets must be finite", values[row]),
                )),
            }
        }
        (Targets::Classes(_), Task::Regression) => Err(Error::at_place(
            place(0),
            "the label is a class, but the task is regression, which needs numbers",
        )),
        (Targets::Values(_), Task::Classification { .. }) => Err(Error::at_place(
            place(0),
            "the label is a number, but the task is classification, which needs classes",
        )),
    }
}

/// Checks that w⁰ consists of `len` finite numbers.
pub(super) fn check_initial(w0: &[f32], len: usize) -> Result<()> {
    if w0.len() != len {
        return Err(Error::data(format!(
            "the initial model has {} parameters, but the model has {len}",
            w0.len()
        )));
    }
    match w0.iter().find(|x| !x.is_finite()) {
        None => Ok(()),
        Some(x) => Err(Error::data(format!(
            "the initial model contains {x}; its parameters must be finite"
        ))),
    }
}
