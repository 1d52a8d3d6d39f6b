//! One configuration: a spec and `Run::builder` make the same plan, with the same
//! checks and the same bits.

use std::sync::Arc;

use apfl::aggregation::ServerOptimizer;
use apfl::algorithm::apfl::{Mixing, Options};
use apfl::algorithm::pfedme::Variant;
use apfl::algorithm::{AlgorithmSpec, Averaged, FedProx, L2gd, LocalOnly, PFedMe, every_algorithm};
use apfl::attack::{Attack, AttackKind};
use apfl::choice::Choosing;
use apfl::privacy::{Level, NoiseSeed, PrivacySettings};
use apfl::run::{Run, RunBuilder};
use apfl::schedule::{Per, Theory};
use apfl::settings::Problem;
use apfl::spec::{Plan, Spec, registries};
use apfl::{
    Aggregation, Apfl, Error, FedAvg, FinalizedClients, Model, Schedule, Training, Weights,
};
use toml::Table;

use crate::small::fitting;

const DATA: &str =
    "data = { kind = 'synthetic', clients = 6, features = 5, classes = 3, examples = 40 }
                    model = { kind = 'mlp', hidden = [4] }\n";

/// A builder with the data and the model of a spec.
fn builder_of(plan: &Plan) -> RunBuilder {
    let dataset = plan.data.load().unwrap();
    let model: Arc<dyn Model> = Arc::from(plan.architecture.build(dataset.schema()).unwrap());
    Run::builder_shared(dataset, model)
}

fn planned(text: &str) -> Plan {
    Spec::parse(&format!("{DATA}{text}"))
        .unwrap()
        .plan()
        .unwrap()
}

/// A resolved spec but for data and model, which are the builder's own.
fn settings(plan: &Plan) -> Table {
    let mut table = plan.resolved.clone();
    assert!(table.remove("data").is_some() && table.remove("model").is_some());
    table
}

type Build = fn(RunBuilder) -> RunBuilder;

fn private(level: Level) -> PrivacySettings {
    PrivacySettings {
        level,
        epsilon: None,
        noise: Some(0.5),
        delta: 1e-4,
        clip: 0.5,
        noise_seed: NoiseSeed::Seed,
    }
}

const PAIRS: [(&str, Build); 18] = [
    ("", |b| b),
    ("seed = 7\ntraining.rounds = 3", |b| b.seed(7).rounds(3)),
    (
        "training = { local_steps = 3, batch = 7, learning_rate = 0.3 }",
        |b| b.local_steps(3).batch(7).learning_rate(0.3),
    ),
    (
        "training = { local_epochs = 2, batch = 'full', schedule = 'constant' }",
        |b| b.local_epochs(2).full_batch().schedule(Schedule::Constant),
    ),
    (
        "training.schedule = { kind = 'geometric', factor = 0.5, per = 'epoch' }",
        |b| {
            let per = Per::Epoch;
            b.schedule(Schedule::Geometric { factor: 0.5, per })
        },
    ),
    (
        "training.schedule = { kind = 'inverse', factor = 0.02 }",
        |b| b.schedule(Schedule::Inverse { factor: 0.02 }),
    ),
    (
        "training.schedule = { kind = 'theory', theorem = 2, mu = 0.5, smoothness = 3 }",
        |b| {
            b.schedule(Theory {
                theorem: 2,
                mu: Some(0.5),
                smoothness: Some(3.0),
                a: None,
            })
        },
    ),
    (
        "federation.participation = 0.5\ntraining = { momentum = 0.5, on_nonfinite = 'skip' }
         algorithm.kind = 'fedavg'",
        |b| {
            let b = b.algorithm(FedAvg).participation(0.5);
            b.momentum(0.5).skip_nonfinite(true)
        },
    ),
    (
        "federation.weights = 'examples'\ntraining.class_weights = 'balanced'",
        |b| b.weights(Weights::Examples).balance_classes(true),
    ),
    (
        "federation = { aggregation = 'trimmed-mean', trim = 0.3 }",
        |b| b.aggregation(Aggregation::TrimmedMean { trim: 0.3 }),
    ),
    (
        "federation.attack = { kind = 'sign-flip', share = 0.4, scale = 2 }",
        |b| {
            let kind = AttackKind::SignFlip { scale: 2.0 };
            b.attack(Attack { kind, share: 0.4 })
        },
    ),
    ("federation.attack = 'label-flip'", |b| {
        let kind = AttackKind::LabelFlip;
        b.attack(Attack { kind, share: 0.2 })
    }),
    (
        "federation.server = { kind = 'momentum', learning_rate = 0.5 }",
        |b| {
            b.server(ServerOptimizer::Momentum {
                learning_rate: 0.5,
                momentum: 0.9,
            })
        },
    ),
    (
        "federation.privacy = { level = 'client', noise = 0.5, delta = 1e-4, clip = 0.5 }
         algorithm = { kind = 'fedprox', proximal = 0.1 }",
        |b| {
            let b = b.privacy(private(Level::Client));
            b.algorithm(FedProx { proximal: 0.1 })
        },
    ),
    (
        "federation.privacy = { level = 'example', noise = 0.5, delta = 1e-4, clip = 0.5 }",
        |b| b.privacy(private(Level::Example)),
    ),
    (
        "evaluation = { every = 2, batch = 3 }\ndelivery = { clients = 'none', keep = false }",
        |b| {
            let b = b.evaluate_every(2).evaluate_in_batches_of(3);
            b.finalized_clients(FinalizedClients::None)
                .keep_models(false)
        },
    ),
    (
        "algorithm = { kind = 'apfl', mixing = { adaptive = 0.5 }, preset = 'authors' }",
        |b| {
            b.algorithm(Apfl {
                mixing: Mixing::Adaptive(0.5),
                options: Options::AUTHORS,
            })
        },
    ),
    (
        "checkpoint.every = 3\nengine.threads = 2\nalgorithm.kind = 'local'",
        |b| b.checkpoint_every(3).threads(2).algorithm(LocalOnly),
    ),
];

#[test]
fn a_spec_and_the_builder_make_one_plan() {
    for (text, build) in PAIRS {
        let plan = planned(text);
        let built = build(builder_of(&plan)).plan();
        let built = built.unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(
            settings(&built).to_string(),
            settings(&plan).to_string(),
            "{text}"
        );
        assert_eq!(built.local_training, plan.local_training, "{text}");
        assert_eq!(built.algorithm, plan.algorithm, "{text}");
        assert_eq!(
            (built.privacy, built.attack),
            (plan.privacy, plan.attack),
            "{text}"
        );
        assert_eq!(built.engine, plan.engine, "{text}");
    }
}

#[test]
fn a_spec_and_the_builder_train_to_one_fingerprint() {
    for (text, build) in PAIRS {
        let mut spec = Spec::parse(&format!("{DATA}{text}")).unwrap();
        for short in ["training.rounds=2", "training.local_steps=2"] {
            if !text.contains("local_epochs") || !short.contains("steps") {
                spec.set(short).unwrap();
            }
        }
        let plan = spec.plan().unwrap();
        let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
        while training.next_round().unwrap().is_some() {}
        let mut builder = build(builder_of(&plan)).rounds(2);
        if !text.contains("local_epochs") {
            builder = builder.local_steps(2);
        }
        let finished = builder.build().unwrap().train().unwrap();
        let fingerprint = finished.summary.fingerprint;
        assert_eq!(fingerprint, training.fingerprint().unwrap(), "{text}");
    }
}

/// Every kind that a builder can have is written as its example was read.
#[test]
fn every_kind_is_written_as_it_is_read() {
    let same = |text: &str, build: &dyn Fn(RunBuilder, &Plan) -> RunBuilder| {
        let spec = fitting(Spec::parse(&format!("{DATA}{text}")).unwrap());
        let plan = spec.plan().unwrap_or_else(|e| panic!("{text}: {e}"));
        let builder = build(builder_of(&plan), &plan);
        let builder = builder
            .participation(plan.participation)
            .weights(plan.weights);
        let built = builder.plan().unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(
            settings(&built).to_string(),
            settings(&plan).to_string(),
            "{text}"
        );
    };
    for example in every_algorithm() {
        same(&format!("algorithm = {example}"), &|builder, plan| {
            let builder = builder.algorithm_spec(plan.algorithm.clone());
            // One that takes its constants from a theorem is given one.
            builder.schedule(plan.local_training.schedule.clone())
        });
    }
    for registry in registries() {
        for example in registry.kinds.iter().flat_map(|kind| kind.examples) {
            match registry.table {
                "federation" => same(
                    &format!("federation.aggregation = {example}"),
                    &|b, plan| b.aggregation(plan.aggregation),
                ),
                "federation.server" => {
                    same(&format!("federation.server = {example}"), &|b, plan| {
                        b.server(plan.server)
                    })
                }
                "federation.attack" => same(
                    &format!("federation.attack = {example}"),
                    &|b, plan| match plan.attack {
                        Some(attack) => b.attack(attack),
                        None => b,
                    },
                ),
                _ => {}
            }
        }
    }
}

fn problems<T>(result: Result<T, Error>) -> Vec<Problem> {
    match result {
        Err(Error::Spec(problems)) => problems.0,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing is wrong"),
    }
}

#[test]
fn the_builder_refuses_what_a_spec_refuses_in_the_same_words() {
    let all: [(&str, Build); 15] = [
        (
            "training = { rounds = 0, learning_rate = -1.0, momentum = 1.0 }\nfederation.participation = 0.0",
            |b| b.rounds(0).learning_rate(-1.0).momentum(1.0).participation(0.0),
        ),
        ("training.batch = 0\ntraining.local_steps = 0", |b| b.batch(0).local_steps(0)),
        ("engine.threads = 5000\nevaluation.every = 0", |b| b.threads(5000).evaluate_every(0)),
        (
            "algorithm = { kind = 'fedprox', proximal = -0.5 }",
            |b| b.algorithm(FedProx { proximal: -0.5 }),
        ),
        (
            "algorithm = { kind = 'l2gd', averaging = 1.0, pull = -1.0 }
             federation = { participation = 0.5, weights = 'examples' }",
            |b| b.algorithm(L2gd::new(1.0, -1.0)).participation(0.5).weights(Weights::Examples),
        ),
        (
            "algorithm = { kind = 'pfedme', rate = 0.0, server = 101.0, inner_steps = 0 }",
            |b| {
                b.algorithm(PFedMe {
                    variant: Variant::Reference,
                    lambda: 15.0,
                    rate: 0.0,
                    inner_rate: 0.01,
                    inner_steps: 0,
                    server: 101.0,
                })
            },
        ),
        (
            "algorithm = { kind = 'apfl', mixing = { adaptive = 0.5 }, output = 'averaged' }",
            |b| {
                let apfl = Apfl::adaptive(0.5);
                b.algorithm(Averaged { apfl, shift: None })
            },
        ),
        (
            "algorithm = { kind = 'apfl', mixing = { chosen = [0.0, 1.0], folds = 0, prior = -1.0 },
                           alpha_every = 'step' }",
            |b| {
                let mut choosing = Choosing::from([0.0, 1.0]);
                (choosing.folds, choosing.prior) = (0, -1.0);
                let options = Options {
                    alpha_every: apfl::algorithm::apfl::options::Every::Step,
                    ..Options::PAPER
                };
                b.algorithm(apfl::algorithm::Chosen::new(choosing, options))
            },
        ),
        (
            "federation = { aggregation = 'krum', byzantine = 0.5, weights = 'examples' }",
            |b| {
                let krum = Aggregation::Krum { byzantine: 0.5 };
                b.aggregation(krum).weights(Weights::Examples)
            },
        ),
        (
            "federation = { aggregation = 'median', attack = 'label-flip' }\nalgorithm.kind = 'local'",
            |b| {
                let kind = AttackKind::LabelFlip;
                let b = b.aggregation(Aggregation::Median).attack(Attack { kind, share: 0.2 });
                b.algorithm(LocalOnly)
            },
        ),
        (
            "federation.server = { kind = 'adagrad', learning_rate = -1.0, adaptivity = 0.0 }",
            |b| {
                b.server(ServerOptimizer::Adagrad {
                    learning_rate: -1.0,
                    adaptivity: 0.0,
                })
            },
        ),
        (
            "federation.attack = { kind = 'gaussian', share = 1.0, deviation = -1.0 }",
            |b| {
                let kind = AttackKind::Gaussian { deviation: -1.0 };
                b.attack(Attack { kind, share: 1.0 })
            },
        ),
        (
            "federation.privacy = { level = 'example', delta = 0.9, clip = 0.0 }
             training = { momentum = 0.5, class_weights = 'balanced' }\nalgorithm.kind = 'ditto'",
            |b| {
                let b = b.algorithm(apfl::algorithm::Ditto { proximal: 1.0 });
                b.momentum(0.5).balance_classes(true).privacy(PrivacySettings {
                    noise: None,
                    delta: 0.9,
                    clip: 0.0,
                    ..private(Level::Example)
                })
            },
        ),
        (
            "training.schedule = { kind = 'theory', theorem = 5 }\ntraining.local_epochs = 1
             federation.participation = 0.5",
            |b| {
                let (mu, smoothness, a) = (None, None, None);
                let theorem = 5;
                let b = b.local_epochs(1).participation(0.5);
                b.schedule(Theory { theorem, mu, smoothness, a })
            },
        ),
        (
            "training.schedule = { kind = 'geometric', factor = 1.5 }\nseed = 9223372036854775807",
            |b| {
                let (factor, per) = (1.5, Per::Round);
                b.seed(i64::MAX as u64).schedule(Schedule::Geometric { factor, per })
            },
        ),
    ];
    let plan = planned("");
    for (text, build) in all {
        let spec = Spec::parse(&format!("{DATA}{text}")).unwrap();
        let refused = problems(spec.plan());
        assert!(!refused.is_empty());
        assert_eq!(
            problems(build(builder_of(&plan)).build()),
            refused,
            "{text}"
        );
    }
}

/// An algorithm that no spec can name is known to its plan by its words and properties.
#[test]
fn an_algorithm_of_ones_own_is_checked_and_bound_too() {
    let plan = planned("");
    // FedProx for the worst mixture of clients is in no registry.
    let own = |step| apfl::algorithm::Agnostic {
        inner: FedProx { proximal: 0.5 },
        step,
    };
    let built = builder_of(&plan).algorithm(own(0.1)).plan().unwrap();
    let algorithm = built.resolved["algorithm"].as_table().unwrap();
    assert_eq!(algorithm["kind"].as_str(), Some("own"));
    let words = algorithm["settings"].as_str().unwrap();
    assert!(
        words.contains("FedProx { proximal: 0.5 }") && words.contains("0.1"),
        "{words}"
    );
    assert!(matches!(built.algorithm, AlgorithmSpec::Own(_)));
    let median = builder_of(&plan)
        .algorithm(own(0.1))
        .aggregation(Aggregation::Median);
    assert_eq!(problems(median.build())[0].key, "federation.aggregation");
    let private = builder_of(&plan)
        .algorithm(own(0.1))
        .privacy(private(Level::Client));
    let refused = problems(private.build());
    assert!(
        refused[0]
            .message
            .contains("no privacy proof for algorithm.kind = \"own\""),
        "{refused:?}"
    );
}

/// An algorithm that must know the model's layers or the seed is fitted to the run, whoever
/// names it: by a spec, as a value of the builder, or as a spec's value.
#[test]
fn algorithms_that_are_fitted_to_a_run_have_one_fingerprint() {
    type Own = fn(RunBuilder) -> RunBuilder;
    let all: [(&str, Own); 4] = [
        ("{ kind = 'fedper' }", |b| {
            b.algorithm(apfl::algorithm::FedPer::last_layers_private(1))
        }),
        ("{ kind = 'lgfedavg' }", |b| {
            b.algorithm(apfl::algorithm::LgFedAvg::last_layers_shared(1, 0))
        }),
        ("{ kind = 'l2gd', averaging = 0.3 }", |b| {
            b.algorithm(L2gd::new(0.3, 0.1))
        }),
        ("{ kind = 'hypcluster' }", |b| {
            b.algorithm(apfl::algorithm::HypCluster::new(2))
        }),
    ];
    for (algorithm, own) in all {
        let plan = planned(&format!(
            "algorithm = {algorithm}\ntraining = {{ rounds = 3, local_steps = 2 }}"
        ));
        let mut training = Training::new(plan.setup().unwrap(), &plan.algorithm).unwrap();
        while training.next_round().unwrap().is_some() {}
        let expected = training.fingerprint().unwrap();
        for builder in [
            own(builder_of(&plan)),
            builder_of(&plan).algorithm_spec(plan.algorithm.clone()),
        ] {
            let run = builder.rounds(3).local_steps(2).build().unwrap();
            let found = run.train().unwrap().summary.fingerprint;
            assert_eq!(found, expected, "{algorithm}");
        }
    }
}

/// Weights follow from class counts, which no noise protects: by whatever way they come in.
#[test]
fn a_weighted_model_is_not_private_by_example() {
    let plan = planned("algorithm = { kind = 'fedavg' }");
    let dataset = plan.data.load().unwrap();
    let model: Arc<dyn Model> = Arc::from(plan.architecture.build(dataset.schema()).unwrap());
    let weights = vec![1.0, 2.0, 3.0];
    let weighted = Arc::new(apfl::model::weighted::Weighted { model, weights });
    let builder = Run::builder_shared(dataset, weighted).algorithm(FedAvg);
    let error = builder
        .privacy(private(Level::Example))
        .build()
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("the gradient norms of single examples"),
        "{error}"
    );
    let mut by_hand = planned("algorithm = { kind = 'fedavg' }");
    (by_hand.class_weights, by_hand.privacy) = (true, Some(private(Level::Example)));
    assert!(by_hand.setup().is_err());
}

/// A plan describes an algorithm of the caller's own and cannot run it.
#[test]
fn a_plan_cannot_run_an_algorithm_of_ones_own() {
    #[derive(Debug)]
    struct Own;
    impl apfl::algorithm::OneModel for Own {
        type ClientState = ();
        fn join(&self, _: &[f32]) {}
        fn local_round(
            &self,
            sent: &[f32],
            _: &mut (),
            _: &mut apfl::local_client::LocalClient<'_>,
        ) -> apfl::Params {
            sent.to_vec()
        }
    }
    let plan = planned("");
    let own = builder_of(&plan).algorithm(Own).plan().unwrap();
    let error = Training::new(plan.setup().unwrap(), &own.algorithm).unwrap_err();
    assert!(
        error.to_string().contains("Training::with_algorithm"),
        "{error}"
    );
}

#[test]
fn candidates_that_do_not_rise_are_refused() {
    let mut choosing = Choosing::from([0.0, 1.0]);
    choosing.candidates = vec![1.0, 0.0];
    let chosen = apfl::algorithm::Chosen::new(choosing, Options::PAPER);
    let found = problems(builder_of(&planned("")).algorithm(chosen).plan());
    assert!(
        found.iter().any(|p| p.message.contains("ascending")),
        "{found:?}"
    );
}

/// What the checks must know of a model does not depend on who built it.
#[test]
fn the_builders_model_is_checked_as_a_specs() {
    let text =
        "data = { kind = 'synthetic', clients = 6, features = 5, classes = 3, examples = 40 }
                model = { kind = 'mlp', hidden = [4], norm = 'batch' }";
    let plan = Spec::parse(text).unwrap().plan().unwrap();
    assert!(!plan.notes.is_empty());
    assert_eq!(builder_of(&plan).plan().unwrap().notes, plan.notes);
    let by_builder = problems(builder_of(&plan).batch(1).plan());
    let spec = Spec::parse(&format!("{text}\ntraining.batch = 1")).unwrap();
    assert_eq!(by_builder, problems(spec.plan()));

    // μ of a linear model is its l2: a theorem's schedule need not be told.
    let text = text.replace(
        "kind = 'mlp', hidden = [4], norm = 'batch'",
        "kind = 'linear'",
    );
    let plan = Spec::parse(&text).unwrap().plan().unwrap();
    let theory = Theory {
        theorem: 2,
        mu: None,
        smoothness: None,
        a: None,
    };
    let run = builder_of(&plan).schedule(theory).build().unwrap();
    let spec = format!("{text}\ntraining.schedule = {{ kind = 'theory', theorem = 2 }}");
    let setup = Spec::parse(&spec).unwrap().plan().unwrap().setup().unwrap();
    assert_eq!(
        run.setup().context.local_training.schedule,
        setup.context.local_training.schedule
    );
}
