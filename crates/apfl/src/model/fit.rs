//! Whether a model is one for some data: what would be a panic in a kernel otherwise.

use super::{Loss, Model};
use crate::data::{Schema, Task};
use crate::error::{Error, Result};

/// An error where a model's inputs, outputs or loss are not those of the data.
pub fn require_fit(schema: &Schema, model: &dyn Model) -> Result<()> {
    let width: usize = schema.shape.iter().product();
    if width == 0 {
        return Err(Error::data("the data has no features"));
    }
    if let Some(inputs) = model.network().inputs()
        && inputs != width
    {
        return Err(Error::data(format!(
            "the model takes {inputs} features, the data has {width}"
        )));
    }
    let loss = model.loss();
    loss.require_task(&schema.task)?;
    let wanted = loss.outputs(schema.task.classes());
    if model.outputs() != wanted {
        return Err(Error::data(format!(
            "the model has {} outputs, the data's task needs {wanted} with this loss",
            model.outputs()
        )));
    }
    Ok(())
}

impl Loss {
    /// Its name, as a spec writes it.
    pub fn name(self) -> &'static str {
        match self {
            Loss::Softmax => "softmax",
            Loss::Logistic => "logistic",
            Loss::SquaredHinge => "squared-hinge",
            Loss::SquaredError => "squared-error",
        }
    }

    /// An error where the loss is for another task.
    pub fn require_task(self, task: &Task) -> Result<()> {
        let classes = task.classes();
        match (task, self) {
            (Task::Regression, loss) if loss != Loss::SquaredError => Err(Error::Request(format!(
                "model.loss: {} predicts classes, but the data's task is regression; use \
                 squared-error",
                loss.name()
            ))),
            (_, loss @ (Loss::Logistic | Loss::SquaredHinge)) if classes != 2 => {
                Err(Error::Request(format!(
                    "model.loss: {} tells two classes apart, but the data has {classes}; use \
                     softmax",
                    loss.name()
                )))
            }
            _ => Ok(()),
        }
    }
}
