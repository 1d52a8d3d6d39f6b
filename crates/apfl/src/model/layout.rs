//! Names and shapes of tensors within flat parameters.

use rand::RngExt;

use crate::params::Params;
use crate::rng::Stream;

/// A named tensor within flat parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The name, such as `layer1.weight`.
    pub name: String,
    /// The shape; the last index runs fastest.
    pub shape: Vec<usize>,
    /// The offset of its first value.
    pub offset: usize,
    /// The number of inputs of its units, which scales the initial values.
    pub fan_in: usize,
    /// The initial value of all numbers; `None`: random.
    pub constant: Option<f32>,
}

impl Tensor {
    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether the tensor has no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the range of its values.
    pub fn range(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.len()
    }
}

/// Names and shapes of the tensors within flat parameters.
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

    /// Appends a tensor whose initial values are all `value`.
    pub(crate) fn push_constant(&mut self, name: impl Into<String>, shape: &[usize], value: f32) {
        self.push(name, shape, shape.iter().product());
        self.tensors.last_mut().expect("just pushed").constant = Some(value);
    }

    /// Returns the number of parameters.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |t| t.offset + t.len())
    }

    /// Returns whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns parameters that are all zero.
    pub fn zeros(&self) -> Params {
        vec![0.0; self.len()]
    }

    /// Samples every parameter uniformly in ±1/√fan_in, except those with a constant initial value.
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
