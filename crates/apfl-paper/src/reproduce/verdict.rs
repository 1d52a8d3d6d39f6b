//! Claims and their verdicts.

use serde::Serialize;

pub use super::check::{Check, Comparison, Verdict};
pub use super::values::Values;

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

/// How many of the comparisons beside a claim are named if they do not hold.
const NAMED: usize = 3;

/// Creates the claim that all checks hold; the one with the worst verdict decides, of several the
/// one with the smallest margin in standard errors. Checks that do not decide are counted beside
/// them, and up to [`NAMED`] that do not hold are named.
pub fn all_of(claim: &str, paper: &str, checks: Vec<Check>) -> Claim {
    let comparisons = checks.iter().map(Check::comparison).collect();
    let (checks, beside): (Vec<Check>, Vec<Check>) = checks.into_iter().partition(|c| c.decides);
    let worst = checks
        .iter()
        .max_by(|a, b| {
            let by_verdict = a.verdict().cmp(&b.verdict());
            by_verdict.then(b.standard_errors().total_cmp(&a.standard_errors()))
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
            let mut others: Vec<String> = others.map(Check::describe).collect();
            let more = others.len().saturating_sub(NAMED);
            others.truncate(NAMED);
            if more > 0 {
                others.push(format!("{more} more in verdict.json"));
            }
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
        ours: format!("{count}{}{beside}", worst.describe()),
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
    fn of_many_checks_beside_three_are_named() {
        let [low, high] = [values("a", &[1.0]), values("b", &[2.0])];
        let mut checks = vec![Check::below(&low, &high)];
        checks.extend((0..5).map(|_| Check::below(&high, &low).deciding(false)));
        let claim = all_of("1", "p", checks);
        let one = "b < a by -1.0000";
        let not = format!("0 of 5 hold (not: {one}; {one}; {one}; 2 more in verdict.json)");
        assert!(claim.ours.ends_with(&not), "{}", claim.ours);
        assert_eq!(claim.comparisons.len(), 6);
    }

    /// b < c by −1, −1.2: mean −1.1, deviation 0.1·√2, standard error 0.1, −11 standard errors.
    #[test]
    fn the_worst_comparison_decides() {
        let low = [values("a", &[1.0, 1.1]), values("b", &[3.0, 3.3])];
        let high = [values("c", &[2.0, 2.1])];
        let claim = all_of("1", "p", each_below(&low, &high));
        assert_eq!(claim.verdict, Verdict::Fails);
        assert_eq!(
            claim.ours,
            "1 of 2 comparisons hold; least: b < c by -1.1000 ± 0.1000 (-11.0 standard errors)"
        );
        let spread = claim.spread.unwrap();
        assert!((spread - 0.1 * 2f64.sqrt()).abs() < 1e-12, "{spread}");
    }

    /// Both hold by one seed; the smaller margin is the least.
    #[test]
    fn of_equal_verdicts_the_smallest_margin_is_named() {
        let low = [values("a", &[1.0]), values("b", &[1.5])];
        let claim = all_of("1", "p", each_below(&low, &[values("c", &[2.0])]));
        assert_eq!(
            claim.ours,
            "2 of 2 comparisons hold; least: b < c by 0.5000"
        );
    }
}
