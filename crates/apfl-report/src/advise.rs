//! Texts about whether joining is worth it, and which model should serve each client.

use apfl::advise::{Advice, ClientAdvice, Verdict};
use apfl::metrics::Score;
use apfl::run::run_dir::GainSplit;

use crate::chart::shortened;
use crate::format::counted;
use crate::table::columns;

/// The most clients in the table; of more, those with the largest and smallest gains are listed.
const MAX_LISTED: usize = 40;

/// Explains the verdicts.
pub const VERDICTS: &str = "Verdicts are paired t-tests (corrected for skewness where fewer than 60 \
    rows measure) with a false-discovery rate of 5% over \
    all clients (Benjamini and Hochberg): at most one in twenty of the verdicts \"helps\" and \
    \"harms\" is expected to be by chance.";

/// Explains the intervals.
pub const INTERVALS: &str = "An interval contains the gain on new rows with 95% confidence, for \
    each client by itself; the total's interval treats clients, not rows, as independent.";

/// Describes the rows on which gains were measured.
pub fn measured_on(part: GainSplit) -> &'static str {
    match part {
        GainSplit::Test => "test rows, which were not used to choose",
        GainSplit::Valid => "validation rows (there are no test rows; no α was chosen on them)",
    }
}

/// Describes what joining is compared with.
pub fn baseline(advice: &Advice) -> &'static str {
    if advice.tuned {
        "the client's own fit with a ridge that its evidence chooses"
    } else {
        "training alone (this model has no tuned fit)"
    }
}

/// Summarizes the verdicts and the total gain in one line.
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

/// Formats the advice: one line per client, the total, and explanations.
pub fn text(advice: &Advice) -> String {
    let mut rows = vec![
        [
            "client",
            "rows",
            "α",
            "baseline",
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
        "loss (and score) on {}\nbaseline: {}; gain: its loss minus that of the serving model\n\n{}",
        measured_on(advice.part),
        baseline(advice),
        columns(&rows)
    );
    if listed.len() < advice.clients.len() {
        text.push_str(&format!(
            "({} of {}, with the largest and smallest gains; --json lists all)\n",
            listed.len(),
            counted(advice.clients.len(), "client")
        ));
    }
    text.push_str(&format!("\n{}\n\n{VERDICTS}\n{INTERVALS}\n", total(advice)));
    if advice.without_localized {
        text.push_str(
            "\n0 was not among the candidates: add it to algorithm.mixing.chosen, so that a client \
             can choose its localized model.\n",
        );
    }
    text
}

/// Returns all clients, or those with the largest and smallest gains.
fn listed(clients: &[ClientAdvice]) -> Vec<&ClientAdvice> {
    let mut order: Vec<&ClientAdvice> = clients.iter().collect();
    if order.len() > MAX_LISTED {
        let gain = |client: &ClientAdvice| client.gain.unwrap_or(0.0);
        order.sort_by(|a, b| gain(b).total_cmp(&gain(a)));
        order.drain(MAX_LISTED / 2..order.len() - MAX_LISTED / 2);
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
        score(&scores.baseline),
        score(&scores.alone),
        score(&scores.shared),
        score(&scores.localized),
        score(&scores.personal),
        client.gain.map_or("–".into(), |gain| format!("{gain:+.3}")),
        client.interval.map_or("–".into(), |[low, high]| {
            format!("{low:+.3} to {high:+.3}")
        }),
        verdict_name(client.verdict).into(),
        client.serve.into(),
    ]
}

/// Returns the name of a verdict.
pub fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Helps => "helps",
        Verdict::Harms => "harms",
        Verdict::Undecided => "undecided",
    }
}
