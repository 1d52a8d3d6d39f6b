//! What each algorithm is at the ends of its settings: to the bit, unless it says otherwise.

use std::sync::Arc;

use super::{End, bits, models, run};
use crate::small::{Hand, Small, classes, full, gap, quadratics, schema, shard};
use apfl::algorithm::l2gd::{self, L2gd};
use apfl::algorithm::{Algorithm, HypCluster, LocalOnly, Mapper};
use apfl::data::{Targets, Task};
use apfl::local_client::{LocalClient, Scratch};
use apfl::model::{Loss, Network, mlp::Mlp};
use apfl::rng::{Purpose, stream};
use rand::RngExt;

const FEDAVG: &str = "{ kind = 'fedavg' }";
const LOCAL: &str = "{ kind = 'local' }";

/// The same shared model, and the same models at every client.
fn same(a: &End, b: &End, what: &str) {
    assert_eq!(bits(&a.shared), bits(&b.shared), "{what}: shared");
    same_personal(a, b, what);
    assert_eq!(
        models(a, |m| &m.localized),
        models(b, |m| &m.localized),
        "{what}: localized"
    );
}

fn same_personal(a: &End, b: &End, what: &str) {
    let of = |end| models(end, |m| &m.personal);
    assert_eq!(of(a), of(b), "{what}: personal");
}

#[test]
fn fedprox_without_pull_is_fedavg() {
    let fedavg = run(FEDAVG, &[]);
    same(
        &run("{ kind = 'fedprox', proximal = 0 }", &[]),
        &fedavg,
        "μ = 0",
    );
    // And with one it is not: the term is not zero by aliasing.
    let pulled = run("{ kind = 'fedprox' }", &[]);
    assert!(gap(&pulled.shared, &fedavg.shared) > 1e-6);
}

#[test]
fn ditto_shares_what_fedavg_shares_and_is_local_without_pull() {
    let (fedavg, local) = (run(FEDAVG, &[]), run(LOCAL, &[]));
    for pull in ["0", "1", "3.5"] {
        let ditto = run(&format!("{{ kind = 'ditto', proximal = {pull} }}"), &[]);
        assert_eq!(bits(&ditto.shared), bits(&fedavg.shared));
        let of = |end| models(end, |m| &m.localized);
        assert_eq!(of(&ditto), of(&fedavg));
        let alone = models(&ditto, |m| &m.personal) == models(&local, |m| &m.personal);
        assert_eq!(alone, pull == "0", "λ = {pull}");
    }
}

#[test]
fn layers_none_of_which_stay_are_fedavg_and_all_of_which_stay_are_local() {
    let (fedavg, local) = (run(FEDAVG, &[]), run(LOCAL, &[]));
    for kind in ["fedper", "fedrep"] {
        let with = |layers: usize| {
            run(
                &format!("{{ kind = '{kind}', private_layers = {layers} }}"),
                &[],
            )
        };
        same(&with(0), &fedavg, kind);
        let alone = with(3);
        same_personal(&alone, &local, kind);
        assert_eq!(bits(&alone.shared), bits(&local.shared), "w⁰ for ever");
        for layers in [1, 2] {
            let some = with(layers);
            assert_ne!(bits(&some.shared), bits(&fedavg.shared));
            assert_ne!(
                models(&some, |m| &m.personal),
                models(&local, |m| &m.personal)
            );
        }
    }
    let with = |layers: usize| {
        run(
            &format!("{{ kind = 'lgfedavg', shared_layers = {layers} }}"),
            &[],
        )
    };
    same(&with(3), &fedavg, "all layers shared");
    same_personal(&with(0), &local, "no layers shared");
    // A warm-up as long as the run, and not a round longer.
    same(
        &run("{ kind = 'lgfedavg', warmup = 7 }", &[]),
        &fedavg,
        "warm-up",
    );
    let shorter = run("{ kind = 'lgfedavg', warmup = 5 }", &[]);
    let before = run(FEDAVG, &["training.rounds=5"]);
    let base = 6 * 7 + 7 + 7 * 5 + 5;
    assert_eq!(bits(&shorter.shared[..base]), bits(&before.shared[..base]));
    assert_ne!(bits(&shorter.shared[base..]), bits(&before.shared[base..]));
}

/// The two halves of the layers: 6·7 + 7 + 7·5 + 5 = 89 parameters and a head of 5·3 + 3 = 18.
#[test]
fn only_what_is_shared_travels_and_the_rest_of_the_shared_model_is_the_starts() {
    let start = run(LOCAL, &[]).shared;
    for (algorithm, shared) in [
        ("{ kind = 'fedper' }", 0..89),
        ("{ kind = 'fedrep' }", 0..89),
        ("{ kind = 'fedper', private_layers = 2 }", 0..49),
        ("{ kind = 'lgfedavg' }", 89..107),
        ("{ kind = 'lgfedavg', shared_layers = 2 }", 49..107),
    ] {
        let end = run(algorithm, &[]);
        let bytes = 4 * 4 * shared.len() as u64; // four clients, four bytes a parameter
        assert_eq!(end.bytes_up, [bytes; 6], "{algorithm}");
        for (j, (now, before)) in end.shared.iter().zip(&start).enumerate() {
            let stays = now == before;
            assert!(stays || shared.contains(&j), "{algorithm}: parameter {j}");
        }
        let moved = shared.filter(|j| end.shared[*j] != start[*j]).count();
        assert!(moved > 10, "{algorithm}: only {moved} moved");
    }
}

/// Rate and pull of a p so small that 1 − p is 1 to every digit of f32, and four local steps
/// in every round, whatever the coin says.
#[test]
fn l2gd_without_pull_and_averaging_is_local() {
    let small = classes(3, 4, 3, &[5], 1e-3);
    let setup = small.setup(full(4, 0.3), 5, 1.0, true);
    let w0 = setup.context.w0.to_vec();
    let mut local = Hand::new(LocalOnly, setup.clone());
    let l2gd = L2gd::new(1e-12, 0.0);
    let mut states = vec![l2gd.join(&w0); 3];
    let mut scratch = Scratch::default();
    for round in 1..=5 {
        local.step();
        for (client, state) in states.iter_mut().enumerate() {
            let sent = l2gd::Server {
                model: w0.iter().map(|w| w + 1.0).collect(),
                steps: 4,
                before: 4 * (round - 1),
                round: round - 1,
            };
            let rng = stream(3, Purpose::Batches, round, client as u64);
            let train = &small.shards[client].train;
            let local_training = setup.context.local_training;
            let mut local_client = LocalClient::new(
                &*small.model,
                train,
                local_training,
                round,
                rng,
                &mut scratch,
            );
            l2gd.local_round(&sent, state, &mut local_client);
            assert_eq!(bits(&state.model), bits(&local.locals[client].model));
        }
    }
}

#[test]
fn an_averaging_of_l2gd_keeps_the_mean() {
    // A round without local steps leaves xᵢ − ¼(xᵢ − x̄) where there was xᵢ.
    let small = classes(5, 4, 3, &[], 1e-3);
    let setup = small.setup(full(1, 0.1), 9, 1.0, true);
    let mut hand = Hand::new(L2gd::new(0.5, 1.25), setup);
    hand.server.steps = 6;
    hand.step();
    let (mean, before) = (hand.shared(), hand.locals.clone());
    hand.server.steps = 0;
    hand.step();
    assert!(gap(&hand.shared(), &mean) < 1e-6);
    for (now, before) in hand.locals.iter().zip(&before) {
        assert!(gap(&before.model, &mean) > 0.01, "clients differ");
        let pulled = before
            .model
            .iter()
            .zip(&mean)
            .map(|(x, m)| x - 0.25 * (x - m));
        assert!(gap(&now.model, &pulled.collect::<Vec<f32>>()) < 1e-6);
    }
}

#[test]
fn the_coin_of_l2gd_is_geometric() {
    let layout = Mlp::logistic(2, 2, 0.0).layout().clone();
    for p in [0.1, 0.5] {
        let l2gd = L2gd::new(p, 0.1).for_run(&layout, 4).unwrap();
        let n = 20_000;
        let steps: Vec<f64> = (1..=n).map(|round| l2gd.steps(round) as f64).collect();
        let mean = steps.iter().sum::<f64>() / n as f64;
        // Mean (1−p)/p, deviation √(1−p)/p: five deviations of the mean.
        let bound = 5.0 * (1.0 - p).sqrt() / p / (n as f64).sqrt();
        assert!((mean - (1.0 - p) / p).abs() < bound, "{p}: {mean}");
        let none = steps.iter().filter(|k| **k == 0.0).count() as f64 / n as f64;
        assert!((none - p).abs() < 5.0 * (p * (1.0 - p) / n as f64).sqrt());
        // Another seed, another coin; the same seed, the same.
        let other = L2gd::new(p, 0.1).for_run(&layout, 5).unwrap();
        assert!((1..50).any(|round| other.steps(round) != l2gd.steps(round)));
    }
}

#[test]
fn mapper_at_one_is_local_and_at_zero_fedavg_of_one_step() {
    let local = run(LOCAL, &[]);
    let one = run("{ kind = 'mapper', grid = [1] }", &[]);
    same_personal(&one, &local, "λ = 1");
    assert_eq!(bits(&one.shared), bits(&local.shared), "w constant");
    let zero = run("{ kind = 'mapper', grid = [0] }", &[]);
    same(&zero, &run(FEDAVG, &["training.local_steps=1"]), "λ = 0");
    assert_ne!(bits(&zero.shared), bits(&local.shared));
}

#[test]
fn mapper_moves_w_by_all_clients_of_the_cohort() {
    // Targets 8 and −4: one step of each at λ = ½, v = 2 and −1 before it, moves w by
    // −¼(1 − 8) = 1.75 and −¼(−½ + 4) = −0.875: the mean, not the last one's.
    let small = quadratics(&[&[8.0], &[-4.0]], 0.0);
    let setup = small.setup(full(1, 0.5), 1, 1.0, false);
    let mapper = Mapper {
        grid: vec![0.5],
        held_out: 0.2,
    };
    let mut hand = Hand::new(mapper, setup);
    hand.step();
    assert_eq!(hand.locals[0].v[1], 2.0);
    assert_eq!(hand.locals[1].v[1], -1.0);
    assert_eq!(hand.shared()[1], (1.75 - 0.875) / 2.0);
}

#[test]
fn one_cluster_is_fedavg() {
    let one = run("{ kind = 'hypcluster', clusters = 1 }", &[]);
    same(&one, &run(FEDAVG, &[]), "k = 1");
}

/// Eight clients of two kinds: labels by the signs of two features, and with the classes
/// exchanged.
fn planted() -> Small {
    let one = |k: usize| {
        let mut rng = stream(9, Purpose::Synthesis, 0, k as u64);
        let x: Vec<f32> = (0..60 * 3).map(|_| rng.random_range(-1.0..1.0)).collect();
        let class = |row: &[f32]| u32::from((row[0] + 0.5 * row[1] > 0.0) == k.is_multiple_of(2));
        let y = x.chunks(3).map(class).collect();
        shard(k, 3, x, Targets::Classes(y))
    };
    let names = vec!["a".to_string(), "b".into()];
    Small {
        model: Arc::new(Mlp::new(3, &[], 2, Loss::Softmax, 1e-3)),
        shards: (0..8).map(one).collect(),
        schema: schema(Task::Classification { classes: names }, 3),
    }
}

#[test]
fn hypcluster_tells_two_planted_groups_apart() {
    let setup = planted().setup(full(5, 0.5), 20, 1.0, false);
    let mut hand = Hand::new(HypCluster::new(2), setup.clone());
    for _ in 0..20 {
        hand.step();
    }
    let clusters: Vec<u64> = hand.locals.iter().map(|state| state.cluster).collect();
    let first = clusters[0];
    let expected: Vec<u64> = (0..8)
        .map(|k| if k % 2 == 0 { first } else { 1 - first })
        .collect();
    assert_eq!(clusters, expected);
    // Each model answers its own group, and is scored there as the shared one.
    let mut training = apfl::training::Training::with_algorithm(setup, HypCluster::new(2)).unwrap();
    let records: Vec<_> = std::iter::from_fn(|| training.next_round().unwrap()).collect();
    let accuracy = records[19].scores.unwrap().shared.train.accuracy.unwrap();
    assert!(accuracy > 0.9, "{accuracy}");
    let fedavg = Hand::new(apfl::FedAvg, planted().setup(full(5, 0.5), 20, 1.0, false));
    let mut fedavg = apfl::training::Training::with_algorithm(fedavg.setup, apfl::FedAvg).unwrap();
    let records: Vec<_> = std::iter::from_fn(|| fedavg.next_round().unwrap()).collect();
    let one = records[19].scores.unwrap().shared.train.accuracy.unwrap();
    assert!(one < 0.7, "one model cannot: {one}");
}

#[test]
fn a_first_model_of_a_cluster_is_the_start_plus_uniform_noise() {
    let small = classes(2, 4, 3, &[5], 0.0);
    let setup = small.setup(full(1, 0.1), 1, 1.0, true);
    let w0 = setup.context.w0.to_vec();
    let hand = Hand::new(HypCluster::new(3), setup);
    let models: Vec<&[f32]> = hand.server.models.chunks(w0.len()).collect();
    assert_eq!(models.len(), 3);
    assert_eq!(models[0], w0);
    for model in &models[1..] {
        for tensor in &small.model.layout().tensors {
            let bound = 1.0 / (tensor.fan_in as f32).sqrt() + 1e-6;
            let range = tensor.range();
            assert!(
                gap(&model[range.clone()], &w0[range]) <= bound,
                "{}",
                tensor.name
            );
        }
        assert!(gap(model, &w0) > 0.1);
    }
    assert!(gap(models[1], models[2]) > 0.1, "starts that differ");
}
