//! Models that can be asked for outputs, and the forms in which clients keep theirs.
//!
//! A further form is a variant of [`ModelForm`] and one of [`Predictor`], with their arms here:
//! what trains, writes, reads and exports models asks this file.

use crate::data::Batch;
use crate::model::{Layout, Model, Workspace};
use crate::params::Params;

/// The form of the models that clients serve: what their numbers are.
///
/// It follows from the algorithm and its settings, which a run directory has in its spec. The
/// other models of a run (shared, localized, local, alone) are always
/// [`ModelForm::Parameters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelForm {
    /// Parameters of the network.
    #[default]
    Parameters,
    /// Parameters v and w, and α: their outputs are mixed.
    MixedOutputs,
}

impl ModelForm {
    /// Returns the names and shapes of the tensors, for a network with that layout. Where outputs
    /// are mixed v is `local/…`, w is `shared/…`, and α is `mixing`.
    pub fn layout(self, network: &Layout) -> Layout {
        match self {
            ModelForm::Parameters => network.clone(),
            ModelForm::MixedOutputs => {
                let mut layout = Layout::default();
                for side in ["local", "shared"] {
                    for tensor in &network.tensors {
                        let name = format!("{side}/{}", tensor.name);
                        layout.push(name, &tensor.shape, tensor.fan_in);
                    }
                }
                layout.push("mixing", &[1], 1);
                layout
            }
        }
    }

    /// Returns how many numbers a model has, for a network with that layout.
    pub fn len(self, network: &Layout) -> usize {
        match self {
            ModelForm::Parameters => network.len(),
            ModelForm::MixedOutputs => 2 * network.len() + 1,
        }
    }

    /// Returns the predictor of a model's numbers, as [`ModelForm::layout`] lays them out.
    ///
    /// # Panics
    /// Where there are not [`ModelForm::len`] of them.
    pub fn predictor<'a>(self, numbers: &'a [f32], network: &Layout) -> Predictor<'a> {
        assert_eq!(numbers.len(), self.len(network), "numbers of {self:?}");
        match self {
            ModelForm::Parameters => Predictor::At(numbers),
            ModelForm::MixedOutputs => {
                let (v, rest) = numbers.split_at(network.len());
                let (w, alpha) = rest.split_at(network.len());
                Predictor::MixedOutputs {
                    alpha: alpha[0],
                    v,
                    w,
                }
            }
        }
    }
}

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

impl Predictor<'_> {
    /// Returns the form of its numbers.
    pub fn form(&self) -> ModelForm {
        match self {
            Predictor::At(_) | Predictor::Own(_) => ModelForm::Parameters,
            Predictor::MixedOutputs { .. } => ModelForm::MixedOutputs,
        }
    }

    /// Returns its numbers, as [`ModelForm::layout`] lays them out.
    ///
    /// # Panics
    /// Where it does not have that form: where an algorithm serves another one than it says.
    pub fn into_numbers(self, form: ModelForm) -> Params {
        assert_eq!(self.form(), form, "the form of the algorithm's models");
        match self {
            Predictor::At(at) => at.to_vec(),
            Predictor::Own(at) => at,
            Predictor::MixedOutputs { alpha, v, w } => [v, w, &[alpha]].concat(),
        }
    }

    /// Returns the outputs for a batch.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn network() -> Layout {
        let mut layout = Layout::default();
        layout.push("a", &[2, 1], 2);
        layout.push("b", &[1], 2);
        layout
    }

    /// What run directories and exported files have, so that those of other versions are read.
    #[test]
    fn tensors_have_the_names_of_the_files() {
        let named = |form: ModelForm| {
            let tensors = form.layout(&network()).tensors;
            let each = tensors.iter().map(|t| format!("{}{:?}", t.name, t.shape));
            each.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(named(ModelForm::Parameters), "a[2, 1] b[1]");
        assert_eq!(
            named(ModelForm::MixedOutputs),
            "local/a[2, 1] local/b[1] shared/a[2, 1] shared/b[1] mixing[1]"
        );
    }

    #[test]
    fn numbers_come_back_as_the_predictor_they_were_of() {
        let network = network();
        let (v, w) = (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..]);
        let mixed = Predictor::MixedOutputs { alpha: 0.25, v, w };
        for predictor in [Predictor::At(v), mixed] {
            let form = predictor.form();
            let numbers = predictor.clone().into_numbers(form);
            assert_eq!(numbers.len(), form.len(&network));
            assert_eq!(numbers.len(), form.layout(&network).len());
            assert_eq!(form.predictor(&numbers, &network), predictor);
        }
    }

    #[test]
    #[should_panic(expected = "the form of the algorithm's models")]
    fn an_algorithm_serves_what_it_says() {
        Predictor::At(&[1.0]).into_numbers(ModelForm::MixedOutputs);
    }
}
