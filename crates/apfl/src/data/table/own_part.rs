//! Whether a client's own survey can be a part of that of all clients.

use super::Encoding;
use super::agreed::Verified;
use super::plausible::LARGEST;
use super::preparation::PreparedColumn;
use super::survey::{ColumnSurvey, NonNumeric};
use crate::moments::Moments;
use crate::quote::in_quotes;

/// Returns the number of true cells of which `share` is the share among `known` cells.
pub(super) fn trues(share: f64, known: u64) -> u64 {
    ((share * known as f64).round() as u64).min(known)
}

/// Verifies that a client's survey of a column can be a part of that of all clients.
pub(super) fn own_is_part(
    column: &PreparedColumn,
    own: &ColumnSurvey,
    own_rows: u64,
    rows: u64,
    declared: bool,
) -> Verified {
    let others = rows - own_rows;
    let missing = column.missing.checked_sub(own.missing);
    let Some(others_missing) = missing.filter(|missing| *missing <= others) else {
        return Err(format!(
            "found {} missing cells, this site alone has {}, all others have {others} rows",
            column.missing, own.missing
        ));
    };
    let none = NonNumeric::default();
    let other = own.non_numeric.as_deref().unwrap_or(&none);
    let numbers = own.numbers.n + other.huge;
    let booleans = other.trues + other.falses;
    let unlike = |kind: &str| Err(format!("it is {kind}, which this table does not allow"));
    match &column.encoding {
        Encoding::Number { fill, scale, .. } => {
            if booleans + other.texts + other.huge + other.unsupported > 0 {
                return unlike("a number");
            }
            if declared {
                return Ok(()); // derived from the settings
            }
            let deviation = scale.map(|scale| scale.deviation);
            require_possible(&own.numbers, rows - column.missing, *fill, deviation)
        }
        Encoding::Boolean { fill, .. } => {
            if numbers + other.texts > 0 {
                return unlike("true or false");
            }
            let known = rows - column.missing;
            let trues = trues(*fill, known);
            if trues < other.trues || known - trues < other.falses {
                return Err(format!(
                    "found {trues} true cells of {known}, this site alone has {} of {booleans}",
                    other.trues
                ));
            }
            Ok(())
        }
        Encoding::Category { .. } if declared => Ok(()),
        // Numbers of a column that the terms do not name would be disclosed one by one.
        Encoding::Category { .. } if own.numbers.n > 0 => unlike("a category"),
        Encoding::Category { values } => {
            if let Some(lost) = other.values.iter().find(|value| !values.contains(value)) {
                return Err(format!("this site's value {} is missing", in_quotes(lost)));
            }
            let strange = (values.len() - other.values.len()) as u64;
            if strange > others - others_missing {
                return Err("it has more values than the other sites have rows".into());
            }
            Ok(())
        }
    }
}

/// Verifies that `n` numbers can have this mean and deviation if `own` are among them.
///
/// ```text
/// n·deviation² = M₂ + M₂′ + a·δ²·n/b     δ = mean of own − mean of all, a own and b other numbers
/// ```
///
/// where M₂′ ≥ 0 of the others is not known.
pub(super) fn require_possible(
    own: &Moments,
    n: u64,
    mean: f64,
    deviation: Option<f64>,
) -> Verified {
    let impossible = |what: String| {
        Err(format!(
            "{what} is impossible: this site alone has {} of {n} numbers, with mean {} and \
             deviation {}",
            own.n,
            own.mean,
            own.deviation()
        ))
    };
    let Some(others) = n.checked_sub(own.n) else {
        return impossible("their number".into());
    };
    if own.n == 0 {
        return Ok(());
    }
    let (a, b, n) = (own.n as f64, others as f64, n as f64);
    let delta = own.mean - mean;
    // What rounding may change.
    let slack = 1e-9 * (own.mean.abs() + mean.abs());
    let of_others = a * (delta.abs() - slack).max(0.0) / b.max(1.0); // their distance from `mean`
    if (others == 0 && delta.abs() > slack) || of_others - mean.abs() > LARGEST {
        return impossible(format!("a mean of {mean}"));
    }
    let Some(deviation) = deviation else {
        return Ok(());
    };
    let sum = n * deviation * deviation;
    let least = own.m2 + a * delta * delta * n / b.max(1.0);
    let slack = 1e-9 * least + n * slack * slack;
    // Numbers that vary by rounding only have deviation 1.
    let constant = deviation == 1.0 && least <= slack;
    let fits = if others == 0 {
        (sum - least).abs() <= slack
    } else {
        sum >= least - slack
    };
    if fits || constant {
        return Ok(());
    }
    impossible(format!("a deviation of {deviation} around {mean}"))
}
