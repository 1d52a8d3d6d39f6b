//! Progress on stderr: a bar on a terminal, otherwise a line after about every tenth.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apfl::training::RoundRecord;
use apfl_paper::grid::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Shows progress as a bar or as lines.
pub struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Prints lines instead of a bar: one per tenth, at least ten seconds apart.
struct Lines {
    label: &'static str,
    total: u64,
    /// The tenth of the last line, and its time.
    last: Mutex<(u64, Instant)>,
    started: Instant,
}

const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl Lines {
    fn new(label: &'static str, total: u64, done: u64, quiet: bool) -> Option<Self> {
        let now = Instant::now();
        (!quiet && total > 0 && !std::io::stderr().is_terminal()).then(|| Self {
            label,
            total,
            last: Mutex::new((done.saturating_mul(10) / total, now)),
            started: now,
        })
    }

    /// Returns whether a line is due after `done` of the total.
    fn due(&self, done: u64) -> bool {
        let tenth = done.saturating_mul(10) / self.total;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tenth > last.0 && last.1.elapsed() >= LINE_INTERVAL;
        if due {
            *last = (tenth, Instant::now());
        }
        due
    }

    fn print(&self, done: u64, details: &str) {
        if self.due(done) {
            let spent = crate::output::duration(self.started.elapsed().as_secs_f64());
            let line = format!(
                "{} {done} of {}, {spent}  {details}",
                self.label, self.total
            );
            crate::output::tell(line.trim_end());
        }
    }
}

/// Returns a callback that shows the progress of a grid of runs.
pub fn watch_grid(quiet: bool) -> impl Fn(Event<'_>) + Sync {
    let shown: Mutex<Option<Progress>> = Mutex::default();
    move |event| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Started { rounds, runs } => *shown = Some(Progress::grid(rounds, runs, quiet)),
            Event::Rounds(done) => shown.iter().for_each(|bar| bar.grid_rounds(done)),
            Event::Runs(done) => shown.iter().for_each(|bar| bar.grid_runs(done)),
            Event::Finished => shown.take().iter().for_each(Progress::clear),
            Event::Note(note) if !quiet => crate::output::tell(note),
            Event::Note(_) => {}
        }
    }
}

impl Progress {
    /// Shows the rounds of a run, starting after the first `done`.
    pub fn rounds(rounds: u64, done: u64, quiet: bool) -> Self {
        let bar = new_bar(
            rounds,
            quiet,
            "training  {bar:30} round {pos}/{len}  {per_sec}  {eta} left  {msg}",
        );
        bar.set_position(done);
        bar.reset_eta();
        let lines = Lines::new("round", rounds, done, quiet);
        Self { bar, lines }
    }

    /// Shows the clients that are finalized.
    pub fn finalizations(clients: u64, quiet: bool) -> Self {
        Self {
            bar: new_bar(
                clients,
                quiet,
                "finalization  {bar:30} client {pos}/{len}  {eta} left",
            ),
            lines: Lines::new("finalization: client", clients, 0, quiet),
        }
    }

    /// Shows the rounds of several runs.
    fn grid(rounds: u64, runs: u64, quiet: bool) -> Self {
        let template =
            format!("{{bar:30}} {{percent}}%  {{msg}} of {runs} runs  {{elapsed}}  {{eta}} left");
        let bar = new_bar(rounds, quiet, &template);
        bar.set_message("0");
        let lines = Lines::new("round", rounds, 0, quiet);
        Self { bar, lines }
    }

    /// Updates the number of rounds done in all runs.
    fn grid_rounds(&self, rounds: u64) {
        self.bar.set_position(rounds);
        if let Some(lines) = &self.lines {
            lines.print(rounds, "of all runs");
        }
    }

    /// Updates the number of finished runs.
    fn grid_runs(&self, runs: u64) {
        self.bar.set_message(runs.to_string());
    }

    /// Shows the stages of a longer computation.
    pub fn stages(quiet: bool) -> Self {
        Self {
            bar: new_bar(0, quiet, "{spinner} {msg}"),
            lines: None,
        }
    }

    /// Updates the stage and how much of it is done; `total` is 0 if unknown.
    pub fn stage(&self, stage: &str, done: u64, total: u64) {
        self.bar.set_message(match total {
            0 => format!("{stage} ({done})"),
            total => format!("{stage} {done}/{total}"),
        });
    }

    /// Shows a finished round and its scores.
    pub fn round(&self, record: &RoundRecord) {
        self.bar.set_position(record.round);
        let mut details = String::new();
        if let Some(scores) = &record.scores {
            let score = |s: &apfl::metrics::Score| match (s.accuracy, s.rmse) {
                (Some(accuracy), _) => format!("{:.1}%", 100.0 * accuracy),
                (None, Some(rmse)) => format!("rmse {rmse:.4}"),
                (None, None) => format!("loss {:.4}", s.loss),
            };
            details = format!(
                "personal {} · shared {}",
                score(&scores.personal.valid),
                score(&scores.shared.valid)
            );
            if let Some(epsilon) = record.epsilon {
                details += &format!(" · ε {epsilon:.3}");
            }
            self.bar.set_message(details.clone());
        }
        if let Some(lines) = &self.lines {
            lines.print(record.round, &details);
        }
    }

    /// Updates the number of finalized clients.
    pub fn finalized(&self, clients: u64) {
        self.bar.set_position(clients);
        if let Some(lines) = &self.lines {
            lines.print(clients, "");
        }
    }

    /// Prints a line above the bar, if there is one.
    pub fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            crate::output::tell(line);
        } else {
            self.bar.suspend(|| crate::output::tell(line));
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn new_bar(length: u64, quiet: bool, template: &str) -> ProgressBar {
    let target = if quiet {
        ProgressDrawTarget::hidden()
    } else {
        ProgressDrawTarget::stderr() // hides itself if it is not a terminal
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template(template).expect("a valid template");
    bar.set_style(style.progress_chars("━╸ "));
    if !quiet {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_at_a_new_tenth_and_not_too_soon() {
        let long_ago = Instant::now().checked_sub(LINE_INTERVAL).unwrap();
        let lines = Lines {
            label: "round",
            total: 50,
            last: Mutex::new((0, long_ago)),
            started: long_ago,
        };
        assert!(!lines.due(4)); // not yet a tenth
        assert!(lines.due(5));
        assert!(!lines.due(10)); // the next tenth, but no ten seconds since the last line
        lines.last.lock().unwrap().1 = long_ago;
        assert!(!lines.due(9)); // the same tenth
        assert!(lines.due(50));
    }
}
