//! Ranges of numbers, from which checks and their messages follow.

use std::fmt;

/// Represents the numbers that a setting allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range<T> {
    least: T,
    most: Option<T>,
    /// Whether it is displayed as "above 0"; `least` is then the smallest allowed number.
    above_zero: bool,
    /// Whether `most` itself is not allowed.
    below: bool,
    /// The setting that has the largest number, if one does.
    upper_setting: &'static str,
}

/// Returns the range from `least`.
pub const fn at_least<T: Copy>(least: T) -> Range<T> {
    Range {
        least,
        most: None,
        above_zero: false,
        below: false,
        upper_setting: "",
    }
}

/// Returns the range above 0, in which `least` is the smallest number that differs from 0 in use.
pub const fn above_zero(least: f64) -> Range<f64> {
    Range {
        above_zero: true,
        ..at_least(least)
    }
}

impl<T: Copy> Range<T> {
    /// Returns the range up to and including `most`.
    pub const fn to(self, most: T) -> Self {
        Self {
            most: Some(most),
            ..self
        }
    }

    /// Returns the range below `most`.
    pub const fn below(self, most: T) -> Self {
        Self {
            below: true,
            ..self.to(most)
        }
    }

    /// Returns the range up to the value of another setting.
    pub const fn up_to_setting(self, setting: &'static str) -> Self {
        Self {
            upper_setting: setting,
            ..self
        }
    }
}

impl<T: PartialOrd> Range<T> {
    /// Returns whether a number is in the range; NaN never is.
    pub fn contains(&self, x: &T) -> bool {
        let under = |most: &T| if self.below { x < most } else { x <= most };
        *x >= self.least && self.most.as_ref().is_none_or(under)
    }
}

/// Formats a number in a range: `0`, `0.5`, `1e6`.
pub trait RangeNumber: Copy {
    /// Returns the number as text, or `None` if it is too large to matter.
    fn to_text(self) -> Option<String>;
}

impl RangeNumber for f64 {
    fn to_text(self) -> Option<String> {
        Some(match self.abs() {
            0.0 => "0".into(),
            1e-3..1e5 => format!("{self}"),
            _ => format!("{self:e}"),
        })
    }
}

impl RangeNumber for u64 {
    fn to_text(self) -> Option<String> {
        (self < 1 << 30).then(|| self.to_string())
    }
}

impl<T: RangeNumber> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = match self.upper_setting {
            "" => self.most.and_then(T::to_text),
            setting => Some(setting.into()),
        };
        let least = self.least.to_text().unwrap_or_default();
        match (self.above_zero, most, self.below) {
            (true, None, _) => write!(f, "above 0"),
            (true, Some(most), true) => write!(f, "above 0, below {most}"),
            (true, Some(most), false) => write!(f, "above 0, at most {most}"),
            (false, None, _) => write!(f, "at least {least}"),
            (false, Some(most), true) => write!(f, "{least} to below {most}"),
            (false, Some(most), false) => write!(f, "{least} to {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_and_the_check_are_of_one_range() {
        let share = at_least(0.0).below(0.5);
        assert_eq!(share.to_string(), "0 to below 0.5");
        assert!(share.contains(&0.0) && !share.contains(&0.5) && !share.contains(&f64::NAN));
        let rate = above_zero(1e-30).to(1e6);
        assert_eq!(rate.to_string(), "above 0, at most 1e6");
        assert!(rate.contains(&1e6) && !rate.contains(&0.0));
        assert_eq!(above_zero(1e-9).below(1.0).to_string(), "above 0, below 1");
        assert_eq!(above_zero(f64::MIN_POSITIVE).to_string(), "above 0");
        assert_eq!(at_least(1e-6).to(1e15).to_string(), "1e-6 to 1e15");
        assert_eq!(at_least(1).to(1_000_000).to_string(), "1 to 1000000");
        assert_eq!(at_least(1).to(1 << 40).to_string(), "at least 1");
        assert_eq!(at_least(1).up_to_setting("folds").to_string(), "1 to folds");
    }
}
