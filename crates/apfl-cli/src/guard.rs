//! A line where the personal models of a run are not the best that it made.

use apfl::metrics::{ByModel, FinalScores};
use apfl::run::run_dir::{ClientRecord, Summary};

/// Says where the personal model validates worse than the shared or the localized one, over
/// all clients or for more than a tenth of them, and what to try; `chosen` is whether α was
/// chosen.
pub fn line(summary: &Summary, clients: &[ClientRecord], chosen: bool) -> Option<String> {
    let models = summary.models.as_ref()?;
    type Loss = fn(&ByModel<FinalScores>) -> f64;
    let others: [(&str, Loss); 2] = [
        ("shared", |scores| scores.shared.valid.loss),
        ("localized", |scores| scores.localized.valid.loss),
    ];
    let honest: Vec<&ClientRecord> = clients.iter().filter(|c| !c.attacker).collect();
    let pooled = models.map(|over| over.pooled.clone());
    let own = pooled.personal.valid.loss;
    let mut found = Vec::new();
    for (name, loss) in others {
        let worse = honest
            .iter()
            .filter(|client| client.scores.personal.valid.loss > loss(&client.scores))
            .count();
        let over_all = own > loss(&pooled);
        if over_all || 10 * worse > honest.len() {
            let all = if over_all {
                format!(
                    "over all clients (loss {own:.4} against {:.4}) and ",
                    loss(&pooled)
                )
            } else {
                String::new()
            };
            found.push(format!(
                "than the {name} one {all}for {worse} of {} clients",
                honest.len()
            ));
        }
    }
    if found.is_empty() {
        return None;
    }
    let remedy = if chosen {
        "few rows decide this for a single client; a larger algorithm.mixing.prior follows \
             the federation more, more folds or rows choose better, and apfl advise says what is \
             sure"
    } else {
        "try algorithm = { kind = \"apfl\", mixing = { chosen = [0, 0.1, 0.25, 0.5, 0.75, 1] } }, \
             which takes for each client what is best on rows held out"
    };
    Some(format!(
        "the personal model validates worse {}; {remedy}",
        found.join(", and ")
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

    fn said(clients: &[[f64; 3]]) -> Option<String> {
        let mean = |k: usize| clients.iter().map(|c| c[k]).sum::<f64>() / clients.len() as f64;
        let mut summary = json!({"rounds": 1, "clients": 1, "fingerprint": "", "seconds": 0.0});
        for (k, name) in ["shared", "localized", "personal"].iter().enumerate() {
            let of = scores(mean(k));
            let statistics = ["pooled", "mean", "std", "worst_decile", "min", "max"];
            for statistic in statistics {
                summary[name][statistic] = of.clone();
            }
        }
        let summary: Summary = serde_json::from_value(summary).unwrap();
        let clients: Vec<ClientRecord> = clients.iter().map(|c| client(*c)).collect();
        line(&summary, &clients, false)
    }

    #[test]
    fn said_where_another_model_is_better() {
        // Ten clients, one of them a little worse than localized: a tenth, not more.
        let mut ten = [[3.0, 2.0, 1.0]; 10];
        ten[4] = [3.0, 2.0, 2.1];
        assert_eq!(said(&ten), None);
        ten[5] = [3.0, 2.0, 2.1];
        let two = said(&ten).unwrap();
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
        let all = said(&ten).unwrap();
        assert!(
            all.contains("than the shared one over all clients"),
            "{all}"
        );
        // The same as another is not worse.
        assert_eq!(said(&[[2.0, 1.0, 1.0]]), None);
    }
}
