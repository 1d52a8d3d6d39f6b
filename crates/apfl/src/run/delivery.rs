//! Delivery: every client's last local round, its scores and models, and the summary.

use std::collections::{BTreeMap, BTreeSet};

use super::{Event, Finished, Watch};
use crate::clients::{ClientModels, Delivered, Keep};
use crate::error::{Error, Result};
use crate::metrics::{ByModel, OverClients, Spread, Tallies};
use crate::store::run_dir::{ClientRecord, Counts, RunDir, Summary};
use crate::training::{RoundRecord, Training};

/// Where a run writes what it leaves.
pub(super) enum Output {
    /// Into a run directory.
    Directory(RunDir),
    /// Nowhere: it stays in memory.
    Memory(Vec<RoundRecord>),
}

impl Output {
    pub(super) fn in_memory() -> Self {
        Output::Memory(Vec::new())
    }

    /// Writes a round down.
    pub(super) fn append(&mut self, record: &RoundRecord) -> Result<()> {
        match self {
            Output::Directory(directory) => directory.append(record),
            Output::Memory(rounds) => {
                rounds.push(record.clone());
                Ok(())
            }
        }
    }

    /// Makes what was written so far durable: before a checkpoint that relies on it.
    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Output::Directory(directory) => directory.sync(),
            Output::Memory(_) => Ok(()),
        }
    }

    fn seconds(&self) -> f64 {
        match self {
            Output::Directory(directory) => directory.seconds(),
            Output::Memory(rounds) => rounds.iter().map(|r| r.seconds).sum(),
        }
    }
}

/// Delivers to every client that is to get its models, and ends the run with its summary.
/// [`Error::Interrupted`] where the watcher says so: it can be delivered again.
pub(super) fn deliver(
    training: &mut Training,
    output: Output,
    watch: &mut Watch<'_>,
) -> Result<Finished> {
    let setup = training.setup().clone();
    let dataset = &setup.world.dataset;
    let receivers = training.receivers();
    let mut go_on = |event: Event<'_>| match watch(event).is_continue() {
        true => Ok(()),
        false => Err(Error::Interrupted("stopped during delivery".into())),
    };
    if !receivers.is_empty() {
        go_on(Event::Delivering(receivers.len() as u64))?;
    }
    let (receivers, skipped) = finite(training, receivers)?;
    let names: Vec<String> = receivers.iter().map(|k| dataset.name(*k)).collect();
    let mut sums = Sums::default();
    let rounds: BTreeMap<usize, u64> = receivers
        .iter()
        .map(|client| (*client, training.rounds_of(*client)))
        .collect();
    let regression = dataset.schema().task.classes() == 0;
    let each = training.privacy().and_then(|(_, each)| each);
    let mut record = |delivered: &Delivered| {
        let attacker = setup.attackers.has(delivered.client);
        sums.add(delivered, attacker);
        let epsilon = each.as_ref().map(|each| each[delivered.client]);
        ClientRecord {
            epsilon: epsilon.filter(|epsilon| epsilon.is_finite()),
            ..record_of(delivered, rounds[&delivered.client], attacker, regression)
        }
    };

    let finished = match output {
        Output::Directory(ref directory) => {
            let layout = setup.world.model.layout();
            directory.write_shared(layout, &training.output())?;
            let personal = match training.mixes_outputs() {
                true => layout.mixture(),
                false => layout.clone(),
            };
            let layouts = setup.keep_models.then_some((&personal, layout));
            let mut files = directory.delivery(&names, layouts)?;
            let (mut lines, keep) = files.parts();
            let mut reached = 0;
            training.deliver_to(&receivers, keep, &mut |delivered| {
                lines.write(&record(&delivered))?;
                reached += 1;
                go_on(Event::Delivered(reached))
            })?;
            sums.require_all(receivers.len());
            files.commit()?;
            let summary = sums.summary(training, &skipped, output.seconds())?;
            directory.write_summary(&summary)?;
            Finished::in_directory(summary, directory.path(), &setup, training.mixes_outputs())
        }
        Output::Memory(rounds) => {
            let keep = match setup.keep_models {
                true => Keep::HandOver,
                false => Keep::Nothing,
            };
            let mut clients = Vec::new();
            let mut models: BTreeMap<String, ClientModels> = BTreeMap::new();
            training.deliver_to(&receivers, keep, &mut |mut delivered| {
                clients.push(record(&delivered));
                if let Some(own) = delivered.models.take() {
                    models.insert(delivered.name, own);
                }
                go_on(Event::Delivered(clients.len() as u64))
            })?;
            sums.require_all(receivers.len());
            let seconds = rounds.iter().map(|r| r.seconds).sum();
            let summary = sums.summary(training, &skipped, seconds)?;
            let shared = training.output();
            Finished::in_memory(summary, &setup, shared, rounds, (clients, models))
        }
    };
    Ok(finished)
}

/// Who is delivered to, and who is left out because its loss is not finite. The files of
/// models begin with the names in them, so this must be known before.
fn finite(training: &mut Training, receivers: Vec<usize>) -> Result<(Vec<usize>, Vec<usize>)> {
    if !training.setup().world.skip_nonfinite {
        return Ok((receivers, Vec::new()));
    }
    let mut finite = BTreeSet::new();
    training.deliver_to(&receivers, Keep::Nothing, &mut |delivered| {
        finite.insert(delivered.client);
        Ok(())
    })?;
    Ok(receivers.into_iter().partition(|c| finite.contains(c)))
}

/// What the summary is made of.
#[derive(Default)]
struct Sums {
    reached: usize,
    tallies: Vec<ByModel<Tallies>>,
    mixing: Vec<f64>,
    /// Hits and validation examples of always answering the commonest training class.
    majority: Vec<(f64, f64)>,
}

impl Sums {
    fn add(&mut self, delivered: &Delivered, attacker: bool) {
        self.reached += 1;
        if attacker {
            return;
        }
        self.mixing.extend(delivered.mixing.map(f64::from));
        let valid = delivered.examples.1 as f64;
        let hits = delivered.majority.map(|share| (share * valid, valid));
        self.majority.extend(hits);
        self.tallies.push(delivered.tallies);
    }

    /// An engine that leaves a client out would leave a hole in the files of models.
    fn require_all(&self, receivers: usize) {
        assert_eq!(self.reached, receivers, "everybody was asked");
    }

    fn summary(self, training: &mut Training, skipped: &[usize], seconds: f64) -> Result<Summary> {
        let setup = training.setup().clone();
        let regression = setup.world.dataset.schema().task.classes() == 0;
        let over = |pick: fn(&ByModel<Tallies>) -> Tallies| {
            let each: Vec<Tallies> = self.tallies.iter().map(pick).collect();
            OverClients::of(&each, regression)
        };
        let name = |client: &usize| setup.world.dataset.name(*client);
        Ok(Summary {
            rounds: setup.rounds,
            clients: self.tallies.len(),
            skipped: skipped.iter().map(name).collect(),
            attackers: self.reached - self.tallies.len(),
            fingerprint: training.fingerprint()?,
            models: over(|t| t.shared).map(|shared| ByModel {
                shared,
                localized: over(|t| t.localized).expect("as many as shared"),
                personal: over(|t| t.personal).expect("as many as shared"),
            }),
            majority: (!self.majority.is_empty()).then(|| {
                let sum =
                    |pick: fn(&(f64, f64)) -> f64| self.majority.iter().map(pick).sum::<f64>();
                sum(|(hits, _)| *hits) / sum(|(_, valid)| *valid)
            }),
            mixing: Spread::of(&self.mixing),
            privacy: training.privacy().map(|(spent, _)| spent),
            seconds,
        })
    }
}

fn record_of(delivered: &Delivered, rounds: u64, attacker: bool, regression: bool) -> ClientRecord {
    ClientRecord {
        client: delivered.name.clone(),
        examples: Counts {
            train: delivered.examples.0,
            valid: delivered.examples.1,
        },
        classes: delivered.classes.clone(),
        rounds,
        attacker,
        epsilon: None,
        mixing: delivered.mixing.map(f64::from),
        majority: delivered.majority,
        scores: delivered.tallies.map(|t| t.scores(regression)),
    }
}
