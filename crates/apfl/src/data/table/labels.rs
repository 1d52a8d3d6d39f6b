//! Limits on the labels of a table, a survey and an agreement.

use super::Table;
use crate::data::classes::{MAX_LABEL_BYTES, excess};

impl Table {
    /// Returns why these different labels cannot be the classes, if so: there are too many, or one
    /// is too long.
    pub(crate) fn label_problem<'a>(
        &self,
        labels: impl ExactSizeIterator<Item = &'a String>,
    ) -> Option<String> {
        let column = &self.label;
        if let Some(excess) = excess(labels.len(), self.max_classes) {
            return Some(format!(
                "column '{column}': {excess}; if the label is a number to predict, set \
                 data.task = \"regression\""
            ));
        }
        let longest = labels.max_by_key(|label| label.len())?;
        (longest.len() > MAX_LABEL_BYTES).then(|| {
            let start: String = longest.chars().take(20).map(printable).collect();
            format!(
                "column '{column}': the label '{start}…' has {} bytes, at most {MAX_LABEL_BYTES} \
                 are allowed; shorten it, or rename it with data.label_map",
                longest.len()
            )
        })
    }
}

/// Replaces control characters, which would change a terminal.
fn printable(c: char) -> char {
    if c.is_control() { '\u{fffd}' } else { c }
}
