//! The scales of numeric columns.

use std::collections::BTreeMap;

use crate::moments::Moments;

/// Returns a warning if the scales of varying columns differ by more than a factor of 100.
pub(super) fn scale_warning(columns: &BTreeMap<&str, Moments>) -> Option<String> {
    let deviation = |m: &Moments| (m.m2 / m.n.max(1) as f64).sqrt();
    let scale = |m: &Moments| m.mean.abs().max(deviation(m));
    let varying = || columns.iter().filter(|(_, m)| deviation(m) > 0.0);
    let (largest, high) = varying().max_by(|a, b| scale(a.1).total_cmp(&scale(b.1)))?;
    let (smallest, low) = varying().min_by(|a, b| scale(a.1).total_cmp(&scale(b.1)))?;
    let (high, low) = (scale(high), scale(low));
    (high > 100.0 * low).then(|| {
        format!(
            "warning: the scales of the features differ by a factor of {:.0} ('{largest}' about \
             {high:.3}, '{smallest}' about {low:.3}); training may be slow or unstable; set \
             data.standardize = true",
            high / low,
        )
    })
}
