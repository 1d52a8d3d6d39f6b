//! Claims and their verdicts.

use apfl_report::statistics::Sample;
use serde::Serialize;

/// Represents the verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds by more than the spread over seeds.
    Holds,
    /// The difference is within the spread.
    WithinNoise,
    /// The opposite holds by more than the spread.
    Fails,
}

/// Represents a claim of the paper with our result.
#[derive(Clone, Debug, Serialize)]
pub struct Claim {
    /// The number and text of the claim.
    pub claim: String,
    /// The paper's sentence, if the claim is the paper's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sentence: Option<&'static str>,
    /// The paper's result.
    pub paper: String,
    /// Our result.
    pub ours: String,
    /// The spread over seeds of the deciding comparison; absent for a single seed.
    pub spread: Option<f64>,
    /// The verdict.
    pub verdict: Verdict,
    /// The comparisons.
    pub comparisons: Vec<Comparison>,
    /// Whether the claim is about APFL, so that a variant of APFL could change it.
    #[serde(skip)]
    pub about_apfl: bool,
    /// The variant under which it holds, and other remarks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Represents one of a claim's comparisons in `verdict.json`.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What is compared, such as `APFL α=0.5 < FedAvg global`.
    pub what: String,
    /// The mean margin over seeds.
    pub by: f64,
    /// The margin's spread over seeds; absent for a single seed.
    pub spread: Option<f64>,
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
            decides: true,
        }
    }

    /// Sets whether the check is part of the claim or only reported beside it.
    pub fn deciding(mut self, deciding: bool) -> Self {
        self.decides = deciding;
        self
    }

    fn comparison(&self) -> Comparison {
        Comparison {
            what: self.what.clone(),
            by: self.margin.mean,
            spread: self.margin.deviation,
            verdict: self.verdict(),
            decides: self.decides,
        }
    }

    /// Judges the margin against its spread; with a single seed the sign decides.
    fn verdict(&self) -> Verdict {
        match self.margin.mean {
            // A score is missing.
            margin if margin.is_nan() => Verdict::Fails,
            margin if margin.abs() <= self.margin.deviation.unwrap_or(0.0) => Verdict::WithinNoise,
            margin if margin > 0.0 => Verdict::Holds,
            _ => Verdict::Fails,
        }
    }
}

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

/// Creates the claim that all checks hold; the one with the worst verdict decides. Checks that do
/// not decide are counted beside them, and named if they do not hold.
pub fn all_of(claim: &str, paper: &str, checks: Vec<Check>) -> Claim {
    let comparisons = checks.iter().map(Check::comparison).collect();
    let (checks, beside): (Vec<Check>, Vec<Check>) = checks.into_iter().partition(|c| c.decides);
    // Margins are compared in units of their spread, as losses and accuracies have different units.
    let margin = |check: &Check| {
        let spread = check.margin.deviation.unwrap_or(0.0).max(1e-9);
        check.margin.mean / spread
    };
    let worst = checks
        .iter()
        .max_by(|a, b| {
            let by_verdict = a.verdict().cmp(&b.verdict());
            by_verdict.then(margin(b).total_cmp(&margin(a)))
        })
        .expect("a claim has a check");
    let holding = |checks: &[Check]| {
        let holds = checks.iter().filter(|c| c.verdict() == Verdict::Holds);
        holds.count()
    };
    let beside = match beside.len() {
        0 => String::new(),
        n => {
            let others = beside.iter().filter(|c| c.verdict() != Verdict::Holds);
            let others: Vec<String> = others
                .map(|c| format!("{} by {}", c.what, c.margin.number()))
                .collect();
            let named = if others.is_empty() {
                String::new()
            } else {
                format!(" (not: {})", others.join("; "))
            };
            format!("; beside the claim {} of {n} hold{named}", holding(&beside))
        }
    };
    let count = match checks.len() {
        1 => String::new(),
        n => format!("{} of {n} comparisons hold; least: ", holding(&checks)),
    };
    Claim {
        claim: claim.into(),
        sentence: None,
        paper: paper.into(),
        ours: format!("{count}{} by {}{beside}", worst.what, worst.margin.number()),
        spread: worst.margin.deviation,
        verdict: worst.verdict(),
        comparisons,
        about_apfl: true,
        note: None,
    }
}

impl Claim {
    /// Adds the paper's sentence.
    pub fn quoting(mut self, sentence: &'static str) -> Self {
        self.sentence = Some(sentence);
        self
    }

    /// Marks the claim as not about APFL.
    pub fn without_apfl(mut self) -> Self {
        self.about_apfl = false;
        self
    }

    /// Adds a remark.
    pub fn remark(&mut self, note: impl Into<String>) {
        let note = note.into();
        self.note = Some(match self.note.take() {
            Some(before) => format!("{before}; {note}"),
            None => note,
        });
    }
}

/// Checks that every `low` is below every `high`.
pub fn each_below(low: &[Values], high: &[Values]) -> Vec<Check> {
    let pairs = low.iter().flat_map(|l| high.iter().map(move |h| (l, h)));
    pairs.map(|(low, high)| Check::below(low, high)).collect()
}

/// Checks that each value is below the next.
pub fn rising(values: &[Values]) -> Vec<Check> {
    values
        .windows(2)
        .map(|pair| Check::below(&pair[0], &pair[1]))
        .collect()
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

    /// Differences 1, 1.2, 0.8 hold; 0.1, −0.1 are noise; −1, −1 fail. One seed: the sign.
    #[test]
    fn the_spread_over_seeds_decides() {
        let of = |low: &[f64], high: &[f64]| {
            all_of(
                "",
                "",
                vec![Check::below(&values("a", low), &values("b", high))],
            )
            .verdict
        };
        assert_eq!(of(&[1.0, 1.0, 1.0], &[2.0, 2.2, 1.8]), Verdict::Holds);
        assert_eq!(of(&[1.0, 1.0], &[1.1, 0.9]), Verdict::WithinNoise);
        assert_eq!(of(&[2.0, 2.0], &[1.0, 1.0]), Verdict::Fails);
        assert_eq!(of(&[1.0], &[1.1]), Verdict::Holds);
    }

    #[test]
    fn checks_that_do_not_decide_are_counted_beside() {
        let [low, high] = [values("a", &[1.0]), values("b", &[2.0])];
        let checks = vec![
            Check::below(&low, &high),
            Check::below(&high, &low).deciding(false),
        ];
        let claim = all_of("1", "p", checks);
        assert_eq!(claim.verdict, Verdict::Holds);
        assert_eq!(
            claim.ours,
            "a < b by 1.0000; beside the claim 0 of 1 hold (not: b < a by -1.0000)"
        );
        let decide: Vec<bool> = claim.comparisons.iter().map(|c| c.decides).collect();
        assert_eq!(decide, [true, false]);
    }

    #[test]
    fn the_worst_comparison_decides() {
        let low = [values("a", &[1.0, 1.1]), values("b", &[3.0, 3.1])];
        let high = [values("c", &[2.0, 2.1])];
        let claim = all_of("1", "p", each_below(&low, &high));
        assert_eq!(claim.verdict, Verdict::Fails);
        assert!(
            claim
                .ours
                .starts_with("1 of 2 comparisons hold; least: b < c by -1.0000")
        );
        let range = Values::range("r", &[low[0].clone(), low[1].clone()]);
        assert_eq!(range.by_seed, [2.0, 2.0]);
    }
}
