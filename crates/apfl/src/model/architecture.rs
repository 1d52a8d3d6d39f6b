//! `[model]`: a model before the data's width is known.

use super::cnn::{self, Cnn, Widths};
use super::mlp::{self, Mlp};
use super::{Augment, Extras, Loss, Model};
use crate::data::{Schema, Task};
use crate::error::{Error, Result};
use crate::settings::{Kind, Section, registry, shown};

/// What reads a shape's settings, and what a model of that shape has where a spec does not
/// say.
#[derive(Clone, Copy, Debug)]
pub struct ShapeReader {
    /// λ
    pub l2: f64,
    /// `zeros` or `uniform`.
    pub init: &'static str,
    /// Reads the rest of `[model]`.
    pub shape: fn(&mut Section<'_>) -> Shape,
}

/// One kind of model.
pub type ModelKind = Kind<ShapeReader>;

registry! {
    Shape, ModelKind:
    Linear = mlp::LINEAR,
    Mlp = mlp::KIND,
    Cnn = cnn::KIND,
}

/// The shape of a model, apart from inputs and outputs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Shape {
    /// One linear layer.
    Linear,
    /// Hidden layers of these widths.
    Mlp(Vec<usize>),
    /// Two convolutions and a hidden dense layer.
    Cnn {
        /// Their widths.
        widths: Widths,
    },
}

impl Shape {
    /// Whether the outputs are linear in the parameters: one dense layer, however it is
    /// written.
    pub fn is_linear(&self) -> bool {
        match self {
            Shape::Linear => true,
            Shape::Mlp(hidden) => hidden.is_empty(),
            Shape::Cnn { .. } => false,
        }
    }

    /// Layers with parameters.
    pub fn layers(&self) -> usize {
        match self {
            Shape::Linear => 1,
            Shape::Mlp(hidden) => hidden.len() + 1,
            Shape::Cnn { .. } => 4,
        }
    }
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
    /// What stands between its layers, and how it is scored.
    pub extras: Extras,
}

/// What a model may have: 2 GB for every copy of it.
const MOST_PARAMETERS: usize = 500_000_000;

impl Architecture {
    /// Reads `[model]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        s.renamed("kind", "logistic", "linear");
        let ShapeReader { l2, init, shape } = s.pick("kind", Shape::KINDS).read;
        let losses = [
            ("auto", None),
            ("softmax", Some(Loss::Softmax)),
            ("logistic", Some(Loss::Logistic)),
            ("squared-hinge", Some(Loss::SquaredHinge)),
            ("squared-error", Some(Loss::SquaredError)),
        ];
        let shape = shape(s);
        let extras = match shape {
            Shape::Linear => Extras::NONE,
            _ => Extras::read(s),
        };
        let init = read_init(s, init);
        if !shape.is_linear() && init == "zeros" {
            s.problem(
                "init",
                "found \"zeros\", from which hidden layers never learn; use uniform",
            );
        }
        Self {
            shape,
            l2: s.float("l2", l2, 0.0..=1e6, "0 to 1e6") as f32,
            init,
            loss: s.choice("loss", "auto", &losses),
            extras,
        }
    }

    /// Its kind, as a spec writes it.
    pub fn kind(&self) -> &'static str {
        self.shape.kind()
    }

    /// Whether its outputs are linear in its parameters: then its objective is convex, with
    /// μ = l2, and L follows from the data's second moments.
    pub fn is_linear(&self) -> bool {
        self.shape.is_linear()
    }

    /// The model for data of that schema.
    pub fn build(&self, schema: &Schema) -> Result<Box<dyn Model>> {
        let loss = self.loss_for(&schema.task)?;
        let inputs = schema.shape.iter().product();
        let outputs = loss.outputs(schema.task.classes());
        let images = match schema.shape[..] {
            [channels, height, width] => Some([channels, height, width]),
            _ => None,
        };
        if images.is_none() && self.extras.augment != Augment::None {
            return Err(Error::Request(format!(
                "data.augment: the data's examples have the shape {:?} and are no images, which \
                 could be flipped; leave it out",
                schema.shape
            )));
        }
        let dense = |hidden: &[usize]| {
            let dense = Mlp::with(inputs, hidden, outputs, loss, self.l2, self.extras);
            match images {
                Some(shape) => dense.of_images(shape),
                None => dense,
            }
        };
        // A description: none of its parameters is there yet.
        let model: Box<dyn Model> = match &self.shape {
            Shape::Linear => Box::new(dense(&[])),
            Shape::Mlp(hidden) => Box::new(dense(hidden)),
            &Shape::Cnn { widths } => {
                let shape = &schema.shape;
                Box::new(Cnn::new(
                    shape,
                    widths,
                    outputs,
                    loss,
                    self.l2,
                    self.extras,
                )?)
            }
        };
        match model.layout().len() {
            ..=MOST_PARAMETERS => Ok(model),
            parameters => Err(Error::Request(format!(
                "model: {parameters} parameters between {inputs} inputs and {outputs} outputs, \
                 at most {MOST_PARAMETERS} are possible; use fewer features, classes, channels \
                 or hidden units"
            ))),
        }
    }

    fn loss_for(&self, task: &Task) -> Result<Loss> {
        let loss = self.loss.unwrap_or(match task {
            Task::Regression => Loss::SquaredError,
            Task::Classification { .. } => Loss::Softmax,
        });
        loss.require_task(task).map(|()| loss)
    }
}

/// A list of widths that `fits`; `allowed` says so in words.
pub(super) fn read_widths(
    s: &mut Section<'_>,
    key: &str,
    default: &[usize],
    allowed: &str,
    fits: impl Fn(&[usize]) -> bool,
) -> Vec<usize> {
    let widths = match s.take(key) {
        None => default.to_vec(),
        Some(found) => {
            let width = |v: &toml::Value| v.as_integer().and_then(|w| usize::try_from(w).ok());
            let widths: Option<Vec<usize>> = found
                .as_array()
                .and_then(|widths| widths.iter().map(width).collect());
            widths.filter(|w| fits(w)).unwrap_or_else(|| {
                let found = shown(&found);
                s.problem(key, format!("found {found}, allowed is {allowed}"));
                default.to_vec()
            })
        }
    };
    let resolved: Vec<i64> = widths.iter().map(|w| *w as i64).collect();
    s.resolve(key, resolved);
    widths
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
