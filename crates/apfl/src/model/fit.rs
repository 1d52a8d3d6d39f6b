//! Checks that a model fits the data, which otherwise would be a panic in a kernel.

use super::{Loss, Model};
use crate::data::{Schema, Task};
use crate::error::{Error, Result};

/// Checks that a model fits the data.
///
/// # Errors
/// If inputs, outputs or loss of the model do not match the data.
pub(crate) fn require_fit(schema: &Schema, model: &dyn Model) -> Result<()> {
    let width: usize = schema.shape.iter().product();
    if width == 0 {
        return Err(Error::data("the data has no features"));
    }
    if let Some(inputs) = model.network().inputs()
        && inputs != width
    {
        return Err(Error::data(format!(
            "the model expects {inputs} features, but the data has {width}"
        )));
    }
    let loss = model.loss();
    loss.require_task(&schema.task)?;
    let expected = loss.outputs(schema.task.classes());
    if model.outputs() != expected {
        return Err(Error::data(format!(
            "the model has {} outputs, but the data's task with this loss needs {expected}",
            model.outputs()
        )));
    }
    Ok(())
}

impl Loss {
    /// Returns the name as written in a spec.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Softmax => "softmax",
            Loss::Logistic => "logistic",
            Loss::SquaredHinge => "squared-hinge",
            Loss::SquaredError => "squared-error",
        }
    }

    /// Checks that the loss suits the task.
    ///
    /// # Errors
    /// If the loss is for another task.
    pub(crate) fn require_task(self, task: &Task) -> Result<()> {
        let classes = task.classes();
        match (task, self) {
            (Task::Regression, loss) if loss != Loss::SquaredError => Err(Error::Request(format!(
                "model.loss: {} predicts classes, but the data's task is regression; use \
                 squared-error",
                loss.name()
            ))),
            (_, loss @ (Loss::Logistic | Loss::SquaredHinge)) if classes != 2 => {
                Err(Error::Request(format!(
                    "model.loss: {} needs two classes, but the data has {classes}; use \
                     softmax",
                    loss.name()
                )))
            }
            _ => Ok(()),
        }
    }
}
