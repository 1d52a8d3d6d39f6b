//! Statistics over seeds.

use serde::Serialize;

/// Represents a mean over seeds with its spread.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sample {
    /// The mean.
    pub mean: f64,
    /// The sample standard deviation (over n − 1); absent for a single seed.
    pub deviation: Option<f64>,
    /// The number of values.
    pub count: usize,
}

impl Sample {
    /// Computes the statistics of values; `None` if there are none.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
        (n > 0.0).then_some(Self {
            mean,
            deviation: (n > 1.0).then(|| (squares / (n - 1.0)).sqrt()),
            count: values.len(),
        })
    }

    /// Returns the mean's standard error, the deviation over √n; `None` for a single seed.
    pub fn standard_error(&self) -> Option<f64> {
        Some(self.deviation? / (self.count as f64).sqrt())
    }

    /// Formats shares in percent: `97.31 ± 0.12%`.
    pub fn percent(&self) -> String {
        match self.deviation {
            _ if self.mean.is_nan() => "–".into(),
            Some(d) => format!("{:.2} ± {:.2}%", 100.0 * self.mean, 100.0 * d),
            None => format!("{:.2}%", 100.0 * self.mean),
        }
    }

    /// Formats numbers: `0.0123 ± 0.0004`.
    pub fn number(&self) -> String {
        match self.deviation {
            _ if self.mean.is_nan() => "–".into(),
            Some(d) => format!("{:.4} ± {d:.4}", self.mean),
            None => format!("{:.4}", self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_its_mean_and_deviation() {
        // 1, 2, 3: mean 2, squares 1 + 0 + 1 over 2.
        let sample = Sample::of([1.0, 2.0, 3.0].into_iter()).unwrap();
        assert_eq!((sample.mean, sample.deviation), (2.0, Some(1.0)));
        assert_eq!(sample.standard_error(), Some(1.0 / 3f64.sqrt()));
        assert_eq!(Sample::of([0.5].into_iter()).unwrap().percent(), "50.00%");
        assert_eq!(Sample::of([].into_iter()), None);
    }
}
