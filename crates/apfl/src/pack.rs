//! A value as named arrays: one codec for checkpoints, messages and Python.
//!
//! What an algorithm remembers or sends implements [`Pack`]. Its arrays can then be
//! hashed, counted, written and sent without anyone knowing the type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::params::Params;

/// A borrowed array of a packed value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// Parameters and the like.
    F32(&'a [f32]),
    /// Long sums.
    F64(&'a [f64]),
    /// Counters.
    U64(&'a [u64]),
}

impl View<'_> {
    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            View::F32(a) => 4 * a.len(),
            View::F64(a) => 8 * a.len(),
            View::U64(a) => 8 * a.len(),
        }
    }

    /// Its little-endian bytes, in pieces of bounded size.
    pub fn for_each_piece(&self, mut piece: impl FnMut(&[u8])) {
        fn pieces<T: Copy, const N: usize>(
            a: &[T],
            to_bytes: impl Fn(T) -> [u8; N],
            piece: &mut impl FnMut(&[u8]),
        ) {
            let mut buffer = vec![0; N * 4096.min(a.len())];
            for chunk in a.chunks(4096) {
                let bytes = &mut buffer[..N * chunk.len()];
                for (bytes, x) in bytes.as_chunks_mut().0.iter_mut().zip(chunk) {
                    *bytes = to_bytes(*x);
                }
                piece(bytes);
            }
        }
        match self {
            View::F32(a) => pieces(a, f32::to_le_bytes, &mut piece),
            View::F64(a) => pieces(a, f64::to_le_bytes, &mut piece),
            View::U64(a) => pieces(a, u64::to_le_bytes, &mut piece),
        }
    }
}

/// An owned array of a packed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Parameters and the like.
    F32(Vec<f32>),
    /// Long sums.
    F64(Vec<f64>),
    /// Counters.
    U64(Vec<u64>),
}

/// The arrays of one value, to be taken out by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays(pub BTreeMap<String, Array>);

/// The type of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NumberType {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// Unsigned 64-bit integers.
    U64,
}

impl NumberType {
    /// Bytes of one number.
    pub fn size(self) -> usize {
        match self {
            NumberType::F32 => 4,
            NumberType::F64 | NumberType::U64 => 8,
        }
    }

    /// Its name in a `.safetensors` file.
    pub fn name(self) -> &'static str {
        match self {
            NumberType::F32 => "F32",
            NumberType::F64 => "F64",
            NumberType::U64 => "U64",
        }
    }
}

/// Name, type and length of one array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: NumberType,
    /// The number of its values.
    pub len: usize,
}

impl Field {
    /// Its size in bytes, or as many as can be counted.
    pub fn bytes(&self) -> usize {
        self.kind.size().saturating_mul(self.len)
    }
}

/// The arrays that those bytes hold, one after the other, as [`Pack::to_bytes`] wrote
/// them. `bytes` must be exactly as long as the fields say.
pub fn arrays_of(fields: &[Field], bytes: &[u8]) -> Result<Arrays, PackError> {
    let wanted = fields
        .iter()
        .map(Field::bytes)
        .fold(0, usize::saturating_add);
    if bytes.len() != wanted {
        let problem = format!("{} bytes where {wanted} are expected", bytes.len());
        return Err(wrong("", problem));
    }
    let mut arrays = Arrays::default();
    let mut rest = bytes;
    for field in fields {
        let (own, after) = rest.split_at(field.bytes());
        rest = after;
        let array = match field.kind {
            NumberType::F32 => Array::F32(numbers(own, f32::from_le_bytes)),
            NumberType::F64 => Array::F64(numbers(own, f64::from_le_bytes)),
            NumberType::U64 => Array::U64(numbers(own, u64::from_le_bytes)),
        };
        arrays.0.insert(field.name.clone(), array);
    }
    Ok(arrays)
}

fn numbers<T, const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
    bytes
        .chunks_exact(N)
        .map(|b| number(b.try_into().expect("chunks of N bytes")))
        .collect()
}

/// Why arrays do not make the value that was asked for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("array '{name}': {problem}")]
pub struct PackError {
    /// The array in question.
    pub name: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Arrays {
    fn take(&mut self, name: &str) -> Result<Array, PackError> {
        self.0
            .remove(name)
            .ok_or_else(|| wrong(name, "is missing".into()))
    }

    /// Takes an `f32` array.
    pub fn f32(&mut self, name: &str) -> Result<Params, PackError> {
        match self.take(name)? {
            Array::F32(a) => Ok(a),
            _ => Err(wrong(name, "is not of type f32".into())),
        }
    }

    /// Takes an `f32` array of a given length.
    pub fn f32_of(&mut self, name: &str, len: usize) -> Result<Params, PackError> {
        let a = self.f32(name)?;
        if a.len() == len {
            Ok(a)
        } else {
            Err(wrong(
                name,
                format!("has {} values, {len} expected", a.len()),
            ))
        }
    }

    /// Takes a single `f32`.
    pub fn scalar(&mut self, name: &str) -> Result<f32, PackError> {
        Ok(self.f32_of(name, 1)?[0])
    }

    /// Takes an `f64` array.
    pub fn f64(&mut self, name: &str) -> Result<Vec<f64>, PackError> {
        match self.take(name)? {
            Array::F64(a) => Ok(a),
            _ => Err(wrong(name, "is not of type f64".into())),
        }
    }

    /// Takes an `f64` array of a given length.
    pub fn f64_of(&mut self, name: &str, len: usize) -> Result<Vec<f64>, PackError> {
        let a = self.f64(name)?;
        if a.len() == len {
            Ok(a)
        } else {
            Err(wrong(
                name,
                format!("has {} values, {len} expected", a.len()),
            ))
        }
    }

    /// Takes a `u64` array.
    pub fn u64(&mut self, name: &str) -> Result<Vec<u64>, PackError> {
        match self.take(name)? {
            Array::U64(a) => Ok(a),
            _ => Err(wrong(name, "is not of type u64".into())),
        }
    }

    /// Takes a single `u64`.
    pub fn count(&mut self, name: &str) -> Result<u64, PackError> {
        match self.u64(name)?[..] {
            [count] => Ok(count),
            ref a => Err(wrong(name, format!("has {} values, 1 expected", a.len()))),
        }
    }
}

fn wrong(name: &str, problem: String) -> PackError {
    PackError {
        name: name.into(),
        problem,
    }
}

/// A value that is nothing but named arrays.
pub trait Pack: Sized {
    /// Shows every array, always in the same order and under the same names.
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>));

    /// The value of those arrays.
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError>;

    /// Size of all arrays, in bytes: what it would cost to send.
    fn bytes(&self) -> usize {
        let mut sum = 0;
        self.visit(&mut |_, view| sum += view.bytes());
        sum
    }

    /// Names, types and lengths of the arrays.
    fn fields(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        self.visit(&mut |name, view| {
            let (kind, len) = match view {
                View::F32(a) => (NumberType::F32, a.len()),
                View::F64(a) => (NumberType::F64, a.len()),
                View::U64(a) => (NumberType::U64, a.len()),
            };
            fields.push(Field {
                name: name.to_owned(),
                kind,
                len,
            });
        });
        fields
    }

    /// The little-endian bytes of all arrays, one after the other.
    fn to_bytes(&self) -> Vec<u8> {
        // Room for what a message has behind them, or all would be copied again.
        let mut bytes = Vec::with_capacity(self.bytes() + 256);
        self.visit(&mut |_, view| view.for_each_piece(|piece| bytes.extend_from_slice(piece)));
        bytes
    }

    /// A copy of the arrays.
    fn pack(&self) -> Arrays {
        let mut arrays = Arrays::default();
        self.visit(&mut |name, view| {
            let array = match view {
                View::F32(a) => Array::F32(a.to_vec()),
                View::F64(a) => Array::F64(a.to_vec()),
                View::U64(a) => Array::U64(a.to_vec()),
            };
            arrays.0.insert(name.to_owned(), array);
        });
        arrays
    }
}

/// Nothing to remember, nothing to send.
impl Pack for () {
    fn visit(&self, _: &mut dyn FnMut(&str, View<'_>)) {}
    fn unpack(_: &mut Arrays) -> Result<Self, PackError> {
        Ok(())
    }
}

/// One model, under the name `model`: the array that aggregation rules act on.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOnly {
    /// The parameters.
    pub model: Params,
}

impl Pack for ModelOnly {
    fn visit(&self, see: &mut dyn FnMut(&str, View<'_>)) {
        see("model", View::F32(&self.model));
    }
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError> {
        Ok(Self {
            model: arrays.f32("model")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_from_its_arrays() {
        let there = ModelOnly {
            model: vec![1.0, -2.5],
        };
        assert_eq!(there.bytes(), 8);
        assert_eq!(ModelOnly::unpack(&mut there.pack()).unwrap(), there);
        let mut arrays = arrays_of(&there.fields(), &there.to_bytes()).unwrap();
        assert_eq!(ModelOnly::unpack(&mut arrays).unwrap(), there);
        assert!(arrays_of(&there.fields(), &[0; 7]).is_err());
        let error = ModelOnly::unpack(&mut Arrays::default()).unwrap_err();
        assert_eq!(error.to_string(), "array 'model': is missing");
    }
}
