//! The published data sets, if they are on this machine. Absent data is reported and skipped.

use std::sync::Arc;

use apfl::data::{Dataset, Targets};
use apfl::spec::Spec;
use apfl::training::Training;

use crate::published_data::folder;

fn load(kind: &str, more: &str) -> Option<Arc<dyn Dataset>> {
    let dir = folder(kind)?;
    let spec = format!("[data]\nkind = '{kind}'\ndir = '{}'\n{more}", dir.display());
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    Some(plan.data.load().unwrap())
}

fn counts(data: &dyn Dataset) -> Vec<u64> {
    let mut counts = vec![0; data.schema().task.classes()];
    for client in 0..data.clients() {
        let shard = data.shard(client).unwrap();
        for part in [&shard.train, &shard.valid] {
            let of_part = part.class_counts(counts.len());
            counts
                .iter_mut()
                .zip(of_part)
                .for_each(|(sum, n)| *sum += n);
        }
    }
    counts
}

#[test]
fn mnist_has_its_published_counts_and_falls_in_stripes() {
    let Some(data) = load("mnist", "[data.partition]\nkind = 'stripe'\nclasses = 2") else {
        return;
    };
    assert_eq!(data.clients(), 100);
    assert!((0..100).all(|client| data.sizes(client) == (480, 120)));
    let published = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949];
    assert_eq!(counts(&*data), published);
    // 2×300 digits of the sorted 60,000: never more than two neighbouring classes a slice.
    for client in 0..100 {
        let shard = data.shard(client).unwrap();
        let Targets::Classes(labels) = shard.train.targets() else {
            panic!("digits are classes")
        };
        let different: std::collections::HashSet<_> = labels.iter().collect();
        assert!((2..=4).contains(&different.len()));
    }
}

#[test]
fn qmnist_has_836_writers() {
    let Some(data) = load("qmnist", "") else {
        return;
    };
    assert_eq!(data.clients(), 836);
    let examples: usize = (0..836).map(|c| data.sizes(c).0 + data.sizes(c).1).sum();
    assert_eq!(examples, 70_000);
    // MNIST's training and test labels together.
    let published = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958];
    assert_eq!(counts(&*data), published);
}

#[test]
fn femnist_has_374_writers_of_20_digits_or_more() {
    let Some(data) = load("femnist", "min_examples = 20") else {
        return;
    };
    assert_eq!(data.clients(), 374);
    assert!((0..374).all(|c| data.sizes(c).1 >= 2));
    // Paper is dark after 255 − v: most pixels of a digit are 0.
    let shard = data.shard(0).unwrap();
    let apfl::data::Features::Bytes(bytes, _) = shard.train.features() else {
        panic!("images stay bytes")
    };
    assert!(bytes.iter().filter(|b| **b == 0).count() > bytes.len() / 2);
}

#[test]
fn leaf_shards_load_with_62_classes() {
    let Some(data) = load("leaf", "") else {
        return;
    };
    assert_eq!(data.schema().task.classes(), 62);
    assert_eq!(data.schema().shape, [1, 28, 28]);
    assert_eq!(data.clients(), 15);
    // num_samples of the three training and the three test shards.
    let sizes: Vec<_> = (0..15).map(|c| data.sizes(c)).collect();
    assert_eq!(sizes.iter().map(|s| s.0).sum::<usize>(), 779 + 699 + 734);
    assert_eq!(sizes.iter().map(|s| s.1).sum::<usize>(), 89 + 80 + 84);
}

/// What personalization is for: with two classes a client, the shared model knows ten
/// and is mediocre, a client's own knows two.
#[test]
fn on_two_classes_a_client_personal_beats_localized_beats_shared() {
    let Some(dir) = folder("mnist") else { return };
    let spec = format!(
        "[data]
         kind = 'mnist'
         dir = '{}'
         [algorithm]
         kind = 'apfl'
         mixing = {{ fixed = 0.25 }}
         [training]
         rounds = 20
         [evaluation]
         every = 20",
        dir.display()
    );
    let plan = Spec::parse(&spec).unwrap().plan().unwrap();
    let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
    let mut last = None;
    while let Some(round) = training.next_round().unwrap() {
        last = round.scores.or(last);
    }
    let accuracy = last
        .expect("the last round is evaluated")
        .map(|scores| scores.valid.accuracy.expect("digits are classes"));
    println!("{accuracy:?}");
    assert!(accuracy.personal > accuracy.localized);
    assert!(accuracy.localized > accuracy.shared + 0.05);
    assert!((0.96..0.985).contains(&accuracy.personal));
}
