//! Finalization: every client's last local round, its scores and models, and the summary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::choice::Choices;
use super::passes::choose;
use super::stop::{StopReason, Stopped, still_falling};
use super::summary::{SummarySums, client_record};
use super::{Event, Finished, Program, Watch, environment};
use crate::choice::Choosing;
use crate::clients::{ClientModels, Finalized, Keep, ModelFiles};
use crate::engine::remote::SiteModels;
use crate::error::{Error, Result};
use crate::local_client::ModelForm;
use crate::run::run_dir::{ChosenRecord, ClientRecord, RunDir, Summary, read_rounds};
use crate::training::{RoundRecord, Setup, Training};

/// Represents the place where a run writes its results.
pub(super) enum Output {
    /// A run directory.
    Directory(RunDir),
    /// Memory, with the records of all rounds.
    Memory(Vec<RoundRecord>),
}

impl Output {
    pub(super) fn in_memory() -> Self {
        Output::Memory(Vec::new())
    }

    /// Appends the record of a round.
    pub(super) fn append(&mut self, record: &RoundRecord) -> Result<()> {
        match self {
            Output::Directory(directory) => directory.append(record),
            Output::Memory(rounds) => {
                rounds.push(record.clone());
                Ok(())
            }
        }
    }

    /// Makes the written records durable, before a checkpoint that relies on them.
    pub(super) fn sync(&self) -> Result<()> {
        match self {
            Output::Directory(directory) => directory.sync(),
            Output::Memory(_) => Ok(()),
        }
    }

    /// Returns the personal models' validation losses (without validation rows: training losses)
    /// of all evaluated rounds.
    fn losses(&self) -> Result<Vec<f64>> {
        let read;
        let rounds = match self {
            Output::Directory(directory) => {
                read = read_rounds(directory.path())?;
                &read
            }
            Output::Memory(rounds) => rounds,
        };
        let loss = |record: &RoundRecord| {
            let scores = record.scores.as_ref()?.personal;
            let valid = Some(scores.valid.loss).filter(|loss| loss.is_finite());
            Some(valid.unwrap_or(scores.train.loss))
        };
        Ok(rounds.iter().filter_map(loss).collect())
    }

    /// Returns the wall time of all rounds.
    fn seconds(&self) -> f64 {
        match self {
            Output::Directory(directory) => directory.seconds(),
            Output::Memory(rounds) => rounds.iter().map(|r| r.seconds).sum(),
        }
    }
}

/// How a run's training ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ending {
    /// The number of rounds trained.
    pub rounds: u64,
    /// Where it stopped, if not simply after all rounds.
    pub stopped: Option<Stopped>,
}

impl Ending {
    /// Returns by which share the loss still fell over the last tenth of a run that ended by its
    /// rounds.
    fn not_converged(&self, output: &Output) -> Result<Option<f64>> {
        match self.stopped.map(|stopped| stopped.reason) {
            None | Some(StopReason::Rounds) => Ok(still_falling(&output.losses()?)),
            Some(_) => Ok(None),
        }
    }

    /// Returns the summary with the rounds that were trained and where the run stopped.
    fn noted(&self, summary: Summary, not_converged: Option<f64>) -> Summary {
        Summary {
            rounds: self.rounds,
            stopped: self.stopped,
            not_converged,
            ..summary
        }
    }
}

/// Finalizes the clients and ends the run with its summary.
///
/// # Errors
/// [`Error::Interrupted`] if the watcher stops the run, which can then be finalized again.
pub(super) fn finalize(
    training: &mut Training,
    output: Output,
    choosing: Option<&Choosing>,
    choices: Choices,
    ending: Ending,
    watch: &mut Watch<'_>,
) -> Result<Finished> {
    let not_converged = ending.not_converged(&output)?;
    let choices = choose(training, choosing, choices, &output)?;
    let setup = training.setup().clone();
    let dataset = &setup.context.dataset;
    let receivers = training.receivers();
    let mut notify = |event: Event<'_>| {
        if watch(event).is_continue() {
            Ok(())
        } else {
            Err(Error::Interrupted("stopped during finalization".into()))
        }
    };
    if !receivers.is_empty() {
        notify(Event::Finalizing(receivers.len() as u64))?;
    }
    let (receivers, mut skipped) = partition_finite(training, receivers)?;
    let names: Vec<String> = receivers.iter().map(|k| dataset.name(*k)).collect();
    let scoring = setup.context.scoring();
    let mut sums = SummarySums::new(scoring);
    let rounds: BTreeMap<usize, u64> = receivers
        .iter()
        .map(|client| (*client, training.rounds_of(*client)))
        .collect();
    let epsilons = training.privacy().and_then(|(_, epsilons)| epsilons);
    let mut record = |finalized: &Finalized| {
        let attacker = setup.attackers.has(finalized.client);
        let choice = choices.by_client.get(&finalized.client);
        sums.add(finalized, choice, attacker);
        let chosen = choice.map(|choice| ChosenRecord::of(choice, &choices.candidates));
        let rounds = rounds[&finalized.client];
        let epsilon = epsilons.as_ref().map(|all| all[finalized.client]);
        ClientRecord {
            epsilon: epsilon.filter(|epsilon| epsilon.is_finite()),
            ..client_record(finalized, chosen, rounds, attacker, &scoring)
        }
    };

    let personal_form = training.personal_form();
    let finished = match output {
        Output::Directory(ref directory) => {
            let layout = setup.context.model.layout();
            directory.write_shared(layout, &training.output())?;
            let kept_here = setup.keep_models && setup.engine.shares_models();
            let models = kept_here.then_some((layout, personal_form));
            let alone = choosing.is_some_and(Choosing::has_alone);
            let mut files = directory.finalization(&names, models, alone)?;
            let (mut lines, keep) = files.parts();
            let keep = effective_keep(training, keep);
            let mut reached = BTreeSet::new();
            training.finalize_with(&receivers, keep, &mut |finalized| {
                let record = record(&finalized);
                if setup.engine.discloses_scores() {
                    lines.write(&record)?;
                }
                reached.insert(finalized.client);
                notify(Event::Finalized(reached.len() as u64))
            })?;
            skipped.extend(absent_clients(training, &receivers, &reached));
            files.commit()?;
            let summary =
                sums.summary(training, (choosing, &choices), &skipped, output.seconds())?;
            let summary = ending.noted(summary, not_converged);
            directory.write_summary(&summary)?;
            Finished::in_directory(summary, directory.path(), &setup, personal_form)
        }
        Output::Memory(rounds) => {
            let keep = if setup.keep_models {
                Keep::HandOver
            } else {
                Keep::Nothing
            };
            let keep = effective_keep(training, keep);
            let mut reached = BTreeSet::new();
            let mut clients = Vec::new();
            let mut models: BTreeMap<String, ClientModels> = BTreeMap::new();
            training.finalize_with(&receivers, keep, &mut |mut finalized| {
                clients.push(record(&finalized));
                reached.insert(finalized.client);
                if let Some(own) = finalized.models.take() {
                    models.insert(finalized.name, own);
                }
                notify(Event::Finalized(clients.len() as u64))
            })?;
            skipped.extend(absent_clients(training, &receivers, &reached));
            let seconds = rounds.iter().map(|r| r.seconds).sum();
            let summary = sums.summary(training, (choosing, &choices), &skipped, seconds)?;
            let summary = ending.noted(summary, not_converged);
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

/// Returns where models are kept: over sites, every site keeps its own.
fn effective_keep(training: &Training, keep: Keep) -> Keep {
    let setup = training.setup();
    match (setup.engine.shares_models(), setup.keep_models) {
        (true, _) => keep,
        (false, true) => Keep::AtOwner,
        (false, false) => Keep::Nothing,
    }
}

/// Returns the clients that finalization did not reach. Unless clients live at sites it reaches
/// all of them, since the files of models have a place for each.
fn absent_clients(
    training: &Training,
    receivers: &[usize],
    reached: &BTreeSet<usize>,
) -> Vec<usize> {
    let absent = receivers.iter().copied().filter(|k| !reached.contains(k));
    let absent: Vec<usize> = absent.collect();
    let shares = training.setup().engine.shares_models();
    assert!(!shares || absent.is_empty(), "every client responds");
    absent
}

/// Splits clients into those to finalize and those whose loss is not finite. The files of models
/// start with all names, so this must be known before they are written.
fn partition_finite(
    training: &mut Training,
    receivers: Vec<usize>,
) -> Result<(Vec<usize>, Vec<usize>)> {
    let setup = training.setup();
    if !setup.context.skip_nonfinite || !setup.engine.shares_models() {
        return Ok((receivers, Vec::new()));
    }
    let mut finite = BTreeSet::new();
    training.finalize_with(&receivers, Keep::Nothing, &mut |finalized| {
        finite.insert(finalized.client);
        Ok(())
    })?;
    Ok(receivers.into_iter().partition(|c| finite.contains(c)))
}

/// Writes the results that a site keeps as a finished run of one client, so that its models can
/// be used there without the server.
pub(crate) fn write_site(
    path: &Path,
    spec: &str,
    setup: &Setup,
    program: &Program,
    kept: &SiteModels,
    (rounds, state_digest): (u64, String),
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
    let mut sums = SummarySums::new(scoring);
    sums.add(finalized, None, false);
    lines.write(&client_record(finalized, None, rounds, false, &scoring))?;
    files.commit()?;
    directory.write_summary(&Summary {
        rounds,
        fingerprint: state_digest,
        ..sums.client_summary()
    })
}
