//! Delivery: every client's last local round, its scores and models, and the summary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::choice::{Choice, Choices};
use super::passes::choose;
use super::{Event, Finished, Program, Watch, environment};
use crate::choice::Choosing;
use crate::clients::{ClientModels, Finalized, Keep, ModelFiles};
use crate::engine::remote::SiteModels;
use crate::error::{Error, Result};
use crate::local_client::ModelForm;
use crate::metrics::{Assessment, ByModel, FinalsAccumulator, Gain, Scoring, Spread};
use crate::run::run_dir::{
    Baseline, ChosenRecord, ClientRecord, Counts, GainSplit, Prior, RunDir, Summary, TotalGain,
};
use crate::training::{RoundRecord, Setup, Training};

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
pub(super) fn finalize(
    training: &mut Training,
    output: Output,
    choosing: Option<&Choosing>,
    choices: Choices,
    watch: &mut Watch<'_>,
) -> Result<Finished> {
    let choices = choose(training, choosing, choices, &output)?;
    let setup = training.setup().clone();
    let dataset = &setup.context.dataset;
    let receivers = training.receivers();
    let mut go_on = |event: Event<'_>| {
        if watch(event).is_continue() {
            Ok(())
        } else {
            Err(Error::Interrupted("stopped during delivery".into()))
        }
    };
    if !receivers.is_empty() {
        go_on(Event::Finalizing(receivers.len() as u64))?;
    }
    let (receivers, mut skipped) = finite(training, receivers)?;
    let names: Vec<String> = receivers.iter().map(|k| dataset.name(*k)).collect();
    let scoring = setup.context.scoring();
    let mut sums = Sums::new(scoring);
    let rounds: BTreeMap<usize, u64> = receivers
        .iter()
        .map(|client| (*client, training.rounds_of(*client)))
        .collect();
    let each = training.privacy().and_then(|(_, each)| each);
    let mut record = |finalized: &Finalized| {
        let attacker = setup.attackers.has(finalized.client);
        let choice = choices.of.get(&finalized.client);
        sums.add(finalized, choice, attacker);
        let chosen = choice.map(|choice| ChosenRecord::of(choice, &choices.list));
        let rounds = rounds[&finalized.client];
        let epsilon = each.as_ref().map(|each| each[finalized.client]);
        ClientRecord {
            epsilon: epsilon.filter(|epsilon| epsilon.is_finite()),
            ..record_of(finalized, chosen, rounds, attacker, &scoring)
        }
    };

    let personal_form = training.personal_form();
    let finished = match output {
        Output::Directory(ref directory) => {
            let layout = setup.context.model.layout();
            directory.write_shared(layout, &training.output())?;
            let here = setup.keep_models && setup.engine.shares_models();
            let models = here.then_some((layout, personal_form));
            let alone = choosing.is_some_and(Choosing::has_alone);
            let mut files = directory.finalization(&names, models, alone)?;
            let (mut lines, keep) = files.parts();
            let keep = kept(training, keep);
            let mut reached = BTreeSet::new();
            training.finalized_clients(&receivers, keep, &mut |finalized| {
                let record = record(&finalized);
                if setup.engine.discloses_scores() {
                    lines.write(&record)?;
                }
                reached.insert(finalized.client);
                go_on(Event::Finalized(reached.len() as u64))
            })?;
            skipped.extend(absent(training, &receivers, &reached));
            files.commit()?;
            let summary =
                sums.summary(training, (choosing, &choices), &skipped, output.seconds())?;
            directory.write_summary(&summary)?;
            Finished::in_directory(summary, directory.path(), &setup, personal_form)
        }
        Output::Memory(rounds) => {
            let keep = if setup.keep_models {
                Keep::HandOver
            } else {
                Keep::Nothing
            };
            let keep = kept(training, keep);
            let mut reached = BTreeSet::new();
            let mut clients = Vec::new();
            let mut models: BTreeMap<String, ClientModels> = BTreeMap::new();
            training.finalized_clients(&receivers, keep, &mut |mut finalized| {
                clients.push(record(&finalized));
                reached.insert(finalized.client);
                if let Some(own) = finalized.models.take() {
                    models.insert(finalized.name, own);
                }
                go_on(Event::Finalized(clients.len() as u64))
            })?;
            skipped.extend(absent(training, &receivers, &reached));
            let seconds = rounds.iter().map(|r| r.seconds).sum();
            let summary = sums.summary(training, (choosing, &choices), &skipped, seconds)?;
            let shared = training.output();
            Finished::in_memory(
                summary,
                &setup,
                personal_form,
                shared,
                rounds,
                choices,
                (clients, models),
            )
        }
    };
    Ok(finished)
}

/// What becomes of models: over sites, each keeps its own.
fn kept(training: &Training, keep: Keep) -> Keep {
    let setup = training.setup();
    match (setup.engine.shares_models(), setup.keep_models) {
        (true, _) => keep,
        (false, true) => Keep::AtOwner,
        (false, false) => Keep::Nothing,
    }
}

/// Those that delivery did not reach. Within one trust domain it reaches everybody, or there
/// would be a hole in the files of models.
fn absent(training: &Training, receivers: &[usize], reached: &BTreeSet<usize>) -> Vec<usize> {
    let absent = receivers.iter().copied().filter(|k| !reached.contains(k));
    let absent: Vec<usize> = absent.collect();
    let shares = training.setup().engine.shares_models();
    assert!(!shares || absent.is_empty(), "everybody was asked");
    absent
}

/// Who is delivered to, and who is left out because its loss is not finite. The files of
/// models begin with the names in them, so this must be known before.
fn finite(training: &mut Training, receivers: Vec<usize>) -> Result<(Vec<usize>, Vec<usize>)> {
    let setup = training.setup();
    if !setup.context.skip_nonfinite || !setup.engine.shares_models() {
        return Ok((receivers, Vec::new()));
    }
    let mut finite = BTreeSet::new();
    training.finalized_clients(&receivers, Keep::Nothing, &mut |finalized| {
        finite.insert(finalized.client);
        Ok(())
    })?;
    Ok(receivers.into_iter().partition(|c| finite.contains(c)))
}

/// What the summary is made of.
struct Sums {
    scoring: Scoring,
    reached: usize,
    clients: usize,
    gathered: ByModel<FinalsAccumulator>,
    alone: FinalsAccumulator,
    gains: Vec<Gain>,
    chosen: BTreeMap<String, usize>,
    mixing: Vec<f64>,
    /// Hits and validation examples of always answering the commonest training class.
    majority: Vec<(f64, f64)>,
}

impl Sums {
    fn new(scoring: Scoring) -> Self {
        Self {
            scoring,
            reached: 0,
            clients: 0,
            gathered: ByModel::default(),
            alone: FinalsAccumulator::default(),
            gains: Vec::new(),
            chosen: BTreeMap::new(),
            mixing: Vec::new(),
            majority: Vec::new(),
        }
    }

    fn add(&mut self, finalized: &Finalized, choice: Option<&Choice>, attacker: bool) {
        self.reached += 1;
        if attacker {
            return;
        }
        self.clients += 1;
        self.mixing.extend(finalized.mixing.map(f64::from));
        let valid = finalized.examples.1 as f64;
        let hits = finalized.majority.map(|share| (share * valid, valid));
        self.majority.extend(hits);
        let ByModel {
            shared,
            localized,
            personal,
        } = &finalized.finals;
        self.gathered.shared.add(shared, &self.scoring);
        self.gathered.localized.add(localized, &self.scoring);
        self.gathered.personal.add(personal, &self.scoring);
        if let Some(alone) = &finalized.alone {
            self.alone.add(alone, &self.scoring);
        }
        self.gains.extend(finalized.gain);
        if let Some(choice) = choice {
            *self.chosen.entry(choice.candidate.name()).or_default() += 1;
        }
    }

    fn summary(
        self,
        training: &mut Training,
        (choosing, choices): (Option<&Choosing>, &Choices),
        skipped: &[usize],
        seconds: f64,
    ) -> Result<Summary> {
        let setup = training.setup().clone();
        let name = |client: &usize| setup.context.dataset.name(*client);
        let prior = choosing
            .filter(|_| !choices.list.is_empty())
            .map(|choosing| Prior::of(choices, choosing.prior));
        Ok(Summary {
            rounds: training.round(),
            skipped: skipped.iter().map(name).collect(),
            fingerprint: training.fingerprint()?,
            prior,
            privacy: training.privacy().map(|(spent, _)| spent),
            seconds: seconds + choices.seconds,
            ..self.total()
        })
    }

    /// The summary, as far as the clients alone make it.
    fn total(self) -> Summary {
        let over = |gathered: &FinalsAccumulator| gathered.summarize(&self.scoring);
        Summary {
            rounds: 0,
            clients: self.clients,
            skipped: Vec::new(),
            attackers: self.reached - self.clients,
            fingerprint: String::new(),
            baseline: baseline(self.gathered.shared.valid(), &self.scoring),
            models: over(&self.gathered.shared).map(|shared| ByModel {
                shared,
                localized: over(&self.gathered.localized).expect("as many as shared"),
                personal: over(&self.gathered.personal).expect("as many as shared"),
            }),
            majority: (!self.majority.is_empty()).then(|| {
                let sum =
                    |pick: fn(&(f64, f64)) -> f64| self.majority.iter().map(pick).sum::<f64>();
                sum(|(hits, _)| *hits) / sum(|(_, valid)| *valid)
            }),
            mixing: Spread::of(&self.mixing),
            alone: over(&self.alone),
            gain: (!self.gains.is_empty()).then(|| TotalGain {
                part: if self.scoring.tested {
                    GainSplit::Test
                } else {
                    GainSplit::Valid
                },
                gain: Gain::pooled(self.gains.iter()),
            }),
            chosen: self.chosen,
            prior: None,
            privacy: None,
            seconds: 0.0,
        }
    }
}

/// Writes what delivery left at a client's own site as a finished run of one client, so that
/// its models can be used there without the server.
pub(crate) fn write_site(
    path: &Path,
    spec: &str,
    setup: &Setup,
    program: &Program,
    kept: &SiteModels,
    (rounds, memory): (u64, String),
    personal_form: ModelForm,
) -> Result<()> {
    let (finalized, shared) = kept;
    let (schema, layout) = (setup.context.dataset.schema(), setup.context.model.layout());
    let environment = environment::of(setup, program);
    let directory = RunDir::create(path, spec, &[], schema, &environment)?;
    directory.write_shared(layout, shared)?;
    let models = finalized.models.as_ref();
    let alone = models.is_some_and(|models| models.alone.is_some());
    let names = std::slice::from_ref(&finalized.name);
    let forms = models.map(|_| (layout, personal_form));
    let mut files = directory.finalization(names, forms, alone)?;
    let (mut lines, keep) = files.parts();
    if let (Keep::InFiles(places), Some(models)) = (keep, models) {
        let files = ModelFiles::open(&places)?;
        files.write(0, models)?;
        files.sync()?;
    }
    let scoring = setup.context.scoring();
    let mut sums = Sums::new(scoring);
    sums.add(finalized, None, false);
    lines.write(&record_of(finalized, None, rounds, false, &scoring))?;
    files.commit()?;
    directory.write_summary(&Summary {
        rounds,
        fingerprint: memory,
        ..sums.total()
    })
}

/// Validation errors of always answering the mean of a client's training examples.
fn baseline(valid: &Assessment, scoring: &Scoring) -> Option<Baseline> {
    let values = valid.values.filter(|values| values.truth.n > 0)?;
    let n = values.truth.n as f64;
    Some(Baseline {
        rmse: scoring.unit * (values.mean_squared / n).sqrt(),
        mae: scoring.unit * values.mean_absolute / n,
    })
}

fn record_of(
    finalized: &Finalized,
    chosen: Option<ChosenRecord>,
    rounds: u64,
    attacker: bool,
    scoring: &Scoring,
) -> ClientRecord {
    let mixing = finalized.mixing.map(f64::from);
    ClientRecord {
        client: finalized.name.clone(),
        examples: Counts {
            train: finalized.examples.0,
            valid: finalized.examples.1,
            test: scoring.tested.then_some(finalized.test_examples),
        },
        classes: finalized.classes.clone(),
        rounds,
        attacker,
        epsilon: None,
        mixing: (mixing.is_some() || chosen.is_some()).then_some(mixing),
        majority: finalized.majority,
        baseline: baseline(&finalized.finals.shared.valid, scoring),
        scores: finalized.finals.map(|finals| scoring.scores(finals)),
        chosen,
        alone: finalized.alone.as_ref().map(|alone| scoring.scores(alone)),
        gain: finalized.gain,
    }
}
