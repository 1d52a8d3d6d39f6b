//! Passes with rows held out: whose rows, a run that is interrupted in each, one pass alone.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use apfl::algorithm::apfl::{Chosen, Options};
use apfl::algorithm::extensions::ModelChoice;
use apfl::choice::{Choosing, Pass};
use apfl::run::run_dir::{Alpha, read_held_out};
use apfl::run::{Ended, Event, Run};
use apfl::{Spec, WhichModel};

use super::{GRID, alphas, finished, in_pass};
use crate::small::{Hand, classes, full, synthetic};

/// The same rows aside, and others in another pass: v of a client without the held-out rows is
/// not that of a client with them.
#[test]
fn rows_aside_are_not_trained_on() {
    let small = classes(3, 3, 3, &[], 0.0);
    let choosing = Choosing::from(GRID);
    let models = |pass| {
        let setup = in_pass(small.setup(full(2, 0.2), 1, 1.0, false), &choosing, pass);
        let chosen = Chosen::new(choosing.clone(), Options::PAPER);
        let mut hand = Hand::new(chosen.in_pass(pass), setup);
        hand.step();
        hand.shared()
    };
    let (first, second) = (models(Pass::HeldOut(1)), models(Pass::HeldOut(2)));
    assert_ne!(first, second);
    assert_eq!(first, models(Pass::HeldOut(1)));
    // All rows of all clients: 20, 23 and 26, in five parts.
    let whole = small.setup(full(2, 0.2), 1, 1.0, false).context.dataset;
    for client in 0..3 {
        let parts: usize = (1..=5)
            .map(|part| {
                let setup = small.setup(full(2, 0.2), 1, 1.0, false);
                let data = setup.context.holding_out(&choosing, part).dataset;
                let held_out = data.held_out(client).unwrap().unwrap().len();
                let shard = data.shard(client).unwrap();
                assert_eq!(data.sizes(client), (shard.train.len(), shard.valid.len()));
                assert_eq!(shard.train.len() + held_out, whole.sizes(client).0);
                held_out
            })
            .sum();
        assert_eq!(parts, 20 + 3 * client);
    }
}

const DURABLE: &str = "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 2, prior = 5 } }";

/// Stopped in every pass and resumed each time, on disk, a run ends as one that was not; its
/// passes are run directories of their own, with the same spec but for the pass.
#[test]
fn a_choice_survives_interruptions_in_every_pass() {
    let more = "training = { rounds = 4, momentum = 0.5 }
                federation = { participation = 0.6 }
                engine = { memory = 'disk', budget_mb = 1 }
                checkpoint = { every = 2 }";
    let plan = synthetic(DURABLE, more);
    let whole = Run::new(&plan, plan.setup().unwrap()).train().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let mut stops = 0;
    let mut passes = Vec::new();
    let durable = loop {
        let on = apfl::spec::Resources {
            directory: Some(&path),
            ..Default::default()
        };
        let setup = plan.setup_with(plan.data.load().unwrap(), on).unwrap();
        let run = Run::new(&plan, setup).resume(&path);
        let mut rounds = 0;
        let ended = run.watch(&mut |event| {
            match event {
                Event::Pass { pass, of } => passes.push((pass, of)),
                Event::Round(_) => rounds += 1,
                _ => {}
            }
            match rounds {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        });
        match ended.unwrap() {
            Ended::Finished(finished) => break finished,
            Ended::Stopped(_) => stops += 1,
        }
    };
    assert_eq!(
        stops, 4,
        "three passes of four rounds, three rounds at a time"
    );
    assert_eq!(passes.last(), Some(&(3, 3)));
    assert_eq!(durable.summary.fingerprint, whole.summary.fingerprint);
    let (found, wanted) = (durable.clients().unwrap(), whole.clients().unwrap());
    assert_eq!(found, wanted);
    for pass in ["1", "2"] {
        let pass = path.join("choice").join(pass);
        let spec = std::fs::read_to_string(pass.join("spec.toml")).unwrap();
        let of_pass = Spec::parse(&spec).unwrap().plan().unwrap();
        assert_eq!(of_pass.to_toml(), spec);
        let again = Run::new(&of_pass, of_pass.setup().unwrap())
            .train()
            .unwrap();
        let there = std::fs::read_to_string(pass.join("summary.json")).unwrap();
        assert!(
            there.contains(&again.summary.fingerprint),
            "it runs by itself to the same bits"
        );
        assert_eq!(read_held_out(&pass).unwrap().len(), 7);
        assert!(!pass.join("models/personal.safetensors").exists());
    }
    // What training alone left is kept, and null where a client serves the shared model.
    let alone = durable.model(WhichModel::Alone, &found[0].client).unwrap();
    assert_eq!(
        alone.params(),
        whole
            .model(WhichModel::Alone, &found[0].client)
            .unwrap()
            .params()
    );
    for record in &found {
        let alpha = record.chosen.as_ref().unwrap().alpha.clone();
        match alpha {
            Alpha::Shared(_) => assert_eq!(record.mixing, Some(None)),
            Alpha::Mixing(alpha) => assert_eq!(record.mixing, Some(Some(alpha))),
        }
    }
}

/// One pass whose own models are delivered; nothing is refitted.
#[test]
fn without_a_last_pass_the_one_pass_is_the_run() {
    let of = |more: &str| {
        let mixing = format!("chosen = [0, 0.5, 1], folds = 1, prior = 2{more}");
        finished(
            &format!("{{ kind = 'apfl', mixing = {{ {mixing} }} }}"),
            "training = { rounds = 3 }",
        )
    };
    let (one, pass) = (of(", refit = false"), of(", pass = 1"));
    assert_eq!(one.summary.fingerprint, pass.summary.fingerprint);
    let refitted = of("");
    assert_ne!(one.summary.fingerprint, refitted.summary.fingerprint);
    // The choice is the same: the same pass made it.
    assert_eq!(alphas(&one), alphas(&refitted));
    let rows: BTreeMap<String, usize> = refitted
        .clients()
        .unwrap()
        .into_iter()
        .map(|c| (c.client, c.examples.train))
        .collect();
    for client in one.clients().unwrap() {
        let held_out = client.chosen.unwrap().rows as usize;
        let all = rows[&client.client];
        assert_eq!(held_out, (0.2 * all as f64).ceil() as usize);
        assert_eq!(client.examples.train, all - held_out);
    }
}
