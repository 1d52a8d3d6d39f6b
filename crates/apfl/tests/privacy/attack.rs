//! Who was in the training data? A threshold on the loss tells, unless there is privacy.

use std::sync::Arc;

use apfl::model::mlp::Mlp;
use apfl::rng::{Purpose, stream};
use apfl::spec::{Resources, Spec};
use apfl::training::Training;
use apfl::{Examples, InMemory, Loss, Model, Network};
use rand::RngExt;

const ROWS: usize = 120;
const WIDTH: usize = 40;

/// Rows without any rule to their labels: what is right about them was memorized.
fn rows(seed: u64) -> Examples {
    let mut rng = stream(seed, Purpose::Synthesis, 0, 0);
    let x = (0..ROWS * WIDTH)
        .map(|_| rng.random_range(-1.0..1.0))
        .collect();
    let y = (0..ROWS).map(|_| rng.random_range(0..2)).collect();
    Examples::classes(WIDTH, x, y).unwrap()
}

/// Members found less others suspected, where a loss below a guess's ln 2 is suspected.
fn advantage(privacy: Option<&str>) -> (f64, Option<f64>) {
    let model = Mlp::new(WIDTH, &[32], 2, Loss::Softmax, 0.0);
    let mut spec = Spec::parse(
        "[algorithm]\nkind = 'fedavg'\n[training]\nrounds = 15\nlocal_steps = 20\nbatch = 20\n\
         learning_rate = 0.5\nschedule = 'constant'\n[evaluation]\nevery = 15",
    )
    .unwrap();
    if let Some(privacy) = privacy {
        spec.set(&format!("federation.privacy={privacy}")).unwrap();
    }
    let plan = spec.plan().unwrap();
    let mut data = InMemory::classes((0..WIDTH).map(|k| k.to_string()), ["no", "yes"]);
    for client in 0..3u64 {
        data.add(client.to_string(), rows(client), 0.5).unwrap();
    }
    let data = Arc::new(data);
    let w0 = model.layout().uniform(&mut stream(1, Purpose::Init, 0, 0));
    let model: Arc<dyn Model> = Arc::new(model);
    let setup = plan
        .setup_with_model(data.clone(), model.clone(), w0, Resources::default())
        .unwrap();
    let mut training = Training::new(setup, &plan.algorithm).unwrap();
    let mut epsilon = None;
    while let Some(record) = training.next_round().unwrap() {
        epsilon = record.epsilon;
    }
    let w = training.shared();
    let mut ws = Default::default();
    let mut losses = |of: &Examples| -> Vec<f64> {
        (0..of.len())
            .map(|k| {
                let batch = of.batch(k, 1);
                model.forward(&w, &batch, &mut ws);
                model.tally(&batch, &ws.outputs).loss
            })
            .collect()
    };
    let (mut members, mut others) = (Vec::new(), Vec::new());
    for shard in &data.shards {
        members.extend(losses(&shard.train));
        others.extend(losses(&shard.valid));
    }
    let below = |of: &[f64]| {
        of.iter().filter(|l| **l < std::f64::consts::LN_2).count() as f64 / of.len() as f64
    };
    (below(&members) - below(&others), epsilon)
}

/// TPR − FPR ≤ (e^ε − 1 + 2δ)/(e^ε + 1) of any attack on an (ε, δ)-private model.
#[test]
fn membership_is_visible_without_privacy_and_bounded_with_it() {
    let (without, epsilon) = advantage(None);
    assert_eq!(epsilon, None);
    assert!(without > 0.3, "{without}");
    let (with, epsilon) = advantage(Some("{ level = 'example', epsilon = 0.5, delta = 1e-4 }"));
    let epsilon = epsilon.unwrap();
    assert!(epsilon <= 0.5);
    let bound = (epsilon.exp() - 1.0 + 2e-4) / (epsilon.exp() + 1.0);
    assert!(with < bound, "{with} of {bound}");
    assert!(without > bound, "{without} of {bound}: it would not show");
}
