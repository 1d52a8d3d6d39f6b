//! Limits on classes: the outputs of a model and the work of its scores grow with their number.

use crate::settings::{Setting, Whole, at_least};

/// The most bytes of a label.
pub const MAX_LABEL_BYTES: usize = 1000;

/// The largest label of numbered classes, plus 1.
pub(super) const MAX_NUMBERED: u64 = 65_536;

pub(super) const MAX_CLASSES: Setting<Whole> =
    Setting::number("max_classes", 1000, at_least(2).to(MAX_NUMBERED))
        .help("data with more classes is refused")
        .seldom();

/// Returns why a number of classes is not allowed, if so.
pub(super) fn excess(found: usize, allowed: usize) -> Option<String> {
    (found > allowed).then(|| {
        format!(
            "found {found} classes, at most {allowed} are allowed; if that many are right, raise \
             data.max_classes"
        )
    })
}
