//! Comparisons over seeds, and the rule that judges them.
//!
//! A comparison claims that a lies below b. Its margin b − a is taken seed by seed, from runs with
//! the same data and the same initial model. Over n seeds the margins have the mean m, the standard
//! deviation s and the standard error s/√n. With Student's t for n − 1 degrees of freedom, which a
//! margin without a true difference exceeds in one of twenty experiments (one-sided; 2.92 for three
//! seeds, 1.83 for ten), the comparison
//!
//! ```text
//! holds          if m >  t·s/√n
//! fails          if m < −t·s/√n
//! within-noise   otherwise
//! ```
//!
//! More seeds make s/√n and t smaller, so that they sharpen a verdict. A fixed number of standard
//! errors would be too lenient for few seeds: with three, two of them are exceeded by chance in one
//! of eleven experiments. With a single seed there is no standard error, and the sign decides.
//!
//! Two cells of one of the paper's tables that differ by no more than the sum of the spreads printed
//! with them are about equal, whatever the text says about their order. Such a claim asks of a that
//! it is below b, or above it by no more than that sum. So the sum is added to m, and the same rule
//! judges. A larger difference in the claimed order holds: it is what the text says.

use apfl::advise::student;
use apfl_report::statistics::Sample;
use serde::Serialize;

use super::values::Values;

/// The probability that a margin without a true difference holds; likewise that it fails.
const LEVEL: f64 = 0.05;

/// Represents the verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The margin is above Student's t times its standard error.
    Holds,
    /// The seeds do not decide.
    WithinNoise,
    /// The margin is below minus that.
    Fails,
}

/// Represents what a comparison asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The claimed order.
    Order,
    /// The claimed order, or about equal, as the paper's spreads do not separate the two.
    AboutEqual,
}

/// Represents one of a claim's comparisons in `verdict.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What is compared, such as `APFL α=0.5 < FedAvg global`.
    pub what: String,
    /// What it asks for.
    pub kind: Kind,
    /// The mean margin over seeds.
    pub by: f64,
    /// By how much the margin may be below 0: the sum of the paper's two spreads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
    /// The margin's standard deviation over seeds; absent for a single seed.
    pub spread: Option<f64>,
    /// The margin's standard error; absent for a single seed.
    pub standard_error: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether it is part of the claim; else it is reported beside it.
    pub decides: bool,
}

/// Represents a margin over seeds that should be positive.
pub struct Check {
    /// What is compared, such as `APFL α=0.5 < FedAvg global`.
    pub what: String,
    /// The margin over seeds.
    pub margin: Sample,
    /// By how much the margin may be below 0, if the paper's spreads do not separate the two.
    pub tolerance: Option<f64>,
    /// Whether it is part of the claim; else it is reported beside it.
    pub decides: bool,
}

impl Check {
    /// Checks that `low` is below `high`, by seed.
    pub fn below(low: &Values, high: &Values) -> Self {
        let pairs = low.by_seed.iter().zip(&high.by_seed);
        Self {
            what: format!("{} < {}", low.name, high.name),
            margin: Sample::of(pairs.map(|(low, high)| high - low)).expect("a seed"),
            tolerance: None,
            decides: true,
        }
    }

    /// Checks that `low` is below `high`, or above it by at most `tolerance`.
    pub fn about_equal_or_below(low: &Values, high: &Values, tolerance: f64) -> Self {
        Self {
            what: format!("{} ≲ {}", low.name, high.name),
            tolerance: Some(tolerance),
            ..Self::below(low, high)
        }
    }

    /// Sets whether the check is part of the claim or only reported beside it.
    pub fn deciding(mut self, deciding: bool) -> Self {
        self.decides = deciding;
        self
    }

    /// Returns the entry of `verdict.json`.
    pub fn comparison(&self) -> Comparison {
        Comparison {
            what: self.what.clone(),
            kind: match self.tolerance {
                None => Kind::Order,
                Some(_) => Kind::AboutEqual,
            },
            by: self.margin.mean,
            tolerance: self.tolerance,
            spread: self.margin.deviation,
            standard_error: self.margin.standard_error(),
            verdict: self.verdict(),
            decides: self.decides,
        }
    }

    /// Returns the judged margin: the mean, with the tolerance added.
    fn judged(&self) -> f64 {
        self.margin.mean + self.tolerance.unwrap_or(0.0)
    }

    /// Returns the judged margin in standard errors; with a single seed the margin itself.
    pub fn standard_errors(&self) -> f64 {
        match self.margin.standard_error() {
            Some(error) => self.judged() / error.max(1e-12),
            None => self.judged(),
        }
    }

    /// Judges the margin by the rule of this module.
    pub fn verdict(&self) -> Verdict {
        let noise = match self.margin.standard_error() {
            Some(error) => student_t(self.margin.count) * error,
            None => 0.0,
        };
        match self.judged() {
            // A score is missing.
            margin if !margin.is_finite() => Verdict::Fails,
            margin if margin.abs() <= noise => Verdict::WithinNoise,
            margin if margin > 0.0 => Verdict::Holds,
            _ => Verdict::Fails,
        }
    }

    /// Describes the comparison: `a < b by 0.0500 ± 0.0100 (5.0 standard errors)`.
    pub fn describe(&self) -> String {
        let (mean, error) = (self.margin.mean, self.margin.standard_error());
        let size = mean.abs().max(error.unwrap_or(0.0));
        let by = format!("{} by {}", self.what, number(mean, size));
        let limit = self.tolerance.map(|tolerance| number(-tolerance, size));
        let Some(error) = error else {
            return by + &limit.map_or(String::new(), |limit| format!(" (limit {limit})"));
        };
        let error = number(error, size);
        // Without the sign of −0.
        let count = format!("{:.1}", self.standard_errors()).replace("-0.0", "0.0");
        let from = limit.map_or(String::new(), |limit| format!(" from the limit {limit}"));
        format!("{by} ± {error} ({count} standard errors{from})")
    }
}

/// Returns what a mean of n margins without a true difference exceeds with probability [`LEVEL`],
/// in standard errors.
pub fn student_t(n: usize) -> f64 {
    // Both tails together are twice the level.
    student::quantile(2.0 * LEVEL, n as f64 - 1.0)
}

/// Formats a number with four decimals, or with two digits if the comparison's numbers are of a
/// small size.
fn number(x: f64, size: f64) -> String {
    if size > 0.0 && size < 0.0005 {
        format!("{x:.1e}")
    } else {
        format!("{x:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(name: &str, by_seed: &[f64]) -> Values {
        Values {
            name: name.into(),
            by_seed: by_seed.to_vec(),
        }
    }

    fn below(low: &[f64], high: &[f64]) -> Check {
        Check::below(&values("a", low), &values("b", high))
    }

    /// Student's t with 2 degrees of freedom has P(T > t) = ½ − t/(2√(2 + t²)), which is 0.05 at
    /// t² = 2·0.81/0.19; with 1 it is Cauchy, P(T > t) = 0.05 at tan(0.45π).
    #[test]
    fn t_is_the_one_sided_quantile() {
        let three = (2.0f64 * 0.81 / 0.19).sqrt();
        assert!((three - 2.92).abs() < 1e-3);
        assert!((student_t(3) - three).abs() < 1e-9);
        let two = (0.45 * std::f64::consts::PI).tan();
        assert!((student_t(2) - two).abs() < 1e-6);
    }

    /// Margins m − 1, m, m + 1 have s = 1 and the standard error 1/√3; t/√3 = 2.92/√3 = 1.686. Two
    /// standard errors are 1.155: a margin of 1.6 is not enough.
    #[test]
    fn the_standard_error_decides() {
        let of = |m: f64| below(&[0.0, 0.0, 0.0], &[m - 1.0, m, m + 1.0]).verdict();
        assert_eq!(of(1.70), Verdict::Holds);
        assert_eq!(of(1.67), Verdict::WithinNoise);
        assert_eq!(of(-1.67), Verdict::WithinNoise);
        assert_eq!(of(-1.70), Verdict::Fails);
    }

    /// The same margins twice and three times: s² = 4/5 and 6/8, t = 2.015 and 1.860, so t·s/√n is
    /// 0.736 and 0.537. A margin of 0.6 is noise with three and six seeds and holds with nine.
    #[test]
    fn seeds_sharpen_a_verdict() {
        let of = |times: usize| {
            let margins = [-0.4, 0.6, 1.6].repeat(times);
            below(&vec![0.0; 3 * times], &margins).verdict()
        };
        let expected = [Verdict::WithinNoise, Verdict::WithinNoise, Verdict::Holds];
        assert_eq!([of(1), of(2), of(3)], expected);
    }

    #[test]
    fn of_a_single_seed_the_sign_decides() {
        assert_eq!(below(&[1.0], &[1.1]).verdict(), Verdict::Holds);
        assert_eq!(below(&[1.0], &[0.9]).verdict(), Verdict::Fails);
        assert_eq!(below(&[1.0], &[1.0]).verdict(), Verdict::WithinNoise);
        assert_eq!(below(&[f64::NAN], &[1.0]).verdict(), Verdict::Fails);
    }

    /// 97.75 ± 0.15 and 97.83 ± 0.12 are about equal: up to 0.27 points. With deviations of 0.1 over
    /// three seeds the noise is 0.1·1.686 = 0.169: −0.09 holds (0.18 above the limit), −0.11 does not
    /// decide (0.16), −0.44 fails (0.17 below), and +3, in the claimed order, holds.
    #[test]
    fn cells_that_the_paper_does_not_separate_are_about_equal() {
        let of = |m: f64| {
            let high = values("b", &[m - 0.1, m, m + 0.1]);
            Check::about_equal_or_below(&values("a", &[0.0; 3]), &high, 0.27)
        };
        assert_eq!(of(-0.09).verdict(), Verdict::Holds);
        assert_eq!(of(-0.11).verdict(), Verdict::WithinNoise);
        assert_eq!(of(-0.44).verdict(), Verdict::Fails);
        assert_eq!(of(-9.5).verdict(), Verdict::Fails);
        assert_eq!(of(3.0).verdict(), Verdict::Holds);
        // A standard error is 0.1/√3 = 0.0577; 0.18 is 3.1 of them.
        assert_eq!(
            of(-0.09).describe(),
            "a ≲ b by -0.0900 ± 0.0577 (3.1 standard errors from the limit -0.2700)"
        );
        let json = serde_json::to_value(of(-0.09).comparison()).unwrap();
        assert_eq!(
            (&json["kind"], &json["tolerance"]),
            (&"about-equal".into(), &0.27.into())
        );
        assert!(json["standard_error"].is_number());
    }

    /// With one seed the limit alone decides.
    #[test]
    fn about_equal_with_a_single_seed() {
        let of = |high: f64| {
            let (low, high) = (values("a", &[1.0]), values("b", &[high]));
            Check::about_equal_or_below(&low, &high, 0.25)
        };
        assert_eq!(of(0.80).verdict(), Verdict::Holds);
        assert_eq!(of(0.70).verdict(), Verdict::Fails);
        assert_eq!(of(0.75).describe(), "a ≲ b by -0.2500 (limit -0.2500)");
    }

    #[test]
    fn small_numbers_have_two_digits() {
        let described = below(&[0.0; 3], &[3.2e-5, 3.3e-5, 3.4e-5]).describe();
        // The standard error is 1e-6/√3 = 5.8e-7; 3.3e-5 is 33·√3 = 57.2 of them.
        assert_eq!(described, "a < b by 3.3e-5 ± 5.8e-7 (57.2 standard errors)");
        let described = below(&[0.0; 3], &[-0.0901, 0.0, 0.0899]).describe();
        assert!(
            described.ends_with("by -0.0001 ± 0.0520 (0.0 standard errors)"),
            "{described}"
        );
    }
}
