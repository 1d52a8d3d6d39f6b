//! A trained model that can be asked: parameters with their model and what its inputs mean.

use std::path::Path;
use std::sync::Arc;

use crate::data::{Examples, Features, Schema, Targets, Task};
use crate::error::{Error, Result};
use crate::files::tensors;
use crate::local_client::{ModelForm, Predictor, Scratch};
use crate::metrics::{Assessment, Tally};
use crate::model::loss::predicted;
use crate::model::{Layout, Model, Workspace, require_fit};
use crate::params::Params;

/// Rows that go through a model at once.
const ROWS: usize = 1024;

/// Which of the models that a run leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhichModel {
    /// The server's.
    Shared,
    /// A client's copy of it after its last local steps.
    Localized,
    /// vᵢ where there is one, else the localized model.
    Local,
    /// The model a client serves: v̄ᵢ in APFL.
    Personal,
    /// What a client trained on its own rows alone, where it did beside the others.
    Alone,
}

impl WhichModel {
    /// The file of a run directory that has it.
    pub(crate) fn file(self) -> &'static str {
        match self {
            WhichModel::Shared => "shared.safetensors",
            WhichModel::Localized => "localized.safetensors",
            WhichModel::Local => "local.safetensors",
            WhichModel::Personal => "personal.safetensors",
            WhichModel::Alone => "alone.safetensors",
        }
    }

    /// Its form, where personal models have the form `personal`.
    pub(crate) fn form(self, personal: ModelForm) -> ModelForm {
        if self == WhichModel::Personal {
            personal
        } else {
            ModelForm::Parameters
        }
    }
}

/// A trained model: parameters with their model and what its inputs mean.
#[derive(Clone)]
pub struct TrainedModel {
    model: Arc<dyn Model>,
    form: ModelForm,
    params: Params,
    schema: Schema,
}

/// What a model says of one row.
#[derive(Clone, Debug, PartialEq)]
pub enum Prediction {
    /// A class.
    Class {
        /// Its index in the schema's list of classes.
        index: usize,
        /// The probability of every class (of ±1 losses: the output itself).
        scores: Vec<f64>,
    },
    /// A number.
    Value(f64),
}

impl Prediction {
    /// The class, where it is one.
    pub fn class(&self) -> Option<usize> {
        match self {
            Prediction::Class { index, .. } => Some(*index),
            Prediction::Value(_) => None,
        }
    }

    /// The number, where it is one.
    pub fn value(&self) -> Option<f64> {
        match self {
            Prediction::Class { .. } => None,
            Prediction::Value(value) => Some(*value),
        }
    }
}

impl TrainedModel {
    /// Returns a model at some parameters.
    ///
    /// # Errors
    /// Where the model is not one for such data, or has another number of parameters.
    pub fn new(model: Arc<dyn Model>, params: Params, schema: Schema) -> Result<Self> {
        Self::in_form(ModelForm::Parameters, model, params, schema)
    }

    /// Returns a model of any form, with its numbers as [`ModelForm::layout`] lays them out.
    ///
    /// # Errors
    /// Where the model is not one for such data, or the form has another number of numbers.
    pub fn in_form(
        form: ModelForm,
        model: Arc<dyn Model>,
        params: Params,
        schema: Schema,
    ) -> Result<Self> {
        require_fit(&schema, &*model)?;
        let wanted = form.len(model.layout());
        if params.len() != wanted {
            return Err(Error::data(format!(
                "the model has {wanted} parameters, found {}",
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

    /// The names and shapes of its parameters, as its form has them.
    pub fn layout(&self) -> Layout {
        self.form.layout(self.model.layout())
    }

    /// Returns what its outputs are asked of.
    pub fn predictor(&self) -> Predictor<'_> {
        self.form.predictor(&self.params, self.model.layout())
    }

    /// Its parameters, one tensor after the other.
    pub fn params(&self) -> &[f32] {
        &self.params
    }

    /// Writes its tensors, named by layer, to a `.safetensors` file.
    pub fn save(&self, path: &Path) -> Result<()> {
        tensors::write_one(path, &self.layout(), &self.params)
    }

    /// The model itself.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// What its inputs and outputs mean.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The name of a class.
    pub fn class_name(&self, index: usize) -> Option<&str> {
        match &self.schema.task {
            Task::Classification { classes } => classes.get(index).map(String::as_str),
            Task::Regression => None,
        }
    }

    /// What the model says of some rows of features, one after the other, prepared as in
    /// training.
    pub fn predict(&self, rows: &[f32]) -> Result<Vec<Prediction>> {
        let width: usize = self.schema.shape.iter().product();
        if width == 0 || !rows.len().is_multiple_of(width) {
            return Err(Error::data(format!(
                "{} numbers are no rows of {width} features",
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
        for start in (0..count).step_by(ROWS) {
            let outputs = predictor.outputs(&*self.model, &examples.batch(start, ROWS), &mut ws);
            for z in outputs.chunks_exact(self.model.outputs()) {
                if let Some(x) = z.iter().find(|x| !x.is_finite()) {
                    return Err(Error::at_place(
                        format!("row {}", predictions.len() + 1),
                        format!("the model's output is {x}: its features are no numbers to it"),
                    ));
                }
                let scores = self.model.loss().present(z, classes);
                predictions.push(match classes {
                    0 => Prediction::Value(match self.schema.label_scale() {
                        Some(scale) => scores[0] * scale.deviation + scale.mean,
                        None => scores[0],
                    }),
                    _ => Prediction::Class {
                        index: predicted(z) as usize,
                        scores,
                    },
                });
            }
        }
        Ok(predictions)
    }
}

impl TrainedModel {
    /// The sums that its scores on labelled examples, prepared as in training, are made of.
    pub fn assess(&self, examples: &Examples) -> Result<(Tally, Assessment)> {
        let predictor = self.predictor();
        let mut scratch = Scratch::default();
        let mut tally = scratch.tally(&*self.model, &predictor, examples);
        if !tally.loss.is_finite() {
            let problem = format!("the model's loss is {} on these rows", tally.loss);
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
