//! Properties of every algorithm.

use crate::small::{Hand, classes, full, synthetic};
use apfl::algorithm::{Algorithm, AlgorithmVisitor, every_algorithm};
use apfl::local_client::{BatchSource, LocalClient, Scratch};
use apfl::pack::{Arrays, Pack};
use apfl::rng::{Purpose, stream};
use apfl::training::Training;

const TRAINING: &str = "training = { rounds = 4, local_steps = 3, batch = 16 }
     federation = { participation = 0.6 }";

#[test]
fn threads_change_nothing() {
    for algorithm in every_algorithm() {
        let run = |threads: usize| {
            let plan = synthetic(
                algorithm,
                &format!("{TRAINING}\nengine.threads = {threads}"),
            );
            let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
            let mut records = Vec::new();
            while let Some(mut record) = training.next_round().unwrap() {
                record.seconds = 0.0;
                records.push(record);
            }
            let mut finalized = Vec::new();
            training
                .finalize(&training.receivers(), &mut |d| {
                    let tallies = d.tallies();
                    finalized.push((d.name, tallies, d.models.unwrap().personal));
                    Ok(())
                })
                .unwrap();
            (training.fingerprint().unwrap(), records, finalized)
        };
        let one = run(1);
        assert_eq!(one, run(2), "{algorithm}");
        assert_eq!(one, run(5), "{algorithm}");
    }
}

#[test]
fn a_resolved_spec_runs_again_to_the_same_result() {
    for algorithm in every_algorithm() {
        let plan = synthetic(algorithm, TRAINING);
        let again = apfl::spec::Spec::parse(&plan.to_toml()).unwrap().plan();
        let again = again.unwrap_or_else(|e| panic!("{algorithm}: {e}"));
        assert_eq!(again.algorithm, plan.algorithm);
        assert_eq!(again.resolved, plan.resolved);
        let run = |plan: &apfl::spec::Plan| {
            let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
            while training.next_round().unwrap().is_some() {}
            training.fingerprint().unwrap()
        };
        assert_eq!(run(&plan), run(&again), "{algorithm}");
    }
}

/// What comes back from a value's arrays has the same arrays; one that is missing is named.
fn comes_back<T: Pack>(value: &T) -> T {
    let arrays = value.pack();
    let again = T::unpack(&mut arrays.clone()).unwrap();
    assert_eq!(again.pack(), arrays);
    for name in arrays.0.keys() {
        let mut fewer = Arrays(arrays.0.clone());
        fewer.0.remove(name);
        let error = T::unpack(&mut fewer).err();
        let error =
            error.unwrap_or_else(|| panic!("{} without {name}", std::any::type_name::<T>()));
        assert_eq!(&error.name, name);
    }
    again
}

/// Packs and unpacks everything between the steps of a round.
struct PackedOnTheWay;

impl AlgorithmVisitor for PackedOnTheWay {
    type Output = ();
    fn visit<A: Algorithm + Clone>(self, algorithm: A) {
        packed_on_the_way(algorithm);
    }
}

fn packed_on_the_way<A: Algorithm + Clone>(algorithm: A) {
    let small = classes(4, 4, 3, &[3], 1e-3);
    let mut local_training = full(3, 0.2);
    local_training.batch = Some(8);
    let setup = small.setup(local_training, 4, 0.6, true);
    let mut plain = Hand::new(algorithm.clone(), setup.clone());
    let mut packed = Hand::new(algorithm, setup);
    for _ in 0..3 {
        plain.step();
        packed.step();
        packed.server = comes_back(&packed.server);
        packed.locals = packed.locals.iter().map(comes_back).collect();
        comes_back(&packed.algorithm.broadcast(&packed.server));
        assert_eq!(plain.shared(), packed.shared());
        assert_eq!(plain.server.pack(), packed.server.pack());
    }
    // An update, too.
    let sent = plain.algorithm.broadcast(&plain.server);
    let train = &small.shards[0].train;
    let mut scratch = Scratch::default();
    let rng = stream(3, Purpose::Batches, 4, 0);
    let mut client = LocalClient::new(&*small.model, train, local_training, 4, rng, &mut scratch);
    comes_back(
        &plain
            .algorithm
            .local_round(&sent, &mut plain.locals[0], &mut client),
    );
}

#[test]
fn everything_remembered_or_sent_survives_packing() {
    for algorithm in every_algorithm() {
        synthetic(algorithm, "").algorithm.accept(PackedOnTheWay);
    }
}

#[test]
fn examples_put_aside_are_drawn_apart_from_the_rest() {
    // 26 examples, two of them held out: rows ⌊26/4⌋ = 6 and ⌊3·26/4⌋ = 19. A bias of an
    // all-zero softmax model has gradient ⅓ − (share of its class), so one look at the
    // gradient shows which classes a batch has.
    let small = classes(3, 4, 3, &[], 0.0);
    let train = &small.shards[2].train;
    assert_eq!(train.len(), 26);
    let rest: Vec<u32> = (0..26).filter(|r| ![6, 19].contains(r)).collect();
    let mut scratch = Scratch::default();
    let mut client = LocalClient::new(
        &*small.model,
        train,
        full(1, 0.1),
        1,
        stream(1, Purpose::Batches, 1, 2),
        &mut scratch,
    );
    client.hold_out(2);
    for (part, rows) in [
        (BatchSource::HeldOut, vec![6, 19]),
        (BatchSource::Rest, rest),
    ] {
        client.next_batch_of(part);
        let mut g = vec![0.0; 15];
        client.gradient(&[0.0; 15], &mut g);
        let counts = train.gathered(&rows).class_counts(3);
        for class in 0..3 {
            let share = counts[class] as f32 / rows.len() as f32;
            assert!((g[12 + class] - (1.0 / 3.0 - share)).abs() < 1e-6);
        }
    }
}
