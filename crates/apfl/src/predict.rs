//! Trained models: parameters with their network and the schema of their inputs.

use std::path::Path;
use std::sync::Arc;

use crate::data::{Examples, Features, Schema, Targets, Task};
use crate::error::{Error, Result};
use crate::files::tensors;
use crate::local_client::{ModelForm, Predictor, Scratch};
use crate::metrics::{Assessment, Tally};
use crate::model::loss::predicted_class;
use crate::model::{Layout, Model, Workspace, require_fit};
use crate::params::Params;

/// Batch size of prediction.
const BATCH_ROWS: usize = 1024;

/// Names one of the models that a run produces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhichModel {
    /// The server's model.
    Shared,
    /// A client's copy of the shared model after its last local steps.
    Localized,
    /// vᵢ if the algorithm has one, else the localized model.
    Local,
    /// The model a client serves: v̄ᵢ in APFL.
    Personal,
    /// The model trained on the client's own rows alone, if the run trained one.
    Alone,
}

impl WhichModel {
    /// Returns the name of the model's file in a run directory.
    pub(crate) fn file(self) -> &'static str {
        match self {
            WhichModel::Shared => "shared.safetensors",
            WhichModel::Localized => "localized.safetensors",
            WhichModel::Local => "local.safetensors",
            WhichModel::Personal => "personal.safetensors",
            WhichModel::Alone => "alone.safetensors",
        }
    }

    /// Returns the model's form, given the form of personal models.
    pub(crate) fn form(self, personal: ModelForm) -> ModelForm {
        if self == WhichModel::Personal {
            personal
        } else {
            ModelForm::Parameters
        }
    }
}

/// A trained model: parameters with their network and the schema of their inputs.
#[derive(Clone)]
pub struct TrainedModel {
    model: Arc<dyn Model>,
    form: ModelForm,
    params: Params,
    schema: Schema,
}

/// A model's prediction for one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// A class.
    Class {
        /// Its index in the schema's list of classes.
        index: usize,
        /// The probability of every class; for ±1 losses the output itself.
        scores: Vec<f64>,
    },
    /// A number.
    Value(f64),
}

impl Prediction {
    /// Returns the class; `None` for regression.
    pub fn class(&self) -> Option<usize> {
        match self {
            Prediction::Class { index, .. } => Some(*index),
            Prediction::Value(_) => None,
        }
    }

    /// Returns the number; `None` for classification.
    pub fn value(&self) -> Option<f64> {
        match self {
            Prediction::Class { .. } => None,
            Prediction::Value(value) => Some(*value),
        }
    }
}

impl TrainedModel {
    /// Creates a trained model from parameters.
    ///
    /// # Errors
    /// If the model does not fit the schema or the number of parameters differs.
    pub fn new(model: Arc<dyn Model>, params: Params, schema: Schema) -> Result<Self> {
        Self::in_form(ModelForm::Parameters, model, params, schema)
    }

    /// Creates a trained model of any form from its numbers, laid out as in [`ModelForm::layout`].
    ///
    /// # Errors
    /// If the model does not fit the schema or the number of numbers differs.
    pub fn in_form(
        form: ModelForm,
        model: Arc<dyn Model>,
        params: Params,
        schema: Schema,
    ) -> Result<Self> {
        require_fit(&schema, &*model)?;
        let expected = form.len(model.layout());
        if params.len() != expected {
            return Err(Error::data(format!(
                "the model has {expected} parameters, found {}",
                params.len()
            )));
        }
        Ok(Self {
            model,
            form,
            params,
            schema,
        })
    }

    /// Returns the names and shapes of the tensors, as the form lays them out.
    pub fn layout(&self) -> Layout {
        self.form.layout(self.model.layout())
    }

    /// Returns the predictor that computes the outputs.
    pub fn predictor(&self) -> Predictor<'_> {
        self.form.predictor(&self.params, self.model.layout())
    }

    /// Returns the parameters, one tensor after the other.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Writes the tensors, named by layer, to a `.safetensors` file.
    pub fn save(&self, path: &Path) -> Result<()> {
        tensors::write_one(path, &self.layout(), &self.params)
    }

    /// Returns the network with its loss.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// Returns the schema of inputs and outputs.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the name of a class.
    pub fn class_name(&self, index: usize) -> Option<&str> {
        match &self.schema.task {
            Task::Classification { classes } => classes.get(index).map(String::as_str),
            Task::Regression => None,
        }
    }

    /// Returns the predictions for rows of features, one after the other, prepared as in training.
    ///
    /// # Errors
    /// If the numbers are not whole rows or an output is not finite.
    pub fn predict(&self, rows: &[f32]) -> Result<Vec<Prediction>> {
        let width: usize = self.schema.shape.iter().product();
        if width == 0 || !rows.len().is_multiple_of(width) {
            return Err(Error::data(format!(
                "expected rows of {width} features, found {} numbers",
                rows.len()
            )));
        }
        let count = rows.len() / width;
        let targets = Targets::Values(vec![0.0; count]);
        let examples = Examples::new(width, Features::Floats(rows.to_vec()), targets);
        let predictor = self.predictor();
        let classes = self.schema.task.classes();
        let mut ws = Workspace::default();
        let mut predictions = Vec::with_capacity(count);
        for start in (0..count).step_by(BATCH_ROWS) {
            let outputs =
                predictor.outputs(&*self.model, &examples.batch(start, BATCH_ROWS), &mut ws);
            for z in outputs.chunks_exact(self.model.outputs()) {
                if let Some(x) = z.iter().find(|x| !x.is_finite()) {
                    return Err(Error::at_place(
                        format!("row {}", predictions.len() + 1),
                        format!(
                            "the model's output is {x}; check the row for extreme or missing feature values"
                        ),
                    ));
                }
                let scores = self.model.loss().display_scores(z, classes);
                predictions.push(match classes {
                    0 => Prediction::Value(match self.schema.label_scale() {
                        Some(scale) => scores[0] * scale.deviation + scale.mean,
                        None => scores[0],
                    }),
                    _ => Prediction::Class {
                        index: predicted_class(z) as usize,
                        scores,
                    },
                });
            }
        }
        Ok(predictions)
    }
}

impl TrainedModel {
    /// Returns the sums of its scores on labelled examples, prepared as in training.
    pub fn assess(&self, examples: &Examples) -> Result<(Tally, Assessment)> {
        let predictor = self.predictor();
        let mut scratch = Scratch::default();
        let mut tally = scratch.tally(&*self.model, &predictor, examples);
        if !tally.loss.is_finite() {
            let problem = format!(
                "the model's loss on these rows is {}; check them for extreme values",
                tally.loss
            );
            return Err(Error::data(problem));
        }
        let unit = self.schema.label_scale().map_or(1.0, |s| s.deviation);
        tally.squared_error *= unit * unit;
        let classes = self.schema.task.classes();
        let assessed = scratch.assess(&*self.model, &predictor, examples, classes, 0.0);
        Ok((tally, assessed))
    }
}

impl std::fmt::Debug for TrainedModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TrainedModel")
            .field("parameters", &self.params.len())
            .field("features", &self.schema.features)
            .finish_non_exhaustive()
    }
}
