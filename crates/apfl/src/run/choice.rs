//! A run that chooses: passes with rows held out, each an ordinary run of its own in
//! `choice/1` …, then everybody's choice, then the last pass with it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::{Table, Value};

use super::{Ended, Event, Run, Watch};
use crate::choice::{Choices, HeldOut, Pass};
use crate::error::Result;
use crate::files::private;
use crate::training::{FinalizedClients, Setup, StateHome};

/// What becomes of the passes before the last one.
pub(super) enum Before {
    /// The setup of the training that is left: the last pass, or the only one.
    Ready(Box<Setup>),
    /// The caller ended it, in that round of a pass.
    Stopped(u64),
}

impl Run {
    /// Carries out the passes of a choice, where there are any before the last one, in the
    /// directory of the run.
    pub(super) fn before(&self, directory: Option<&Path>, watch: &mut Watch<'_>) -> Result<Before> {
        let whole = self.setup.context.pass.is_none();
        let choosing = self.choosing.as_ref().filter(|_| whole);
        let Some(choosing) = choosing else {
            return Ok(Before::Ready(Box::new(self.setup.clone())));
        };
        let of = choosing.folds + 1;
        let mut held_out: BTreeMap<usize, HeldOut> = BTreeMap::new();
        let mut seconds = 0.0;
        for pass in 1..=choosing.folds {
            if watch(Event::Pass { pass, of }).is_break() {
                return Ok(Before::Stopped(0));
            }
            let run = self.pass(pass, directory)?;
            match run.watch(watch)? {
                Ended::Stopped(round) => return Ok(Before::Stopped(round)),
                Ended::Finished(finished) => {
                    seconds += finished.summary.seconds;
                    let own = finished.held_out(&self.setup)?;
                    own.iter()
                        .for_each(|(k, own)| held_out.entry(*k).or_default().add(own));
                }
            }
        }
        // Whoever lost its loss in every pass follows the others.
        for client in self.choosers() {
            held_out.entry(client).or_default();
        }
        let attackers = &self.setup.attackers;
        // With privacy nobody's losses are added up: who held nothing out takes the first candidate.
        let counts = |client| self.setup.privacy.is_none() && !attackers.has(client);
        let mut choices = Choices::make(choosing, held_out, counts);
        choices.seconds = seconds;
        if watch(Event::Pass { pass: of, of }).is_break() {
            return Ok(Before::Stopped(0));
        }
        let mut setup = self.setup.clone();
        setup.context.pass = Some(Pass::Last);
        setup.choices = Arc::new(choices);
        Ok(Before::Ready(Box::new(setup)))
    }

    /// Everybody who needs a choice.
    fn choosers(&self) -> BTreeSet<usize> {
        let everybody = 0..self.setup.context.dataset.clients();
        match self.setup.finalized_clients {
            // Who will be drawn is not known before, where nothing follows from the seed.
            _ if self.setup.ledger().is_some() => everybody.collect(),
            FinalizedClients::All => everybody.collect(),
            FinalizedClients::Sampled | FinalizedClients::None => (1..=self.setup.rounds)
                .flat_map(|round| self.setup.cohort(round))
                .collect(),
        }
    }

    /// One pass as a run of its own: the same but for the rows it holds out, and no models
    /// are kept.
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
            start: self.start.clone(),
            choosing: self.choosing.clone(),
            personal_form: self.personal_form,
            spec: spec_of(&self.spec, pass),
            checkpoint_every: self.checkpoint_every,
            directory,
            resumes: run.is_some(),
            program: self.program.clone(),
            force: self.force,
        })
    }
}

/// The spec of a pass: it runs by itself to the same result.
fn spec_of(whole: &Table, pass: u64) -> Table {
    let mut spec = whole.clone();
    let table = |value: &mut Value| value.as_table_mut().map(std::mem::take);
    let mut algorithm = spec
        .get_mut("algorithm")
        .and_then(table)
        .unwrap_or_default();
    match algorithm.get_mut("mixing").and_then(Value::as_table_mut) {
        Some(mixing) => mixing.insert("pass".into(), (pass as i64).into()),
        None => algorithm.insert("pass".into(), (pass as i64).into()),
    };
    spec.insert("algorithm".into(), algorithm.into());
    let mut finalization = spec.get_mut("delivery").and_then(table).unwrap_or_default();
    finalization.insert("keep".into(), false.into());
    spec.insert("delivery".into(), finalization.into());
    spec
}
