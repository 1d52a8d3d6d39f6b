//! Passes of a run with a choice. First come passes with held-out rows, each a run of its own in
//! `choice/1` …; then all clients choose, and the last pass trains with their choices.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::choice::Choices;
use super::finalization::Output;
use super::run_dir::{HeldOutRecord, Summary};
use super::stop::median;
use super::{Ended, Event, Run, Watch};
use crate::choice::{Choosing, HeldOut, Pass};
use crate::error::Result;
use crate::files::private;
use crate::training::{FinalizedClients, Setup, StateHome, Training};

/// Outcome of the passes before the last one.
pub(super) enum EarlierPasses {
    /// The setup of the last (or only) pass, and the clients' choices.
    Done(Box<Setup>, Choices),
    /// The caller stopped the run in this round of a pass.
    Stopped(u64),
}

impl Run {
    /// Trains the passes of a choice before the last one, in the directory of the run.
    pub(super) fn earlier_passes(
        &self,
        directory: Option<&Path>,
        watch: &mut Watch<'_>,
    ) -> Result<EarlierPasses> {
        let choosing = match self.plan.algorithm.choosing() {
            Some(choosing) if self.setup.context.pass.is_none() => choosing,
            _ => {
                let setup = Box::new(self.setup.clone());
                return Ok(EarlierPasses::Done(setup, Choices::default()));
            }
        };
        let of = choosing.folds + 1;
        let mut held_out: BTreeMap<usize, HeldOut> = BTreeMap::new();
        let mut seconds = 0.0;
        let mut best_rounds = Vec::new();
        for pass in 1..=choosing.folds {
            if watch(Event::Pass { pass, of }).is_break() {
                return Ok(EarlierPasses::Stopped(0));
            }
            let run = self.pass(pass, directory)?;
            match run.watch(watch)? {
                Ended::Stopped(round) => return Ok(EarlierPasses::Stopped(round)),
                Ended::Finished(finished) => {
                    seconds += finished.summary.seconds;
                    let Summary {
                        rounds, stopped, ..
                    } = finished.summary;
                    best_rounds.push(stopped.map_or(rounds, |stopped| stopped.served));
                    let own = finished.held_out(&self.setup)?;
                    own.iter()
                        .for_each(|(k, own)| held_out.entry(*k).or_default().add(own));
                }
            }
        }
        // A client without a finite loss in any pass chooses by the others' losses.
        for client in self.choosers() {
            held_out.entry(client).or_default();
        }
        let mut choices = choices_of(&self.setup, choosing, held_out);
        choices.seconds = seconds;
        if watch(Event::Pass { pass: of, of }).is_break() {
            return Ok(EarlierPasses::Stopped(0));
        }
        let mut setup = self.setup.clone();
        setup.context.pass = Some(Pass::Last);
        if let (Some(_), Some(median)) = (self.plan.stop, median(best_rounds)) {
            setup.rounds = median.clamp(1, setup.rounds);
        }
        Ok(EarlierPasses::Done(Box::new(setup), choices))
    }

    /// Returns all clients that need a choice.
    fn choosers(&self) -> BTreeSet<usize> {
        let all = 0..self.setup.context.dataset.clients();
        match self.setup.finalized_clients {
            // With a ledger, cohorts do not follow from the seed and are not known yet.
            _ if self.setup.ledger().is_some() => all.collect(),
            FinalizedClients::All => all.collect(),
            FinalizedClients::Sampled | FinalizedClients::None => (1..=self.setup.rounds)
                .flat_map(|round| self.setup.cohort(round))
                .collect(),
        }
    }

    /// Returns one pass as a run of its own, which holds out rows and keeps no models.
    fn pass(&self, pass: u64, run: Option<&Path>) -> Result<Run> {
        let directory: Option<PathBuf> = match run {
            None => None,
            Some(run) => {
                let choice = run.join("choice");
                private::create_directory(&choice)?;
                Some(choice.join(pass.to_string()))
            }
        };
        let mut setup = self.setup.clone();
        setup.context.pass = Some(Pass::HeldOut(pass));
        setup.keep_models = false;
        setup.notes.clear();
        if let (StateHome::Disk { file, .. }, Some(directory)) = (&mut setup.home, &directory) {
            *file = directory.join("memories.scratch");
        }
        Ok(Run {
            setup,
            plan: self.plan.with_pass(pass),
            start: self.start.clone(),
            directory,
            resumes: run.is_some(),
            finishes: false,
            program: self.program.clone(),
            force: self.force,
        })
    }
}

/// Lets clients choose by the rows that this training held out, records their losses and sends
/// every client its choice. Returns `given` if the training held out no rows.
pub(super) fn choose(
    training: &mut Training,
    choosing: Option<&Choosing>,
    given: Choices,
    output: &Output,
) -> Result<Choices> {
    let choosing = match (training.setup().context.pass, choosing) {
        (Some(Pass::HeldOut(_)), Some(choosing)) => choosing,
        _ => return Ok(given),
    };
    let choosers = match training.setup().finalized_clients {
        FinalizedClients::None => training.sampled(),
        _ => training.receivers(),
    };
    let held_out = training.hold_out(&choosers)?;
    let setup = training.setup();
    if let Output::Directory(directory) = output {
        let record = |(client, own): (&usize, &HeldOut)| HeldOutRecord {
            client: setup.context.dataset.name(*client),
            held_out: own.clone(),
        };
        let records: Vec<HeldOutRecord> = held_out.iter().map(record).collect();
        directory.write_held_out(&records)?;
    }
    let choices = choices_of(setup, choosing, held_out);
    training.choose(choices.chosen())?;
    Ok(choices)
}

/// Makes the choices of all clients. Attackers are not part of ℓ̄. With privacy no client is,
/// since the clients' losses are not added up.
fn choices_of(setup: &Setup, choosing: &Choosing, held_out: BTreeMap<usize, HeldOut>) -> Choices {
    let counts = |client| setup.privacy.is_none() && !setup.attackers.has(client);
    Choices::make(choosing, held_out, counts)
}
