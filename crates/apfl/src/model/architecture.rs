//! `[model]`: a model before the data's width is known.

use super::mlp::Mlp;
use super::{Loss, Model};
use crate::data::{Schema, Task};
use crate::error::{Error, Result};
use crate::settings::{Section, shown};

/// The shape of a model, apart from inputs and outputs.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// One linear layer.
    Logistic,
    /// Hidden layers of these widths.
    Mlp(Vec<usize>),
}

/// A model's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// Its shape.
    pub shape: Shape,
    /// λ
    pub l2: f32,
    /// `zeros`, `uniform`, or a `.safetensors` file.
    pub init: String,
    /// The loss, where it is not the task's usual one.
    pub loss: Option<Loss>,
}

impl Architecture {
    /// Reads `[model]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        #[derive(Clone, Copy, PartialEq)]
        enum Kind {
            Logistic,
            Mlp,
        }
        let kinds = [("logistic", Kind::Logistic), ("mlp", Kind::Mlp)];
        let kind = s.choice("kind", "logistic", &kinds);
        let (l2, init) = match kind {
            Kind::Logistic => (1e-4, "zeros"),
            Kind::Mlp => (0.0, "uniform"),
        };
        let losses = [
            ("auto", None),
            ("softmax", Some(Loss::Softmax)),
            ("logistic", Some(Loss::Logistic)),
            ("squared-hinge", Some(Loss::SquaredHinge)),
            ("squared-error", Some(Loss::SquaredError)),
        ];
        Self {
            shape: match kind {
                Kind::Logistic => Shape::Logistic,
                Kind::Mlp => Shape::Mlp(read_hidden(s)),
            },
            l2: s.float("l2", l2, 0.0..=1e6, "0 to 1e6") as f32,
            init: read_init(s, init),
            loss: s.choice("loss", "auto", &losses),
        }
    }

    /// Its kind, as a spec writes it.
    pub fn kind(&self) -> &'static str {
        match self.shape {
            Shape::Logistic => "logistic",
            Shape::Mlp(_) => "mlp",
        }
    }

    /// The model for data of that schema.
    pub fn build(&self, schema: &Schema) -> Result<Box<dyn Model>> {
        let loss = self.loss_for(&schema.task)?;
        let inputs = schema.shape.iter().product();
        let outputs = loss.outputs(schema.task.classes());
        let hidden: &[usize] = match &self.shape {
            Shape::Logistic => &[],
            Shape::Mlp(hidden) => hidden,
        };
        Ok(Box::new(Mlp::new(inputs, hidden, outputs, loss, self.l2)))
    }

    fn loss_for(&self, task: &Task) -> Result<Loss> {
        let classes = task.classes();
        match (task, self.loss) {
            (Task::Regression, None) => Ok(Loss::SquaredError),
            (Task::Classification { .. }, None) => Ok(Loss::Softmax),
            (Task::Regression, Some(loss)) if loss != Loss::SquaredError => {
                Err(Error::Request(format!(
                    "model.loss: {loss:?} predicts classes, but the data's task is regression; \
                     use squared-error"
                )))
            }
            (_, Some(loss @ (Loss::Logistic | Loss::SquaredHinge))) if classes != 2 => {
                Err(Error::Request(format!(
                    "model.loss: {loss:?} tells two classes apart, but the data has {classes}; \
                     use softmax"
                )))
            }
            (_, Some(loss)) => Ok(loss),
        }
    }
}

fn read_hidden(s: &mut Section<'_>) -> Vec<usize> {
    let default = vec![200, 200];
    let hidden = match s.take("hidden") {
        None => default,
        Some(found) => {
            let width = |v: &toml::Value| {
                let width = v.as_integer().and_then(|w| usize::try_from(w).ok());
                width.filter(|w| (1..=1_000_000).contains(w))
            };
            let widths: Option<Vec<usize>> = found
                .as_array()
                .and_then(|widths| widths.iter().map(width).collect());
            widths.filter(|w| w.len() <= 64).unwrap_or_else(|| {
                let found = shown(&found);
                s.problem(
                    "hidden",
                    format!("found {found}, allowed is a list of at most 64 widths from 1 to 1000000, such as [200, 200]"),
                );
                default
            })
        }
    };
    let widths: Vec<i64> = hidden.iter().map(|w| *w as i64).collect();
    s.resolve("hidden", widths);
    hidden
}

fn read_init(s: &mut Section<'_>, default: &str) -> String {
    let init = s.text("init", default);
    match init.as_str() {
        "zeros" | "uniform" => init,
        path if path.ends_with(".safetensors") => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.into());
            let path = path.display().to_string();
            s.resolve("init", path.clone());
            path
        }
        _ => {
            s.problem(
                "init",
                format!("found {init:?}, allowed is zeros, uniform or a .safetensors file"),
            );
            default.into()
        }
    }
}
