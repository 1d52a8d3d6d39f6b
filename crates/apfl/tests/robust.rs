//! Aggregation rules against vectors worked out by hand, their invariances, and attacks.

mod small;

use apfl::aggregation::Aggregation;
use apfl::algorithm::{FedAvg, LocalOnly, every_algorithm};
use apfl::attack::{Attack, Attackers, Deed};
use apfl::data::Targets;
use apfl::error::Error;
use apfl::params::Mean;
use apfl::spec::{Plan, Spec};
use apfl::training::{RoundRecord, Training};
use proptest::prelude::*;

const TRIMMED: Aggregation = Aggregation::TrimmedMean { trim: 0.2 };
const KRUM: Aggregation = Aggregation::Krum { byzantine: 0.2 };
const RULES: [Aggregation; 4] = [
    Aggregation::Median,
    TRIMMED,
    KRUM,
    Aggregation::GeometricMedian,
];

fn vectors(rows: &[&[f32]]) -> Vec<Vec<f32>> {
    rows.iter().map(|row| row.to_vec()).collect()
}

/// Column 1 sorted: −9 1 2 4 100. Column 2: 0 0 3 5 7. Of five the third; of the first
/// four (1 2 4 100 and 0 3 5 7) the mean of the middle two: 3 and 4.
#[test]
fn the_median_of_every_coordinate() {
    let five = vectors(&[&[4., 7.], &[1., 3.], &[100., 0.], &[2., 5.], &[-9., 0.]]);
    assert_eq!(Aggregation::Median.combine(&five), [2.0, 3.0]);
    assert_eq!(Aggregation::Median.combine(&five[..4]), [3.0, 4.0]);
}

/// One of five cut at each end (0.2·5): (1 + 2 + 4)/3 and (0 + 3 + 5)/3; two of five
/// (0.4·5) leave the median; of three, 0.2·3 cuts none: (4 + 1 + 100)/3 = 35.
#[test]
fn the_mean_without_the_extremes() {
    let five = vectors(&[&[4., 7.], &[1., 3.], &[100., 0.], &[2., 5.], &[-9., 0.]]);
    let third = |sum: f64| (sum / 3.0) as f32;
    assert_eq!(TRIMMED.combine(&five), [third(7.0), third(8.0)]);
    let most = Aggregation::TrimmedMean { trim: 0.4 };
    assert_eq!(most.combine(&five), [2.0, 3.0]);
    assert_eq!(TRIMMED.combine(&five[..3]), [35.0, third(10.0)]);
}

/// Five points on a line, f = ⌊0.2·5⌋ = 1, so each is scored by its 5 − 1 − 2 = 2 nearest:
/// at 0: 1 + 9 = 10; at 1: 1 + 4 = 5; at 3: 4 + 4 = 8; at 5: 4 + 16 = 20; at 50: 45² + 47².
#[test]
fn krum_takes_the_update_with_the_nearest_neighbours() {
    let line = vectors(&[&[3., 0.], &[50., 0.], &[0., 0.], &[5., 0.], &[1., 0.]]);
    assert_eq!(KRUM.combine(&line), [1.0, 0.0]);
    // With f = 0 the three nearest count: 0: 1+9+25 = 35; 1: 1+4+16 = 21; 3: 4+4+9 = 17.
    let none = Aggregation::Krum { byzantine: 0.0 };
    assert_eq!(none.combine(&line), [3.0, 0.0]);
    assert!(KRUM.check(5).is_ok());
    let message = Aggregation::Krum { byzantine: 0.4 }.check(5).unwrap_err();
    let message = message.to_string();
    assert!(
        message.contains("K = 5 and f = 2") && message.contains("at least 7"),
        "{message}"
    );
}

/// On a line the smallest sum of distances is at the median. In the plane, of the corners
/// of a square and any point within it, the crossing of the diagonals has no smaller
/// distance to opposite corners. And the point that sees the sides of a triangle under
/// 120° each: of (−√3, 0), (√3, 0), (0, 3), equilateral of side 2√3, the centre (0, 1).
#[test]
fn the_geometric_median_of_figures() {
    let rule = Aggregation::GeometricMedian;
    let close = |found: Vec<f32>, expected: [f32; 2]| {
        for (x, y) in found.iter().zip(expected) {
            assert!((x - y).abs() < 1e-4, "{found:?}, expected {expected:?}");
        }
    };
    let line = vectors(&[&[0., 0.], &[1000., 0.], &[2., 0.], &[1., 0.], &[-7., 0.]]);
    close(rule.combine(&line), [1.0, 0.0]);
    let square = vectors(&[&[0., 0.], &[2., 0.], &[2., 2.], &[0., 2.]]);
    close(rule.combine(&square), [1.0, 1.0]);
    let root = 3f32.sqrt();
    let triangle = vectors(&[&[-root, 0.], &[root, 0.], &[0., 3.]]);
    close(rule.combine(&triangle), [0.0, 1.0]);
    // The third corner drawn far out along its axis: both others still see it under 120°.
    let far = vectors(&[&[-root, 0.], &[root, 0.], &[0., 3000.]]);
    close(rule.combine(&far), [0.0, 1.0]);
}

#[test]
fn equal_updates_stay_what_they_are_to_the_bit() {
    let x = vec![0.1f32, -3.3e-8, 7.7e9, 1e-40, 0.0];
    for k in [1, 2, 5, 10, 97] {
        for rule in RULES.into_iter().chain([Aggregation::Mean]) {
            let combined = rule.combine(&vec![x.clone(); k]);
            assert_eq!(combined, x, "{rule}, {k}");
        }
    }
}

#[test]
fn one_update_full_of_nan_or_infinity_changes_no_rule() {
    for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut models = vec![vec![1.0, 2.0]; 5];
        models[2] = vec![bad; 2];
        for rule in RULES {
            assert_eq!(rule.combine(&models), [1.0, 2.0], "{rule}, {bad}");
        }
    }
    // Where all are bad, what comes out is as long as a model, and not finite.
    for rule in RULES {
        let combined = rule.combine(&vec![vec![f32::NAN; 3]; 5]);
        assert!(combined.len() == 3 && combined[0].is_nan(), "{rule}");
    }
}

fn cohort() -> impl Strategy<Value = Vec<Vec<f32>>> {
    (3usize..9, 1usize..6)
        .prop_flat_map(|(k, d)| prop::collection::vec(prop::collection::vec(-10f32..10.0, d), k))
}

fn near(a: &[f32], b: &[f32], tolerance: f32) -> bool {
    a.iter().zip(b).all(|(a, b)| (a - b).abs() <= tolerance)
}

/// Whether Krum's choice is clear enough that rounding does not change it.
fn clear(models: &[Vec<f32>]) -> bool {
    let f = (0.2 * models.len() as f64 + 1e-9) as usize;
    let score = |i: usize| {
        let mut d: Vec<f64> = (0..models.len())
            .filter(|j| *j != i)
            .map(|j| {
                let pairs = models[i].iter().zip(&models[j]);
                pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum()
            })
            .collect();
        d.sort_by(f64::total_cmp);
        d[..(models.len() - f - 2).max(1)].iter().sum::<f64>()
    };
    let mut scores: Vec<f64> = (0..models.len()).map(score).collect();
    scores.sort_by(f64::total_cmp);
    scores[1] - scores[0] > 1e-3
}

proptest! {
    #[test]
    fn the_order_of_the_clients_does_not_matter(models in cohort(), turn in 1usize..8) {
        let mut turned = models.clone();
        let by = turn % models.len();
        turned.rotate_left(by);
        turned.swap(0, 1);
        prop_assert_eq!(Aggregation::Median.combine(&models), Aggregation::Median.combine(&turned));
        prop_assert_eq!(TRIMMED.combine(&models), TRIMMED.combine(&turned));
        let z = Aggregation::GeometricMedian.combine(&models);
        prop_assert!(near(&z, &Aggregation::GeometricMedian.combine(&turned), 1e-3));
        if clear(&models) {
            prop_assert_eq!(KRUM.combine(&models), KRUM.combine(&turned));
        }
    }

    #[test]
    fn moving_all_moves_the_result(models in cohort(), by in -8f32..8.0) {
        let moved: Vec<Vec<f32>> =
            models.iter().map(|m| m.iter().map(|x| x + by).collect()).collect();
        for rule in RULES {
            if rule == KRUM && !clear(&models) {
                continue;
            }
            let expected: Vec<f32> = rule.combine(&models).iter().map(|x| x + by).collect();
            let found = rule.combine(&moved);
            prop_assert!(near(&found, &expected, 2e-3), "{rule}: {found:?}, {expected:?}");
        }
    }

    #[test]
    fn nothing_trimmed_is_the_mean(models in cohort()) {
        let mut mean = Mean::default();
        models.iter().for_each(|model| mean.add(1.0, model));
        let mean = mean.value().unwrap();
        let trimmed = Aggregation::TrimmedMean { trim: 0.0 }.combine(&models);
        prop_assert!(near(&trimmed, &mean, 1e-5));
    }

    /// Whatever the one bad update of five is, median and trimmed mean stay between the
    /// honest ones, Krum is one of them or the bad one lies among them, and the geometric
    /// median is no farther from the honest ones' centre than 2(K−f)/(K−2f) times the
    /// farthest of them (Minsker, 2015, lemma 2.1, with ν's share on top).
    #[test]
    fn one_bad_client_has_little_say(
        honest in prop::collection::vec(prop::collection::vec(-1f32..1.0, 3), 4),
        bad in prop::collection::vec(-1e6f32..1e6, 3),
        place in 0usize..5,
    ) {
        let mut models = honest.clone();
        models.insert(place, bad.clone());
        for rule in [Aggregation::Median, TRIMMED] {
            for (j, x) in rule.combine(&models).iter().enumerate() {
                let column = honest.iter().map(|model| model[j]);
                let low = column.clone().fold(f32::INFINITY, f32::min);
                let high = column.fold(f32::NEG_INFINITY, f32::max);
                prop_assert!((low..=high).contains(x), "{rule}");
            }
        }
        let far = bad.iter().any(|x| x.abs() > 10.0);
        prop_assert!(!far || honest.contains(&KRUM.combine(&models)));
        let z = Aggregation::GeometricMedian.combine(&models);
        // The honest ones are within √3 of 0, and 2·4/3·√3 < 4.62.
        let norm = z.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        prop_assert!(norm < 4.63, "{z:?}");
    }
}

/// 11 clients, 7 of them a round: Krum's f is ⌊0.2·7⌋ = 1.
fn spec(settings: &[&str]) -> Spec {
    let mut spec = Spec::parse(
        "seed = 5
         data = { clients = 11, features = 6, classes = 3, max_examples = 120 }
         model = { kind = 'mlp', hidden = [8] }
         federation = { participation = 0.6 }
         training = { rounds = 4, local_steps = 3, batch = 16 }",
    )
    .unwrap();
    for setting in settings {
        spec.set(setting).unwrap();
    }
    spec
}

fn plan(settings: &[&str]) -> Plan {
    spec(settings).plan().unwrap()
}

fn finish(mut training: Training) -> (Vec<RoundRecord>, String) {
    let mut records = Vec::new();
    while let Some(mut record) = training.next_round().unwrap() {
        record.seconds = 0.0;
        records.push(record);
    }
    (records, training.fingerprint().unwrap())
}

fn run(settings: &[&str]) -> (Vec<RoundRecord>, String) {
    let plan = plan(settings);
    finish(Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap())
}

fn problems(settings: &[&str]) -> String {
    match spec(settings).plan() {
        Err(error @ Error::Spec(_)) => error.to_string(),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("{settings:?} is not refused"),
    }
}

#[test]
fn every_algorithm_with_every_rule_has_one_result_or_is_refused() {
    let rules = ["mean", "median", "trimmed-mean", "krum", "geometric-median"];
    let mut refused = 0;
    for algorithm in every_algorithm() {
        let algorithm = format!("algorithm={algorithm}");
        let mut seen = std::collections::BTreeSet::new();
        for rule in rules {
            let rule = format!("federation.aggregation={rule}");
            let attack = "federation.attack.kind=sign-flip";
            let settings = [algorithm.as_str(), &rule, attack];
            if spec(&settings).plan().is_err() {
                let message = problems(&settings);
                let parts = ["\"local\" sends no model", "averaged", "agnostic"];
                assert!(parts.iter().any(|p| message.contains(p)), "{message}");
                refused += 1;
                continue;
            }
            let one = run(&[&settings[..], &["engine.threads=1"]].concat());
            for threads in ["engine.threads=2", "engine.threads=8"] {
                let other = run(&[&settings[..], &[threads]].concat());
                assert!(one == other, "{settings:?} {threads}");
            }
            assert!(seen.insert(one.1), "{settings:?}: each rule has its own");
        }
    }
    // Averaged outputs (2) and `local` with every rule, agnostic (2) with all but the mean.
    assert_eq!(refused, 3 * 5 + 2 * 4);
}

#[test]
fn the_mean_is_what_it_was_and_no_attackers_are_no_attack() {
    let plain = run(&[]);
    assert_eq!(plain, run(&["federation.aggregation=mean"]));
    for attack in ["sign-flip", "gaussian", "label-flip"] {
        let kind = format!("federation.attack={attack}");
        assert_eq!(plain, run(&[&kind, "federation.attack.share=0"]), "{kind}");
        assert_ne!(plain.1, run(&[&kind]).1, "{kind}");
        // ⌊0.09·11⌋ = 0
        assert_eq!(plain, run(&[&kind, "federation.attack.share=0.09"]));
    }
}

/// With identical clients every update is the same, and so is what every rule gives.
#[test]
fn identical_clients_make_every_rule_the_mean() {
    let mut same = small::classes(5, 4, 3, &[6], 0.0);
    let first = same.shards[0].clone();
    same.shards.iter_mut().for_each(|s| *s = first.clone());
    let shared = |rule| {
        let mut setup = same.setup(small::full(2, 0.1), 3, 1.0, true);
        setup.aggregation = rule;
        let mut training = Training::of(setup, FedAvg).unwrap();
        while training.next_round().unwrap().is_some() {}
        training.shared()
    };
    let mean = shared(Aggregation::Mean);
    for rule in RULES {
        assert_eq!(mean, shared(rule), "{rule}");
    }
}

/// scale 3: w = 1, wᵢ = 1.5 is sent as 1 − 3·0.5 = −0.5.
#[test]
fn what_attackers_send() {
    let attackers = |deed, share| Attackers::draw(Some(Attack { deed, share }), 100, 9);
    let flip = attackers(Deed::SignFlip { scale: 3.0 }, 0.29);
    assert_eq!(flip.count(), 29); // though 0.29·100 is 28.999999999999996
    let mut sent = vec![1.5, 2.0];
    flip.forge(0, 1, &[1.0, 2.0], &mut sent);
    assert_eq!(sent, [-0.5, 2.0]);
    // Noise of deviation 2 around w = 5, whatever was trained: mean and deviation of
    // 40,000 numbers within five standard errors, 2/200 and 2/√80000.
    let noise = attackers(Deed::Gaussian { deviation: 2.0 }, 0.1);
    let w = vec![5.0; 40_000];
    let forged = |round, client| {
        let mut sent = vec![-1e9; w.len()];
        noise.forge(client, round, &w, &mut sent);
        sent
    };
    let sent: Vec<f64> = forged(1, 3).into_iter().map(f64::from).collect();
    let mean = sent.iter().sum::<f64>() / 4e4;
    let deviation = (sent.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4e4).sqrt();
    assert!((mean - 5.0).abs() < 0.05, "{mean}");
    assert!((deviation - 2.0).abs() < 0.0354, "{deviation}");
    assert_eq!(forged(1, 3), forged(1, 3));
    assert!(forged(1, 3) != forged(2, 3) && forged(1, 3) != forged(1, 4));
    // Another seed, other attackers.
    let who = |seed| {
        let attack = Some(Attack {
            deed: Deed::LabelFlip,
            share: 0.3,
        });
        let drawn = Attackers::draw(attack, 100, seed);
        (0..100).filter(|k| drawn.has(*k)).collect::<Vec<_>>()
    };
    assert_eq!(who(1).len(), 30);
    assert_ne!(who(1), who(2));
}

#[test]
fn labels_are_flipped_at_attackers_in_training_alone() {
    let honest = plan(&[]).setup().unwrap().world.dataset;
    let setup = plan(&["federation.attack=label-flip"]).setup().unwrap();
    assert_eq!(setup.attackers.count(), 2); // ⌊0.2·11⌋
    for client in 0..11 {
        let (was, is) = (
            honest.shard(client).unwrap(),
            setup.world.dataset.shard(client).unwrap(),
        );
        let (Targets::Classes(before), Targets::Classes(after)) =
            (was.train.targets(), is.train.targets())
        else {
            panic!("classes");
        };
        let flipped: Vec<u32> = before.iter().map(|y| 2 - y).collect();
        match setup.attackers.has(client) {
            true => assert_eq!(*after, flipped),
            false => assert_eq!(after, before),
        }
        assert_eq!(was.train.features(), is.train.features());
        assert_eq!(was.valid, is.valid);
    }
    let message = setup.notes.join("\n");
    assert!(
        message.contains("label-flip by 2 of 11 clients"),
        "{message}"
    );
}

#[test]
fn scores_are_those_of_the_honest_clients() {
    let settings = ["federation.participation=1", "algorithm.kind=fedavg"];
    let attacked = plan(&[&settings[..], &["federation.attack=sign-flip"]].concat());
    let setup = attacked.setup().unwrap();
    let mut training = Training::new(setup.clone(), &attacked.algorithm).unwrap();
    let record = training.next_round().unwrap().unwrap();
    assert_eq!((record.cohort, record.attackers), (11, 2));
    let valid: u64 = (0..11)
        .filter(|k| !setup.attackers.has(*k))
        .map(|k| setup.world.dataset.sizes(k).1 as u64)
        .sum();
    // Accuracy is a whole number of the honest clients' validation examples.
    let accuracy = record.scores.unwrap().shared.valid.accuracy.unwrap();
    let hits = accuracy * valid as f64;
    assert!((hits - hits.round()).abs() < 1e-9, "{hits} of {valid}");
    // A cohort of attackers alone has no scores.
    let lone = plan(&[
        "federation.participation=0.01",
        "federation.attack=sign-flip",
        "federation.attack.share=0.95",
        "training.rounds=8",
    ]);
    let (records, _) = finish(Training::new(lone.setup().unwrap(), &lone.algorithm).unwrap());
    for record in records {
        assert_eq!(record.cohort, 1);
        assert_eq!(record.scores.is_none(), record.attackers == 1);
    }
}

/// Four of eleven send their update reversed and four times as long: the mean moves by
/// (7 − 16)/11 = −0.8 honest updates a round, the median follows the honest ones.
#[test]
fn the_median_stands_where_the_mean_falls() {
    let accuracy = |rule: &str| {
        let settings = [
            "federation.participation=1",
            "data.iid=true",
            "data.examples=200",
            "algorithm.kind=fedavg",
            "training.rounds=15",
            "federation.attack={ kind = 'sign-flip', share = 0.37, scale = 4 }",
            rule,
        ];
        let (records, _) = run(&settings);
        let last = records.last().unwrap().scores.unwrap();
        last.shared.valid.accuracy.unwrap()
    };
    let mean = accuracy("federation.aggregation=mean");
    for rule in ["median", "krum", "geometric-median"] {
        let rule = format!("federation.aggregation={rule}");
        let robust = accuracy(&rule);
        assert!(robust > mean + 0.2, "{rule}: {robust}, mean {mean}");
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let message = problems(&[
        "algorithm.kind=local",
        "federation.aggregation=krum",
        "federation.attack=sign-flip",
        "federation.weights=examples",
    ]);
    for part in [
        "3 problems",
        "federation.aggregation: found \"krum\", but algorithm \"local\" sends no model",
        "federation.aggregation: found \"krum\", but it counts clients, not examples",
        "federation.attack: found \"sign-flip\", but algorithm \"local\" sends no model",
    ] {
        assert!(message.contains(part), "{part} is missing in\n{message}");
    }
    let wrong = |settings: &[&str], parts: &[&str]| {
        let message = problems(settings);
        for part in parts {
            assert!(message.contains(part), "{part} is missing in\n{message}");
        }
    };
    wrong(
        &["federation.aggregation=medain"],
        &["did you mean \"median\"?"],
    );
    wrong(
        &["federation.aggregation=trimmed-mean", "federation.trim=0.5"],
        &["federation.trim: found 0.5, allowed is 0 to below 0.5"],
    );
    wrong(
        &["federation.aggregation=median", "federation.trim=0.1"],
        &["federation.trim: unknown key"],
    );
    wrong(
        &["federation.attack={ kind = 'gaussian', share = 1, scale = 2 }"],
        &[
            "federation.attack.share: found 1, allowed is 0 to below 1",
            "federation.attack.scale: unknown key",
        ],
    );
    wrong(&["federation.attack=sign"], &["federation.attack.kind"]);
    wrong(
        &[
            "algorithm.mixing={ fixed = 0.5 }",
            "training.schedule.kind=theory",
            "federation.aggregation=median",
        ],
        &["the theorems of training.schedule are about the mean"],
    );
    // Krum's cohort is known when the data is: 0.6·11 ≈ 7 clients, and 2·3 + 3 = 9.
    let krum = plan(&["federation.aggregation=krum", "federation.byzantine=0.45"]);
    let error = krum.setup().err().unwrap();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().contains("K = 7 and f = 3"), "{error}");
    // From the library, an algorithm that sends no model.
    let mut setup = plan(&[]).setup().unwrap();
    setup.aggregation = Aggregation::Median;
    let mut training = Training::of(setup, LocalOnly).unwrap();
    let error = training.next_round().unwrap_err().to_string();
    assert!(error.contains("update has none"), "{error}");
}

#[test]
fn the_resolved_spec_spells_rule_and_attack_out() {
    let settings = [
        "federation.aggregation=krum",
        "federation.attack=sign-flip",
        "federation.attack.share=0.1",
    ];
    let written = plan(&settings).to_toml();
    for part in ["byzantine = 0.2", "scale = 1.0", "share = 0.1"] {
        assert!(written.contains(part), "{part} is missing in\n{written}");
    }
    let again = Spec::parse(&written).unwrap();
    assert_eq!(again.plan().unwrap().to_toml(), written);
    // Another rule or kind drops what the old one had.
    let mut other = again;
    other.set("federation.aggregation=median").unwrap();
    other.set("federation.attack.kind=gaussian").unwrap();
    let other = other.plan().unwrap().to_toml();
    assert!(!other.contains("byzantine") && !other.contains("scale"));
    assert!(other.contains("deviation = 1.0") && other.contains("share = 0.1"));
}
