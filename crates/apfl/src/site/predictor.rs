//! A model that can be asked for outputs.

use crate::data::Batch;
use crate::model::{Model, Workspace};
use crate::params::Params;

/// A model that can be asked for outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictor<'a> {
    /// Parameters, borrowed.
    At(&'a [f32]),
    /// Parameters, made for the occasion.
    Own(Params),
    /// α·(outputs at v) + (1−α)·(outputs at w).
    MixedOutputs {
        /// α
        alpha: f32,
        /// v
        v: &'a [f32],
        /// w
        w: &'a [f32],
    },
}

impl<'a> Predictor<'a> {
    /// Its parameters as one vector: v, w and α one after the other where outputs are
    /// mixed, as [`Layout::mixture`](crate::model::Layout::mixture) names them.
    pub fn flat(self) -> Params {
        match self {
            Predictor::At(at) => at.to_vec(),
            Predictor::Own(at) => at,
            Predictor::MixedOutputs { alpha, v, w } => [v, w, &[alpha]].concat(),
        }
    }

    /// The predictor of such a vector, for a model of `len` parameters.
    ///
    /// # Panics
    /// Where the vector is neither of that length nor a mixture's.
    pub fn of_flat(flat: &'a [f32], len: usize) -> Self {
        if flat.len() == len {
            return Predictor::At(flat);
        }
        assert_eq!(flat.len(), 2 * len + 1, "a model, or two and α");
        Predictor::MixedOutputs {
            alpha: flat[2 * len],
            v: &flat[..len],
            w: &flat[len..2 * len],
        }
    }

    /// The outputs for a batch.
    pub fn outputs<'w>(
        &self,
        model: &dyn Model,
        batch: &Batch<'_>,
        ws: &'w mut Workspace,
    ) -> &'w [f32] {
        match self {
            Predictor::At(at) => model.forward(at, batch, ws),
            Predictor::Own(at) => model.forward(at, batch, ws),
            Predictor::MixedOutputs { alpha, v, w } => {
                model.forward(w, batch, ws);
                let of_w = ws.outputs.clone();
                model.forward(v, batch, ws);
                for (out, of_w) in ws.outputs.iter_mut().zip(&of_w) {
                    *out = alpha * *out + (1.0 - alpha) * of_w;
                }
            }
        }
        &ws.outputs
    }
}
