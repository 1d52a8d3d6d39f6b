//! Progress on stderr: a bar on a terminal, elsewhere a line about every tenth of the work.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apfl::training::RoundRecord;
use apfl_paper::grid::Event;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of rounds, then one of deliveries.
pub struct Progress {
    bar: ProgressBar,
    lines: Option<Lines>,
}

/// Lines instead of a bar: at every tenth of the work, and ten seconds after the last.
struct Lines {
    what: &'static str,
    of: u64,
    /// The tenth that was told last, and when.
    told: Mutex<(u64, Instant)>,
    begun: Instant,
}

const BETWEEN_LINES: Duration = Duration::from_secs(10);

impl Lines {
    fn new(what: &'static str, of: u64, done: u64, quiet: bool) -> Option<Self> {
        let now = Instant::now();
        (!quiet && of > 0 && !std::io::stderr().is_terminal()).then(|| Self {
            what,
            of,
            told: Mutex::new((done.saturating_mul(10) / of, now)),
            begun: now,
        })
    }

    /// Whether a line is due with that much done.
    fn due(&self, done: u64) -> bool {
        let tenth = done.saturating_mul(10) / self.of;
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let due = tenth > told.0 && told.1.elapsed() >= BETWEEN_LINES;
        if due {
            *told = (tenth, Instant::now());
        }
        due
    }

    fn tell(&self, done: u64, words: &str) {
        if self.due(done) {
            let spent = crate::output::duration(self.begun.elapsed().as_secs_f64());
            let line = format!("{} {done} of {}, {spent}  {words}", self.what, self.of);
            crate::output::tell(line.trim_end());
        }
    }
}

/// Shows how far a grid of runs is.
pub fn watch_grid(quiet: bool) -> impl Fn(Event<'_>) + Sync {
    let shown: Mutex<Option<Progress>> = Mutex::default();
    move |event| {
        let mut shown = shown.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Begun { rounds, runs } => *shown = Some(Progress::grid(rounds, runs, quiet)),
            Event::Rounds(done) => shown.iter().for_each(|bar| bar.grid_rounds(done)),
            Event::Runs(done) => shown.iter().for_each(|bar| bar.grid_runs(done)),
            Event::Ended => shown.take().iter().for_each(Progress::clear),
            Event::Note(note) if !quiet => crate::output::tell(note),
            Event::Note(_) => {}
        }
    }
}

impl Progress {
    /// A bar of `rounds`, the first `done` of them behind us; hidden if `quiet` or if
    /// stderr is not a terminal.
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

    /// A bar of clients that get their models.
    pub fn finalizations(clients: u64, quiet: bool) -> Self {
        Self {
            bar: new_bar(
                clients,
                quiet,
                "delivery  {bar:30} client {pos}/{len}  {eta} left",
            ),
            lines: Lines::new("delivery: client", clients, 0, quiet),
        }
    }

    /// A bar of the rounds of several runs.
    fn grid(rounds: u64, runs: u64, quiet: bool) -> Self {
        let template =
            format!("{{bar:30}} {{percent}}%  {{msg}} of {runs} runs  {{elapsed}}  {{eta}} left");
        let bar = new_bar(rounds, quiet, &template);
        bar.set_message("0");
        let lines = Lines::new("round", rounds, 0, quiet);
        Self { bar, lines }
    }

    /// That many rounds of all runs are done.
    fn grid_rounds(&self, rounds: u64) {
        self.bar.set_position(rounds);
        if let Some(lines) = &self.lines {
            lines.tell(rounds, "of all runs");
        }
    }

    /// That many runs are done.
    fn grid_runs(&self, runs: u64) {
        self.bar.set_message(runs.to_string());
    }

    /// A line that says what is being done, for work of several stages.
    pub fn stages(quiet: bool) -> Self {
        Self {
            bar: new_bar(0, quiet, "{spinner} {msg}"),
            lines: None,
        }
    }

    /// What is being done, and how much of it; `of` = 0 where nobody knows.
    pub fn stage(&self, what: &str, done: u64, of: u64) {
        self.bar.set_message(match of {
            0 => format!("{what} ({done})"),
            of => format!("{what} {done}/{of}"),
        });
    }

    /// A round is done.
    pub fn round(&self, record: &RoundRecord) {
        self.bar.set_position(record.round);
        let mut words = String::new();
        if let Some(scores) = &record.scores {
            let score = |s: &apfl::metrics::Score| match (s.accuracy, s.rmse) {
                (Some(accuracy), _) => format!("{:.1}%", 100.0 * accuracy),
                (None, Some(rmse)) => format!("rmse {rmse:.4}"),
                (None, None) => format!("loss {:.4}", s.loss),
            };
            words = format!(
                "personal {} · shared {}",
                score(&scores.personal.valid),
                score(&scores.shared.valid)
            );
            if let Some(epsilon) = record.epsilon {
                words += &format!(" · ε {epsilon:.3}");
            }
            self.bar.set_message(words.clone());
        }
        if let Some(lines) = &self.lines {
            lines.tell(record.round, &words);
        }
    }

    /// That many deliveries are done.
    pub fn finalized(&self, clients: u64) {
        self.bar.set_position(clients);
        if let Some(lines) = &self.lines {
            lines.tell(clients, "");
        }
    }

    /// A line above the bar, also where there is no bar.
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
        ProgressDrawTarget::stderr() // hides itself where it is not a terminal
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template(template).expect("a template of ours");
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
        let long_ago = Instant::now().checked_sub(BETWEEN_LINES).unwrap();
        let lines = Lines {
            what: "round",
            of: 50,
            told: Mutex::new((0, long_ago)),
            begun: long_ago,
        };
        assert!(!lines.due(4)); // not yet a tenth
        assert!(lines.due(5));
        assert!(!lines.due(10)); // the next tenth, but no ten seconds since the last line
        lines.told.lock().unwrap().1 = long_ago;
        assert!(!lines.due(9)); // the same tenth
        assert!(lines.due(50));
    }
}
