//! Numbers by seed.

use apfl_report::statistics::Sample;

/// Represents a named number for every seed.
#[derive(Clone, Debug)]
pub struct Values {
    /// The name.
    pub name: String,
    /// The values by seed.
    pub by_seed: Vec<f64>,
}

impl Values {
    /// Returns the largest of several, by seed.
    pub fn largest(name: &str, of: &[Values]) -> Self {
        Self::folded(name, of, f64::max)
    }

    /// Returns the smallest of several, by seed.
    pub fn smallest(name: &str, of: &[Values]) -> Self {
        Self::folded(name, of, f64::min)
    }

    fn folded(name: &str, of: &[Values], pick: fn(f64, f64) -> f64) -> Self {
        let seeds = of.first().map_or(0, |v| v.by_seed.len());
        let one = |k: usize| of.iter().map(|v| v.by_seed[k]).reduce(pick);
        Self {
            name: name.into(),
            by_seed: (0..seeds).filter_map(one).collect(),
        }
    }

    /// Returns the largest minus the smallest of several, by seed.
    pub fn range(name: &str, of: &[Values]) -> Self {
        let pairs = Self::largest("", of).by_seed.into_iter();
        let smallest = Self::smallest("", of).by_seed;
        Self {
            name: name.into(),
            by_seed: pairs.zip(smallest).map(|(a, b)| a - b).collect(),
        }
    }

    /// Returns mean and spread.
    pub fn sample(&self) -> Sample {
        Sample::of(self.by_seed.iter().copied()).expect("a seed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_by_seed() {
        let values = |by_seed: [f64; 2]| Values {
            name: String::new(),
            by_seed: by_seed.to_vec(),
        };
        let of = [values([1.0, 1.5]), values([3.0, 3.0])];
        assert_eq!(Values::range("r", &of).by_seed, [2.0, 1.5]);
    }
}
