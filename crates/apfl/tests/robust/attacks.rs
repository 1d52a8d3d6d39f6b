//! What attackers send and train on, and who is scored.

use apfl::attack::{Attack, AttackKind, Attackers};
use apfl::data::Targets;
use apfl::training::Training;

use super::{finish, plan};

/// scale 3: w = 1, wᵢ = 1.5 is sent as 1 − 3·0.5 = −0.5.
#[test]
fn what_attackers_send() {
    let attackers = |kind, share| Attackers::sample(Some(Attack { kind, share }), 100, 9);
    let flip = attackers(AttackKind::SignFlip { scale: 3.0 }, 0.29);
    assert_eq!(flip.count(), 29); // though 0.29·100 is 28.999999999999996
    let mut sent = vec![1.5, 2.0];
    flip.forge(0, 1, &[1.0, 2.0], &mut sent);
    assert_eq!(sent, [-0.5, 2.0]);
    // Noise of deviation 2 around w = 5, whatever was trained: mean and deviation of
    // 40,000 numbers within five standard errors, 2/200 and 2/√80000.
    let noise = attackers(AttackKind::Gaussian { deviation: 2.0 }, 0.1);
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
            kind: AttackKind::LabelFlip,
            share: 0.3,
        });
        let sampled = Attackers::sample(attack, 100, seed);
        (0..100).filter(|k| sampled.has(*k)).collect::<Vec<_>>()
    };
    assert_eq!(who(1).len(), 30);
    assert_ne!(who(1), who(2));
}

#[test]
fn labels_are_flipped_at_attackers_in_training_alone() {
    let honest = plan(&[]).setup().unwrap().context.dataset;
    let setup = plan(&["federation.attack=label-flip"]).setup().unwrap();
    assert_eq!(setup.attackers.count(), 2); // ⌊0.2·11⌋
    for client in 0..11 {
        let (was, is) = (
            honest.shard(client).unwrap(),
            setup.context.dataset.shard(client).unwrap(),
        );
        let (Targets::Classes(before), Targets::Classes(after)) =
            (was.train.targets(), is.train.targets())
        else {
            panic!("classes");
        };
        let flipped: Vec<u32> = before.iter().map(|y| 2 - y).collect();
        if setup.attackers.has(client) {
            assert_eq!(*after, flipped)
        } else {
            assert_eq!(after, before)
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
        .map(|k| setup.context.dataset.sizes(k).1 as u64)
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
