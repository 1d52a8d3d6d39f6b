//! The initial shared model w⁰.

use std::path::{Path, PathBuf};

use super::checks;
use crate::error::{Error, Result};
use crate::files::tensors;
use crate::model::Model;
use crate::params::Params;
use crate::rng::{Purpose, stream};

/// Represents the choice of the initial shared model w⁰.
#[derive(Clone, Debug, PartialEq)]
pub enum Initial {
    /// The default of the model: [`Network::initial`](crate::model::Network::initial).
    Model,
    /// All parameters are 0.
    Zeros,
    /// Uniform within ±1/√fan_in.
    Uniform,
    /// Read from a `.safetensors` file.
    File(PathBuf),
    /// These parameters.
    Params(Params),
}

impl Initial {
    /// Returns the choice of a spec's `model.init`.
    pub(super) fn from_spec(init: &str) -> Self {
        match init {
            "zeros" => Initial::Zeros,
            "uniform" => Initial::Uniform,
            path => Initial::File(path.into()),
        }
    }

    /// Returns the parameters for a model.
    ///
    /// # Errors
    /// A file that cannot be read, or does not fit the model.
    pub(crate) fn params(self, model: &dyn Model, seed: u64) -> Result<Params> {
        let mut rng = stream(seed, Purpose::Init, 0, 0);
        Ok(match self {
            Initial::Model => model.network().initial(&mut rng),
            Initial::Zeros => model.layout().zeros(),
            Initial::Uniform => model.layout().uniform(&mut rng),
            Initial::File(path) => read(&path, model)?,
            Initial::Params(params) => params,
        })
    }
}

impl From<Params> for Initial {
    fn from(params: Params) -> Self {
        Initial::Params(params)
    }
}

fn read(path: &Path, model: &dyn Model) -> Result<Params> {
    let params = tensors::read_one(path, model.layout(), "")?;
    checks::check_initial(&params, params.len()).map_err(|e| Error::in_file(path, e))?;
    Ok(params)
}
