//! Whether joining is worth it, for whom, and which model should serve each client, in words.

use apfl::advise::{Advice, ClientAdvice, Verdict};
use apfl::metrics::Score;
use apfl::run::run_dir::GainSplit;

use crate::chart::shortened;
use crate::table::columns;
use crate::words::counted;

/// Clients in the table; of more, those with the largest and the smallest gain.
const LISTED: usize = 40;

/// What the verdicts mean, in a sentence.
pub const RULE: &str = "Verdicts are paired t-tests, held to a false-discovery rate of 5% over \
    all clients (Benjamini and Hochberg): of the clients told that joining helps or harms, at \
    most one in twenty is expected to be told so by chance.";

/// What the intervals mean, in a sentence.
pub const INTERVAL: &str = "An interval is where the gain on new rows lies with 95% confidence, \
    for that client taken by itself; the total's takes clients, not rows, as independent.";

/// On which rows a gain was measured, in words.
pub fn measured_on(part: GainSplit) -> &'static str {
    match part {
        GainSplit::Test => "test rows, by which nothing was chosen",
        GainSplit::Valid => "validation rows (there is no test part; no α was chosen by them)",
    }
}

/// The total in one line.
pub fn total(advice: &Advice) -> String {
    let total = &advice.total;
    let gain = match (total.gain, total.interval) {
        (Some(gain), Some([low, high])) => {
            format!("; gain {gain:+.4} ({low:+.4} to {high:+.4}) over all rows")
        }
        (Some(gain), None) => format!("; gain {gain:+.4} over all rows"),
        (None, _) => String::new(),
    };
    format!(
        "joining helps {}, harms {}, {} undecided{gain}",
        counted(total.helps, "client"),
        total.harms,
        total.undecided
    )
}

/// The advice for people: a line for each client, the total, and what they mean.
pub fn text(advice: &Advice) -> String {
    let mut rows = vec![
        [
            "client",
            "rows",
            "α",
            "alone",
            "shared",
            "localized",
            "personal",
            "gain",
            "95%",
            "joining",
            "serve",
        ]
        .map(String::from)
        .to_vec(),
    ];
    let listed = listed(&advice.clients);
    rows.extend(listed.iter().map(|client| row(client)));
    let mut text = format!(
        "loss (and score) on {}; gain: loss of training alone minus that of the model served\n\n{}",
        measured_on(advice.part),
        columns(&rows)
    );
    if listed.len() < advice.clients.len() {
        text.push_str(&format!(
            "({} of {}, the largest and the smallest gains; --json has all)\n",
            listed.len(),
            counted(advice.clients.len(), "client")
        ));
    }
    text.push_str(&format!("\n{}\n\n{RULE}\n{INTERVAL}\n", total(advice)));
    if advice.without_localized {
        text.push_str(
            "\n0 was not among the candidates: add it to algorithm.mixing.chosen, so that a client \
             can choose its localized model.\n",
        );
    }
    text
}

/// All clients, or the ends of the list by gain.
fn listed(clients: &[ClientAdvice]) -> Vec<&ClientAdvice> {
    let mut order: Vec<&ClientAdvice> = clients.iter().collect();
    if order.len() > LISTED {
        let gain = |client: &ClientAdvice| client.gain.unwrap_or(0.0);
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        order.drain(LISTED / 2..order.len() - LISTED / 2);
    }
    order
}

fn row(client: &ClientAdvice) -> Vec<String> {
    let score = |score: &Score| match (score.accuracy, score.rmse) {
        _ if !score.loss.is_finite() => "–".to_string(),
        (Some(accuracy), _) => format!("{:.3} ({:.0}%)", score.loss, 100.0 * accuracy),
        (None, Some(rmse)) => format!("{:.3} ({rmse:.3})", score.loss),
        (None, None) => format!("{:.3}", score.loss),
    };
    let scores = &client.scores;
    vec![
        shortened(&client.client, 24),
        client.rows.to_string(),
        client.alpha.name(),
        score(&scores.alone),
        score(&scores.shared),
        score(&scores.localized),
        score(&scores.personal),
        client.gain.map_or("–".into(), |gain| format!("{gain:+.3}")),
        client.interval.map_or("–".into(), |[low, high]| {
            format!("{low:+.3} to {high:+.3}")
        }),
        word(client.verdict).into(),
        client.serve.into(),
    ]
}

/// A verdict as it is written.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Helps => "helps",
        Verdict::Harms => "harms",
        Verdict::Undecided => "undecided",
    }
}
