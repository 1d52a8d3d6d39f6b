//! How data is made, split, standardized and drawn, against rules worked out by hand.

use std::fs;

use apfl::data::table::{Encoding, Scale};
use apfl::data::{Dataset, Features, Normalization, Targets};
use apfl::error::Result;
use apfl::local_client::{LocalClient, LocalTraining, LocalWork, Scratch};
use apfl::model::mlp::Mlp;
use apfl::rng::{Purpose, stream};
use apfl::schedule::Schedule;
use apfl::spec::Spec;
use apfl::training::Training;

fn dataset(spec: &str) -> std::sync::Arc<dyn Dataset> {
    let plan = Spec::parse(spec).unwrap().plan().unwrap();
    plan.setup().unwrap().context.dataset
}

fn floats(features: &Features) -> &[f32] {
    match features {
        Features::Floats(x) => x,
        Features::Bytes(..) => panic!("numbers expected"),
    }
}

#[test]
fn standardization_looks_at_training_rows_only() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    // Training values 1, 3, 1, 3: mean 2, deviation 1. Validation rows would pull both up.
    let text = "client,label,split,x,same\n\
                a,p,train,1,7\na,q,train,3,7\na,p,valid,100,7\n\
                b,p,train,1,7\nb,q,train,3,7\nb,q,valid,-50,7\n";
    fs::write(&path, text).unwrap();
    let data = dataset(&format!(
        "[data]\nkind = 'table'\npath = '{}'\nstandardize = true",
        path.display()
    ));
    let Normalization::Prepared(preparation) = &data.schema().normalization else {
        panic!("a table is prepared");
    };
    let scale = |mean, deviation| Encoding::Number {
        fill: mean,
        scale: Some(Scale { mean, deviation }),
        indicator: false,
    };
    assert_eq!(preparation.columns[0].encoding, scale(2.0, 1.0));
    // A constant feature is only shifted.
    assert_eq!(preparation.columns[1].encoding, scale(7.0, 1.0));
    let a = data.shard(0).unwrap();
    assert_eq!(floats(a.train.features()), [-1.0, 0.0, 1.0, 0.0]);
    assert_eq!(floats(a.valid.features()), [98.0, 0.0]);
}

#[test]
fn large_numbers_are_standardized_before_they_lose_their_digits() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    // Milliseconds around 1.7·10¹²: in f32 neighbours are 131072 apart.
    let mut text = String::from("client,label,split,time\n");
    for k in 0..4u64 {
        let time = 1_700_000_000_000 + 2000 * (k % 2);
        text.push_str(&format!("a,{},train,{time}\n", k % 2));
    }
    text.push_str("a,0,valid,1700000000000\n");
    fs::write(&path, text).unwrap();
    let data = dataset(&format!(
        "[data]\nkind = 'table'\npath = '{}'\nstandardize = true",
        path.display()
    ));
    let a = data.shard(0).unwrap();
    assert_eq!(floats(a.train.features()), [-1.0, 1.0, -1.0, 1.0]);
}

#[test]
fn scales_that_differ_by_more_than_a_hundred_are_warned_of() {
    let dir = tempfile::tempdir().unwrap();
    let notes = |factor: f64| {
        let path = dir.path().join("t.csv");
        let mut text = String::from("client,label,split,small,large\n");
        for k in 0..6 {
            let x = f64::from(k % 2);
            text.push_str(&format!("a,{},train,{x},{}\n", k % 2, factor * x));
        }
        text.push_str("a,0,valid,0,0\n");
        fs::write(&path, text).unwrap();
        dataset(&format!(
            "[data]\nkind = 'table'\npath = '{}'",
            path.display()
        ))
        .notes()
    };
    assert!(notes(99.0).is_empty());
    let warned = notes(101.0);
    assert_eq!(warned.len(), 1);
    assert!(warned[0].contains("'large'") && warned[0].contains("standardize"));
}

#[test]
fn synthetic_clients_spread_as_gamma_and_beta_say() {
    // With γ = 0 every W is N(0, 1) around 0; the mean of x over coordinates and examples
    // is B_k plus a mean of 60 standard normals: deviation √(β² + 1/60) over clients.
    for beta in [0.0f64, 3.0] {
        let data = dataset(&format!(
            "[data]\nclients = 400\ngamma = 0.0\nbeta = {beta:.1}\nexamples = 50"
        ));
        let mut squares = 0.0;
        for k in 0..400 {
            let shard = data.shard(k).unwrap();
            let x = floats(shard.train.features());
            let mean = x.iter().map(|x| f64::from(*x)).sum::<f64>() / x.len() as f64;
            squares += mean * mean / 400.0;
        }
        let expected = beta * beta + 1.0 / 60.0;
        // The variance of 400 draws is within ±7% of the truth at one deviation.
        assert!((squares / expected - 1.0).abs() < 0.25, "{beta}: {squares}");
    }
}

#[test]
fn synthetic_inputs_narrow_from_coordinate_to_coordinate() {
    // Σ_jj = j^−1.2: variances 1, 0.4353, … 60^−1.2 = 0.00735 around the client's mean.
    let data = dataset("[data]\nclients = 1\nexamples = 4000\nmax_examples = 4000");
    let shard = data.shard(0).unwrap();
    let x = floats(shard.train.features());
    for j in [1usize, 2, 10, 60] {
        let column: Vec<f64> = x.chunks(60).map(|row| f64::from(row[j - 1])).collect();
        let mean = column.iter().sum::<f64>() / column.len() as f64;
        let variance = column.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / column.len() as f64;
        let expected = (j as f64).powf(-1.2);
        assert!((variance / expected - 1.0).abs() < 0.15, "{j}: {variance}");
    }
}

#[test]
fn synthetic_sizes_are_lognormal_plus_fifty() {
    // The median of ⌊lognormal(4, 2)⌋ + 50 is e⁴ + 50 ≈ 104; 20% are at least
    // e^(4 + 2·0.8416) + 50 ≈ 344. A client holds out ⌈m/5⌉.
    let data = dataset("[data]\nclients = 2000\nmax_examples = 100000");
    let mut sizes: Vec<usize> = (0..2000)
        .map(|k| {
            let (train, valid) = data.sizes(k);
            assert_eq!(valid, (train + valid).div_ceil(5));
            train + valid
        })
        .collect();
    sizes.sort_unstable();
    assert!(sizes[0] >= 50);
    assert!((95..=115).contains(&sizes[1000]), "{}", sizes[1000]);
    assert!((280..=420).contains(&sizes[1600]), "{}", sizes[1600]);
}

#[test]
fn an_epoch_sees_every_example_once_and_keeps_the_short_batch() {
    // Seven examples in batches of three: 3, 3, 1, and then a new order. Squared error on
    // one feature: the loss of a batch tells which examples it has.
    let values: Vec<f32> = (0..7).map(|k| (1 << k) as f32).collect();
    let x = Features::Floats(vec![0.0; 7]);
    let examples = apfl::data::Examples::new(1, x, Targets::Values(values));
    let model = Mlp::new(1, &[], 1, apfl::model::Loss::SquaredError, 0.0);
    let local_training = LocalTraining {
        work: LocalWork::Epochs(2),
        batch: Some(3),
        learning_rate: 0.1,
        schedule: Schedule::Constant,
        momentum: 0.0,
    };
    let mut scratch = Scratch::default();
    let rng = stream(5, Purpose::Batches, 1, 0);
    let mut site = LocalClient::new(&model, &examples, local_training, 1, rng, &mut scratch);
    assert_eq!(site.steps(), 6);
    let mut epochs = Vec::new();
    for _ in 0..2 {
        let mut order = Vec::new();
        for size in [3, 3, 1] {
            site.next_batch();
            // At zero the gradient by the bias is −mean(y): the sum is a set of powers of 2.
            let mut grad = [0.0; 2];
            site.gradient(&[0.0, 0.0], &mut grad);
            let sum = (-grad[1] * size as f32).round() as u32;
            assert_eq!(sum.count_ones(), size, "a batch of {size}: {sum:b}");
            order.push(sum);
        }
        assert_eq!(order.iter().sum::<u32>(), 0b111_1111);
        epochs.push(order);
    }
    assert_ne!(epochs[0], epochs[1], "a new permutation");
}

#[test]
fn delivery_reaches_the_drawn_and_knows_the_majority() -> Result<()> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.csv");
    // Client k has three training rows of class p and one of q, and 5 validation rows of
    // which k + 1 are p: the commonest class is right for (k + 1)/5 of them.
    let mut text = String::from("client,label,split,x\n");
    for k in 0..4 {
        for (row, label) in ["p", "p", "q", "p"].iter().enumerate() {
            text.push_str(&format!("c{k},{label},train,{row}\n"));
        }
        for row in 0..5 {
            let label = if row <= k { "p" } else { "q" };
            text.push_str(&format!("c{k},{label},valid,{row}\n"));
        }
    }
    fs::write(&path, text).unwrap();
    let plan = Spec::parse(&format!(
        "[data]\nkind = 'table'\npath = '{}'\n[federation]\nparticipation = 0.5\n\
         [training]\nrounds = 1\nlearning_rate = 0.1\n[delivery]\nclients = 'drawn'",
        path.display()
    ))?
    .plan()?;
    let mut training = Training::new(plan.setup()?, &plan.algorithm)?;
    training.next_round()?;
    let receivers = training.receivers();
    assert_eq!(receivers, training.setup().cohort(1));
    assert_eq!(receivers.len(), 2);
    training.finalize(&receivers, &mut |finalized| {
        let share = (finalized.client + 1) as f64 / 5.0;
        assert_eq!(finalized.majority, Some(share));
        assert_eq!(finalized.classes, [3, 1]);
        Ok(())
    })
}
