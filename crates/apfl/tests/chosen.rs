//! A chosen α: invariants 15 to 19, the choice against a float64 evaluation, and a run that is
//! interrupted in every pass.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use apfl::algorithm::apfl::{Chosen, Mixing, Options};
use apfl::algorithm::{Apfl, LocalOnly};
use apfl::choice::{Choosing, HeldOut, Pass, choose};
use apfl::data::aside::Aside;
use apfl::data::{Examples, InMemory};
use apfl::run::{Ended, Event, Finished, Run};
use apfl::store::run_dir::{Alpha, read_held_out};
use apfl::training::Setup;
use apfl::{Algorithm, Mlp, Spec, WhichModel};

use crate::small::{Hand, Slow, classes, full, mean, synthetic};

const GRID: [f32; 4] = [0.0, 0.25, 0.5, 1.0];

/// A run without a directory of an algorithm as a spec writes it.
fn finished(algorithm: &str, more: &str) -> Finished {
    let plan = synthetic(algorithm, more);
    Run::new(&plan, plan.setup().unwrap()).train().unwrap()
}

/// The setup of a pass by hand.
fn in_pass(mut setup: Setup, choosing: &Choosing, pass: Pass) -> Setup {
    setup.world = setup.world.in_pass(choosing, pass);
    setup
}

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
    for hidden in [&[][..], &[5]] {
        for options in variants() {
            let small = classes(4, 3, 3, hidden, 0.01);
            let setup = || small.setup(full(3, 0.2), 3, 0.5, true);
            let choosing = Choosing::from(GRID);
            let chosen = Chosen::new(choosing.clone(), options);
            let pass = Pass::HeldOut(2);
            let mut all = Hand::new(
                chosen.in_pass(pass).unwrap(),
                in_pass(setup(), &choosing, pass),
            );
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

/// The same rows aside, and others in another pass: v of a client without the held-out rows is
/// not that of a client with them.
#[test]
fn rows_aside_are_not_trained_on() {
    let small = classes(3, 3, 3, &[], 0.0);
    let choosing = Choosing::from(GRID);
    let models = |pass| {
        let setup = in_pass(small.setup(full(2, 0.2), 1, 1.0, false), &choosing, pass);
        let chosen = Chosen::new(choosing.clone(), Options::PAPER);
        let mut hand = Hand::new(chosen.in_pass(pass).unwrap(), setup);
        hand.step();
        hand.shared()
    };
    let (first, second) = (models(Pass::HeldOut(1)), models(Pass::HeldOut(2)));
    assert_ne!(first, second);
    assert_eq!(first, models(Pass::HeldOut(1)));
    // All rows of all clients: 20, 23 and 26, in five parts.
    let whole = small.setup(full(2, 0.2), 1, 1.0, false).world.dataset;
    for client in 0..3 {
        let parts: usize = (1..=5)
            .map(|part| {
                let setup = small.setup(full(2, 0.2), 1, 1.0, false);
                let data = setup.world.in_pass(&choosing, Pass::HeldOut(part)).dataset;
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

/// 16: with one candidate the last pass is that fixed α, bit for bit, fingerprint and all.
#[test]
fn one_candidate_is_its_fixed_alpha() {
    let more = "training = { rounds = 3, local_steps = 2 }
                federation = { participation = 0.5 }";
    for (alpha, options) in [
        ("0", ""),
        ("0.25", ""),
        ("1", ""),
        ("0.25", ", mix = 'logits', l2_on_v = true"),
        ("0", ", l2_on_v = true"),
        ("0.25", ", agnostic = 0.1"),
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
    let more = "training = { rounds = 4 }";
    let fedavg = finished("{ kind = 'fedavg' }", more);
    let algorithm = "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 2 } }";
    let chosen = finished(algorithm, more);
    let params = |run: &Finished| run.shared().unwrap().params().to_vec();
    assert_eq!(params(&chosen), params(&fedavg));
}

fn alphas(run: &Finished) -> Vec<String> {
    let clients = run.clients().unwrap();
    let of = |alpha: Alpha| alpha.name();
    clients
        .into_iter()
        .map(|client| of(client.chosen.unwrap().alpha))
        .collect()
}

/// 17: κ → ∞ gives one α for all, the argmin of ℓ̄; κ = 0 each client its own.
#[test]
fn the_prior_decides_who_decides() {
    let run = |prior: &str| {
        let algorithm = format!(
            "{{ kind = 'apfl', mixing = {{ chosen = [0, 0.1, 0.5, 1], folds = 3, prior = {prior} }} }}"
        );
        finished(&algorithm, "training = { rounds = 5 }")
    };
    let everybody = run("1e15");
    let prior = everybody.summary.prior.clone().unwrap();
    assert_eq!((prior.losses.len(), prior.examples), (5, 1e15));
    let best = prior
        .losses
        .iter()
        .min_by(|a, b| a.1.unwrap().total_cmp(&b.1.unwrap()))
        .unwrap();
    assert!(alphas(&everybody).iter().all(|alpha| alpha == best.0));
    assert_eq!(everybody.summary.chosen[best.0], 7);
    // Each its own least loss.
    let own = run("0");
    for client in own.clients().unwrap() {
        let chosen = client.chosen.unwrap();
        let least = chosen.losses.values().map(|loss| loss.unwrap());
        let least = least.fold(f64::INFINITY, f64::min);
        assert_eq!(chosen.losses[&chosen.alpha.name()], Some(least));
        // Every training row was held out once.
        assert_eq!(chosen.rows, client.examples.train as u64);
    }
    let rows: u64 = own
        .clients()
        .unwrap()
        .iter()
        .map(|c| c.chosen.as_ref().unwrap().rows)
        .sum();
    assert_eq!(own.summary.prior.unwrap().rows, rows);
}

/// Clients with the same rows; two kinds of them with opposite answers.
fn opposites(each: usize) -> InMemory {
    let mut data = InMemory::classes(["x", "y"], ["no", "yes"]);
    for client in 0..2 * each {
        let rows: Vec<f32> = (0..80)
            .map(|k| ((k * 37) % 41) as f32 / 20.0 - 1.0)
            .collect();
        let flipped = u32::from(client >= each);
        let labels = rows
            .chunks(2)
            .map(|row| u32::from(row[0] + row[1] > 0.1) ^ flipped);
        let labels = labels.collect();
        let examples = Examples::classes(2, rows, labels).unwrap();
        data.add(format!("c{client}"), examples, 0.2).unwrap();
    }
    data
}

/// 18: identical clients choose identical α.
#[test]
fn identical_clients_choose_alike() {
    let run = |data: InMemory| {
        let model = Mlp::logistic(2, 2, 1e-4);
        Run::builder(Arc::new(data), Arc::new(model))
            .algorithm(Apfl::chosen(GRID))
            .rounds(20)
            .learning_rate(0.5)
            .full_batch()
            .build()
            .unwrap()
            .train()
            .unwrap()
    };
    let alike = alphas(&run(opposites(3)));
    assert!(alike[..3].iter().all(|a| *a == alike[0]), "{alike:?}");
    assert!(alike[3..].iter().all(|a| *a == alike[3]), "{alike:?}");
    // Opposite answers: what the others say is worth nothing.
    assert_eq!((alike[0].as_str(), alike[3].as_str()), ("1", "1"));
}

/// 19: the unit of a loss changes no choice. (A regression label times 1000 that is
/// standardized is the same label; one that is not has 10⁶ times the loss.)
#[test]
fn the_unit_of_the_loss_changes_no_choice() {
    let own = |factor: f64| HeldOut {
        rows: 12,
        sums: [7.0, 6.0, 6.5].map(|sum| factor * sum).to_vec(),
    };
    for prior in [0.0, 3.0, 50.0, 1e6] {
        let curve = [0.5, 0.6, 0.53];
        let of = |factor: f64| choose(&own(factor), &curve.map(|mean| factor * mean), prior);
        assert_eq!(of(1.0), of(1e6));
        assert_eq!(of(1.0), of(1e-6));
    }
}

/// The whole choice in float64: two folds, full batches, the split of rows alone taken from the
/// library.
#[test]
fn the_choice_is_that_of_a_slow_evaluation() {
    const ROUNDS: usize = 4;
    const STEPS: usize = 3;
    const RATE: f64 = 0.4;
    let small = classes(4, 3, 3, &[], 0.02);
    let slow = Slow::of(&small, 0.02);
    let grid = GRID.map(f64::from);
    let n = small.shards.len();
    let mut choosing = Choosing::from(GRID);
    (choosing.folds, choosing.prior) = (2, 6.0);
    let mut sums = vec![vec![0.0; 1 + grid.len()]; n];
    for part in 1..=2 {
        let aside = Aside {
            seed: 3,
            folds: 2,
            part,
            share: 0.2,
        };
        let split = |i: usize| {
            let (rest, held) = aside.split(i, slow.data[i].1.len());
            let places = |rows: Vec<u32>| rows.into_iter().map(|r| r as usize).collect::<Vec<_>>();
            (places(rest), places(held))
        };
        let mut w = vec![0.0; 12];
        let mut v = vec![vec![w.clone(); grid.len()]; n];
        // One round more than there are: the local round before the choice.
        for round in 0..=ROUNDS {
            let mut local = vec![w.clone(); n];
            for i in 0..n {
                let (rest, held) = split(i);
                for _ in 0..STEPS {
                    for (v, a) in v[i].iter_mut().zip(grid) {
                        let mixed: Vec<f64> = mixed(a, v, &local[i]);
                        let g = slow.gradient(i, &mixed, &rest);
                        v.iter_mut().zip(g).for_each(|(v, g)| *v -= RATE * a * g);
                    }
                    let g = slow.gradient(i, &local[i], &rest);
                    local[i].iter_mut().zip(g).for_each(|(w, g)| *w -= RATE * g);
                }
                if round == ROUNDS {
                    sums[i][0] += loss(&slow, i, &w, &held);
                    for (k, a) in grid.iter().enumerate() {
                        let model = mixed(*a, &v[i][k], &local[i]);
                        sums[i][1 + k] += loss(&slow, i, &model, &held);
                    }
                }
            }
            w = mean(&local);
        }
    }
    let mut setup = small.setup(full(STEPS as u64, RATE), ROUNDS as u64, 1.0, false);
    setup.threads = 2;
    let run = Run::builder(setup.world.dataset.clone(), small.model.clone())
        .algorithm(Chosen::new(choosing, Options::PAPER))
        .seed(3)
        .rounds(ROUNDS as u64)
        .local_steps(STEPS as u64)
        .learning_rate(RATE)
        .schedule(apfl::Schedule::Constant)
        .full_batch()
        .build()
        .unwrap()
        .train()
        .unwrap();
    let rows: Vec<f64> = (0..n).map(|i| slow.data[i].1.len() as f64).collect();
    let total: f64 = rows.iter().sum();
    let curve: Vec<f64> = (0..5)
        .map(|k| sums.iter().map(|s| s[k]).sum::<f64>() / total)
        .collect();
    let names = ["shared", "0", "0.25", "0.5", "1"];
    for (i, client) in run.clients().unwrap().into_iter().enumerate() {
        let chosen = client.chosen.unwrap();
        assert_eq!(chosen.rows as f64, rows[i]);
        for (k, name) in names.iter().enumerate() {
            let found = chosen.losses[*name].unwrap();
            let wanted = sums[i][k] / rows[i];
            assert!(
                (found - wanted).abs() < 2e-5,
                "client {i}, {name}: {found} {wanted}"
            );
        }
        let score = |k: usize| (sums[i][k] + 6.0 * curve[k]) / (rows[i] + 6.0);
        let best = (0..5)
            .min_by(|a, b| score(*a).total_cmp(&score(*b)))
            .unwrap();
        assert_eq!(chosen.alpha.name(), names[best]);
    }
    let prior = run.summary.prior.unwrap();
    for (name, wanted) in names.iter().zip(&curve) {
        assert!((prior.losses[*name].unwrap() - wanted).abs() < 2e-5);
    }
}

fn mixed(a: f64, v: &[f64], w: &[f64]) -> Vec<f64> {
    v.iter()
        .zip(w)
        .map(|(v, w)| a * v + (1.0 - a) * w)
        .collect()
}

/// Σ −log softmax(z)_y over some of a client's rows.
fn loss(slow: &Slow, client: usize, at: &[f64], rows: &[usize]) -> f64 {
    let (x, y) = &slow.data[client];
    let (d, c) = (slow.width, slow.classes);
    rows.iter()
        .map(|&r| {
            let z: Vec<f64> = (0..c)
                .map(|k| at[d * c + k] + (0..d).map(|j| x[r][j] * at[j * c + k]).sum::<f64>())
                .collect();
            z.iter().map(|z| z.exp()).sum::<f64>().ln() - z[y[r]]
        })
        .sum()
}

const DURABLE: &str = "{ kind = 'apfl', mixing = { chosen = [0, 0.5, 1], folds = 2, prior = 5 } }";

/// Stopped in every pass and resumed each time, on disk, a run ends as one that was not; its
/// passes are run directories of their own, with the same spec but for the pass.
#[test]
fn a_choice_survives_interruptions_in_every_pass() {
    let more = "training = { rounds = 4 }
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
            Alpha::Word(_) => assert_eq!(record.mixing, Some(None)),
            Alpha::Mixing(alpha) => assert_eq!(record.mixing, Some(Some(alpha))),
        }
    }
}

/// α = 1 chosen: the personal model is what was trained alone, and joining gives nothing.
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
        let difference =
            client.alone.as_ref().unwrap().valid.loss - client.scores.personal.valid.loss;
        assert!((gain.mean.unwrap() - difference).abs() < 1e-9);
        if client.alpha() == Some(1.0) {
            assert_eq!(
                (gain.mean, client.scores.personal),
                (Some(0.0), client.alone.unwrap())
            );
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

#[test]
fn what_does_not_go_with_a_choice_is_refused() {
    let problems = |algorithm: &str| {
        let text = format!("algorithm = {{ kind = 'apfl', {algorithm} }}");
        let error = Spec::parse(&text).unwrap().plan().unwrap_err();
        error.to_string()
    };
    let chosen = "mixing = { chosen = [0, 1] }";
    for (more, key) in [
        (
            "output = 'averaged', averaging_shift = 1",
            "algorithm.output",
        ),
        ("alpha_every = 'step'", "algorithm.alpha_every"),
        ("alpha_l2 = 0.1", "algorithm.alpha_l2"),
        ("alpha_rate = 0.1", "algorithm.alpha_rate"),
        ("preset = 'fedtorch'", "algorithm.preset"),
    ] {
        let said = problems(&format!("{chosen}, {more}"));
        assert!(said.contains(key), "{said}");
    }
    for (mixing, key) in [
        ("chosen = []", "mixing.chosen"),
        ("chosen = [0.5, 0.5]", "mixing.chosen"),
        ("chosen = [2]", "mixing.chosen"),
        ("chosen = 0.5", "mixing.chosen"),
        ("chosen = [0, 1], folds = 0", "mixing.folds"),
        ("chosen = [0, 1], prior = -1", "mixing.prior"),
        ("chosen = [0, 1], aside = 0.3", "mixing.aside"),
        ("chosen = [0, 1], refit = false", "mixing.refit"),
        ("chosen = [0, 1], fold = 2", "mixing.fold"),
        ("chosen = [0, 1], fixed = 1", "mixing.fixed"),
    ] {
        let said = problems(&format!("mixing = {{ {mixing} }}"));
        assert!(
            said.contains(&format!("algorithm.{key}")),
            "{mixing}: {said}"
        );
    }
    // Settings of a choice are set one by one; another mixing replaces it.
    let mut spec =
        Spec::parse("algorithm = { kind = 'apfl', mixing = { chosen = [0, 1] } }").unwrap();
    spec.set("algorithm.mixing.folds=1").unwrap();
    let text = spec.plan().unwrap().to_toml();
    assert!(
        text.contains("folds = 1") && text.contains("aside = 0.2"),
        "{text}"
    );
    spec.set("algorithm.mixing.fixed=0.5").unwrap();
    assert!(!spec.plan().unwrap().to_toml().contains("folds"));
}
