//! Predictors, and the forms in which clients store their models.
//!
//! To add a form, add a variant to [`ModelForm`] and one to [`Predictor`], with their arms here.
//! Training, run directories and export do not look inside.

use crate::data::Batch;
use crate::model::{Layout, Model, Workspace};
use crate::params::Params;

/// Form of the models that clients serve: what their numbers mean.
///
/// It follows from the algorithm's settings in the spec. The other models of a run (shared,
/// localized, local, alone) are always [`ModelForm::Parameters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelForm {
    /// Parameters of the network.
    #[default]
    Parameters,
    /// Parameters v and w, and α; their outputs are mixed.
    MixedOutputs,
}

impl ModelForm {
    /// Returns the names and shapes of the tensors, for a network with layout `network`. For
    /// mixed outputs, v is `local/…`, w is `shared/…`, and α is `mixing`.
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

    /// Returns how many numbers a model has, for a network with layout `network`.
    pub fn len(self, network: &Layout) -> usize {
        match self {
            ModelForm::Parameters => network.len(),
            ModelForm::MixedOutputs => 2 * network.len() + 1,
        }
    }

    /// Returns the predictor of a model's numbers, laid out as in [`ModelForm::layout`].
    ///
    /// # Panics
    /// If there are not [`ModelForm::len`] numbers.
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

/// A model that computes outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictor<'a> {
    /// Parameters, borrowed.
    At(&'a [f32]),
    /// Parameters, owned.
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
    /// Returns the form of the model.
    pub fn form(&self) -> ModelForm {
        match self {
            Predictor::At(_) | Predictor::Own(_) => ModelForm::Parameters,
            Predictor::MixedOutputs { .. } => ModelForm::MixedOutputs,
        }
    }

    /// Returns the model's numbers, laid out as in [`ModelForm::layout`].
    ///
    /// # Panics
    /// If the predictor has another form, that is, if an algorithm serves a form it does not declare.
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
                let outputs_w = ws.outputs.clone();
                model.forward(v, batch, ws);
                for (out, outputs_w) in ws.outputs.iter_mut().zip(&outputs_w) {
                    *out = alpha * *out + (1.0 - alpha) * outputs_w;
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

    /// The tensor names of run directories and exported files; changing them breaks old files.
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
