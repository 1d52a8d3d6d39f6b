//! Scales from values to positions.

use super::{Axis, shortened, ticks};

/// Maps the values of an axis to positions from 0 to `length`.
pub struct Scale {
    log: bool,
    /// The value at the start.
    pub low: f64,
    /// The value at the end.
    pub high: f64,
    /// The drawn length.
    pub length: f64,
}

impl Scale {
    /// Creates a scale with the range of the axis or of the values.
    pub fn of(axis: &Axis, values: impl Iterator<Item = f64>, from_zero: bool, room: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| axis.takes(*v)) {
            (low, high) = (low.min(value), high.max(value));
        }
        let given = axis
            .range
            .filter(|(a, b)| axis.takes(*a) && axis.takes(*b) && a < b);
        if !axis.names.is_empty() {
            (low, high) = (-0.5, axis.names.len() as f64 - 0.5);
        } else if let Some(range) = given {
            (low, high) = range;
        } else if low > high {
            (low, high) = if axis.log { (0.1, 1.0) } else { (0.0, 1.0) };
        } else if axis.log {
            let pad = (high / low).powf(room).max(1.05);
            (low, high) = (low / pad, high * pad);
        } else {
            if from_zero {
                (low, high) = (low.min(0.0), high.max(0.0));
            }
            if high - low <= 1e-9 * high.abs().max(low.abs()) {
                let around = if low == 0.0 { 1.0 } else { 0.1 * low.abs() };
                (low, high) = (low - around, high + around);
            }
            let pad = room * (high - low);
            let (least, most) = (low, high);
            low -= if from_zero && least == 0.0 { 0.0 } else { pad };
            high += if from_zero && most == 0.0 { 0.0 } else { pad };
            // No padding beyond 0 and 1 for shares, nor below 0 for positive values.
            if least >= 0.0 {
                low = low.max(0.0);
            }
            if axis.percent && most <= 1.0 {
                high = high.min(1.0);
            }
        }
        Self {
            log: axis.log,
            low,
            high,
            length: 0.0,
        }
    }

    /// Returns the position of a value.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        // Values far outside are cut off at the edge of the data area.
        self.length * share.clamp(-10.0, 11.0)
    }

    /// Returns the value at which bars begin.
    pub fn floor(&self) -> f64 {
        if self.log { self.low } else { 0.0 }
    }

    /// Returns ticks with their labels.
    pub fn ticks(&self, axis: &Axis, count: usize) -> Vec<(f64, String)> {
        if !axis.names.is_empty() {
            let each = axis.names.iter().enumerate();
            let room = (self.length / axis.names.len() as f64 / 6.0) as usize;
            return each
                .map(|(k, name)| (k as f64, shortened(name, room.max(2))))
                .collect();
        }
        if self.log {
            let ticks = ticks::logarithmic(self.low, self.high, count);
            let label = |t: f64| ticks::label(t, 10_f64.powf(t.log10().floor()), axis.percent);
            let narrow = self.high / self.low < 10.0;
            let step = ticks::step(self.low, self.high, count);
            return ticks
                .iter()
                .map(|t| {
                    if narrow {
                        (*t, ticks::label(*t, step, axis.percent))
                    } else {
                        (*t, label(*t))
                    }
                })
                .collect();
        }
        let step = ticks::step(self.low, self.high, count);
        let ticks = ticks::linear(self.low, self.high, count).into_iter();
        ticks
            .map(|t| (t, ticks::label(t, step, axis.percent)))
            .collect()
    }
}
