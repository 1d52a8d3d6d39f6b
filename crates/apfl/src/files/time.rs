//! UTC times for people.

use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

/// Represents a time in UTC, to the second, from 1970 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtcTime {
    year: u64,
    month: u64,
    day: u64,
    seconds: u64,
}

impl UtcTime {
    /// Returns the current time, or 1970 if the clock is earlier.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self::of(since.map_or(0, |d| d.as_secs()))
    }

    /// Converts seconds since 1970.
    fn of(seconds: u64) -> Self {
        // Years of March to February, so that a leap day is a year's last: days since 0000-03-01.
        let days = seconds / 86_400 + 719_468;
        let (era, of_era) = (days / 146_097, days % 146_097);
        let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self {
            year: year + 400 * era + u64::from(month <= 2),
            month,
            day,
            seconds: seconds % 86_400,
        }
    }

    fn clock(&self) -> (u64, u64, u64) {
        let s = self.seconds;
        (s / 3600, s / 60 % 60, s % 60)
    }

    /// Formats as `20261116T140533Z`, for file names.
    pub fn compact(&self) -> String {
        let (h, m, s) = self.clock();
        let Self {
            year, month, day, ..
        } = self;
        format!("{year}{month:02}{day:02}T{h:02}{m:02}{s:02}Z")
    }
}

/// Formats as `2026-11-16 14:05:33 UTC`.
impl fmt::Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (h, m, s) = self.clock();
        let Self {
            year, month, day, ..
        } = self;
        write!(f, "{year}-{month:02}-{day:02} {h:02}:{m:02}:{s:02} UTC")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        let shown = |seconds| UtcTime::of(seconds).to_string();
        assert_eq!(shown(0), "1970-01-01 00:00:00 UTC");
        // 2000 is a leap year: 11,016 days after 1970 is its 29 February.
        assert_eq!(shown(11_016 * 86_400 + 3661), "2000-02-29 01:01:01 UTC");
        assert_eq!(shown(1_700_000_000), "2023-11-14 22:13:20 UTC");
        // Past the year 9999, as on a machine whose clock was never set.
        assert_eq!(UtcTime::of(253_402_300_800).compact(), "100000101T000000Z");
    }
}
