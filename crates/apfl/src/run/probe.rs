//! The probe that finds a learning rate.
//!
//! The run's first cohorts are trained from w⁰ for a few rounds with every rate of a list, on nine
//! tenths of every client's training rows. A rate whose loss is not finite is out. The largest rate
//! whose pooled loss of the personal models on the other tenth is within 1% of the best is taken.
//!
//! The results are in `probe/losses.jsonl` of the run directory, one line per rate, so that an
//! interrupted probe goes on with the next rate.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Event, Run, Watch};
use crate::choice::{HeldOut, Pass};
use crate::clients::Rate;
use crate::error::{Error, Result, at};
use crate::files::atomic::write_privately;
use crate::files::private;
use crate::spec::LEAST_RATE;
use crate::training::{FinalizedClients, Setup, StateHome, Training};

/// The rates that are compared, descending.
const RATES: [f64; 7] = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, LEAST_RATE];
/// The rounds that each of them is trained for.
const ROUNDS: u64 = 5;
/// The largest loss, relative to the best, of a rate that is as good.
const AS_GOOD: f64 = 1.01;
/// How often a run that diverges starts again, each time with a third of the rate.
pub(super) const MOST_RESTARTS: u64 = 3;

/// Returns every rate that a run with a probe may have.
pub(crate) fn rates() -> impl Iterator<Item = f64> {
    let times = 0..=MOST_RESTARTS;
    (RATES.into_iter()).flat_map(move |rate| times.clone().map(move |times| lowered(rate, times)))
}

/// Returns a third of a rate, so many times.
fn lowered(rate: f64, times: u64) -> f64 {
    (0..times).fold(rate, |rate, _| rate / 3.0)
}

/// Returns how many rounds a probe trains with all rates, for a run of at most `rounds` and rates
/// up to `most`.
pub fn probe_rounds(rounds: u64, most: Option<f64>) -> u64 {
    candidates(most).count() as u64 * ROUNDS.min(rounds)
}

fn candidates(most: Option<f64>) -> impl Iterator<Item = f64> {
    let most = most.unwrap_or(f64::INFINITY);
    RATES.into_iter().filter(move |rate| *rate <= most)
}

/// The result of a probe for one rate: a line of `probe/losses.jsonl`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProbedRate {
    /// The rate.
    pub learning_rate: f64,
    /// The pooled loss on the held-out rows; `None` if a loss was not finite.
    pub loss: Option<f64>,
    /// Wall time.
    pub seconds: f64,
}

/// Returns the largest rate whose loss is within 1% of the best; `None` if none is finite.
fn pick(probed: &[ProbedRate]) -> Option<f64> {
    let losses = probed.iter().filter_map(|probed| probed.loss);
    let best = losses.reduce(f64::min)?;
    let as_good = |probed: &&ProbedRate| probed.loss.is_some_and(|loss| loss <= AS_GOOD * best);
    let rates = probed.iter().filter(as_good).map(|p| p.learning_rate);
    rates.reduce(f64::max)
}

/// `rate.json` of a run directory: the learning rate that a probe found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundRate {
    /// The key that it is the value of.
    pub key: String,
    /// The rate that the run trains with.
    pub learning_rate: f64,
    /// How often the run diverged and started again with a third of the rate.
    pub restarts: u64,
    /// The results of the probe.
    pub probed: Vec<ProbedRate>,
}

impl FoundRate {
    /// Reads `rate.json`; `None` if there is none.
    pub(super) fn read(run: &Path) -> Result<Option<Self>> {
        let path = run.join(RATE_FILE);
        let text = match fs::read_to_string(&path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            other => other.map_err(at(&path, "read"))?,
        };
        let found: Self = serde_json::from_str(&text).map_err(|e| Error::in_file(&path, e))?;
        if rates().any(|rate| rate == found.learning_rate) {
            return Ok(Some(found));
        }
        let problem = format!(
            "found the rate {}, which no probe gives",
            found.learning_rate
        );
        Err(Error::in_file(&path, problem))
    }

    /// Writes `rate.json`.
    pub(super) fn write(&self, run: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self).expect("plain JSON");
        write_privately(&run.join(RATE_FILE), text + "\n")
    }

    /// Returns the record of a run that starts again with a third of the rate; `None` after the
    /// last restart.
    pub(super) fn lowered(&self) -> Option<Self> {
        (self.restarts < MOST_RESTARTS).then(|| Self {
            learning_rate: lowered(self.learning_rate, 1),
            restarts: self.restarts + 1,
            ..self.clone()
        })
    }
}

const RATE_FILE: &str = "rate.json";
const LOSSES: &str = "losses.jsonl";

impl Run {
    /// Finds the learning rate, in the directory of the run if there is one. Returns `None` if the
    /// caller stops it.
    ///
    /// # Errors
    /// If no rate has a finite loss.
    pub(super) fn probe(
        &self,
        directory: Option<&Path>,
        watch: &mut Watch<'_>,
    ) -> Result<Option<FoundRate>> {
        let directory = directory.map(|run| run.join("probe"));
        let mut probed = match &directory {
            None => Vec::new(),
            Some(directory) => {
                private::create_directory(directory)?;
                read_losses(directory)?
            }
        };
        let properties = self.plan.algorithm.properties();
        for rate in candidates(properties.max_learning_rate) {
            if probed.iter().any(|probed| probed.learning_rate == rate) {
                continue;
            }
            let started = std::time::Instant::now();
            let setup = self.probe_setup(rate, directory.as_deref());
            let Some(loss) = self.probe_rate(setup, rate, watch)? else {
                return Ok(None);
            };
            probed.push(ProbedRate {
                learning_rate: rate,
                loss: loss.is_finite().then_some(loss),
                seconds: started.elapsed().as_secs_f64(),
            });
            if let Some(directory) = &directory {
                let line = |probed| serde_json::to_string(probed).expect("plain JSON") + "\n";
                let lines: String = probed.iter().map(line).collect();
                write_privately(&directory.join(LOSSES), lines)?;
            }
        }
        let Some(learning_rate) = pick(&probed) else {
            return Err(Error::Request(format!(
                "training.learning_rate: found \"auto\", but no rate from {} to {LEAST_RATE} keeps \
                 the loss finite for {ROUNDS} rounds; check the data for huge numbers, or set a \
                 smaller rate",
                RATES[0]
            )));
        };
        Ok(Some(FoundRate {
            key: self.found_rate_key(),
            learning_rate,
            restarts: 0,
            probed,
        }))
    }

    /// Returns the key that a found rate is the value of.
    pub(super) fn found_rate_key(&self) -> String {
        match self.plan.own_rate_key() {
            Some(key) => format!("algorithm.{key}"),
            None => "training.learning_rate".into(),
        }
    }

    /// Returns the setup of the probe for one rate.
    fn probe_setup(&self, rate: f64, directory: Option<&Path>) -> Setup {
        let mut setup = self.setup.clone();
        setup.context.pass = Some(Pass::Probe);
        setup.context.rate = Rate::Set(rate);
        setup.rounds = setup.rounds.min(ROUNDS);
        setup.evaluate_every = u64::MAX; // the last round alone
        setup.finalized_clients = FinalizedClients::None;
        if let (StateHome::Disk { file, .. }, Some(directory)) = (&mut setup.home, directory) {
            *file = directory.join("memories.scratch");
        }
        setup
    }

    /// Trains with one rate. Returns the loss on the held-out rows, infinite if any loss was not
    /// finite; `None` if the caller stops it.
    fn probe_rate(&self, setup: Setup, rate: f64, watch: &mut Watch<'_>) -> Result<Option<f64>> {
        let mut training = self.start.training(setup)?;
        loop {
            let round = training.written();
            if watch(Event::Probe { rate, round }).is_break() {
                return Ok(None);
            }
            match training.next_round() {
                Ok(Some(record)) => {
                    let absent = training.recorded().absent.get(&record.round);
                    if record.skipped.len() > absent.map_or(0, Vec::len) {
                        return Ok(Some(f64::INFINITY)); // left out, as the loss was not finite
                    }
                }
                Ok(None) => break,
                Err(Error::NonFinite { .. }) => return Ok(Some(f64::INFINITY)),
                Err(error) => return Err(error),
            }
        }
        match held_out_loss(&mut training) {
            Err(Error::NonFinite { .. }) => Ok(Some(f64::INFINITY)),
            other => other.map(Some),
        }
    }
}

/// Returns the mean loss of the personal models on the held-out rows of the clients that took part;
/// with candidates, that of the best one.
fn held_out_loss(training: &mut Training) -> Result<f64> {
    let attackers = training.setup().attackers.clone();
    let sampled = training.sampled();
    let honest: Vec<usize> = sampled.into_iter().filter(|k| !attackers.has(*k)).collect();
    let losses = training.hold_out(&honest)?;
    let mut total = HeldOut::default();
    losses.values().for_each(|own| total.add(own));
    // Over sites some may just not have responded.
    let left_out = training.setup().engine.shares_models() && losses.len() < honest.len();
    if left_out || total.rows == 0 {
        return Ok(f64::INFINITY);
    }
    Ok(total.means().into_iter().fold(f64::INFINITY, f64::min))
}

fn read_losses(directory: &Path) -> Result<Vec<ProbedRate>> {
    let path = directory.join(LOSSES);
    let text = match fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(at(&path, "read"))?,
    };
    let line = |line: &str| serde_json::from_str(line).map_err(|e| Error::in_file(&path, e));
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(losses: &[(f64, f64)]) -> Vec<ProbedRate> {
        let line = |(rate, loss): &(f64, f64)| ProbedRate {
            learning_rate: *rate,
            loss: loss.is_finite().then_some(*loss),
            seconds: 0.0,
        };
        losses.iter().map(line).collect()
    }

    /// The best loss is 0.500, so 0.505 is as good and 0.506 is not.
    #[test]
    fn the_largest_rate_that_is_as_good_is_picked() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let all = [
            (1.0, inf),
            (0.3, 0.506),
            (0.1, 0.505),
            (0.03, 0.5),
            (0.01, 0.7),
        ];
        assert_eq!(pick(&probed(&all)), Some(0.1));
        let all = [(1.0, 0.50501), (0.3, 0.505), (0.1, 0.5)];
        assert_eq!(pick(&probed(&all)), Some(0.3));
        assert_eq!(
            pick(&probed(&[(1.0, nan), (0.3, inf), (0.1, 9.0)])),
            Some(0.1)
        );
        assert_eq!(pick(&probed(&[(1.0, nan), (0.3, inf)])), None);
        assert_eq!(pick(&[]), None);
    }

    #[test]
    fn a_run_starts_again_three_times_with_a_third() {
        let mut found = FoundRate {
            key: "training.learning_rate".into(),
            learning_rate: 0.3,
            restarts: 0,
            probed: Vec::new(),
        };
        for expected in [0.3 / 3.0, 0.3 / 3.0 / 3.0, 0.3 / 3.0 / 3.0 / 3.0] {
            found = found.lowered().unwrap();
            assert_eq!(found.learning_rate, expected);
            assert!(rates().any(|rate| rate == expected));
        }
        assert_eq!(found.lowered(), None);
    }

    /// Seven rates for five rounds, or six where 1 is too large, or fewer rounds.
    #[test]
    fn what_a_probe_costs() {
        assert_eq!(probe_rounds(100, None), 35);
        assert_eq!(probe_rounds(100, Some(0.5)), 30);
        assert_eq!(probe_rounds(2, None), 14);
    }
}
