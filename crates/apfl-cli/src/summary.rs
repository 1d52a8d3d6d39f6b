//! The table at the end of a run.

use std::path::Path;

use apfl::advise::Advice;
use apfl::metrics::{ByModel, FinalScore, FinalScores, OverClients, Score};
use apfl::run::run_dir::{MixingSpread, Summary, read_clients};

use crate::output::{columns, describe_privacy};

/// Advice is given if at least one client in this many has a learned α of 0.
const NOTABLE_ONE_IN: usize = 10;
/// The start of a learned α that the advice names.
const HIGHER_START: f32 = 0.1;

/// Formats the scores of the models and baselines, and the spread of α. `learned_from` is α⁰ if α is
/// learned.
pub fn table(summary: &Summary, learned_from: Option<f32>) -> String {
    let Some(models) = &summary.models else {
        return "no client was finalized (delivery.clients), so there are no scores\n".into();
    };
    let regression = models.shared.pooled.train.accuracy.is_none();
    let measure = if regression { "rmse" } else { "accuracy" };
    let mut rows = vec![
        [
            "",
            "train loss",
            measure,
            "worst decile",
            "valid loss",
            measure,
            "worst decile",
        ]
        .map(String::from)
        .to_vec(),
    ];
    let named = by_name(models, summary.alone.as_ref());
    rows.extend(named.map(|(name, over)| row(name, over)));
    if let Some(majority) = summary.majority {
        let mut row = vec![String::new(); 7];
        row[0] = "majority class".into();
        row[5] = percent(majority);
        rows.push(row);
    }
    if let Some(mean) = &summary.client_mean {
        let mut row = vec![String::new(); 7];
        row[0] = "client's mean".into();
        row[5] = format!("{:.4}", mean.rmse);
        rows.push(row);
    }
    let mut text = columns(&rows);
    text.push_str(&details(models, summary.alone.as_ref()));
    if let Some(mixing) = &summary.mixing {
        let a = &mixing.spread;
        text.push_str(&format!(
            "\nmixing α: mean {:.2}, median {:.2}, from {:.2} to {:.2}\n",
            a.mean, a.q50, a.min, a.max
        ));
        if let Some(start) = learned_from {
            text.push_str(&ends(mixing, summary.clients, start));
        }
    }
    if !summary.chosen.is_empty() {
        let counts = summary.chosen.iter();
        let counts: Vec<String> = counts.map(|(name, n)| format!("{name}: {n}")).collect();
        text.push_str(&format!(
            "α chosen, by number of clients: {}\n",
            counts.join(", ")
        ));
    }
    if let Some(spent) = &summary.privacy {
        text.push_str(&format!("\n{}\n", describe_privacy(spent)));
    }
    if summary.attackers > 0 {
        text.push_str(&format!(
            "\nscores are over the {} honest clients; {} attacked\n",
            summary.clients, summary.attackers
        ));
    }
    text
}

/// Returns the models in the order of the table; the personal one is last.
fn by_name<'a>(
    models: &'a ByModel<OverClients>,
    alone: Option<&'a OverClients>,
) -> impl Iterator<Item = (&'static str, &'a OverClients)> {
    let first = [("shared", &models.shared), ("localized", &models.localized)];
    let alone = alone.map(|over| ("alone", over));
    (first.into_iter().chain(alone)).chain([("personal", &models.personal)])
}

/// Says in one line for how many clients joining is worth it, if the run measured that.
pub fn verdict(summary: &Summary, run: &Path) -> Option<String> {
    summary.gain?;
    let advice = Advice::of(run, summary, &read_clients(run).ok()?).ok()?;
    let total = apfl_report::advise::total(&advice);
    let run = run.display();
    Some(format!("{total} (apfl advise {run})\n"))
}

/// Describes how many clients' learned α ended at 0 or 1; empty if that was not counted. If many
/// ended at 0, it says how to find out whether that is right.
fn ends(mixing: &MixingSpread, clients: usize, start: f32) -> String {
    let (Some(at_zero), Some(at_one)) = (mixing.at_zero, mixing.at_one) else {
        return String::new();
    };
    let mut text = match (at_zero, at_one) {
        (0, 0) => return "α at 0 or 1: no client\n".into(),
        (0, _) => format!("α at 0: no client; at 1: {at_one} of {clients}\n"),
        (_, 0) => format!("α at 0: {at_zero} of {clients} clients\n"),
        (..) => format!("α at 0: {at_zero} of {clients} clients; at 1: {at_one}\n"),
    };
    if NOTABLE_ONE_IN * at_zero >= clients {
        let higher = if start < HIGHER_START {
            format!(" or start higher (algorithm.mixing = {{ adaptive = {HIGHER_START} }})")
        } else {
            String::new()
        };
        text.push_str(&format!(
            "v does not train at α = 0, so a client seldom leaves it. This is right where the shared \
             model serves the client best; to find out, choose α on held-out rows \
             (algorithm.mixing = {{ chosen = [0, 0.1, 0.25, 0.5, 0.75, 1] }}){higher}\n"
        ));
    }
    text
}

/// Formats the other pooled scores, on validation and (if there are any) test examples.
fn details(models: &ByModel<OverClients>, alone: Option<&OverClients>) -> String {
    type Split = fn(&FinalScores) -> Option<&FinalScore>;
    let splits: [(&str, Split); 2] = [("valid", |s| Some(&s.valid)), ("test", |s| s.test.as_ref())];
    let mut text = String::new();
    for (name, split) in splits {
        let Some(first) = split(&models.shared.pooled) else {
            continue;
        };
        let Some(detail) = first.detail else { continue };
        let mut head = vec![name.to_string()];
        if name == "test" {
            let measure = if first.rmse.is_some() {
                "rmse"
            } else {
                "accuracy"
            };
            head.extend(["loss".into(), measure.to_string()]);
        }
        head.extend(detail.named().iter().map(|(n, ..)| n.replace('_', " ")));
        let mut rows = vec![head];
        for (model, over) in by_name(models, alone) {
            let Some(score) = split(&over.pooled) else {
                continue;
            };
            let mut row = vec![model.to_string()];
            if name == "test" {
                row.extend([format!("{:.4}", score.loss), format_score(score)]);
            }
            let named = score.detail.map_or(Vec::new(), |d| d.named());
            row.extend(named.iter().map(|(name, value, _)| match value {
                Some(value) if name.ends_with("accuracy") => percent(*value),
                Some(value) => format!("{value:.4}"),
                None => "–".into(),
            }));
            rows.push(row);
        }
        text.push('\n');
        text.push_str(&columns(&rows));
    }
    text
}

fn row(name: &str, over: &OverClients) -> Vec<String> {
    vec![
        name.into(),
        format!("{:.4}", over.pooled.train.loss),
        format_score(&over.pooled.train),
        format_score(&over.worst_decile.train),
        format!("{:.4}", over.pooled.valid.loss),
        format_score(&over.pooled.valid),
        format_score(&over.worst_decile.valid),
    ]
}

fn format_score(score: &Score) -> String {
    match (score.accuracy, score.rmse) {
        (Some(accuracy), _) => percent(accuracy),
        (None, Some(rmse)) => format!("{rmse:.4}"),
        (None, None) => "–".into(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_learned_alpha_are_counted_and_a_trap_is_named() {
        let of = |alphas: &[f64], start| {
            let mixing = MixingSpread::of(alphas).unwrap();
            ends(&mixing, alphas.len(), start)
        };
        assert_eq!(of(&[0.2, 0.9], 0.01), "α at 0 or 1: no client\n");
        assert_eq!(of(&[0.2, 1.0], 0.01), "α at 0: no client; at 1: 1 of 2\n");
        let many = of(&[0.0, 0.0, 0.5, 1.0], 0.01);
        assert!(
            many.starts_with("α at 0: 2 of 4 clients; at 1: 1\n"),
            "{many}"
        );
        assert!(
            many.contains("adaptive = 0.1 }") && many.contains("chosen"),
            "{many}"
        );
        // A start that is not low is not the reason.
        let high = of(&[0.0, 0.5], 0.5);
        assert!(
            !high.contains("adaptive") && high.contains("chosen"),
            "{high}"
        );
        // One of eleven is below a tenth.
        let mut few = vec![0.5; 11];
        few[3] = 0.0;
        assert_eq!(of(&few, 0.01), "α at 0: 1 of 11 clients\n");
        few.pop();
        assert!(of(&few, 0.01).contains("seldom leaves it"));
    }

    /// A summary of a version that did not count has neither key.
    #[test]
    fn ends_that_were_not_counted_are_not_described() {
        let counted = MixingSpread::of(&[0.0, 0.5]).unwrap();
        let mut json = serde_json::to_value(counted).unwrap();
        let keys = json.as_object_mut().unwrap();
        assert_eq!(
            (keys["at_zero"].as_u64(), keys["at_one"].as_u64()),
            (Some(1), Some(0))
        );
        keys.retain(|key, _| !key.starts_with("at_"));
        let mixing: MixingSpread = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(mixing.spread, counted.spread);
        assert_eq!(ends(&mixing, 2, 0.01), "");
        assert_eq!(serde_json::to_value(mixing).unwrap(), json);
    }
}
