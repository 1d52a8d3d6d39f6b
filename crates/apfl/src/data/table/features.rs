//! New rows for a trained model.

use std::path::Path;

use super::records::listed;
use crate::data::rows::{RowReader, open};
use crate::data::{Normalization, Schema};
use crate::error::{Error, Result};

/// Reads the feature columns of a new table, in the schema's order and scale; other
/// columns are ignored.
pub fn read_features(path: &Path, schema: &Schema) -> Result<Vec<f32>> {
    features_of(&mut *open(path)?, schema).map_err(|message| Error::in_file(path, message))
}

/// The same of rows that are read already; what is wrong is said in one sentence.
pub fn features_of(
    rows: &mut dyn RowReader,
    schema: &Schema,
) -> std::result::Result<Vec<f32>, String> {
    let header = rows.header().to_vec();
    let mut columns = Vec::with_capacity(schema.features.len());
    for name in &schema.features {
        let mut named = (0..header.len()).filter(|k| header[*k] == *name);
        match (named.next(), named.next()) {
            (Some(k), None) => columns.push(k),
            (Some(a), Some(b)) => {
                let (a, b) = (a + 1, b + 1);
                return Err(format!("columns {a} and {b} are both named '{name}'"));
            }
            (None, _) => {
                return Err(format!(
                    "there is no column '{name}', which the model was trained on; \
                     the columns are {}",
                    listed(&header)
                ));
            }
        }
    }
    let mut x = Vec::new();
    while rows.advance()? {
        for (j, k) in columns.iter().enumerate() {
            let raw = rows.cell(*k).number().map_err(|found| {
                let (unit, number) = (rows.unit(), rows.number());
                format!("{unit} {number}, column '{}': {found}", header[*k])
            })?;
            x.push(match &schema.normalization {
                Normalization::None => raw as f32,
                Normalization::Standardized { mean, deviation } => {
                    ((raw - mean[j]) / deviation[j]) as f32
                }
                Normalization::Bytes { channels } => {
                    let (scale, shift) = channels[j * channels.len() / columns.len()];
                    raw as f32 * scale + shift
                }
            });
        }
    }
    Ok(x)
}
