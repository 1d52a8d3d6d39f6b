//! Advice on joining: whether it is worth it, for whom, and which model should serve each client.
//!
//! The gain of a row is the loss of the client's own tuned fit minus that of the model the client
//! chose. A client's verdict is a paired t-test of its gain, with the Benjamini–Hochberg procedure
//! over all clients; its interval is unadjusted. With few rows both are corrected for the skewness
//! of their gains. The total takes clients as clusters.

use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::metrics::{FinalScores, Gain, Score};
use crate::run::run_dir::{
    Alpha, ClientRecord, FinishedRun, GainSplit, Prior, Summary, read_clients,
};

mod hall;
#[doc(hidden)] // for the verdicts on the paper's claims
pub mod student;

use hall::Transformation;

/// The false discovery rate of verdicts, and the share of intervals that may miss.
const LEVEL: f64 = 0.05;

/// The verdict on a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Joining lowers its loss.
    Helps,
    /// Joining raises it.
    Harms,
    /// Its rows do not decide.
    Undecided,
}

/// The advice for a client.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClientAdvice {
    /// Its name.
    pub client: String,
    /// The number of rows that measured.
    pub rows: u64,
    /// The candidate it chose: α, or `shared`.
    pub alpha: Alpha,
    /// The model that should serve it: `shared`, `localized` (α = 0), `alone` (α = 1) or
    /// `personal`. Never chosen on the rows that measure.
    pub serve: &'static str,
    /// The mean loss of the baseline minus that of this model; null without rows.
    pub gain: Option<f64>,
    /// Its 95% interval, unadjusted; null with fewer than two rows.
    pub interval: Option<[f64; 2]>,
    /// The verdict.
    pub verdict: Verdict,
    /// The scores of its models on those rows.
    pub scores: ModelScores,
}

/// The scores of the models of a client.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ModelScores {
    /// Its own tuned fit, by which the gain is measured.
    pub baseline: Score,
    /// The model of training alone.
    pub alone: Score,
    /// The shared model.
    pub shared: Score,
    /// The localized model.
    pub localized: Score,
    /// The personal model.
    pub personal: Score,
}

/// The advice over all clients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TotalAdvice {
    /// The number of clients that joining helps.
    pub helps: usize,
    /// The number of clients that joining harms.
    pub harms: usize,
    /// The number of undecided clients.
    pub undecided: usize,
    /// The mean gain over all their rows.
    pub gain: Option<f64>,
    /// Its 95% interval, with clients as clusters; null with fewer than two of them.
    pub interval: Option<[f64; 2]>,
}

/// The advice of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// The rows that measured.
    pub part: GainSplit,
    /// Client by client.
    pub clients: Vec<ClientAdvice>,
    /// In total.
    pub total: TotalAdvice,
    /// Whether 0 was not a candidate, so that no client could choose the localized model.
    #[serde(skip)]
    pub without_localized: bool,
    /// Whether some client has a tuned fit; without one the baseline is training alone.
    #[serde(skip)]
    pub tuned: bool,
}

impl Advice {
    /// Computes the advice of a finished run.
    ///
    /// # Errors
    /// If the run did not train every client alone; the error names the missing settings.
    pub fn of_run(run: &FinishedRun) -> Result<Self> {
        let summary = run.summary()?;
        if summary.rounds == 0 {
            let problem = "the result of `join` has only the new client; advise the run it joined";
            return Err(Error::in_file(&run.path, problem));
        }
        Self::of(&run.path, &summary, &read_clients(&run.path)?)
    }

    /// Computes the advice from a run's records, without attackers.
    pub fn of(run: &Path, summary: &Summary, clients: &[ClientRecord]) -> Result<Self> {
        let measured = summary.gain.filter(|_| summary.prior.is_some());
        let alone = |prior: &Prior| prior.losses.contains_key("1");
        if measured.is_none() && summary.prior.as_ref().is_some_and(alone) {
            return Err(Error::Request(format!(
                "{}: no client was scored at the end; set delivery.clients = \"all\" and run again",
                run.display()
            )));
        }
        let Some(total) = measured else {
            return Err(Error::Request(format!(
                "{}: the run did not also train every client alone, so the gain of joining is \
                 unknown; run it with 0 and 1 among the candidates, such as algorithm.mixing = \
                 {{ chosen = [0, 0.1, 0.25, 0.5, 0.75, 1] }}, and delivery.clients = \"all\"",
                run.display()
            )));
        };
        let names = summary.prior.as_ref().map(|prior| &prior.losses);
        let without_localized = names.is_some_and(|losses| !losses.contains_key("0"));
        let honest = clients.iter().filter(|client| !client.attacker);
        let mut each: Vec<(ClientAdvice, Gain)> = honest
            .filter_map(|client| client_advice(client, total.part))
            .collect();
        judge(&mut each);
        let is_tuned = |a: &ClientAdvice| a.scores.baseline != a.scores.alone;
        let tuned = each.iter().any(|(advice, _)| is_tuned(advice));
        let gains: Vec<Gain> = each.iter().map(|(_, gain)| *gain).collect();
        let clients: Vec<ClientAdvice> = each.into_iter().map(|(advice, _)| advice).collect();
        let count = |verdict| clients.iter().filter(|c| c.verdict == verdict).count();
        let (gain, interval) = clustered(&gains);
        Ok(Self {
            part: total.part,
            total: TotalAdvice {
                helps: count(Verdict::Helps),
                harms: count(Verdict::Harms),
                undecided: count(Verdict::Undecided),
                gain,
                interval,
            },
            clients,
            without_localized,
            tuned,
        })
    }
}

/// Returns a client's advice before its verdict; `None` if it did not train alone.
fn client_advice(client: &ClientRecord, part: GainSplit) -> Option<(ClientAdvice, Gain)> {
    let (chosen, alone) = (client.chosen.as_ref()?, client.alone.as_ref()?);
    let gain = client.gain?;
    let on_part = |scores: &FinalScores| score_on(scores, part);
    let baseline = client.baseline.as_ref().unwrap_or(alone);
    let serve = match &chosen.alpha {
        Alpha::Shared(_) => "shared",
        Alpha::Mixing(0.0) => "localized",
        Alpha::Mixing(1.0) => "alone",
        Alpha::Mixing(_) => "personal",
    };
    let advice = ClientAdvice {
        client: client.client.clone(),
        rows: gain.n,
        alpha: chosen.alpha.clone(),
        serve,
        gain: gain.mean,
        interval: interval(&gain),
        verdict: Verdict::Undecided,
        scores: ModelScores {
            baseline: on_part(baseline),
            alone: on_part(alone),
            shared: on_part(&client.scores.shared),
            localized: on_part(&client.scores.localized),
            personal: on_part(&client.scores.personal),
        },
    };
    Some((advice, gain))
}

/// Returns the scores on the rows that measure.
fn score_on(scores: &FinalScores, part: GainSplit) -> Score {
    match (part, &scores.test) {
        (GainSplit::Test, Some(test)) => test.score,
        _ => scores.valid.score,
    }
}

/// Returns mean − g⁻¹(±t)·sd/√n; g is the identity, or Hall's transformation with few rows.
fn interval(gain: &Gain) -> Option<[f64; 2]> {
    let (mean, sd) = (gain.mean?, gain.sd?);
    let n = gain.n as f64;
    let t = student::quantile(LEVEL, n - 1.0);
    let hall = Transformation::of(gain.skew, gain.n);
    Some([t, -t].map(|t| mean - hall.invert(t) * sd / n.sqrt()))
}

/// Returns the p-value of a mean gain of 0; `None` with fewer than two rows or without spread.
fn p_value(gain: &Gain) -> Option<f64> {
    let (mean, sd) = (gain.mean?, gain.sd.filter(|sd| *sd > 0.0)?);
    let n = gain.n as f64;
    let hall = Transformation::of(gain.skew, gain.n);
    Some(student::two_sided(
        hall.apply(mean * n.sqrt() / sd),
        n - 1.0,
    ))
}

/// Decides the verdicts by Benjamini and Hochberg: of m p-values in ascending order the first k
/// are discoveries, for the largest k with p₍ₖ₎ ≤ k/m · 5%.
fn judge(clients: &mut [(ClientAdvice, Gain)]) {
    let mut tested: Vec<(f64, usize)> = clients
        .iter()
        .enumerate()
        .filter_map(|(k, (_, gain))| Some((p_value(gain)?, k)))
        .collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0));
    let m = tested.len() as f64;
    let passes = |place: usize| tested[place].0 <= (place + 1) as f64 / m * LEVEL;
    let discoveries = (0..tested.len()).rev().find(|place| passes(*place));
    for (_, k) in &tested[..discoveries.map_or(0, |last| last + 1)] {
        let (advice, gain) = &mut clients[*k];
        advice.verdict = if gain.mean.is_some_and(|mean| mean > 0.0) {
            Verdict::Helps
        } else {
            Verdict::Harms
        };
    }
}

/// Returns the mean m over all rows, and m ± t·s with clients as clusters:
/// s² = G/(G−1) · Σᵢ (nᵢ(mᵢ − m))² / N², G − 1 degrees of freedom.
fn clustered(gains: &[Gain]) -> (Option<f64>, Option<[f64; 2]>) {
    let with_rows: Vec<(f64, f64)> = gains
        .iter()
        .filter_map(|gain| Some((gain.n as f64, gain.mean?)))
        .collect();
    let rows: f64 = with_rows.iter().map(|(n, _)| n).sum();
    if with_rows.is_empty() {
        return (None, None);
    }
    let mean = with_rows.iter().map(|(n, m)| n * m).sum::<f64>() / rows;
    let clusters = with_rows.len() as f64;
    if clusters < 2.0 {
        return (Some(mean), None);
    }
    let squares: f64 = with_rows
        .iter()
        .map(|(n, m)| (n * (m - mean)).powi(2))
        .sum();
    let deviation = (clusters / (clusters - 1.0) * squares).sqrt() / rows;
    let half = student::quantile(LEVEL, clusters - 1.0) * deviation;
    (Some(mean), Some([mean - half, mean + half]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(n: u64, mean: f64, sd: f64) -> Gain {
        Gain {
            n,
            mean: Some(mean),
            sd: Some(sd),
            skew: None,
        }
    }

    fn advice(gain: &Gain) -> ClientAdvice {
        let score = Score {
            loss: 1.0,
            accuracy: None,
            rmse: None,
        };
        ClientAdvice {
            client: String::new(),
            rows: gain.n,
            alpha: Alpha::Mixing(0.5),
            serve: "personal",
            gain: gain.mean,
            interval: None,
            verdict: Verdict::Undecided,
            scores: ModelScores {
                baseline: score,
                alone: score,
                shared: score,
                localized: score,
                personal: score,
            },
        }
    }

    fn verdicts(gains: &[Gain]) -> Vec<Verdict> {
        let mut each: Vec<_> = gains.iter().map(|g| (advice(g), *g)).collect();
        judge(&mut each);
        each.into_iter().map(|(advice, _)| advice.verdict).collect()
    }

    /// With n = 2, ν = 1 and P = 1 − (2/π)·atan(mean·√2/sd): a chosen p needs
    /// mean/sd = tan((1−p)·π/2)/√2.
    fn with_probability(p: f64) -> Gain {
        let t = ((1.0 - p) * std::f64::consts::FRAC_PI_2).tan();
        gain(2, t / 2f64.sqrt(), 1.0)
    }

    /// Limits for four are 1.25%, 2.5%, 3.75% and 5%. With .001, .026, .03 and .9: the third
    /// passes its limit, so the second is taken along though it does not pass its own.
    #[test]
    fn discoveries_by_hand() {
        use Verdict::{Harms, Helps, Undecided};
        let four = [0.03, 0.9, 0.001, 0.026].map(with_probability);
        assert_eq!(verdicts(&four), [Helps, Undecided, Helps, Helps]);
        let four = [0.04, 0.9, 0.001, 0.026].map(with_probability);
        assert_eq!(verdicts(&four), [Undecided, Undecided, Helps, Undecided]);
        let mut harmed = with_probability(0.01);
        harmed.mean = harmed.mean.map(|mean| -mean);
        assert_eq!(verdicts(&[harmed]), [Harms]);
        // Fewer than two rows, or no spread: undecided, and not counted among the tests.
        let one = Gain {
            n: 1,
            mean: Some(3.0),
            sd: None,
            skew: None,
        };
        let flat = gain(50, 1.0, 0.0);
        assert_eq!(
            verdicts(&[one, flat, with_probability(0.04)]),
            [Undecided, Undecided, Helps]
        );
    }

    /// n = 2: half = tan(0.95·π/2)·sd/√2.
    #[test]
    fn an_interval_by_hand() {
        let [low, high] = interval(&gain(2, 3.0, 2.0)).unwrap();
        let half = (0.95 * std::f64::consts::FRAC_PI_2).tan() * 2.0 / 2f64.sqrt();
        assert!((low - (3.0 - half)).abs() < 1e-6 && (high - (3.0 + half)).abs() < 1e-6);
        assert_eq!(interval(&gain(9, 0.5, 0.0)), Some([0.5, 0.5]));
    }

    /// 25 rows with skewness 1.5 (a = 0.1), mean 1, sd 5: T of μ = 0 is 1, and g(1) = 1 + .1 +
    /// .01/3 + .05. t of 24 degrees of freedom is 2.063899; the ends are 1 − g⁻¹(±t), each with
    /// g⁻¹(x) = 10·(∛(1 + .3(x − .05)) − 1). The verdict is that of the interval: p < 5% exactly
    /// where it leaves out 0.
    #[test]
    fn few_rows_are_corrected_for_skewness() {
        let few = Gain {
            skew: Some(1.5),
            ..gain(25, 1.0, 5.0)
        };
        let [low, high] = interval(&few).unwrap();
        let end = |x: f64| 1.0 - 10.0 * ((1.0 + 0.3 * (x - 0.05)).cbrt() - 1.0);
        assert!((low - end(2.063_899)).abs() < 1e-5, "{low}");
        assert!((high - end(-2.063_899)).abs() < 1e-5, "{high}");
        assert!(high - 1.0 > 1.0 - low, "the long tail is on the right");
        let p = p_value(&few).unwrap();
        assert!((p - student::two_sided(1.15 + 0.01 / 3.0, 24.0)).abs() < 1e-12);
        for k in 0..60 {
            let moved = Gain {
                mean: Some(-3.0 + 0.1 * f64::from(k)),
                ..few
            };
            let [low, high] = interval(&moved).unwrap();
            let out = low > 0.0 || high < 0.0;
            assert_eq!(out, p_value(&moved).unwrap() < LEVEL, "{k}");
        }
        let many = Gain { n: 60, ..few };
        assert_eq!(interval(&many), interval(&gain(60, 1.0, 5.0)));
    }

    /// Two clusters of 10 and 30 rows, means 1 and 2: m = 1.75, sums −7.5 and 7.5,
    /// s = √(2·112.5)/40 = .375, one degree of freedom.
    #[test]
    fn the_total_takes_clients_as_clusters() {
        let (mean, interval) = clustered(&[gain(10, 1.0, 9.0), gain(30, 2.0, 9.0)]);
        assert_eq!(mean, Some(1.75));
        let half = (0.95 * std::f64::consts::FRAC_PI_2).tan() * 0.375;
        let [low, high] = interval.unwrap();
        assert!((low - (1.75 - half)).abs() < 1e-6 && (high - (1.75 + half)).abs() < 1e-6);
        assert_eq!(clustered(&[gain(10, 1.0, 9.0)]), (Some(1.0), None));
        assert_eq!(clustered(&[]), (None, None));
    }
}
