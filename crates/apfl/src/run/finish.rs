//! Ends a run early: at its last checkpoint, or at that of a given round.

use std::path::Path;

use super::Checkpoints;
use super::Run;
use super::manifest::Identity;
use super::probe::FoundRate;
use super::run_dir::RunDir;
use crate::error::{Error, Result};

impl Run {
    /// Checks that a run can be finished: its choice is made and it has a checkpoint.
    pub(super) fn require_finishable(&self, path: &Path) -> Result<()> {
        if self.plan.auto_rate && FoundRate::read(path)?.is_none() {
            return Err(Error::Request(format!(
                "{}: the run was stopped before its learning rate was found, so there is nothing \
                 to finish; resume the run",
                path.display()
            )));
        }
        let choosing = self.plan.algorithm.choosing();
        let passes = choosing.filter(|choosing| choosing.single().is_none());
        let passes = 1..=passes.map_or(0, |choosing| choosing.folds);
        let open = passes.clone().find(|pass| {
            let pass = path.join("choice").join(pass.to_string());
            !pass.join("summary.json").exists()
        });
        if let Some(pass) = open {
            return Err(Error::Request(format!(
                "{}: the run was stopped in pass {pass} of {}, before any client chose its model, \
                 so there is nothing to finish; resume the run",
                path.display(),
                passes.end() + 1
            )));
        }
        if checkpoints(path).rounds()?.is_empty() {
            return Err(Error::Request(format!(
                "{}: the run has no checkpoint, so there is nothing to finish; resume the run",
                path.display()
            )));
        }
        Ok(())
    }

    /// Checks that a run of `before` rounds can become one of `rounds`: it has to end at one of
    /// its checkpoints, or to go on from the newest one.
    pub(super) fn require_possible(&self, path: &Path, before: u64, rounds: u64) -> Result<()> {
        if rounds >= before {
            return Ok(());
        }
        let refused = |why: String| {
            let path = path.display();
            Err(Error::Request(format!(
                "{path}: training.rounds: found {rounds}, but the existing run has {before}, {why}"
            )))
        };
        if self.plan.algorithm.choosing().is_some() {
            return refused(
                "and so have the passes by which its clients chose their models; finish the run \
                 at its last checkpoint instead (apfl finish, or `finish` in code)"
                    .into(),
            );
        }
        let kept = checkpoints(path).rounds()?;
        match kept.last() {
            None => Ok(()), // it starts from round 1
            Some(newest) if rounds >= *newest || kept.contains(&rounds) => Ok(()),
            Some(newest) => {
                let list: Vec<String> = kept.iter().map(u64::to_string).collect();
                refused(format!(
                    "and checkpoints of rounds {}; it can end after one of these rounds, or after \
                     any round from {newest} on",
                    list.join(", ")
                ))
            }
        }
    }

    /// Makes the spec of a finished run say how many rounds it has. Over sites the spec is part
    /// of their agreement, and a choice was made in passes of as many rounds as the spec says, so
    /// there only the summary says it.
    pub(super) fn write_finished_spec(&self, path: &Path, rounds: u64) -> Result<()> {
        if self.plan.sites.is_some() || self.plan.algorithm.choosing().is_some() {
            return Ok(());
        }
        let mut plan = self.plan.clone();
        plan.rounds = rounds;
        plan.resolve();
        RunDir::replace_spec(path, &plan.to_toml(), &self.setup.notes)
    }
}

/// Returns the checkpoints of a run directory.
fn checkpoints(path: &Path) -> Checkpoints {
    Checkpoints::new(path, Identity::default())
}
