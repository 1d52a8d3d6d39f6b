//! APFL's options: every one by hand on a parabola, and what they may and may not change.

use crate::small::{self, Hand, classes, full, gap, quadratics, synthetic};
use apfl::WhichModel;
use apfl::algorithm::apfl::options::{AlphaGradient, AlphaOn, Every, Mix, Order, Rate};
use apfl::algorithm::apfl::{Apfl, Mixing, Options};
use apfl::algorithm::{AlgorithmSpec, FedAvg, every_algorithm};
use apfl::local_client::{Predictor, Scratch};
use apfl::params::mix;
use apfl::run::Run;
use apfl::run::run_dir::FinishedRun;
use apfl::schedule::{Per, Schedule};
use apfl::spec::{PlannedSchedule, Spec};
use apfl::training::Training;

/// (w, v, α) after a round from w = 0, v = 4, α = ½ on ½(b − 8)² with η = ½ and, for α,
/// 1/64, where f' = b − 8 (+ λb).
fn after(tau: u64, l2: f32, adaptive: bool, options: Options) -> (f32, f32, f32) {
    let small = quadratics(&[&[8.0]], l2);
    let mut local_training = full(tau, 0.5);
    local_training.schedule = Schedule::Geometric {
        factor: 0.5,
        per: Per::Step,
    };
    let mixing = if adaptive {
        Mixing::Adaptive(0.5)
    } else {
        Mixing::Fixed(0.5)
    };
    let mut hand = Hand::new(
        Apfl { mixing, options },
        small.setup(local_training, 1, 1.0, false),
    );
    hand.locals[0].v = vec![0.0, 4.0];
    hand.step();
    let state = &hand.locals[0];
    (hand.shared()[1], state.v[1], state.alpha)
}

const BASE: Options = Options {
    alpha_rate: Rate::Number(1.0 / 64.0),
    ..Options::PAPER
};

#[test]
fn every_option_by_hand() {
    // The paper: v̄ = 2, g = −6. w = 0 + ½·8 = 4; v = 4 + ½·½·6 = 5.5; slope = 4·(−6).
    assert_eq!(after(1, 0.0, true, BASE), (4.0, 5.5, 0.5 + 24.0 / 64.0));
    assert_eq!(after(1, 0.0, false, Options::PAPER), (4.0, 5.5, 0.5));
    // With α's own rate η = ½ it would be ½ + 12: clipped.
    assert_eq!(after(1, 0.0, true, Options::PAPER), (4.0, 5.5, 1.0));
    for mix in [Mix::Parameters, Mix::Logits] {
        // One linear output: both mixtures are the same function.
        let base = Options { mix, ..BASE };
        assert_eq!(after(1, 0.0, true, base), (4.0, 5.5, 0.5 + 24.0 / 64.0));
        // sequential: w = 4, so v̄ = 4, g = −4; v = 4 + ¼·4 = 5; slope = (5 − 4)·(−4).
        let options = Options {
            order: Order::Sequential,
            ..base
        };
        assert_eq!(after(1, 0.0, true, options), (4.0, 5.0, 0.5 + 4.0 / 64.0));
        // blended: ∂ᵥ = ∂_w = −3, slope = 4·(½·(−3) + ½·(−3)).
        let options = Options {
            alpha_gradient: AlphaGradient::Blended,
            ..base
        };
        assert_eq!(after(1, 0.0, true, options), (4.0, 5.5, 0.5 + 12.0 / 64.0));
        // alpha_l2 = 2: slope = −24 + 2·½.
        let options = Options {
            alpha_l2: 2.0,
            ..base
        };
        assert_eq!(after(1, 0.0, true, options), (4.0, 5.5, 0.5 + 23.0 / 64.0));
        // λ = ½ through v̄: g = −6 + ½·2 = −5; v = 4 + ¼·5; slope = 4·(−5).
        assert_eq!(after(1, 0.5, true, base), (4.0, 5.25, 0.5 + 20.0 / 64.0));
        // λ = ½ on v: v = 4 − ½(½·(−6) + ½·4) = 4.5; the slope is the loss's own, 4·(−6).
        let options = Options {
            l2_on_v: true,
            ..base
        };
        assert_eq!(after(1, 0.5, true, options), (4.0, 4.5, 0.5 + 24.0 / 64.0));
        // … blended: ∂ᵥ = −3 + 2 = −1, ∂_w = −3; slope = 4·(½·(−1) + ½·(−3)).
        let options = Options {
            alpha_gradient: AlphaGradient::Blended,
            ..options
        };
        assert_eq!(after(1, 0.5, true, options), (4.0, 4.5, 0.5 + 8.0 / 64.0));
        // v_rate = ¼: v = 4 + ¼·½·6.
        let options = Options {
            v_rate: Rate::Number(0.25),
            ..base
        };
        assert_eq!(after(1, 0.0, false, options), (4.0, 4.75, 0.5));
        // projection onto 3: 4 → 3 and 5.5 → 3.
        let options = Options {
            projection: Some(3.0),
            ..base
        };
        assert_eq!(after(1, 0.0, false, options), (3.0, 3.0, 0.5));
    }
    // Two steps, the second of rate ¼ from w = 4, v = 5.5: v̄ = 4.75, g = −3.25, w = 5;
    // v = 5.5 + ¼·½·3.25, or with the rate that never falls 5.5 + ½·½·3.25.
    assert_eq!(after(2, 0.0, false, Options::PAPER), (5.0, 5.90625, 0.5));
    let options = Options {
        v_rate: Rate::Constant,
        ..Options::PAPER
    };
    assert_eq!(after(2, 0.0, false, options), (5.0, 6.3125, 0.5));
    // α at every step: the second from w = 4, v = 5.5, α = 7/8: v̄ = 5.3125,
    // g = −2.6875; slope = 1.5·(−2.6875) = −4.03125; v = 5.5 + ¼·⅞·2.6875.
    let options = Options {
        alpha_every: Every::Step,
        ..BASE
    };
    let (w, v, alpha) = after(2, 0.0, true, options);
    assert_eq!((w, v), (5.0, 5.5 + 0.21875 * 2.6875));
    assert_eq!(alpha, 0.875 + 4.03125 / 64.0);
    assert_eq!(after(2, 0.0, true, BASE).2, 0.875);
}

#[test]
fn a_step_of_the_authors_code_by_hand() {
    // w = 0, v = 3, α = ¼, target 8, λ = ½, η = 1/32.
    //   w = 8/32 = ¼ (w was 0, so λ adds nothing);  mixture ¼·3 + ¾·¼ = 0.9375, δ = −7.0625
    //   ∂ᵥ = ¼·δ + ½·3 = −0.265625;  v = 3 + 0.265625/32
    //   ∂_w = ¾·δ = −5.296875;  blended ¼·∂ᵥ + ¾·∂_w = −4.0390625
    //   slope = (v − w)·(−4.0390625) = −11.140949;  + 0.02·¼;  α = ¼ + 11.135949/32
    let small = quadratics(&[&[8.0]], 0.5);
    let apfl = Apfl {
        mixing: Mixing::Adaptive(0.25),
        options: Options::AUTHORS,
    };
    let mut hand = Hand::new(apfl, small.setup(full(1, 1.0 / 32.0), 1, 1.0, false));
    hand.locals[0].v = vec![0.0, 3.0];
    hand.step();
    assert_eq!(hand.shared()[1], 0.25);
    assert_eq!(hand.locals[0].v[1], 3.0 + 0.265625 / 32.0);
    assert!((hand.locals[0].alpha - 0.597_998_4).abs() < 1e-6);
}

fn variant_of_paper() -> Options {
    // A ball that nothing leaves: the paper's round, but on the options' path.
    Options {
        projection: Some(1e9),
        ..Options::PAPER
    }
}

/// A run of several rounds: (w, v of every client, α of every client).
fn several(hidden: &[usize], mixing: Mixing, options: Options) -> (Vec<f32>, Vec<f32>, Vec<f32>) {
    let small = classes(4, 4, 3, hidden, 1e-2);
    let mut local_training = full(4, 0.3);
    local_training.batch = Some(7);
    let mut hand = Hand::new(
        Apfl { mixing, options },
        small.setup(local_training, 6, 0.5, true),
    );
    (0..6).for_each(|_| drop(hand.step()));
    (
        hand.shared(),
        hand.locals.iter().flat_map(|l| l.v.clone()).collect(),
        hand.locals.iter().map(|l| l.alpha).collect(),
    )
}

#[test]
fn both_paths_take_the_papers_round_and_mixtures_agree_where_the_model_is_linear() {
    let adaptive = Mixing::Adaptive(0.5);
    let logits = |options| Options {
        mix: Mix::Logits,
        ..options
    };
    let sequential = Options {
        order: Order::Sequential,
        ..Options::PAPER
    };
    let blended = Options {
        alpha_gradient: AlphaGradient::Blended,
        ..Options::PAPER
    };
    let every = Options {
        alpha_every: Every::Step,
        ..Options::PAPER
    };
    for (hidden, a, b) in [
        (&[][..], Options::PAPER, variant_of_paper()),
        (&[5], Options::PAPER, variant_of_paper()),
        (&[], Options::PAPER, logits(Options::PAPER)),
        (&[], sequential, logits(sequential)),
        (&[], blended, logits(blended)),
        (&[], every, logits(every)),
    ] {
        let (one, other) = (several(hidden, adaptive, a), several(hidden, adaptive, b));
        assert_eq!(one.0, other.0, "w does not depend on v");
        assert!(gap(&one.1, &other.1) < 1e-5, "{a:?} and {b:?}");
        assert!(gap(&one.2, &other.2) < 1e-5, "{a:?} and {b:?}");
        assert!(one.2.iter().any(|alpha| (alpha - 0.5).abs() > 1e-3));
    }
}

#[test]
fn mixtures_differ_for_a_network_but_not_at_the_ends() {
    let logits = Options {
        mix: Mix::Logits,
        ..Options::PAPER
    };
    for (alpha, same) in [(0.0, true), (0.5, false), (1.0, true)] {
        let fixed = Mixing::Fixed(alpha);
        let one = several(&[5], fixed, variant_of_paper());
        let other = several(&[5], fixed, logits);
        assert_eq!(gap(&one.1, &other.1) < 1e-5, same, "α = {alpha}");
    }
}

#[test]
fn alphas_slope_is_the_central_difference_of_the_mixed_loss() {
    let small = classes(1, 4, 3, &[6], 0.0);
    for mix_of in [Mix::Parameters, Mix::Logits] {
        let apfl = Apfl {
            mixing: Mixing::Adaptive(0.4),
            options: Options {
                mix: mix_of,
                alpha_rate: Rate::Number(0.125),
                ..Options::PAPER
            },
        };
        let mut hand = Hand::new(apfl, small.setup(full(1, 1e-3), 1, 1.0, true));
        let w = hand.shared();
        let v: Vec<f32> = w
            .iter()
            .enumerate()
            .map(|(j, w)| 0.4 * (j % 4) as f32 - 2.0 * w)
            .collect();
        hand.locals[0].v = v.clone();
        hand.step();
        let slope = (0.4 - hand.locals[0].alpha) / 0.125;
        let loss = |alpha: f32| {
            let mut v_bar = vec![0.0; w.len()];
            mix(&mut v_bar, alpha, &v, &w);
            let predictor = match mix_of {
                Mix::Parameters => Predictor::Own(v_bar),
                Mix::Logits => Predictor::MixedOutputs {
                    alpha,
                    v: &v,
                    w: &w,
                },
            };
            let tally = Scratch::default().tally(&*small.model, &predictor, &small.shards[0].train);
            tally.loss / tally.examples as f64
        };
        let expected = (loss(0.401) - loss(0.399)) / 0.002; // short: few ReLUs turn within
        assert!(expected.abs() > 0.01);
        assert!(
            (slope as f64 - expected).abs() < 2e-3 * expected.abs().max(1.0),
            "{slope} {expected}"
        );
    }
}

#[test]
fn with_w_frozen_the_mixture_follows_sgd_with_alpha_squared() {
    // Rounds of one step, the server's model put back after each.
    let small = classes(1, 4, 3, &[], 1e-2);
    let slow = small::Slow::of(&small, 1e-2);
    let (alpha, eta) = (0.6, 0.4);
    for options in [Options::PAPER, variant_of_paper()] {
        let apfl = Apfl {
            mixing: Mixing::Fixed(alpha as f32),
            options,
        };
        let mut hand = Hand::new(apfl, small.setup(full(1, eta), 20, 1.0, true));
        let w0 = hand.shared();
        let mut v_bar: Vec<f64> = w0.iter().map(|w| *w as f64).collect();
        for _ in 0..20 {
            hand.step();
            hand.server.model = w0.clone();
            let g = slow.full(0, &v_bar);
            v_bar
                .iter_mut()
                .zip(g)
                .for_each(|(v, g)| *v -= alpha * alpha * eta * g);
            let mut mixed = vec![0.0; w0.len()];
            mix(&mut mixed, alpha as f32, &hand.locals[0].v, &w0);
            assert!(small::apart(&mixed, &v_bar) < 1e-5);
        }
    }
}

#[test]
fn no_option_but_projection_and_rows_aside_touches_the_shared_path() {
    let run = |algorithm: &str| {
        let plan = synthetic(
            algorithm,
            "training = { rounds = 4, local_steps = 3, batch = 16, schedule = 'constant' }
             federation = { participation = 0.6 }",
        );
        let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
        while training.next_round().unwrap().is_some() {}
        training.shared()
    };
    let fedavg = run("{ kind = 'fedavg' }");
    let mut seen = 0;
    for algorithm in every_algorithm() {
        if let AlgorithmSpec::Apfl(apfl) = synthetic(algorithm, "").algorithm {
            assert_eq!(
                run(algorithm) == fedavg,
                apfl.options.projection.is_none() && apfl.options.alpha_on == AlphaOn::Batch,
                "{algorithm}"
            );
            seen += 1;
        }
    }
    assert_eq!(seen, 7);
    let plan = synthetic("{ kind = 'fedavg' }", "");
    assert!(plan.algorithm == AlgorithmSpec::FedAvg(FedAvg));
}

#[test]
fn a_projected_run_stays_in_the_ball() {
    let options = Options {
        projection: Some(0.5),
        ..Options::PAPER
    };
    let (w, v, _) = several(&[], Mixing::Fixed(0.5), options);
    let norm = |x: &[f32]| x.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!(norm(&w) <= 0.500_001);
    let longest = v.chunks(w.len()).map(norm).fold(0.0, f32::max);
    assert!(
        (longest - 0.5).abs() < 1e-6,
        "the ball was never reached: {longest}"
    );
}

#[test]
fn the_preset_is_its_options_and_its_schedule() {
    let run = |algorithm: &str, schedule: &str| {
        let plan = synthetic(
            algorithm,
            &format!("training = {{ rounds = 4, local_steps = 6, batch = 16 {schedule} }}"),
        );
        let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
        while training.next_round().unwrap().is_some() {}
        (training.fingerprint().unwrap(), plan)
    };
    let base = "kind = 'apfl', mixing = { adaptive = 0.3 }";
    let (preset, plan) = run(&format!("{{ {base}, preset = 'authors' }}"), "");
    let schedule = Schedule::Geometric {
        factor: 1.0 / 1.01,
        per: Per::Epoch,
    };
    assert_eq!(
        plan.local_training.schedule,
        PlannedSchedule::Known(schedule)
    );
    let options = "mix = 'logits', order = 'sequential', alpha_every = 'round', alpha_l2 = 0.02, \
         alpha_gradient = 'blended', alpha_rate = 'schedule', alpha_on = 'batch', v_rate = 'constant', \
         l2_on_v = true, projection = 'none'";
    let factor = 1.0 / 1.01;
    let decay =
        format!(", schedule = {{ kind = 'geometric', factor = {factor:?}, per = 'epoch' }}");
    assert_eq!(preset, run(&format!("{{ {base}, {options} }}"), &decay).0);
    // Written beside the preset they are still the preset …
    let both = format!("{{ {base}, preset = 'authors', {options} }}");
    assert_eq!(preset, run(&both, "").0);
    // … and the paper's run is another one.
    assert_ne!(preset, run(&format!("{{ {base} }}"), &decay).0);
}

#[test]
fn options_are_checked_and_a_preset_cannot_be_contradicted() {
    let problems = |algorithm: &str| {
        let plan = Spec::parse(&format!("algorithm = {{ kind = 'apfl', {algorithm} }}"));
        match plan.unwrap().plan() {
            Err(apfl::error::Error::Spec(problems)) => problems
                .0
                .into_iter()
                .map(|p| p.key)
                .collect::<Vec<_>>()
                .join(" "),
            _ => String::new(),
        }
    };
    assert_eq!(
        problems(
            "mix = 'x', order = 1, alpha_every = 'epoch', alpha_l2 = -1, alpha_gradient = '', \
             alpha_rate = 0, alpha_on = 'rows', v_rate = 'fast', l2_on_v = 1, projection = -2"
        ),
        "algorithm.mix algorithm.order algorithm.alpha_every algorithm.alpha_l2 \
         algorithm.alpha_gradient algorithm.alpha_on algorithm.alpha_rate algorithm.v_rate \
         algorithm.l2_on_v algorithm.projection"
    );
    assert_eq!(
        problems("preset = 'authors', mix = 'parameters', v_rate = 0.1, alpha_l2 = 0.02"),
        "algorithm.mix algorithm.v_rate"
    );
    assert_eq!(
        problems("alpha_rate = 0.01, projection = 3, v_rate = 'constant'"),
        ""
    );
}

#[test]
fn a_mixture_of_outputs_is_kept_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let plan = synthetic(
        "{ kind = 'apfl', mixing = { fixed = 0.5 }, mix = 'logits' }",
        "training = { rounds = 2 }
         model = { kind = 'mlp', hidden = [5] }",
    );
    let setup = plan.setup().unwrap();
    let path = dir.path().join("run");
    let run = Run::new(&plan, setup.clone()).directory(&path);
    run.train().unwrap();

    let finished = FinishedRun::open(&path).unwrap();
    let model = &*setup.context.model;
    let lines = std::fs::read_to_string(path.join("clients.jsonl")).unwrap();
    for (client, line) in lines.lines().enumerate() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let name = line["client"].as_str().unwrap();
        let personal = finished.model(WhichModel::Personal, name).unwrap();
        let predictor = personal.predictor();
        assert!(matches!(
            predictor,
            Predictor::MixedOutputs { alpha: 0.5, .. }
        ));
        let shard = setup.context.dataset.shard(client).unwrap();
        let tally = Scratch::default().tally(model, &predictor, &shard.valid);
        let loss = tally.loss / tally.examples as f64;
        let kept = line["personal"]["valid"]["loss"].as_f64().unwrap();
        assert!((kept - loss).abs() < 1e-12); // JSON's digits
    }
}
