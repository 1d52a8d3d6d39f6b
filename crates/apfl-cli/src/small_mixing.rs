//! A remark on a learned α that stayed small, so that personal models are the localized ones.

use apfl::algorithm::Mixing;
use apfl::run::run_dir::Summary;

/// A mixture with less of a client's own model is nearly the localized model.
const SMALL: f64 = 0.05;

/// Returns the remark for a run with this mixing, with the remedy; `None` if α was not learned, is
/// not small, or the two models validate differently.
pub fn remark(mixing: Mixing, summary: &Summary) -> Option<String> {
    let Mixing::Adaptive(start) = mixing else {
        return None;
    };
    let mean = summary.mixing.as_ref()?.spread.mean;
    let models = summary.models.as_ref()?;
    let loss = [&models.personal, &models.localized].map(|over| over.pooled.valid.loss);
    let [personal, localized] = loss;
    let alike = (personal - localized).abs() <= SMALL * localized.abs();
    if mean >= SMALL || !alike {
        return None;
    }
    let start_higher = if f64::from(start) < 0.1 {
        "start it higher with algorithm.mixing = { adaptive = 0.1 } or more, or "
    } else {
        ""
    };
    Some(format!(
        "the learned α is small (mean {mean:.3} from {start}), so that the personal models are \
         nearly the localized ones (validation loss {personal:.4} and {localized:.4}); \
         {start_higher}let each client choose its α with algorithm.mixing = {{ chosen = [0, 0.1, \
         0.25, 0.5, 0.75, 1] }}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn summary(mean: f64, [localized, personal]: [f64; 2]) -> Summary {
        let mut summary = json!({"rounds": 1, "clients": 1, "fingerprint": "", "seconds": 0.0});
        for (name, loss) in [
            ("shared", 9.0),
            ("localized", localized),
            ("personal", personal),
        ] {
            let score = json!({"loss": loss, "accuracy": 0.5});
            let statistics = ["pooled", "mean", "std", "worst_decile", "min", "max"];
            for statistic in statistics {
                summary[name][statistic] = json!({"train": score, "valid": score});
            }
        }
        summary["mixing"] = json!({
            "mean": mean, "min": 0.0, "q10": 0.0, "q50": mean, "q90": mean, "max": 0.1,
        });
        serde_json::from_value(summary).unwrap()
    }

    /// Losses 2 and 2.09 differ by 4.5%, 2 and 2.11 by 5.5%.
    #[test]
    fn a_small_alpha_is_remarked_with_its_remedy() {
        let learned = Mixing::Adaptive(0.01);
        let remark_of = |mixing, mean, losses| remark(mixing, &summary(mean, losses));
        let text = remark_of(learned, 0.019, [2.0, 2.09]).unwrap();
        for words in ["mean 0.019 from 0.01", "adaptive = 0.1", "chosen = [0, 0.1"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains('\n'));
        assert_eq!(remark_of(learned, 0.019, [2.0, 2.11]), None);
        assert_eq!(remark_of(learned, 0.05, [2.0, 2.0]), None);
        assert_eq!(remark_of(Mixing::Fixed(0.01), 0.01, [2.0, 2.0]), None);
        // From a higher start that fell, only the choice is a remedy.
        let fell = remark_of(Mixing::Adaptive(0.5), 0.0, [2.0, 2.0]).unwrap();
        assert!(
            !fell.contains("start it higher") && fell.contains("chosen"),
            "{fell}"
        );
    }
}
