//! `[model]`: a model before the data's width is known.

use super::cnn::{self, Cnn, Widths};
use super::mlp::{self, Mlp};
use super::{Augment, Extras, Loss, Model};
use crate::data::{Schema, Task};
use crate::error::{Error, Result};
use crate::settings::{
    Custom, Declaration, Kind, Number, Section, Setting, SettingField, Text, Values, Words,
    at_least, registry,
};

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
    Cnn = cnn::KIND;
    Own
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
    /// Known to the caller alone, who brought the model along.
    #[doc(hidden)]
    Own {
        /// Layers with parameters.
        layers: usize,
    },
}

impl Shape {
    /// Whether the outputs are linear in the parameters: one dense layer, however it is
    /// written.
    pub fn is_linear(&self) -> bool {
        match self {
            Shape::Linear => true,
            Shape::Mlp(hidden) => hidden.is_empty(),
            Shape::Cnn { .. } | Shape::Own { .. } => false,
        }
    }

    /// Layers with parameters.
    pub fn layers(&self) -> usize {
        match self {
            Shape::Linear => 1,
            Shape::Mlp(hidden) => hidden.len() + 1,
            Shape::Cnn { .. } => 4,
            Shape::Own { layers } => *layers,
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

const L2: Setting<Number> = Setting::number("l2", 1e-4, at_least(0.0).to(1e6))
    .symbol("λ")
    .help("(l2/2)·‖parameters‖², part of what is minimized")
    .usually("`1e-4` for linear, `0` for mlp and cnn");

const INIT: Setting<Text> = Setting::text("init", || Some("zeros".into()))
    .symbol("w⁰")
    .help("the first model: zeros · uniform (±1/√fan_in) · a .safetensors file")
    .usually("`\"zeros\"` for linear, `\"uniform\"` for mlp and cnn")
    .seldom();

const LOSS: Setting<Words<Option<Loss>>> = Setting::words(
    "loss",
    "auto",
    &[
        ("auto", None, "softmax, or squared-error for numbers"),
        ("softmax", Some(Loss::Softmax), ""),
        ("logistic", Some(Loss::Logistic), "of two classes"),
        ("squared-hinge", Some(Loss::SquaredHinge), "of two classes"),
        ("squared-error", Some(Loss::SquaredError), ""),
    ],
)
.help("what is minimized over the outputs")
.seldom();

impl Architecture {
    /// What every kind of model has in `[model]`.
    pub const SETTINGS: &[&'static dyn Declaration] = &[&L2, &INIT, &LOSS];

    /// A model to be read into.
    pub(crate) const BLANK: Self = Self {
        shape: Shape::Linear,
        l2: 0.0,
        init: String::new(),
        loss: None,
        extras: Extras::NONE,
    };

    /// Writes what the resolved spec has of a model that the caller brought along.
    pub(crate) fn describe(&self, table: &mut toml::Table) {
        let l2 = L2.values.write(&self.l2.to_setting());
        table.insert(L2.key.into(), l2);
        table.insert(LOSS.key.into(), LOSS.values.write(&self.loss));
    }

    /// Returns what a plan knows of a model that the caller brought along.
    pub(crate) fn own(model: &dyn Model, layers: usize) -> Self {
        Self {
            shape: Shape::Own { layers },
            l2: model.l2(),
            init: "own".into(),
            loss: Some(model.loss()),
            extras: Extras::NONE,
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
                "found \"zeros\", from which hidden layers never learn; use uniform",
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
            Shape::Own { .. } => {
                let problem = "model.kind: found \"own\", which is known to the caller alone; build \
                               the run by Run::builder";
                return Err(Error::Request(problem.into()));
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

/// Lists of whole numbers that fit: the widths of layers.
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

/// Reads a list of whole numbers.
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
