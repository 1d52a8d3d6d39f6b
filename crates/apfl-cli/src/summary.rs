//! The table at the end of a run.

use apfl::clients::EvaluationRows;
use apfl::metrics::{ByModel, FinalScore, FinalScores, OverClients, Score};
use apfl::run::StopReason;
use apfl::run::run_dir::Summary;

use crate::output::{columns, describe_privacy};

/// Formats the scores of the models and baselines, and the spread of α.
pub fn table(summary: &Summary) -> String {
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
    for (name, over) in [
        ("shared", &models.shared),
        ("localized", &models.localized),
        ("personal", &models.personal),
    ] {
        rows.push(row(name, over));
    }
    if let Some(alone) = &summary.alone {
        rows.push(row("alone", alone));
    }
    if let Some(majority) = summary.majority {
        let mut row = vec![String::new(); 7];
        row[0] = "majority class".into();
        row[5] = percent(majority);
        rows.push(row);
    }
    if let Some(baseline) = &summary.baseline {
        let mut row = vec![String::new(); 7];
        row[0] = "client's mean".into();
        row[5] = format!("{:.4}", baseline.rmse);
        rows.push(row);
    }
    let mut text = columns(&rows);
    text.push_str(&details(models, summary.alone.as_ref()));
    if let Some(a) = &summary.mixing {
        text.push_str(&format!(
            "\nmixing α: mean {:.2}, median {:.2}, from {:.2} to {:.2}\n",
            a.mean, a.q50, a.min, a.max
        ));
    }
    if !summary.chosen.is_empty() {
        let counts = summary.chosen.iter();
        let counts: Vec<String> = counts.map(|(name, n)| format!("{name}: {n}")).collect();
        text.push_str(&format!(
            "α chosen, by number of clients: {}\n",
            counts.join(", ")
        ));
    }
    text.push_str(&ending(summary, models));
    if summary.gain.is_some() {
        text.push_str("apfl advise RUN shows for which clients joining is worth it\n");
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

/// Says where training stopped, and whether the loss still fell.
fn ending(summary: &Summary, models: &ByModel<OverClients>) -> String {
    let mut text = String::new();
    if let Some(stopped) = &summary.stopped {
        let (trained, served) = (summary.rounds, stopped.served);
        let why = match stopped.reason {
            StopReason::Converged => "the loss no longer improved",
            StopReason::Median => "the median of the best rounds of the passes before",
            StopReason::Finish => "the run was finished early",
            _ => "the last round",
        };
        text += &format!("\nstopped after round {trained}: {why}");
        if stopped.rows.is_some() {
            text += &format!("; models are those of round {served}, the best one");
        }
        text.push('\n');
        if stopped.rows == Some(EvaluationRows::Valid) {
            text += match models.shared.pooled.test {
                Some(_) => {
                    "validation rows chose that round, so their scores are optimistic; those on \
                     test rows are not\n"
                }
                None => {
                    "validation rows chose that round, so their scores are optimistic; a test \
                     split (data.test) gives scores that are not\n"
                }
            };
        }
    }
    if let Some(fall) = summary.not_converged {
        text += &format!(
            "\nnot converged: the loss still fell by {:.1}% over the last tenth of the rounds; \
             continue with a larger training.rounds, or raise training.learning_rate\n",
            100.0 * fall
        );
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
        let three = [
            ("shared", &models.shared),
            ("localized", &models.localized),
            ("personal", &models.personal),
        ];
        for (model, over) in (three.into_iter()).chain(alone.map(|over| ("alone", over))) {
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
