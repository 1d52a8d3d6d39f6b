//! Images as bytes with one class each, shared by the image data sets.

use std::path::Path;
use std::sync::Arc;

use super::assign::AssignedRows;
use super::idx::{Array, Element};
use super::{
    Examples, Features, InMemory, Normalization, Scaling, Schema, SourceFile, Targets, Task,
};
use crate::error::{Error, Result};

/// Represents images of one size, as bytes.
#[derive(Debug)]
pub struct Images {
    /// `[features]`, or `[channels, height, width]`.
    pub shape: Vec<usize>,
    /// The pixels, image by image.
    pub bytes: Vec<u8>,
}

impl Images {
    /// Reads images: (n, height, width), (n, channels, height, width) or (n, features).
    pub fn read(path: &Path) -> Result<(Self, SourceFile)> {
        let (array, file) = Array::read(path)?;
        let images = Self::from_array(array).map_err(|e| Error::in_file(path, e))?;
        Ok((images, file))
    }

    /// Interprets an array as images.
    pub fn from_array(array: Array) -> std::result::Result<Self, String> {
        let Array {
            element,
            shape,
            bytes,
        } = array;
        if element != Element::U8 {
            return Err(format!("has {element:?} values; images need bytes (08)"));
        }
        let shape = match shape[..] {
            [_, features] => vec![features],
            [_, height, width] => vec![1, height, width],
            [_, channels, height, width] => vec![channels, height, width],
            _ => {
                return Err(format!(
                    "has {} dimensions; images have 2 to 4, the first of them their number",
                    shape.len()
                ));
            }
        };
        if bytes.is_empty() {
            return Err("contains no images".into());
        }
        Ok(Self { shape, bytes })
    }

    /// Returns the number of bytes per image.
    pub fn width(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.bytes.len() / self.width()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Reads one integer per image.
pub(super) fn read_column(path: &Path, images: usize) -> Result<(Vec<i64>, SourceFile)> {
    let (array, file) = Array::read(path)?;
    if array.shape != [images] {
        return Err(Error::in_file(
            path,
            format!(
                "has the dimensions {:?}; expected [{images}], one value per image",
                array.shape
            ),
        ));
    }
    let column = array.integers().map_err(|e| Error::in_file(path, e))?;
    Ok((column, file))
}

/// Reads one class per image, each below `classes`.
pub(super) fn read_labels(
    path: &Path,
    images: usize,
    classes: usize,
) -> Result<(Vec<u32>, SourceFile)> {
    let (column, file) = read_column(path, images)?;
    let class = |(row, label): (usize, &i64)| {
        u32::try_from(*label)
            .ok()
            .filter(|class| (*class as usize) < classes)
            .ok_or_else(|| {
                Error::in_file(
                    path,
                    format!("label {row} is {label}; allowed is 0 to {}", classes - 1),
                )
            })
    };
    let labels = column
        .iter()
        .enumerate()
        .map(class)
        .collect::<Result<_>>()?;
    Ok((labels, file))
}

/// Builds a data set from images, labels and clients.
pub(super) fn assemble(
    images: Images,
    labels: Vec<u32>,
    classes: Vec<String>,
    scaling: Scaling,
    assigned: AssignedRows,
    files: Vec<SourceFile>,
) -> InMemory {
    let width = images.width();
    let schema = Schema {
        task: Task::Classification { classes },
        features: (0..width).map(|j| format!("pixel{j}")).collect(),
        shape: images.shape,
        normalization: Normalization::Bytes {
            channels: scaling.channels.clone(),
        },
    };
    let features = Features::Bytes(images.bytes, Arc::new(scaling));
    let all = Examples::new(width, features, Targets::Classes(labels));
    assigned.gather(&all, schema, files)
}
