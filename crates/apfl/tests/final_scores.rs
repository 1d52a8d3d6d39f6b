//! Final scores against an independent evaluation; class weights and units do not affect others.

use std::sync::Arc;

use apfl::data::{Dataset, Labels};
use apfl::metrics::assessment::ClassPrediction;
use apfl::metrics::{Assessment, Detail, FinalScore};
use apfl::run::Run;
use apfl::spec::Spec;

use crate::tables::{taken, x};

/// A federation of three clients whose labels depend on two numbers and a category.
fn federation(classes: usize, rows: usize) -> String {
    let mut text = "client,label,split,u,v,kind\n".to_string();
    for k in 0..rows {
        let (u, v) = ((k * 37 % 101) as f64 / 50.0, (k * 53 % 89) as f64 / 40.0);
        let noise = (k * 71 % 23) as f64 / 20.0;
        let class = ((u + v + noise) * 1.3) as usize % classes;
        let split = ["train", "train", "train", "valid", "test"][k * 7 % 5];
        let kind = ["x", "y"][k % 2];
        text += &format!(
            "{},k{class},{split},{u},{v},{kind}\n",
            ["a", "b", "c"][k % 3]
        );
    }
    text
}

fn trained(text: &str, more: &str) -> (apfl::run::Finished, Arc<dyn Dataset>) {
    let data: Arc<dyn Dataset> = Arc::new(taken(text, more));
    let plan = Spec::parse("training = { rounds = 5 }\nalgorithm = { mixing = { fixed = 0.5 } }")
        .unwrap()
        .plan()
        .unwrap();
    let setup = plan.setup_with(data.clone(), Default::default()).unwrap();
    (Run::new(&plan, setup).train().unwrap(), data)
}

/// The share of pairs in the right order, pair by pair.
fn auc_by_pairs(scores: &[f64], is: &[bool]) -> Option<f64> {
    let (mut pairs, mut right) = (0.0, 0.0);
    for (a, _) in scores.iter().zip(is).filter(|(_, is)| **is) {
        for (b, _) in scores.iter().zip(is).filter(|(_, is)| !**is) {
            pairs += 1.0;
            right += match a.partial_cmp(b).unwrap() {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
    }
    (pairs > 0.0).then(|| right / pairs)
}

/// Balanced accuracy, F1, AUC and Brier from probabilities and labels alone.
fn independent(p: &[Vec<f64>], y: &[usize], classes: usize) -> [Option<f64>; 4] {
    let answer: Vec<usize> = (p.iter())
        .map(|p| (0..classes).fold(0, |best, k| if p[k] > p[best] { k } else { best }))
        .collect();
    let count = |f: &dyn Fn(usize) -> bool| (0..y.len()).filter(|r| f(*r)).count() as f64;
    let mean = |v: Vec<f64>| (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64);
    let (mut recalls, mut f1s, mut aucs) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..classes {
        let (actual, predicted) = (count(&|r| y[r] == k), count(&|r| answer[r] == k));
        let both = count(&|r| y[r] == k && answer[r] == k);
        if actual > 0.0 {
            recalls.push(both / actual);
        }
        if actual + predicted > 0.0 {
            let (precision, recall) = (both / predicted.max(1.0), both / actual.max(1.0));
            let sum = precision + recall;
            f1s.push(if sum > 0.0 {
                2.0 * precision * recall / sum
            } else {
                0.0
            });
        }
        if classes > 2 || k == 1 {
            let scores: Vec<f64> = p.iter().map(|p| p[k]).collect();
            let is: Vec<bool> = y.iter().map(|y| *y == k).collect();
            aucs.extend(auc_by_pairs(&scores, &is));
        }
    }
    let brier = p.iter().zip(y).map(|(p, y)| match classes {
        2 => (p[1] - *y as f64).powi(2),
        _ => (0..classes)
            .map(|k| (p[k] - f64::from(u8::from(k == *y))).powi(2))
            .sum(),
    });
    [mean(recalls), mean(f1s), mean(aucs), mean(brier.collect())]
}

fn near(found: Option<f64>, expected: Option<f64>, by: f64, what: &str) {
    match (found, expected) {
        (Some(a), Some(b)) => assert!((a - b).abs() < by, "{what}: {a} {b}"),
        (a, b) => assert_eq!(a, b, "{what}"),
    }
}

#[test]
fn final_scores_are_those_of_an_independent_evaluation() {
    for classes in [2, 3] {
        let (run, data) = trained(&federation(classes, 240), "standardize = true");
        let mut pooled = (Vec::new(), Vec::new());
        for (client, record) in run.clients().unwrap().iter().enumerate() {
            let model = run.personal(&record.client).unwrap();
            let shard = data.shard(client).unwrap();
            let scores = &record.scores.personal;
            let parts = [
                (&shard.valid, &scores.valid),
                (&shard.test, scores.test.as_ref().unwrap()),
            ];
            for (part, (examples, score)) in parts.into_iter().enumerate() {
                let p: Vec<Vec<f64>> = (model.predict(x(examples.features())).unwrap().into_iter())
                    .map(|one| match one {
                        apfl::Prediction::Class { scores, .. } => scores,
                        apfl::Prediction::Value(_) => panic!("classes"),
                    })
                    .collect();
                let Labels::Classes(y) = examples.all().targets else {
                    panic!("classes")
                };
                let y: Vec<usize> = y.iter().map(|y| *y as usize).collect();
                let [balanced, f1, auc, brier] = independent(&p, &y, classes);
                near(score.get("balanced_accuracy"), balanced, 1e-9, "balanced");
                near(score.get("f1"), f1, 1e-9, "f1");
                near(score.get("auc"), auc, 1e-9, "auc");
                near(score.get("brier"), brier, 1e-6, "brier");
                let counts = score.confusion.as_ref().unwrap();
                assert_eq!(counts.iter().flatten().sum::<u64>(), y.len() as u64);
                if part == 0 {
                    pooled.0.extend(p);
                    pooled.1.extend(y);
                }
            }
        }
        let models = run.summary.models.as_ref().unwrap();
        let score = &models.personal.pooled.valid;
        let [balanced, f1, auc, brier] = independent(&pooled.0, &pooled.1, classes);
        near(score.get("balanced_accuracy"), balanced, 1e-9, "balanced");
        near(score.get("f1"), f1, 1e-9, "f1");
        // Few rows of nearly one score: equal bins are many pairs here; see the next test.
        near(score.get("auc"), auc, 2e-2, "pooled auc");
        near(score.get("brier"), brier, 1e-6, "brier");
        let bins: u64 = score.calibration.iter().map(|bin| bin.0).sum();
        assert_eq!(bins, pooled.1.len() as u64);
        // Written and read again, every score is there.
        let json = serde_json::to_string(score).unwrap();
        let again: FinalScore = serde_json::from_str(&json).unwrap();
        assert_eq!(&again, score);
    }
}

/// Pooled over ten clients from histograms: at a prevalence of 0.2%, and where scores saturate.
#[test]
fn the_pooled_auc_is_near_the_exact_one() {
    for (prevalence, shift, spread) in [(0.5, 0.0, 1.0), (0.002, -6.0, 1.2), (0.1, 0.0, 9.0)] {
        let mut state = 12345u64;
        let mut uniform = || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut sum = Assessment::default();
        let mut all = (Vec::new(), Vec::new());
        for _ in 0..10 {
            let rows: Vec<(usize, f64)> = (0..2000)
                .map(|_| {
                    let is = uniform() < prevalence;
                    let normal =
                        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos();
                    let logit = shift + spread * (normal + if is { 1.0 } else { 0.0 });
                    (usize::from(is), logit)
                })
                .collect();
            let answers = rows.iter().map(|(truth, z)| ClassPrediction {
                truth: *truth,
                predicted: usize::from(*z > 0.0),
                probabilities: None,
            });
            let mut client = Assessment::of_classes(2, answers);
            let truths: Vec<u32> = rows.iter().map(|(truth, _)| *truth as u32).collect();
            client.rank(2, &truths, |row, ranks| {
                ranks.clear();
                ranks.push((rows[row].1, rows[row].1));
            });
            sum.add(&client);
            all.0.extend(rows.iter().map(|(_, z)| *z));
            all.1.extend(rows.iter().map(|(truth, _)| *truth == 1));
        }
        let exact = auc_by_pairs(&all.0, &all.1).unwrap();
        let Detail::Classes { auc, .. } = sum.detail(2, 1.0) else {
            panic!("classes")
        };
        near(auc, Some(exact), 1e-3, &format!("prevalence {prevalence}"));
    }
}

#[test]
fn the_units_of_a_predicted_number_change_nothing_else() {
    let text = |unit: f64| {
        let mut text = "client,label,split,u\n".to_string();
        for k in 0..90 {
            let u = (k * 37 % 101) as f64;
            let y = unit * (2.0 * u + (k * 29 % 13) as f64 + if k % 3 == 0 { 40.0 } else { 0.0 });
            let split = ["train", "train", "valid"][k * 7 / 3 % 3];
            text += &format!("{},{y},{split},{u}\n", ["a", "b", "c"][k % 3]);
        }
        text
    };
    let more = "task = 'regression'\nstandardize = true";
    let (one, data) = trained(&text(1.0), more);
    let (thousand, _) = trained(&text(1000.0), more);
    let pairs = one
        .clients()
        .unwrap()
        .into_iter()
        .zip(thousand.clients().unwrap());
    for (client, (a, b)) in pairs.enumerate() {
        let (a, b) = (a.scores.personal.valid, b.scores.personal.valid);
        let ratio = |name: &str| b.get(name).unwrap() / a.get(name).unwrap();
        for (name, expected) in [
            ("rmse", 1000.0),
            ("mae", 1000.0),
            ("loss", 1.0),
            ("r2", 1.0),
        ] {
            assert!(
                (ratio(name) / expected - 1.0).abs() < 1e-4,
                "{name}: {}",
                ratio(name)
            );
        }
        // rmse, mae and r² by hand, from predictions and labels in their own units.
        let model = one.personal(["a", "b", "c"][client]).unwrap();
        let shard = data.shard(client).unwrap();
        let Labels::Values(y) = shard.valid.all().targets else {
            panic!("numbers")
        };
        let scale = data.schema().label_scale().unwrap();
        let y: Vec<f64> = y
            .iter()
            .map(|y| f64::from(*y) * scale.deviation + scale.mean)
            .collect();
        let predictions = model.predict(x(shard.valid.features())).unwrap();
        let errors: Vec<f64> = predictions
            .iter()
            .zip(&y)
            .map(|(p, y)| p.value().unwrap() - y)
            .collect();
        let n = y.len() as f64;
        let mean = y.iter().sum::<f64>() / n;
        let squares: f64 = errors.iter().map(|e| e * e).sum();
        let total: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
        near(a.get("r2"), Some(1.0 - squares / total), 1e-6, "r2");
        near(a.get("rmse"), Some((squares / n).sqrt()), 1e-5, "rmse");
        let absolute: f64 = errors.iter().map(|e| e.abs()).sum();
        near(a.get("mae"), Some(absolute / n), 1e-5, "mae");
    }
    let mean = one.summary.client_mean.unwrap();
    assert!(mean.rmse > mean.mae && mean.mae > 1.0);
}

#[test]
fn class_weights_are_for_classes_and_for_training_alone() {
    let spec = |more: &str| {
        Spec::parse(&format!("training = {{ rounds = 3, {more} }}"))
            .unwrap()
            .plan()
            .unwrap()
    };
    let text = federation(2, 120);
    let run = |more: &str, balanced: &str| {
        let plan = spec(balanced);
        let data: Arc<dyn Dataset> = Arc::new(taken(&text, more));
        let setup = plan.setup_with(data, Default::default())?;
        Run::new(&plan, setup).train()
    };
    let plain = run("standardize = true", "class_weights = 'none'").unwrap();
    let weighted = run("standardize = true", "class_weights = 'balanced'").unwrap();
    assert_ne!(plain.summary.fingerprint, weighted.summary.fingerprint);
    let shard = taken(&text, "standardize = true").shards[0].clone();
    let model = weighted.personal("a").unwrap();
    let (tally, _) = model.assess(&shard.valid).unwrap();
    let found = weighted.clients().unwrap()[0].scores.personal.valid.loss;
    near(
        Some(found),
        Some(tally.loss / tally.examples as f64),
        1e-9,
        "the loss is unweighted",
    );
    let numbers = text.replace(",k", ",");
    let plan = spec("class_weights = 'balanced'");
    let data: Arc<dyn Dataset> = Arc::new(taken(&numbers, "task = 'regression'"));
    let error = plan
        .setup_with(data, Default::default())
        .map(|_| ())
        .unwrap_err();
    assert!(error.is_request() && error.to_string().contains("training.class_weights"));
}
