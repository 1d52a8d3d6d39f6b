//! The rounds of a run: trained, recorded, checkpointed, and ended by `training.stop` if the loss no
//! longer improves.

use super::choice::Choices;
use super::finalization::{self, Ending, Output};
use super::stop::{Losses, StopReason, Stopped};
use super::{Checkpoints, Ended, Event, Run, Watch};
use crate::choice::Pass;
use crate::error::{Error, Result};
use crate::spec::Stop;
use crate::training::Training;

/// Decides when training stops, and keeps the state of the best round.
struct Stopper {
    stop: Stop,
    losses: Losses,
}

impl Stopper {
    /// Returns the stopper of a run, if it may stop by itself. The last pass of a choice has its
    /// rounds from the passes before it.
    fn of(run: &Run, training: &Training, durable: Option<&Checkpoints>) -> Option<Self> {
        let stop = run.plan.stop?;
        let losses = durable.and_then(Checkpoints::losses).cloned();
        (training.setup().context.pass != Some(Pass::Last)).then(|| Self {
            stop,
            losses: losses.unwrap_or_default(),
        })
    }

    /// Takes the loss after the round that was just trained.
    fn observe(&mut self, training: &mut Training) -> Result<()> {
        if let Some(loss) = training.evaluation()?
            && self.losses.add(&self.stop, training.round(), loss)
        {
            training.take_snapshot()?;
        }
        self.end(training);
        Ok(())
    }

    /// Ends training if the loss no longer improves.
    fn end(&self, training: &mut Training) {
        if self.losses.converged(&self.stop) {
            training.end_here();
        }
    }

    /// Returns to the best round.
    fn revert(&self, training: &mut Training) -> Result<Stopped> {
        let reason = if self.losses.converged(&self.stop) {
            StopReason::Converged
        } else {
            StopReason::Rounds
        };
        training.revert()?;
        Ok(Stopped {
            reason,
            served: training.round(),
            rows: Some(training.setup().evaluation_rows()),
            loss: self.losses.best().map(|(_, loss)| loss),
        })
    }
}

impl Run {
    /// Trains the remaining rounds, writes checkpoints and finalizes.
    pub(super) fn train_to_end(
        &self,
        mut training: Training,
        choices: Choices,
        mut output: Output,
        mut durable: Option<Checkpoints>,
        watch: &mut Watch<'_>,
    ) -> Result<Ended> {
        let every = self.plan.checkpoint_every;
        let planned = training.setup().rounds;
        let mut stopper = Stopper::of(self, &training, durable.as_ref());
        if let Some(stopper) = &stopper {
            stopper.end(&mut training);
        }
        if watch(Event::Begun(training.round())).is_break() {
            return Ok(Ended::Stopped(training.round()));
        }
        loop {
            while let Some(record) = training.take_record() {
                output.append(&record)?;
                let last = record.round == training.last_round();
                let stopping = watch(Event::Round(&record)).is_break();
                let due = every > 0 && record.round.is_multiple_of(every);
                if let Some(checkpoints) = &mut durable
                    && (due || last || stopping)
                {
                    output.sync()?;
                    let losses = stopper.as_ref().map(|stopper| &stopper.losses);
                    checkpoints.write_with(&mut training, losses)?;
                }
                if stopping {
                    return Ok(Ended::Stopped(record.round));
                }
            }
            let before = training.round();
            if !training.advance()? {
                break;
            }
            if let Some(stopper) = &mut stopper
                && training.round() > before
            {
                stopper.observe(&mut training)?;
            }
        }
        let rounds = training.round();
        let early = self.finishes && rounds < planned;
        let stopped = match &stopper {
            Some(stopper) => Some(stopper.revert(&mut training)?),
            None if early => Some(Stopped {
                reason: StopReason::Finish,
                served: rounds,
                rows: None,
                loss: None,
            }),
            None => self.median_of(&training),
        };
        let stopped = stopped.map(|stopped| match stopped.reason {
            StopReason::Rounds if early => Stopped {
                reason: StopReason::Finish,
                ..stopped
            },
            _ => stopped,
        });
        let ending = Ending { rounds, stopped };
        let choosing = self.plan.algorithm.choosing();
        match finalization::finalize(&mut training, output, choosing, choices, ending, watch) {
            Ok(finished) => {
                if let Some(path) = self.directory.as_ref().filter(|_| early) {
                    self.write_finished_spec(path, rounds)?;
                }
                Ok(Ended::Finished(Box::new(finished)))
            }
            Err(Error::Interrupted(_)) => Ok(Ended::Stopped(rounds)),
            Err(error) => Err(error),
        }
    }

    /// Returns where the last pass of a choice ended, if that is not by the spec's rounds.
    fn median_of(&self, training: &Training) -> Option<Stopped> {
        let last = training.setup().context.pass == Some(Pass::Last);
        (last && self.plan.stop.is_some()).then(|| Stopped {
            reason: StopReason::Median,
            served: training.round(),
            rows: None,
            loss: None,
        })
    }
}
