//! Invariant 8: where federated training is plain gradient descent.

use std::sync::Arc;

use apfl::data::{Examples, Features, Targets};
use apfl::local_client::{LocalClient, Scratch};
use apfl::model::Workspace;
use apfl::rng::{Purpose, stream};

use super::{
    FULL, LOGISTIC, MLP, SMALL, apfl, bits, close, finish, in_memory, spec, start, start_with,
};

#[test]
fn i08_a_single_client_is_plain_sgd() {
    for model in [LOGISTIC, MLP] {
        for algorithm in ["{ kind = 'fedavg' }", &apfl("adaptive = 0.5")] {
            let mut one = spec(SMALL, algorithm, model);
            one.set("data.clients=1").unwrap();
            let mut training = start(&one);
            let context = training.setup().context.clone();
            let shard = context.dataset.shard(0).unwrap();
            let mut w = context.w0.to_vec();
            let mut scratch = Scratch::default();
            for round in 1..=6 {
                training.next_round().unwrap().expect("six rounds");
                let rng = stream(5, Purpose::Batches, round, 0);
                let local_client = &mut LocalClient::new(
                    &*context.model,
                    &shard.train,
                    context.local_training,
                    round,
                    rng,
                    &mut scratch,
                );
                for s in 0..4 {
                    local_client.next_batch();
                    local_client.descend(&mut w, local_client.rate(s));
                }
                assert_eq!(bits(&training.shared()), bits(&w), "round {round}");
            }
        }
    }
}

#[test]
fn i08_one_full_step_of_all_is_gradient_descent_on_the_whole() {
    for model in [LOGISTIC, MLP] {
        for algorithm in ["{ kind = 'fedavg' }", &apfl("fixed = 0.25")] {
            let mut spec = spec(FULL, algorithm, model);
            spec.set("training.local_steps=1").unwrap();
            spec.set("training.schedule=constant").unwrap();
            let mut training = start(&spec);
            let context = training.setup().context.clone();
            // All clients have 32 training examples, so F is the mean over all of them.
            let (mut x, mut y) = (Vec::new(), Vec::new());
            for client in 0..8 {
                let shard = context.dataset.shard(client).unwrap();
                assert_eq!(shard.train.len(), 32);
                match (shard.train.features(), shard.train.targets()) {
                    (Features::Floats(from), Targets::Classes(classes)) => {
                        x.extend_from_slice(from);
                        y.extend_from_slice(classes);
                    }
                    other => panic!("unexpected kind of data: {other:?}"),
                }
            }
            let all = Examples::new(6, Features::Floats(x), Targets::Classes(y));
            let mut w = context.w0.to_vec();
            let ws = &mut Workspace::default();
            for round in 1..=5 {
                training.next_round().unwrap().expect("five rounds");
                context.model.descend(None, &mut w, 0.1, &all.all(), ws);
                assert!(close(&training.shared(), &w, 2e-6), "round {round}");
            }
        }
    }
}

#[test]
fn i08_the_mean_of_identical_clients_is_each_of_them() {
    for algorithm in [
        "{ kind = 'fedavg' }",
        &apfl("fixed = 0.25"),
        &apfl("adaptive = 0.5"),
    ] {
        let alone = {
            let mut spec = spec(FULL, algorithm, MLP);
            spec.set("data.clients=1").unwrap();
            let mut training = start(&spec);
            finish(&mut training);
            training.shared()
        };
        let mut many = start_with(&spec(FULL, algorithm, MLP), |setup| {
            let mut data = in_memory(setup);
            let first = data.shards[0].clone();
            data.shards.fill(first);
            setup.context.dataset = Arc::new(data);
        });
        finish(&mut many);
        assert_eq!(bits(&many.shared()), bits(&alone), "{algorithm}");
    }
}
