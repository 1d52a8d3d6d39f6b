//! The table at the end of a run.

use apfl::metrics::{OverClients, Score};
use apfl::privacy::Spent;
use apfl::store::run_dir::Summary;

use crate::output::columns;

/// The three models, the baseline beside them and α's spread.
pub fn table(summary: &Summary) -> String {
    let Some(models) = &summary.models else {
        return "no client was delivered to (delivery.clients), so there are no scores\n".into();
    };
    let regression = models.shared.pooled.valid.accuracy.is_none();
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
    if let Some(majority) = summary.majority {
        let mut row = vec![String::new(); 7];
        row[0] = "majority class".into();
        row[5] = percent(majority);
        rows.push(row);
    }
    let mut text = columns(&rows);
    if let Some(a) = &summary.mixing {
        text.push_str(&format!(
            "\nmixing α: mean {:.2}, median {:.2}, from {:.2} to {:.2}\n",
            a.mean, a.q50, a.min, a.max
        ));
    }
    if let Some(spent) = &summary.privacy {
        text.push_str(&format!("\n{}\n", privacy(spent)));
    }
    if summary.attackers > 0 {
        text.push_str(&format!(
            "\nthe scores are those of the {} honest clients; {} attacked\n",
            summary.clients, summary.attackers
        ));
    }
    text
}

/// What privacy cost, in a line.
pub fn privacy(spent: &Spent) -> String {
    let epsilon = spent.epsilon.map_or("∞".into(), |e| format!("{e:.4}"));
    let simulated = match spent.simulation {
        true => "; the noise follows from the seed: a simulation",
        false => "",
    };
    format!(
        "privacy by {}: ε = {epsilon} at δ = {:e} (noise {:.4} × clip {}, {} steps){simulated}",
        spent.level, spent.delta, spent.noise, spent.clip, spent.steps
    )
}

fn row(name: &str, over: &OverClients) -> Vec<String> {
    vec![
        name.into(),
        format!("{:.4}", over.pooled.train.loss),
        measured(&over.pooled.train),
        measured(&over.worst_decile.train),
        format!("{:.4}", over.pooled.valid.loss),
        measured(&over.pooled.valid),
        measured(&over.worst_decile.valid),
    ]
}

fn measured(score: &Score) -> String {
    match (score.accuracy, score.rmse) {
        (Some(accuracy), _) => percent(accuracy),
        (None, Some(rmse)) => format!("{rmse:.4}"),
        (None, None) => "–".into(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.2}%", 100.0 * share)
}
