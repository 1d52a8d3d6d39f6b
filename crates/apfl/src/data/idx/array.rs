//! IDX, the format of MNIST: a magic number, the dimensions, the values.
//!
//! Bytes 0 and 1 are zero, byte 2 is the type of the values, byte 3 the number of
//! dimensions; then every dimension as a big-endian u32, then the values.

use std::path::Path;

use crate::data::{SourceFile, folder};
use crate::error::{Error, Result};

/// Represents the type of an array's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// 0x08
    U8,
    /// 0x09
    I8,
    /// 0x0B
    I16,
    /// 0x0C
    I32,
    /// 0x0D
    F32,
    /// 0x0E
    F64,
}

impl Element {
    fn of(code: u8) -> Option<Self> {
        Some(match code {
            0x08 => Element::U8,
            0x09 => Element::I8,
            0x0b => Element::I16,
            0x0c => Element::I32,
            0x0d => Element::F32,
            0x0e => Element::F64,
            _ => return None,
        })
    }

    /// Returns the number of bytes of one value.
    pub fn size(self) -> usize {
        match self {
            Element::U8 | Element::I8 => 1,
            Element::I16 => 2,
            Element::I32 | Element::F32 => 4,
            Element::F64 => 8,
        }
    }
}

/// Represents an array as stored in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// The type of its values.
    pub element: Element,
    /// Its dimensions, in row-major order.
    pub shape: Vec<usize>,
    /// Its values, big-endian.
    pub bytes: Vec<u8>,
}

impl Array {
    /// Parses an array, plain or gzipped. The header is checked against the actual size before
    /// memory is allocated.
    pub fn parse(bytes: &[u8]) -> std::result::Result<Self, String> {
        if !folder::is_gzip(bytes) {
            let (element, shape, start, size) = header(bytes)?;
            let found = (bytes.len() - start) as u64;
            if size != found {
                return Err(wrong_size(&shape, size, found));
            }
            return Ok(Self {
                element,
                shape,
                bytes: bytes[start..].to_vec(),
            });
        }
        // 4 bytes and up to 255 dimensions: enough for any header.
        let head = folder::inflate(bytes, 4 + 4 * 255)?;
        let (element, shape, start, size) = header(&head)?;
        let most = folder::MAX_DEFLATE_RATIO * bytes.len() as u64;
        if size > most {
            return Err(wrong_size(&shape, size, most));
        }
        let mut values = folder::inflate(bytes, start as u64 + size + 1)?;
        let found = (values.len() - start) as u64;
        if size != found {
            return Err(wrong_size(&shape, size, found));
        }
        values.drain(..start);
        Ok(Self {
            element,
            shape,
            bytes: values,
        })
    }

    /// Reads a file and its checksum.
    pub fn read(path: &Path) -> Result<(Self, SourceFile)> {
        let (bytes, file) = folder::read(path)?;
        let array = Self::parse(&bytes).map_err(|e| Error::in_file(path, e))?;
        Ok((array, file))
    }

    /// Returns the values as integers.
    ///
    /// # Errors
    /// The values are floating-point numbers.
    pub fn integers(&self) -> std::result::Result<Vec<i64>, String> {
        let values = self.bytes.chunks_exact(self.element.size());
        let word = |b: &[u8]| b.iter().fold(0i64, |sum, byte| sum << 8 | i64::from(*byte));
        Ok(match self.element {
            Element::U8 => values.map(word).collect(),
            Element::I8 => values.map(|b| i64::from(word(b) as i8)).collect(),
            Element::I16 => values.map(|b| i64::from(word(b) as i16)).collect(),
            Element::I32 => values.map(|b| i64::from(word(b) as i32)).collect(),
            Element::F32 | Element::F64 => {
                return Err(format!("has {:?} values; expected integers", self.element));
            }
        })
    }
}

type Header = (Element, Vec<usize>, usize, u64);

fn header(bytes: &[u8]) -> std::result::Result<Header, String> {
    let &[zero, also_zero, code, dimensions, ..] = bytes else {
        return Err(format!(
            "has {} bytes, too few for an IDX file",
            bytes.len()
        ));
    };
    let element = Element::of(code).filter(|_| (zero, also_zero) == (0, 0));
    let Some(element) = element.filter(|_| dimensions > 0) else {
        return Err(format!(
            "is not an IDX file: it begins with the bytes {zero:02x} {also_zero:02x} {code:02x} \
             {dimensions:02x}; expected 00 00, a type from 08 to 0e and the number of dimensions"
        ));
    };
    let start = 4 + 4 * usize::from(dimensions);
    let Some(lengths) = bytes.get(4..start) else {
        return Err(format!(
            "ends within its header, which has {dimensions} dimensions"
        ));
    };
    let shape: Vec<usize> = lengths
        .chunks_exact(4)
        .map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]]) as usize)
        .collect();
    let size = shape
        .iter()
        .try_fold(element.size() as u64, |size, d| size.checked_mul(*d as u64))
        .ok_or_else(|| format!("has dimensions whose product overflows: {shape:?}"))?;
    Ok((element, shape, start, size))
}

fn wrong_size(shape: &[usize], size: u64, found: u64) -> String {
    format!(
        "does not match its header: dimensions {shape:?} need {size} bytes of values, found \
         {}{found}",
        if found > size { "more: " } else { "at most " }
    )
}
