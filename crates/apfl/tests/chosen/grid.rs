//! Every candidate is the model of its fixed α (invariants 15 and 16), and w is FedAvg's.

use apfl::algorithm::apfl::{Chosen, Mixing, Options};
use apfl::algorithm::extensions::ModelChoice;
use apfl::algorithm::{Apfl, LocalOnly};
use apfl::choice::{Choosing, Pass};
use apfl::data::{Examples, Features, InMemory, Schema, Targets, Task};
use apfl::run::{Finished, Run};
use apfl::spec::Resources;
use apfl::{Spec, WhichModel};
use std::sync::Arc;

use super::{GRID, finished, in_pass};
use crate::small::{Hand, classes, full, schema};

/// Every option that goes with a choice.
fn variants() -> Vec<Options> {
    let of = |text: &str| {
        let text = format!("algorithm = {{ kind = 'apfl', mixing = {{ fixed = 0.5 }}{text} }}");
        let plan = Spec::parse(&text).unwrap().plan().unwrap();
        plan.algorithm.apfl().unwrap().options
    };
    vec![
        Options::PAPER,
        of(", mix = 'logits', order = 'sequential'"),
        of(", v_rate = 0.3, l2_on_v = true"),
        of(", projection = 0.4"),
    ]
}

/// 15: vᵢᵃ is v of `fixed = a`, bit for bit, with the same rows aside, and w is FedAvg's; 0 is
/// the localized model and 1 training alone.
#[test]
fn every_v_is_that_of_its_fixed_alpha() {
    for (hidden, momentum) in [(&[][..], 0.0), (&[5], 0.0), (&[5], 0.5)] {
        for options in variants() {
            if momentum > 0.0 && options != Options::PAPER {
                continue; // refused
            }
            let small = classes(4, 3, 3, hidden, 0.01);
            let setup = || {
                let mut local_training = full(3, 0.2);
                local_training.momentum = momentum;
                small.setup(local_training, 3, 0.5, true)
            };
            let choosing = Choosing::from(GRID);
            let chosen = Chosen::new(choosing.clone(), options);
            let pass = Pass::HeldOut(2);
            let mut all = Hand::new(chosen.in_pass(pass), in_pass(setup(), &choosing, pass));
            (0..3).for_each(|_| drop(all.step()));
            for (place, alpha) in [(0, 0.25), (1, 0.5), (2, 1.0f32)] {
                let mixing = Mixing::Fixed(alpha);
                let fixed = Apfl { mixing, options };
                let mut one = Hand::new(fixed, in_pass(setup(), &choosing, pass));
                (0..3).for_each(|_| drop(one.step()));
                assert_eq!(all.shared(), one.shared());
                for (grid, fixed) in all.locals.iter().zip(&one.locals) {
                    assert_eq!(grid.grid[place].0, alpha);
                    assert_eq!(grid.grid[place].1, fixed.v, "{options:?}, {alpha}");
                }
            }
            if options == Options::PAPER {
                let mut alone = Hand::new(LocalOnly, in_pass(setup(), &choosing, pass));
                (0..3).for_each(|_| drop(alone.step()));
                for (grid, own) in all.locals.iter().zip(&alone.locals) {
                    assert_eq!(grid.grid[2].1, own.model);
                }
            }
        }
    }
}

/// 16: with one candidate the last pass is that fixed α, bit for bit, fingerprint and all.
#[test]
fn one_candidate_is_its_fixed_alpha() {
    let more = "training = { rounds = 3, local_steps = 2 }
                federation = { participation = 0.5 }";
    let heavy = "training = { rounds = 3, local_steps = 2, momentum = 0.5 }";
    for (alpha, options, more) in [
        ("0", "", more),
        ("0.25", "", more),
        ("1", "", more),
        ("0.25", "", heavy),
        ("0.25", ", mix = 'logits', l2_on_v = true", more),
        ("0", ", l2_on_v = true", more),
        ("0.25", ", agnostic = 0.1", more),
    ] {
        let of = |mixing: &str| {
            finished(
                &format!("{{ kind = 'apfl', mixing = {{ {mixing} }}{options} }}"),
                more,
            )
        };
        let chosen = of(&format!("chosen = [{alpha}], folds = 2"));
        let fixed = of(&format!("fixed = {alpha}"));
        assert_eq!(chosen.summary.fingerprint, fixed.summary.fingerprint);
        for client in fixed.clients().unwrap() {
            for which in [
                WhichModel::Personal,
                WhichModel::Local,
                WhichModel::Localized,
            ] {
                let params = |run: &Finished| run.model(which, &client.client).unwrap();
                assert_eq!(params(&chosen).params(), params(&fixed).params());
            }
        }
        let clients = chosen.clients().unwrap();
        assert_eq!(clients[0].mixing, Some(Some(alpha.parse().unwrap())));
        let record = clients[0].chosen.clone().unwrap();
        assert_eq!(record.losses.len(), 1, "no shared model to choose from");
        assert!(record.rows > 0);
        assert_eq!(clients[0].alone.is_some(), alpha == "1");
    }
}

/// The shared path is FedAvg's, whatever is chosen.
#[test]
fn w_is_fedavgs() {
    for more in [
        "training = { rounds = 4 }",
        "training = { rounds = 4, momentum = 0.5 }",
    ] {
        let fedavg = finished("{ kind = 'fedavg' }", more);
        let algorithm = "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 2 } }";
        let chosen = finished(algorithm, more);
        let params = |run: &Finished| run.shared().unwrap().params().to_vec();
        assert_eq!(params(&chosen), params(&fedavg), "{more}");
    }
}

/// α = 1 chosen: the personal model is what was trained alone. The gain is over the client's own
/// tuned fit, whose scores are those of its parameters.
#[test]
fn alone_is_what_local_training_gives() {
    let more = "training = { rounds = 3 }";
    let local = finished("{ kind = 'local' }", more);
    let chosen = finished(
        "{ kind = 'apfl', mixing = { chosen = [0.5, 1], folds = 1, prior = 0 } }",
        more,
    );
    for client in chosen.clients().unwrap() {
        let alone = chosen.model(WhichModel::Alone, &client.client).unwrap();
        let own = local.personal(&client.client).unwrap();
        assert_eq!(alone.params(), own.params());
        let gain = client.gain.unwrap();
        assert_eq!(gain.n as usize, client.examples.valid);
        let baseline = client.baseline.as_ref().unwrap().valid.loss;
        let difference = baseline - client.scores.personal.valid.loss;
        assert!((gain.mean.unwrap() - difference).abs() < 1e-9);
        if client.alpha() == Some(1.0) {
            assert_eq!(client.scores.personal, client.alone.unwrap());
        }
    }
}

/// 15 for the CNN: one candidate is its fixed α, and w is FedAvg's.
#[test]
fn a_cnn_chooses_too() {
    let width = 3 * 16 * 16;
    let train = |algorithm: &str| {
        let images = |client: u32, rows: u32| {
            let x = (0..rows * width).map(|i| ((i * 37 + client * 11) % 97) as f32 / 97.0);
            let y = (0..rows).map(|row| (row + client) % 2).collect();
            Examples::new(
                width as usize,
                Features::Floats(x.collect()),
                Targets::Classes(y),
            )
        };
        let classes = vec!["no".into(), "yes".into()];
        let schema = Schema {
            shape: vec![3, 16, 16],
            ..schema(Task::Classification { classes }, width as usize)
        };
        let mut data = InMemory::new(schema, Vec::new());
        for client in 0..3 {
            data.add_split(format!("c{client}"), images(client, 12), images(client, 4));
        }
        let spec = format!(
            "data = {{ kind = 'synthetic' }}
             model = {{ kind = 'cnn', channels = [2, 3], kernel = 3, dense = 4 }}
             algorithm = {algorithm}
             training = {{ rounds = 2, local_steps = 2, batch = 4 }}"
        );
        let plan = Spec::parse(&spec).unwrap().plan().unwrap();
        let setup = plan
            .setup_with(Arc::new(data), Resources::default())
            .unwrap();
        Run::new(&plan, setup).train().unwrap()
    };
    let fedavg = train("{ kind = 'fedavg' }");
    let fixed = train("{ kind = 'apfl', mixing = { fixed = 0.25 } }");
    let one = train("{ kind = 'apfl', mixing = { chosen = [0.25], folds = 2 } }");
    let several = train("{ kind = 'apfl', mixing = { chosen = [0, 0.25, 1], folds = 2 } }");
    assert_eq!(one.summary.fingerprint, fixed.summary.fingerprint);
    let shared = |run: &Finished| run.shared().unwrap().params().to_vec();
    assert_eq!(shared(&several), shared(&fedavg));
    let of = |run: &Finished| {
        run.model(WhichModel::Personal, "c1")
            .unwrap()
            .params()
            .to_vec()
    };
    assert_eq!(of(&one), of(&fixed));
}
