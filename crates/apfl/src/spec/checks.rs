//! What is checked of data and model before anything is done: what would otherwise be a panic
//! or a NaN later.

use std::collections::HashSet;

use crate::data::{Dataset, Examples, Features, Schema, Shard, Targets, Task};
use crate::error::{Error, Result};
use crate::model::{Model, require_fit};

/// An error that names the client and the row, where data or model cannot be trained on.
/// Data that is generated is taken at its word about everything but sizes: nothing of it is
/// made here.
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
            return Err(Error::at_place(of(&name), problem));
        }
        held_out += valid;
        if !dataset.is_generated() && dataset.is_local(client) {
            let own = dataset.shard(client)?;
            if (own.train.len(), own.valid.len()) != (train, valid) {
                let problem = format!(
                    "has {} training and {} validation rows, the data set says {train} and {valid}",
                    own.train.len(),
                    own.valid.len()
                );
                return Err(Error::at_place(of(&name), problem));
            }
            shard(&own, schema)?;
        }
        if let Some(name) = names.replace(name) {
            return Err(Error::at_place(of(&name), "there are two of that name"));
        }
    }
    match held_out {
        0 => Err(Error::data(
            "no client has validation rows, so nothing could be scored; hold some out",
        )),
        _ => Ok(()),
    }
}

fn of(name: &str) -> String {
    format!("client '{name}'")
}

/// Whether every number and label of a client can be trained on.
fn shard(shard: &Shard, schema: &Schema) -> Result<()> {
    let parts = [
        ("training", &shard.train),
        ("validation", &shard.valid),
        ("test", &shard.test),
    ];
    for (part, examples) in parts {
        let place = |row: usize| format!("{}, {part} row {}", of(&shard.name), row + 1);
        rows(examples, schema, place)?;
    }
    Ok(())
}

fn rows(examples: &Examples, schema: &Schema, place: impl Fn(usize) -> String) -> Result<()> {
    if examples.is_empty() {
        return Ok(());
    }
    let width: usize = schema.shape.iter().product();
    if examples.width() != width {
        let problem = format!("has {} features, the data has {width}", examples.width());
        return Err(Error::at_place(place(0), problem));
    }
    if let Features::Bytes(_, scaling) = examples.features() {
        let finite = |(scale, shift): &(f32, f32)| scale.is_finite() && shift.is_finite();
        let channels = scaling.channels.len();
        if channels == 0 || !width.is_multiple_of(channels) || !scaling.channels.iter().all(finite)
        {
            let problem = format!("its bytes have no scaling of {width} features: {scaling:?}");
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
                        "its label is {}, allowed is 0 to {} ({} classes)",
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
                    format!("its target is {}", values[row]),
                )),
            }
        }
        (Targets::Classes(_), Task::Regression) => Err(Error::at_place(
            place(0),
            "its label is a class, but numbers are to be predicted",
        )),
        (Targets::Values(_), Task::Classification { .. }) => Err(Error::at_place(
            place(0),
            "its label is a number, but classes are to be predicted",
        )),
    }
}

/// An error where w⁰ is not that many finite numbers.
pub(super) fn start(w0: &[f32], len: usize) -> Result<()> {
    if w0.len() != len {
        return Err(Error::data(format!(
            "the initial model has {} parameters, the model {len}",
            w0.len()
        )));
    }
    match w0.iter().find(|x| !x.is_finite()) {
        None => Ok(()),
        Some(x) => Err(Error::data(format!(
            "the initial model holds {x}; no start for a model"
        ))),
    }
}
