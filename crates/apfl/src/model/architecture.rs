//! The settings of `[model]`: a model before the data's width is known.

use super::cnn::{self, Cnn, Widths};
use super::mlp::{self, Mlp};
use super::{Augment, Extras, Loss, Model};
use crate::data::{Schema, Task};
use crate::error::{Error, Result};
use crate::settings::{
    Custom, Declaration, Kind, Number, Section, Setting, SettingField, Text, Values, Words,
    at_least, registry,
};

/// Reader of a shape's settings, with the defaults of its model.
#[derive(Clone, Copy, Debug)]
pub struct ShapeReader {
    /// λ
    pub l2: f64,
    /// Initialization: `zeros` or `uniform`.
    pub init: &'static str,
    /// Reads the rest of `[model]`.
    pub shape: fn(&mut Section<'_>) -> Shape,
}

/// Registry entry of a model.
pub type ModelKind = Kind<ShapeReader>;

registry! {
    Shape, ModelKind:
    Linear = mlp::LINEAR,
    Mlp = mlp::KIND,
    Cnn = cnn::KIND;
    Own
}

/// Shape of a model, apart from inputs and outputs.
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
    /// A custom model of the caller.
    #[doc(hidden)]
    Own {
        /// Number of layers with parameters.
        layers: usize,
        /// Whether the outputs are linear in the parameters.
        linear: bool,
    },
}

impl Shape {
    /// Returns whether the outputs are linear in the parameters: one dense layer, of any kind.
    pub fn is_linear(&self) -> bool {
        match self {
            Shape::Linear => true,
            Shape::Mlp(hidden) => hidden.is_empty(),
            Shape::Cnn { .. } => false,
            Shape::Own { linear, .. } => *linear,
        }
    }

    /// Returns the number of layers with parameters.
    pub fn layers(&self) -> usize {
        match self {
            Shape::Linear => 1,
            Shape::Mlp(hidden) => hidden.len() + 1,
            Shape::Cnn { .. } => 4,
            Shape::Own { layers, .. } => *layers,
        }
    }
}

/// Settings of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// Its shape.
    pub shape: Shape,
    /// λ
    pub l2: f32,
    /// `zeros`, `uniform`, or a `.safetensors` file.
    pub init: String,
    /// The loss; `None`: the default of the task.
    pub loss: Option<Loss>,
    /// Normalization, dropout, and how the model is scored.
    pub extras: Extras,
}

/// The largest number of parameters: 2 GB per copy.
const MAX_PARAMETERS: usize = 500_000_000;

const L2: Setting<Number> = Setting::number("l2", 1e-4, at_least(0.0).to(1e6))
    .symbol("λ")
    .help("the ℓ2 term (l2/2)·‖parameters‖² of the objective")
    .usually("`1e-4` for linear, `0` for mlp and cnn");

const INIT: Setting<Text> = Setting::text("init", || Some("zeros".into()))
    .symbol("w⁰")
    .help("the initial model: zeros · uniform (±1/√fan_in) · a .safetensors file")
    .usually("`\"zeros\"` for linear, `\"uniform\"` for mlp and cnn")
    .seldom();

const LOSS: Setting<Words<Option<Loss>>> = Setting::words(
    "loss",
    "auto",
    &[
        ("auto", None, "softmax, or squared-error for regression"),
        ("softmax", Some(Loss::Softmax), ""),
        ("logistic", Some(Loss::Logistic), "two classes"),
        ("squared-hinge", Some(Loss::SquaredHinge), "two classes"),
        ("squared-error", Some(Loss::SquaredError), ""),
    ],
)
.help("the loss over the outputs")
.seldom();

impl Architecture {
    /// Settings that every kind of model has in `[model]`.
    pub const SETTINGS: &[&'static dyn Declaration] = &[&L2, &INIT, &LOSS];

    /// A blank model to read into.
    pub(crate) const BLANK: Self = Self {
        shape: Shape::Linear,
        l2: 0.0,
        init: String::new(),
        loss: None,
        extras: Extras::NONE,
    };

    /// Writes a custom model's entries of the resolved spec.
    pub(crate) fn describe(&self, table: &mut toml::Table) {
        let l2 = L2.values.write(&self.l2.to_setting());
        table.insert(L2.key.into(), l2);
        table.insert(LOSS.key.into(), LOSS.values.write(&self.loss));
    }

    /// Returns the settings of a custom model.
    pub(crate) fn own(model: &dyn Model, layers: usize) -> Self {
        Self {
            shape: Shape::Own {
                layers,
                linear: model.network().is_linear(),
            },
            l2: model.l2(),
            init: "own".into(),
            loss: Some(model.loss()),
            extras: model.network().extras(),
        }
    }

    /// Reads `[model]`.
    pub fn read(s: &mut Section<'_>) -> Self {
        s.accept_alias("kind", "logistic", "linear");
        let ShapeReader { l2, init, shape } = s.pick("kind", Shape::KINDS).value;
        let shape = shape(s);
        let extras = match shape {
            Shape::Linear => Extras::NONE,
            _ => Extras::read(s),
        };
        let init = read_init(s, init);
        if !shape.is_linear() && init == "zeros" {
            s.problem(
                "init",
                "found \"zeros\", with which hidden layers cannot learn; use uniform",
            );
        }
        Self {
            shape,
            l2: s.get_or(&L2, l2) as f32,
            init,
            loss: s.get(&LOSS),
            extras,
        }
    }

    /// Returns the kind as written in a spec.
    pub fn kind(&self) -> &'static str {
        self.shape.kind()
    }

    /// Returns whether the outputs are linear in the parameters. The objective is then convex
    /// with μ = l2, and L follows from the data's second moments.
    pub fn is_linear(&self) -> bool {
        self.shape.is_linear()
    }

    /// Builds the model for data with this schema.
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
                "data.augment: expected images, found examples of shape {:?}; remove the key",
                schema.shape
            )));
        }
        let dense = |hidden: &[usize]| {
            let dense = Mlp::with_extras(inputs, hidden, outputs, loss, self.l2, self.extras);
            match images {
                Some(shape) => dense.for_images(shape),
                None => dense,
            }
        };
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
            Shape::Own { .. } => {
                let problem = "model.kind: found \"own\", which a spec cannot build; build the run with \
                                               Run::builder";
                return Err(Error::Request(problem.into()));
            }
        };
        match model.layout().len() {
            ..=MAX_PARAMETERS => Ok(model),
            parameters => Err(Error::Request(format!(
                "model: found {parameters} parameters for {inputs} inputs and {outputs} outputs, \
                 allowed are at most {MAX_PARAMETERS}; use fewer features, classes, channels \
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

/// Returns a setting of layer widths.
pub(super) const fn widths(
    default: fn() -> Option<Vec<usize>>,
    allowed: &'static str,
    parse: fn(&toml::Value) -> Option<Vec<usize>>,
) -> Custom<Vec<usize>> {
    Custom {
        name: "list of whole numbers",
        default,
        allowed,
        parse,
        write: |widths| {
            let widths: Vec<i64> = widths.iter().map(|w| *w as i64).collect();
            widths.into()
        },
    }
}

/// Parses a list of whole numbers.
pub(super) fn whole_numbers(found: &toml::Value) -> Option<Vec<usize>> {
    let whole = |v: &toml::Value| v.as_integer().and_then(|w| usize::try_from(w).ok());
    found.as_array()?.iter().map(whole).collect()
}

fn read_init(s: &mut Section<'_>, default: &str) -> String {
    let init = s.get_or(&INIT, default.into());
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
