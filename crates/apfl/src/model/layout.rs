//! Names and shapes within flat parameters.

use rand::RngExt;

use crate::params::Params;
use crate::rng::Stream;

/// One named tensor within flat parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// Its name, such as `layer1.weight`.
    pub name: String,
    /// Its shape; the last index runs fastest.
    pub shape: Vec<usize>,
    /// Where it starts.
    pub offset: usize,
    /// Inputs of a unit it belongs to: the scale of its initial values.
    pub fan_in: usize,
    /// Its initial value, where it has one for all of its numbers.
    pub constant: Option<f32>,
}

impl Tensor {
    /// The number of its values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether it has no value.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where its values lie.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// The names and shapes within flat parameters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    /// The tensors, one after the other.
    pub tensors: Vec<Tensor>,
}

impl Layout {
    /// Appends a tensor.
    pub fn push(&mut self, name: impl Into<String>, shape: &[usize], fan_in: usize) {
        self.tensors.push(Tensor {
            name: name.into(),
            shape: shape.to_vec(),
            offset: self.len(),
            fan_in,
            constant: None,
        });
    }

    /// Appends a tensor whose numbers all start at that value.
    pub fn push_constant(&mut self, name: impl Into<String>, shape: &[usize], value: f32) {
        self.push(name, shape, shape.iter().product());
        self.tensors.last_mut().expect("just pushed").constant = Some(value);
    }

    /// The number of parameters.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |t| t.offset + t.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All parameters zero.
    pub fn zeros(&self) -> Params {
        vec![0.0; self.len()]
    }

    /// Every parameter uniform in ±1/√fan_in, but for those that start at a value of their own.
    pub fn uniform(&self, rng: &mut Stream) -> Params {
        let mut params = Vec::with_capacity(self.len());
        for tensor in &self.tensors {
            if let Some(value) = tensor.constant {
                params.resize(params.len() + tensor.len(), value);
                continue;
            }
            let bound = 1.0 / (tensor.fan_in.max(1) as f64).sqrt();
            params.extend((0..tensor.len()).map(|_| rng.random_range(-bound..bound) as f32));
        }
        params
    }
}
