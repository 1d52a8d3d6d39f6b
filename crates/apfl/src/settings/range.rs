//! Ranges of numbers as data: the check and its words follow from them.

use std::fmt;

/// The numbers that a setting allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range<T> {
    least: T,
    most: Option<T>,
    /// Whether it is said as "above 0"; `least` is then the smallest number that is one.
    above_zero: bool,
    /// Whether `most` itself is not allowed.
    below: bool,
    /// The setting that says the largest number, where one does.
    most_is: &'static str,
}

/// Returns the numbers from `least` on.
pub const fn at_least<T: Copy>(least: T) -> Range<T> {
    Range {
        least,
        most: None,
        above_zero: false,
        below: false,
        most_is: "",
    }
}

/// Returns the numbers above 0, of which `least` is the smallest that can be told from 0 where
/// it is used.
pub const fn above_zero(least: f64) -> Range<f64> {
    Range {
        above_zero: true,
        ..at_least(least)
    }
}

impl<T: Copy> Range<T> {
    /// Returns the range up to `most`, which is allowed.
    pub const fn to(self, most: T) -> Self {
        Self {
            most: Some(most),
            ..self
        }
    }

    /// Returns the range up to `most`, which is not allowed.
    pub const fn below(self, most: T) -> Self {
        Self {
            below: true,
            ..self.to(most)
        }
    }

    /// Returns the range up to a number that another setting says.
    pub const fn to_that_of(self, setting: &'static str) -> Self {
        Self {
            most_is: setting,
            ..self
        }
    }
}

impl<T: PartialOrd> Range<T> {
    /// Whether a number is in it. NaN never is.
    pub fn contains(&self, x: &T) -> bool {
        let under = |most: &T| if self.below { x < most } else { x <= most };
        *x >= self.least && self.most.as_ref().is_none_or(under)
    }
}

/// A number as ranges are said: `0`, `0.5`, `1e6`.
pub trait Worded: Copy {
    /// Returns the number in words, or `None` for one too large to matter.
    fn worded(self) -> Option<String>;
}

impl Worded for f64 {
    fn worded(self) -> Option<String> {
        Some(match self.abs() {
            0.0 => "0".into(),
            1e-3..1e5 => format!("{self}"),
            _ => format!("{self:e}"),
        })
    }
}

impl Worded for u64 {
    fn worded(self) -> Option<String> {
        (self < 1 << 30).then(|| self.to_string())
    }
}

impl<T: Worded> fmt::Display for Range<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let most = match self.most_is {
            "" => self.most.and_then(T::worded),
            setting => Some(setting.into()),
        };
        let least = self.least.worded().unwrap_or_default();
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
    fn the_words_and_the_check_are_of_one_range() {
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
        assert_eq!(at_least(1).to_that_of("folds").to_string(), "1 to folds");
    }
}
