//! A warning if a run's personal models are not its best.

use apfl::metrics::{ByModel, FinalScores};
use apfl::run::run_dir::{ClientRecord, Summary};

/// Returns a client's validation losses; `None` for an attacker, which is not judged.
pub fn losses(client: &ClientRecord) -> Option<ByModel<f64>> {
    let loss = |scores: &FinalScores| scores.valid.loss;
    (!client.attacker).then(|| client.scores.map(loss))
}

/// Returns a warning if the personal model validates worse than the shared or the localized one,
/// over all clients or for more than a tenth of them. `honest` has their validation losses;
/// `chosen` tells whether α was chosen.
pub fn warning(summary: &Summary, honest: &[ByModel<f64>], chosen: bool) -> Option<String> {
    let models = summary.models.as_ref()?;
    type Loss = fn(&ByModel<f64>) -> f64;
    let others: [(&str, Loss); 2] = [
        ("shared", |losses| losses.shared),
        ("localized", |losses| losses.localized),
    ];
    let pooled = models.map(|over| over.pooled.valid.loss);
    let personal = pooled.personal;
    let mut comparisons = Vec::new();
    for (name, loss) in others {
        let worse = honest
            .iter()
            .filter(|client| client.personal > loss(client))
            .count();
        let over_all = personal > loss(&pooled);
        if over_all || 10 * worse > honest.len() {
            let all = if over_all {
                format!(
                    "over all clients (loss {personal:.4} against {:.4}) and ",
                    loss(&pooled)
                )
            } else {
                String::new()
            };
            comparisons.push(format!(
                "than the {name} one {all}for {worse} of {} clients",
                honest.len()
            ));
        }
    }
    if comparisons.is_empty() {
        return None;
    }
    let remedy = if chosen {
        "this depends on few rows per client; raise algorithm.mixing.prior to follow the \
             federation more, use more folds or rows to choose better, and run apfl advise for \
             confidence intervals"
    } else {
        "try algorithm = { kind = \"apfl\", mixing = { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1] } }, \
             which takes the best α of each client on held-out rows"
    };
    Some(format!(
        "the personal model validates worse {}; {remedy}",
        comparisons.join(", and ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scores(loss: f64) -> serde_json::Value {
        let score = json!({"loss": loss, "accuracy": 0.5});
        json!({"train": score, "valid": score})
    }

    fn client([shared, localized, personal]: [f64; 3]) -> ClientRecord {
        let mut record = json!({
            "client": "a", "examples": {"train": 1, "valid": 1}, "classes": [1, 0], "rounds": 1,
            "majority": 1.0,
        });
        for (name, loss) in [
            ("shared", shared),
            ("localized", localized),
            ("personal", personal),
        ] {
            record[name] = scores(loss);
        }
        serde_json::from_value(record).unwrap()
    }

    fn warning_of(clients: &[[f64; 3]]) -> Option<String> {
        let mean = |k: usize| clients.iter().map(|c| c[k]).sum::<f64>() / clients.len() as f64;
        let mut summary = json!({"rounds": 1, "clients": 1, "fingerprint": "", "seconds": 0.0});
        for (k, name) in ["shared", "localized", "personal"].iter().enumerate() {
            let score = scores(mean(k));
            let statistics = ["pooled", "mean", "std", "worst_decile", "min", "max"];
            for statistic in statistics {
                summary[name][statistic] = score.clone();
            }
        }
        let summary: Summary = serde_json::from_value(summary).unwrap();
        let honest = clients.iter().filter_map(|c| losses(&client(*c)));
        warning(&summary, &honest.collect::<Vec<_>>(), false)
    }

    #[test]
    fn warns_if_another_model_is_better() {
        // Ten clients, one of them a little worse than localized: a tenth, not more.
        let mut ten = [[3.0, 2.0, 1.0]; 10];
        ten[4] = [3.0, 2.0, 2.1];
        assert_eq!(warning_of(&ten), None);
        ten[5] = [3.0, 2.0, 2.1];
        let two = warning_of(&ten).unwrap();
        assert!(
            two.contains("than the localized one for 2 of 10 clients;"),
            "{two}"
        );
        assert!(
            two.contains("chosen") && !two.contains("shared one"),
            "{two}"
        );
        // Worse over all, because of one.
        ten[5] = [3.0, 2.0, 1.0];
        ten[4] = [3.0, 2.0, 30.0];
        let all = warning_of(&ten).unwrap();
        assert!(
            all.contains("than the shared one over all clients"),
            "{all}"
        );
        // The same as another is not worse.
        assert_eq!(warning_of(&[[2.0, 1.0, 1.0]]), None);
    }
}
