//! A run whose learning rate is found by a probe: with the rate that was found and, if it diverges
//! all the same, with a third of it.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use toml::{Table, Value};

use super::probe::FoundRate;
use super::run_dir::RunDir;
use super::{Ended, Event, Run, Watch};
use crate::clients::Rate;
use crate::error::{Error, Result, at};
use crate::spec::differences;

impl Run {
    /// Calls `train` with this run, or, if a probe finds its learning rate, with the run that has
    /// the rate; again with a third of the rate if a loss is not finite.
    pub(super) fn with_rate(
        &self,
        directory: Option<&Path>,
        watch: &mut Watch<'_>,
        mut train: impl FnMut(&Self, &mut Watch<'_>) -> Result<Ended>,
    ) -> Result<Ended> {
        if !self.plan.auto_rate {
            return train(self, watch);
        }
        let known = directory.map(FoundRate::read).transpose()?.flatten();
        let mut found = match known {
            Some(found) if found.key != self.found_rate_key() => {
                return Err(Error::Checkpoint(format!(
                    "rate.json: found a value of {}, expected one of {}; restore the file, or begin \
                     a new run in another directory",
                    found.key,
                    self.found_rate_key()
                )));
            }
            Some(found) => found,
            None => {
                let Some(found) = self.probe(directory, watch)? else {
                    return Ok(Ended::Stopped(0));
                };
                if let Some(path) = directory {
                    found.write(path)?;
                }
                found
            }
        };
        loop {
            let run = self.rated(found.learning_rate);
            if let Some(path) = directory {
                run.settle(path, &found)?;
            }
            if watch(Event::Rate(&found)).is_break() {
                return Ok(Ended::Stopped(0));
            }
            let error = match train(&run, watch) {
                Err(error @ Error::NonFinite { .. }) => error,
                other => return other,
            };
            let Some(lowered) = found.lowered() else {
                return Err(error);
            };
            let rate = lowered.learning_rate;
            if let Some(path) = directory {
                lowered.write(path)?;
            }
            let error = &error;
            if watch(Event::Restarts { rate, error }).is_break() {
                return Ok(Ended::Stopped(0));
            }
            found = lowered;
        }
    }

    /// Returns the run with this learning rate in place of "auto".
    fn rated(&self, rate: f64) -> Self {
        let mut setup = self.setup.clone();
        setup.context.rate = Rate::Set(rate);
        Self {
            setup,
            plan: self.plan.with_rate(rate),
            start: self.start.clone(),
            directory: self.directory.clone(),
            resumes: self.resumes,
            finishes: self.finishes,
            program: self.program.clone(),
            force: self.force,
        }
    }

    /// Writes the found rate into the spec of the run directory. What an earlier rate has trained
    /// is removed first.
    fn settle(&self, path: &Path, found: &FoundRate) -> Result<()> {
        let file = path.join("spec.toml");
        let text = fs::read_to_string(&file).map_err(at(&file, "read"))?;
        let table: Table = text.parse().map_err(|e| Error::in_file(&file, e))?;
        let written = found
            .key
            .split('.')
            .try_fold(Value::Table(table), |value, key| {
                value.as_table().and_then(|table| table.get(key)).cloned()
            });
        let written = written.as_ref().and_then(Value::as_float);
        if written == Some(self.written_rate(found)) {
            return Ok(());
        }
        for trained in ["checkpoint", "choice"] {
            let trained = path.join(trained);
            match fs::remove_dir_all(&trained) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(at(&trained, "remove")(e)),
                _ => {}
            }
        }
        RunDir::replace_spec(path, &self.plan.to_toml(), &self.setup.notes)
    }

    /// Returns the rate as this run's spec has it: an algorithm's own rate is a 32-bit number there.
    fn written_rate(&self, found: &FoundRate) -> f64 {
        let keys = found.key.split('.');
        let plan = Value::Table(self.plan.resolved.clone());
        let value = keys.fold(Some(plan), |value, key| {
            value.as_ref()?.as_table()?.get(key).cloned()
        });
        let number = value.as_ref().and_then(Value::as_float);
        number.unwrap_or(found.learning_rate)
    }

    /// Makes the plan say "auto" if it has the number that the probe of the run in this directory
    /// found, as the spec of the run directory does.
    pub(super) fn recognize_rate(&mut self, path: &Path) -> Result<()> {
        let Some(found) = FoundRate::read(path)?.filter(|_| !self.plan.auto_rate) else {
            return Ok(());
        };
        let mut auto = self.plan.clone();
        auto.auto_rate = true;
        let problems = auto.resolve();
        let rated = auto.with_rate(found.learning_rate);
        let same = differences(&rated.resolved, &self.plan.resolved).is_empty();
        if problems.0.is_empty() && same {
            self.plan = auto;
            self.setup.context.rate = Rate::Unknown;
        }
        Ok(())
    }
}
