//! A value as named arrays: one codec for checkpoints, messages and Python.
//!
//! The states and messages of an algorithm implement [`Pack`], so that their arrays can be hashed,
//! counted, written and sent without knowledge of the type.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::params::Params;

/// Represents a borrowed array of a packed value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum View<'a> {
    /// Parameters and similar vectors.
    F32(&'a [f32]),
    /// Long sums.
    F64(&'a [f64]),
    /// Counters.
    U64(&'a [u64]),
}

impl View<'_> {
    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            View::F32(a) => 4 * a.len(),
            View::F64(a) => 8 * a.len(),
            View::U64(a) => 8 * a.len(),
        }
    }

    /// Visits the little-endian bytes in chunks of bounded size.
    pub(crate) fn for_each_chunk(&self, mut visit_chunk: impl FnMut(&[u8])) {
        fn visit_chunks<T: Copy, const N: usize>(
            a: &[T],
            to_bytes: impl Fn(T) -> [u8; N],
            visit_chunk: &mut impl FnMut(&[u8]),
        ) {
            let mut buffer = vec![0; N * 4096.min(a.len())];
            for chunk in a.chunks(4096) {
                let bytes = &mut buffer[..N * chunk.len()];
                for (bytes, x) in bytes.as_chunks_mut().0.iter_mut().zip(chunk) {
                    *bytes = to_bytes(*x);
                }
                visit_chunk(bytes);
            }
        }
        match self {
            View::F32(a) => visit_chunks(a, f32::to_le_bytes, &mut visit_chunk),
            View::F64(a) => visit_chunks(a, f64::to_le_bytes, &mut visit_chunk),
            View::U64(a) => visit_chunks(a, u64::to_le_bytes, &mut visit_chunk),
        }
    }
}

/// Represents an owned array of a packed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Array {
    /// Parameters and similar vectors.
    F32(Vec<f32>),
    /// Long sums.
    F64(Vec<f64>),
    /// Counters.
    U64(Vec<u64>),
}

/// Represents the arrays of one value by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrays(pub BTreeMap<String, Array>);

/// Represents the type of an array's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub enum NumberType {
    /// 32-bit floats.
    F32,
    /// 64-bit floats.
    F64,
    /// Unsigned 64-bit integers.
    U64,
}

impl NumberType {
    /// Returns the number of bytes of one number.
    pub fn size(self) -> usize {
        match self {
            NumberType::F32 => 4,
            NumberType::F64 | NumberType::U64 => 8,
        }
    }

    /// Returns its name in a `.safetensors` file.
    pub fn name(self) -> &'static str {
        match self {
            NumberType::F32 => "F32",
            NumberType::F64 => "F64",
            NumberType::U64 => "U64",
        }
    }
}

/// Represents name, type and length of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[doc(hidden)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub kind: NumberType,
    /// The number of its values.
    pub len: usize,
}

impl Field {
    /// Returns the size in bytes, saturating.
    pub fn bytes(&self) -> usize {
        self.kind.size().saturating_mul(self.len)
    }
}

/// Reads arrays from the bytes that [`Pack::to_bytes`] wrote.
///
/// # Errors
/// `bytes` has another length than the fields need.
#[doc(hidden)]
pub fn arrays_from_bytes(fields: &[Field], bytes: &[u8]) -> Result<Arrays, PackError> {
    let expected = fields
        .iter()
        .map(Field::bytes)
        .fold(0, usize::saturating_add);
    if bytes.len() != expected {
        let problem = format!("expected {expected} bytes, found {}", bytes.len());
        return Err(pack_error("", problem));
    }
    let mut arrays = Arrays::default();
    let mut rest = bytes;
    for field in fields {
        let (array_bytes, after) = rest.split_at(field.bytes());
        rest = after;
        let array = match field.kind {
            NumberType::F32 => Array::F32(numbers(array_bytes, f32::from_le_bytes)),
            NumberType::F64 => Array::F64(numbers(array_bytes, f64::from_le_bytes)),
            NumberType::U64 => Array::U64(numbers(array_bytes, u64::from_le_bytes)),
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

/// Represents arrays that do not form the expected value.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("array '{name}': {problem}")]
pub struct PackError {
    /// The array.
    pub name: String,
    /// The problem.
    pub problem: String,
}

impl Arrays {
    fn take(&mut self, name: &str) -> Result<Array, PackError> {
        self.0
            .remove(name)
            .ok_or_else(|| pack_error(name, "is missing".into()))
    }

    /// Takes an `f32` array.
    pub fn f32(&mut self, name: &str) -> Result<Params, PackError> {
        match self.take(name)? {
            Array::F32(a) => Ok(a),
            _ => Err(pack_error(name, "is not of type f32".into())),
        }
    }

    /// Takes a single `f32`.
    pub fn scalar(&mut self, name: &str) -> Result<f32, PackError> {
        f32::unpack_as(name, self)
    }

    /// Takes an `f64` array.
    pub fn f64(&mut self, name: &str) -> Result<Vec<f64>, PackError> {
        match self.take(name)? {
            Array::F64(a) => Ok(a),
            _ => Err(pack_error(name, "is not of type f64".into())),
        }
    }

    /// Takes a `u64` array.
    pub fn u64(&mut self, name: &str) -> Result<Vec<u64>, PackError> {
        match self.take(name)? {
            Array::U64(a) => Ok(a),
            _ => Err(pack_error(name, "is not of type u64".into())),
        }
    }

    /// Takes a single `u64`.
    pub fn count(&mut self, name: &str) -> Result<u64, PackError> {
        u64::unpack_as(name, self)
    }
}

fn pack_error(name: &str, problem: String) -> PackError {
    PackError {
        name: name.into(),
        problem,
    }
}

/// Represents a value that consists of named arrays.
pub trait Pack: Sized {
    /// Visits every array, always in the same order and with the same names.
    fn visit(&self, visitor: &mut dyn FnMut(&str, View<'_>));

    /// Builds the value from its arrays.
    fn unpack(arrays: &mut Arrays) -> Result<Self, PackError>;

    /// Returns the size of all arrays in bytes.
    fn bytes(&self) -> usize {
        let mut sum = 0;
        self.visit(&mut |_, view| sum += view.bytes());
        sum
    }

    /// Returns names, types and lengths of the arrays.
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

    /// Returns the little-endian bytes of all arrays, in order.
    fn to_bytes(&self) -> Vec<u8> {
        // Spare capacity for the tail of a message avoids a copy.
        let mut bytes = Vec::with_capacity(self.bytes() + 256);
        self.visit(&mut |_, view| view.for_each_chunk(|chunk| bytes.extend_from_slice(chunk)));
        bytes
    }

    /// Copies the arrays.
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

/// The value without arrays.
impl Pack for () {
    fn visit(&self, _: &mut dyn FnMut(&str, View<'_>)) {}
    fn unpack(_: &mut Arrays) -> Result<Self, PackError> {
        Ok(())
    }
}

/// Represents a field of a packed struct: one array with the field's name, or the arrays of a
/// packed value with their own names.
pub trait PackField: Sized {
    /// Visits the arrays of the field.
    fn visit_as(&self, name: &str, visitor: &mut dyn FnMut(&str, View<'_>));

    /// Builds the field from its arrays.
    fn unpack_as(name: &str, arrays: &mut Arrays) -> Result<Self, PackError>;
}

impl<T: Pack> PackField for T {
    fn visit_as(&self, _: &str, visitor: &mut dyn FnMut(&str, View<'_>)) {
        self.visit(visitor);
    }
    fn unpack_as(_: &str, arrays: &mut Arrays) -> Result<Self, PackError> {
        Self::unpack(arrays)
    }
}

/// Implements [`PackField`] for arrays of numbers and for single numbers as arrays of length 1.
macro_rules! pack_fields {
    ($($number:ident: $view:ident, $take:ident;)+) => {$(
        impl PackField for Vec<$number> {
            fn visit_as(&self, name: &str, visitor: &mut dyn FnMut(&str, View<'_>)) {
                visitor(name, View::$view(self));
            }
            fn unpack_as(name: &str, arrays: &mut Arrays) -> Result<Self, PackError> {
                arrays.$take(name)
            }
        }

        impl PackField for $number {
            fn visit_as(&self, name: &str, visitor: &mut dyn FnMut(&str, View<'_>)) {
                visitor(name, View::$view(std::slice::from_ref(self)));
            }
            fn unpack_as(name: &str, arrays: &mut Arrays) -> Result<Self, PackError> {
                let values = arrays.$take(name)?;
                same_length(name, values.len(), 1)?;
                Ok(values[0])
            }
        }
    )+};
}

pack_fields! {
    f32: F32, f32;
    f64: F64, f64;
    u64: U64, u64;
}

/// Checks the length of an array.
#[doc(hidden)]
pub fn same_length(name: &str, found: usize, expected: usize) -> Result<(), PackError> {
    if found == expected {
        return Ok(());
    }
    let problem = format!("has {found} values; expected {expected}");
    Err(pack_error(name, problem))
}

/// Implements [`Pack`](crate::pack::Pack) for a struct whose fields are numbers, vectors of numbers
/// or packed values. The list names every field once, in the order of the arrays; `like` requires
/// the length of another field.
///
/// ```
/// use apfl::pack::Pack;
///
/// struct Server {
///     w: Vec<f32>,
///     moved: Vec<f32>,
///     round: u64,
/// }
/// apfl::pack!(Server { w, moved like w, round });
///
/// let server = Server { w: vec![0.5, 1.0], moved: vec![0.0, 0.25], round: 3 };
/// let again = Server::unpack(&mut server.pack())?;
/// assert_eq!((again.moved, again.round), (server.moved, 3));
/// # Ok::<(), apfl::pack::PackError>(())
/// ```
#[macro_export]
macro_rules! pack {
    ($type:ident { $($field:ident $(like $($other:ident).+)?),+ $(,)? }) => {
        impl $crate::pack::Pack for $type {
            fn visit(&self, visitor: &mut dyn FnMut(&str, $crate::pack::View<'_>)) {
                $($crate::pack::PackField::visit_as(&self.$field, stringify!($field), visitor);)+
            }
            fn unpack(
                arrays: &mut $crate::pack::Arrays,
            ) -> ::std::result::Result<Self, $crate::pack::PackError> {
                $(let $field = $crate::pack::PackField::unpack_as(stringify!($field), arrays)?;)+
                let value = Self { $($field),+ };
                $($(
                    let expected = value.$($other).+.len();
                    $crate::pack::same_length(stringify!($field), value.$field.len(), expected)?;
                )?)+
                Ok(value)
            }
        }
    };
}

/// Represents one model as the array `model`, which aggregators act on.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelOnly {
    /// The parameters.
    pub model: Params,
}

pack!(ModelOnly { model });

/// Represents a client's own model as the array `v`: the state of a client that keeps nothing else.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnModel {
    /// vᵢ
    pub v: Params,
}

pack!(OwnModel { v });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_comes_back_from_its_arrays() {
        let value = ModelOnly {
            model: vec![1.0, -2.5],
        };
        assert_eq!(value.bytes(), 8);
        assert_eq!(ModelOnly::unpack(&mut value.pack()).unwrap(), value);
        let mut arrays = arrays_from_bytes(&value.fields(), &value.to_bytes()).unwrap();
        assert_eq!(ModelOnly::unpack(&mut arrays).unwrap(), value);
        assert!(arrays_from_bytes(&value.fields(), &[0; 7]).is_err());
        let error = ModelOnly::unpack(&mut Arrays::default()).unwrap_err();
        assert_eq!(error.to_string(), "array 'model': is missing");
    }
}
