//! Algorithm 1's outputs against their double sum, written out; the theory's step sizes.

use crate::small::{self, Slow, apart, classes, full, gap, mean, quadratics, synthetic};
use apfl::algorithm::apfl::averaged::weight_between;
use apfl::algorithm::apfl::{Apfl, Averaged, Mixing, Options};
use apfl::algorithm::{Algorithm, AlgorithmSpec};
use apfl::curvature;
use apfl::data::{Examples, Features, Targets};
use apfl::error::Error;
use apfl::local_client::{LocalClient, Scratch};
use apfl::model::Loss;
use apfl::rng::{Purpose, stream};
use apfl::run::Run;
use apfl::schedule::Schedule;
use apfl::spec::Spec;
use apfl::training::Training;

#[test]
fn weights_have_a_closed_form() {
    for (from, to, a) in [
        (0, 1, 0.0),
        (0, 7, 2.5),
        (3, 3, 1.0),
        (4, 19, 100.0),
        (9, 4, 1.0),
    ] {
        let literal: f64 = (from + 1..=to).map(|t: u64| (t as f64 + a).powi(2)).sum();
        assert!((weight_between(from, to, a) - literal).abs() <= 1e-12 * literal);
    }
}

#[test]
fn averaged_outputs_are_the_literal_double_sum_under_sampling() {
    // Nine clients, two a round, four rounds: at least one is never sampled.
    let (n, tau, rounds, a, alpha, l2) = (9, 3, 4, 4.0, 0.3, 1e-2);
    let small = classes(n, 4, 3, &[], l2);
    let slow = Slow::of(&small, l2);
    let theory = Schedule::Theorem {
        numerator: 2.0,
        mu: 1.0,
        a,
    };
    for (schedule, shift) in [(Schedule::Constant, Some(a)), (theory, None)] {
        let mut local_training = full(tau, 0.3);
        local_training.schedule = schedule;
        let setup = small.setup(local_training, rounds, 0.2, true);
        let start: Vec<f64> = setup.context.w0.iter().map(|w| *w as f64).collect();

        // Algorithm 1, step by step, for all clients and all t.
        let mut w = start.clone();
        let mut v = vec![start.clone(); n];
        let mut w_hat = vec![0.0; 15];
        let mut v_sum = vec![vec![0.0; 15]; n];
        let mut total = 0.0;
        let mut sampled = vec![0; n];
        for round in 1..=rounds {
            let cohort = setup.cohort(round);
            cohort.iter().for_each(|i| sampled[*i] += 1);
            let mut w_of = vec![w.clone(); cohort.len()];
            for s in 0..tau {
                let t = ((round - 1) * tau + s + 1) as f64;
                let eta = match shift {
                    Some(_) => 0.3,
                    None => 2.0 / (t + a),
                };
                for (w_i, &i) in w_of.iter_mut().zip(&cohort) {
                    let mix = |v: &f64, w: &f64| alpha * v + (1.0 - alpha) * w;
                    let v_bar: Vec<f64> = v[i].iter().zip(&*w_i).map(|(v, w)| mix(v, w)).collect();
                    let (g_w, g) = (slow.full(i, w_i), slow.full(i, &v_bar));
                    (0..15).for_each(|j| w_i[j] -= eta * g_w[j]);
                    (0..15).for_each(|j| v[i][j] -= eta * alpha * g[j]);
                }
                let p = (t + a) * (t + a);
                total += p;
                let m = mean(&w_of);
                (0..15).for_each(|j| w_hat[j] += p * m[j]);
                for i in 0..n {
                    (0..15).for_each(|j| v_sum[i][j] += p * v[i][j]);
                }
            }
            w = mean(&w_of);
        }
        w_hat.iter_mut().for_each(|x| *x /= total);
        assert!(
            sampled.contains(&0) && sampled.iter().any(|k| *k >= 2),
            "{sampled:?}"
        );

        let apfl = Apfl::paper(Mixing::Fixed(alpha as f32));
        let averaged = Averaged { apfl, shift };
        let mut training =
            Training::new(setup.clone(), &AlgorithmSpec::Averaged(averaged)).unwrap();
        while training.next_round().unwrap().is_some() {}
        assert!(apart(&training.shared(), &w) < 1e-5);
        assert!(apart(&training.output(), &w_hat) < 1e-5);
        assert!(gap(&training.output(), &training.shared()) > 1e-3);
        let print = training.fingerprint().unwrap();
        let everyone = training.receivers();
        training
            .finalize(&everyone, &mut |finalized| {
                let i = finalized.client;
                let v_hat: Vec<f64> = (0..15)
                    .map(|j| alpha * v_sum[i][j] / total + (1.0 - alpha) * w_hat[j])
                    .collect();
                let personal = finalized.models.unwrap().personal;
                assert!(apart(&personal, &v_hat) < 1e-5, "client {i}");
                Ok(())
            })
            .unwrap();
        assert_eq!(print, training.fingerprint().unwrap());

        // The averages do not touch the training.
        let mut last = Training::with_algorithm(setup, apfl).unwrap();
        while last.next_round().unwrap().is_some() {}
        assert_eq!(last.shared(), training.shared());
        assert_eq!(last.output(), last.shared());
    }
}

#[test]
fn one_client_of_an_average_by_hand() {
    // ½(b − 8)², η = ½, α = 1, a = 0, τ = 2, one round: w = v = 4, 6; p = 1, 4.
    // ŵ = (4 + 4·6)/5 = 5.6 = v̂.
    let small = quadratics(&[&[8.0]], 0.0);
    let averaged = Averaged {
        apfl: Apfl::paper(Mixing::Fixed(1.0)),
        shift: Some(0.0),
    };
    let mut training =
        Training::with_algorithm(small.setup(full(2, 0.5), 1, 1.0, false), averaged).unwrap();
    // Before the first round the outputs are w⁰.
    assert_eq!(training.output(), [0.0, 0.0]);
    training.next_round().unwrap();
    assert_eq!(training.output(), [0.0, 5.6]);
    training
        .finalize(&[0], &mut |d| {
            assert_eq!(d.models.unwrap().personal, [0.0, 5.6]);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_projected_average_is_of_projected_steps() {
    // As above with ‖·‖ ≤ 5: w = v = 4, 5; ŵ = (4 + 4·5)/5.
    let small = quadratics(&[&[8.0]], 0.0);
    let averaged = Averaged {
        apfl: Apfl {
            mixing: Mixing::Fixed(1.0),
            options: Options {
                projection: Some(5.0),
                ..Options::PAPER
            },
        },
        shift: Some(0.0),
    };
    let mut training =
        Training::with_algorithm(small.setup(full(2, 0.5), 1, 1.0, false), averaged).unwrap();
    training.next_round().unwrap();
    assert!((training.output()[1] - 4.8).abs() < 1e-6);
}

fn problems(text: &str) -> String {
    match Spec::parse(text).unwrap().plan() {
        Err(Error::Spec(problems)) => {
            let keys: Vec<String> = problems.0.into_iter().map(|p| p.key).collect();
            keys.join(" ")
        }
        Err(e) => panic!("{e}"),
        Ok(_) => String::new(),
    }
}

#[test]
fn what_the_theory_does_not_cover_is_refused() {
    let spec = |algorithm: &str, training: &str, more: &str| {
        problems(&format!(
            "algorithm = {{ kind = 'apfl', {algorithm} }}\ntraining = {{ {training} }}\n{more}"
        ))
    };
    let fixed = "mixing = { fixed = 0.5 }";
    let averaged = format!("{fixed}, output = 'averaged', averaging_shift = 3");
    assert_eq!(spec(&averaged, "", ""), "");
    // Averages: a fixed α, steps, parameters, and an a.
    let adaptive = "mixing = { adaptive = 0.5 }, output = 'averaged', averaging_shift = 3";
    assert_eq!(spec(adaptive, "", ""), "algorithm.output");
    assert_eq!(spec(&averaged, "local_epochs = 1", ""), "algorithm.output");
    assert_eq!(
        spec(&format!("{averaged}, mix = 'logits'"), "", ""),
        "algorithm.output"
    );
    let without = format!("{fixed}, output = 'averaged'");
    assert_eq!(spec(&without, "", ""), "algorithm.output");
    assert_eq!(
        spec(&without, "schedule = { kind = 'theory', theorem = 3 }", ""),
        ""
    );
    assert_eq!(
        spec(&without, "schedule = { kind = 'theory', theorem = 5 }", ""),
        "algorithm.output"
    );
    let last = format!("{fixed}, averaging_shift = 3");
    assert_eq!(spec(&last, "", ""), "algorithm.averaging_shift");
    // Schedules.
    let theorem =
        |k: u8, more: &str| format!("schedule = {{ kind = 'theory', theorem = {k} {more} }}");
    assert_eq!(
        spec(fixed, &theorem(1, ""), ""),
        "training.schedule.theorem"
    );
    assert_eq!(spec(fixed, &theorem(4, ""), ""), "algorithm.projection");
    assert_eq!(
        spec(&format!("{fixed}, projection = 9"), &theorem(4, ""), ""),
        ""
    );
    let part = "federation = { participation = 0.5 }";
    assert_eq!(
        spec(fixed, &theorem(5, ""), part),
        "federation.participation"
    );
    assert_eq!(spec(fixed, &theorem(2, ""), part), "");
    let mlp = "model = { kind = 'mlp' }";
    assert_eq!(spec(fixed, &theorem(2, ""), mlp), "training.schedule.mu");
    assert_eq!(spec(fixed, &theorem(2, ", mu = 0.1"), mlp), "");
    assert_eq!(spec(fixed, &theorem(6, ""), mlp), "");
    assert_eq!(
        spec(fixed, &theorem(2, ""), "model = { l2 = 0 }"),
        "training.schedule.mu"
    );
    let epochs = format!("local_epochs = 2, {}", theorem(2, ""));
    assert_eq!(spec(fixed, &epochs, ""), "training.schedule");
    assert_eq!(
        spec(fixed, &theorem(5, ", a = 3"), ""),
        "training.schedule.a"
    );
}

#[test]
fn smoothness_comes_from_the_second_moments() {
    let moment = |x: Vec<f32>, width: usize| {
        let m = x.len() / width;
        let examples = Examples::new(width, Features::Floats(x), Targets::Values(vec![0.0; m]));
        curvature::second_moment(&examples, stream(1, Purpose::Theory, 0, 0))
    };
    // x = ±1: mean x̃x̃ᵀ = I. x = 2 always: x̃x̃ᵀ has the eigenvalue 4 + 1.
    assert!((moment(vec![1.0, -1.0, 1.0, -1.0], 1) - 1.0).abs() < 1e-9);
    assert!((moment(vec![2.0; 6], 1) - 5.0).abs() < 1e-9);
    // (3, 0) and (0, 4): ½(9+1 …): the matrix (4.5 0 1.5; 0 8 2; 1.5 2 1) has the
    // characteristic polynomial −λ³ + 13.5λ² − 42.25λ + 0, so λ = (13.5 + √13.25)/2.
    let expected = (13.5 + 13.25f64.sqrt()) / 2.0;
    assert!((moment(vec![3.0, 0.0, 0.0, 4.0], 2) - expected).abs() < 1e-7);
}

#[test]
fn the_estimate_finds_the_curvature_of_a_parabola() {
    // Squared error is its own quadratic: L = λ_max(mean x̃x̃ᵀ) + λ at every point.
    let small = classes(3, 4, 3, &[], 0.25);
    let model = apfl::model::mlp::Mlp::new(4, &[], 3, Loss::SquaredError, 0.25);
    let setup = small.setup(full(1, 0.1), 1, 1.0, true);
    let dataset = &*setup.context.dataset;
    let bound = curvature::smoothness_of_linear(dataset, &model, 1).unwrap();
    let (estimate, clients) =
        curvature::estimate_smoothness(dataset, &model, &setup.context.w0, 1).unwrap();
    assert_eq!(clients, 3);
    assert!((estimate / bound - 1.0).abs() < 0.01, "{estimate} {bound}");
    // Softmax: the estimate at a point is below the bound for all points.
    let softmax = &*setup.context.model;
    let bound = curvature::smoothness_of_linear(dataset, softmax, 1).unwrap();
    let (estimate, _) =
        curvature::estimate_smoothness(dataset, softmax, &setup.context.w0, 1).unwrap();
    assert!(
        estimate > 0.3 * bound && estimate < bound,
        "{estimate} {bound}"
    );
}

#[test]
fn a_gradient_over_all_examples_is_the_mean_of_all() {
    let small = classes(5, 4, 3, &[], 1e-2);
    let slow = Slow::of(&small, 1e-2);
    let train = &small.shards[4].train;
    // Enough rows that they are taken in pieces.
    let rows: Vec<u32> = (0..700).map(|r| r % 32).collect();
    let many = train.gathered(&rows);
    let mut scratch = Scratch::default();
    let rng = stream(1, Purpose::Batches, 1, 0);
    let mut local_client =
        LocalClient::new(&*small.model, &many, full(1, 0.1), 1, rng, &mut scratch);
    let at: Vec<f32> = (0..15).map(|j| 0.1 * j as f32 - 0.5).collect();
    let mut g = vec![7.0; 15];
    local_client.full_gradient(&at, &mut g);
    let at: Vec<f64> = at.iter().map(|x| *x as f64).collect();
    let rows: Vec<usize> = rows.iter().map(|r| *r as usize).collect();
    assert!(apart(&g, &slow.gradient(4, &at, &rows)) < 1e-6);
}

#[test]
fn a_theory_run_uses_the_numbers_of_its_data_and_says_them() {
    let plan = synthetic(
        "{ kind = 'apfl', mixing = { fixed = 0.9 }, output = 'averaged' }",
        "training = { rounds = 3, schedule = { kind = 'theory', theorem = 3 } }
         model = { l2 = 0.1 }",
    );
    let setup = plan.setup().unwrap();
    let context = &setup.context;
    let l = curvature::smoothness_of_linear(&*context.dataset, &*context.model, plan.seed).unwrap();
    let mu = f64::from(0.1f32);
    let expected = Schedule::Theorem {
        numerator: 16.0,
        mu,
        a: 128.0 * l / mu,
    };
    assert_eq!(context.local_training.schedule, expected);
    let notes = setup.notes.join("\n");
    assert!(
        notes.contains(&format!("{l:?}")) && notes.contains("a bound from the data"),
        "{notes}"
    );

    // The same numbers given by hand are the same run, and the run directory has them.
    let given = synthetic(
        "{ kind = 'apfl', mixing = { fixed = 0.9 }, output = 'averaged' }",
        &format!(
            "training = {{ rounds = 3, schedule = {{ kind = 'theory', theorem = 3, \
             mu = {mu:?}, smoothness = {l:?} }} }}
             model = {{ l2 = 0.1 }}"
        ),
    );
    assert_eq!(
        given.setup().unwrap().context.local_training,
        context.local_training
    );
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run");
    let run = Run::new(&plan, setup.clone()).directory(&path);
    run.train().unwrap();
    let text = std::fs::read_to_string(path.join("spec.toml")).unwrap();
    assert!(
        text.starts_with("# Theorem 3's step sizes: mu = "),
        "{text}"
    );
    assert_eq!(
        Spec::parse(&text).unwrap().plan().unwrap().resolved,
        plan.resolved
    );

    // shared.safetensors is ŵ.
    let mut training = Training::new(setup.clone(), &plan.algorithm).unwrap();
    while training.next_round().unwrap().is_some() {}
    let file = path.join("models/shared.safetensors");
    let kept = apfl::files::tensors::read_one(&file, context.model.layout(), "").unwrap();
    assert_eq!(kept, training.output());
    assert_ne!(kept, training.shared());
}

#[test]
fn a_nonconvex_theory_run_estimates_l() {
    let plan = synthetic(
        "{ kind = 'apfl', mixing = { fixed = 0.5 } }",
        "training = { rounds = 4, local_steps = 4, schedule = { kind = 'theory', theorem = 5 } }
         model = { kind = 'mlp', hidden = [4] }",
    );
    let setup = plan.setup().unwrap();
    let context = &setup.context;
    let (l, _) =
        curvature::estimate_smoothness(&*context.dataset, &*context.model, &context.w0, plan.seed)
            .unwrap();
    // T = 16: η = 1/(2√5·L·4)
    let Schedule::Flat { rate } = context.local_training.schedule else {
        panic!("{:?}", context.local_training.schedule)
    };
    assert!((rate * 8.0 * 5f64.sqrt() * l - 1.0).abs() < 1e-12);
    assert!(
        setup.notes[0].contains("an estimate from the curvature"),
        "{:?}",
        setup.notes
    );
    let mut training = Training::new(setup, &plan.algorithm).unwrap();
    let first = training.next_round().unwrap().unwrap().scores.unwrap();
    let mut last = first;
    while let Some(record) = training.next_round().unwrap() {
        last = record.scores.unwrap();
    }
    assert!(last.shared.train.loss < first.shared.train.loss);
}

#[test]
fn the_averaged_algorithm_is_apfl_in_all_else() {
    // Both see the same cohort, batches and rounds; only what they end with differs.
    let small = classes(4, 4, 3, &[], 1e-2);
    let mut local_training = full(3, 0.2);
    local_training.batch = Some(6);
    let setup = small.setup(local_training, 3, 0.5, false);
    let apfl = Apfl::paper(Mixing::Fixed(0.4));
    let shift = Some(1.0);
    let mut one = small::Hand::new(apfl, setup.clone());
    let mut other = small::Hand::new(Averaged { apfl, shift }, setup);
    for _ in 0..3 {
        let (a, b) = (one.step(), other.step());
        for (a, b) in a.iter().zip(&b) {
            assert_eq!((&a.localized, &a.personal), (&b.localized, &b.personal));
        }
    }
    for (a, b) in one.locals.iter().zip(&other.locals) {
        assert_eq!(a, &b.state);
    }
    assert_eq!(other.algorithm.mixing(&other.locals[0]), Some(0.4));
}
