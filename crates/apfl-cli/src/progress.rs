//! Progress on stderr, where stderr is a terminal.

use std::time::Duration;

use apfl::training::RoundRecord;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of rounds, then one of deliveries.
pub struct Progress {
    bar: ProgressBar,
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
        Self { bar }
    }

    /// A bar of clients that get their models.
    pub fn deliveries(clients: u64, quiet: bool) -> Self {
        Self {
            bar: new_bar(
                clients,
                quiet,
                "delivery  {bar:30} client {pos}/{len}  {eta} left",
            ),
        }
    }

    /// A bar of the rounds of several runs.
    pub fn grid(rounds: u64, runs: u64, quiet: bool) -> Self {
        let template =
            format!("{{bar:30}} {{percent}}%  {{msg}} of {runs} runs  {{elapsed}}  {{eta}} left");
        let bar = new_bar(rounds, quiet, &template);
        bar.set_message("0");
        Self { bar }
    }

    /// That many rounds of all runs are done.
    pub fn grid_rounds(&self, rounds: u64) {
        self.bar.set_position(rounds);
    }

    /// That many runs are done.
    pub fn grid_runs(&self, runs: u64) {
        self.bar.set_message(runs.to_string());
    }

    /// A line that says what is being done, for work of several stages.
    pub fn stages(quiet: bool) -> Self {
        Self {
            bar: new_bar(0, quiet, "{spinner} {msg}"),
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
        if let Some(scores) = &record.scores {
            let score = |s: &apfl::metrics::Score| match (s.accuracy, s.rmse) {
                (Some(accuracy), _) => format!("{:.1}%", 100.0 * accuracy),
                (None, Some(rmse)) => format!("rmse {rmse:.4}"),
                (None, None) => format!("loss {:.4}", s.loss),
            };
            self.bar.set_message(format!(
                "personal {} · shared {}",
                score(&scores.personal.valid),
                score(&scores.shared.valid)
            ));
        }
    }

    /// That many deliveries are done.
    pub fn delivered(&self, clients: u64) {
        self.bar.set_position(clients);
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
    let target = match quiet {
        true => ProgressDrawTarget::hidden(),
        false => ProgressDrawTarget::stderr(), // hides itself where it is not a terminal
    };
    let bar = ProgressBar::with_draw_target(Some(length), target);
    let style = ProgressStyle::with_template(template).expect("a template of ours");
    bar.set_style(style.progress_chars("━╸ "));
    if !quiet {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
    bar
}
