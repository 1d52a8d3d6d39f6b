//! `training.learning_rate = "auto"`: the rate that a probe finds, and that the run is then one with
//! this rate.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use apfl::algorithm::every_algorithm;
use apfl::choice::Choosing;
use apfl::run::{Ended, Event, Finished, FoundRate, Run};
use apfl::spec::{Plan, Resources, Spec};
use apfl::training::Training;
use apfl::{Error, Result};

use crate::small::fitting;

fn spec(algorithm: &str, more: &str) -> Spec {
    let text = format!(
        "algorithm = {algorithm}
         data = {{ kind = 'synthetic', clients = 5, features = 6, classes = 3, max_examples = 60 }}
         training = {{ rounds = 6, local_steps = 2, batch = 8 }}
         checkpoint = {{ every = 2 }}"
    );
    let mut spec = Spec::parse(&text).unwrap();
    for assignment in more.lines().map(str::trim).filter(|line| !line.is_empty()) {
        spec.set(assignment).unwrap();
    }
    fitting(spec)
}

const AUTO: &str = "training.learning_rate=auto";
const FEDAVG: &str = "{ kind = 'fedavg' }";

/// The plan with "auto", without a rate of the algorithm's own; `None` if it cannot have it.
fn auto(algorithm: &str) -> Option<(Plan, &'static str)> {
    let key = spec(algorithm, "")
        .plan()
        .unwrap()
        .algorithm
        .properties()
        .rate_key;
    let mut text = algorithm.to_string();
    for own in ["outer_rate = 0.05", "rate = 0.05"] {
        text = text.replace(&format!(", {own}"), "");
    }
    let spec = spec(&text, AUTO);
    match spec.plan() {
        Ok(plan) => Some((plan, key)),
        Err(error) => {
            assert!(error.to_string().contains("rates of a theorem"), "{error}");
            None
        }
    }
}

/// Trains and returns the run with the rate that was found.
fn train(run: Run) -> (Finished, FoundRate) {
    let mut rates = Vec::new();
    let ended = run.watch(&mut |event| {
        if let Event::Rate(found) = event {
            rates.push(found.clone());
        }
        ControlFlow::Continue(())
    });
    let Ended::Finished(finished) = ended.unwrap() else {
        panic!("nobody stops it");
    };
    (*finished, rates.pop().unwrap())
}

fn run(plan: &Plan) -> Run {
    Run::new(plan, plan.setup().unwrap())
}

/// Trains in a directory, on disk, interrupted after every nineteenth event.
fn interrupted(plan: &Plan, path: &Path) -> Finished {
    let mut on_disk = plan.clone();
    on_disk.engine.memory_budget = Some(1 << 20);
    loop {
        let on = Resources {
            directory: Some(path),
            ..Resources::default()
        };
        let setup = on_disk.setup_with(plan.data.load().unwrap(), on).unwrap();
        let mut events = 0;
        let ended = Run::new(&on_disk, setup).resume(path).watch(&mut |_| {
            events += 1;
            if events % 19 == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Ended::Finished(finished) = ended.unwrap() {
            return *finished;
        }
    }
}

/// For every algorithm the run is one with the rate that was found, interrupted or not; the spec
/// in its directory has the number and runs by itself to the same bits.
#[test]
fn the_run_is_one_with_the_rate_that_was_found() {
    for algorithm in every_algorithm() {
        let Some((plan, key)) = auto(algorithm) else {
            continue;
        };
        let (whole, found) = train(run(&plan));
        let own = key.starts_with("algorithm.") && plan.algorithm.properties().own_rates;
        let key = if own { key } else { "training.learning_rate" };
        assert_eq!(found.key, key);
        let mut fixed = Spec::parse(&plan.to_toml()).unwrap();
        if own {
            // Without "auto" the algorithm's own rate applies.
            fixed = spec(algorithm, "");
            fixed.set("training.local_steps=2").unwrap();
        }
        fixed
            .set(&format!("{key}={}", found.learning_rate))
            .unwrap();
        let fixed = fixed.plan().unwrap();
        assert!(!fixed.auto_rate);
        let same = run(&fixed).train().unwrap();
        assert_eq!(
            same.summary.fingerprint, whole.summary.fingerprint,
            "{algorithm}"
        );

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        let resumed = interrupted(&plan, &path);
        assert_eq!(
            resumed.summary.fingerprint, whole.summary.fingerprint,
            "{algorithm}"
        );
        let text = fs::read_to_string(path.join("spec.toml")).unwrap();
        let there = Spec::parse(&text).unwrap().plan().unwrap();
        assert!(!there.auto_rate, "{text}");
        assert_eq!(
            run(&there).train().unwrap().summary.fingerprint,
            whole.summary.fingerprint
        );
        // The run is recognized by the spec that was given and by the one that is there.
        for plan in [&plan, &there] {
            let again = run(plan).resume(&path).train().unwrap();
            assert_eq!(again.summary.fingerprint, resumed.summary.fingerprint);
        }
    }
}

/// Every loss of a probe, from a training of five rounds by itself, on data without the tenth.
#[test]
fn a_probe_measures_what_it_says() {
    let apfl = "{ kind = 'apfl', mixing = { fixed = 0.5 } }";
    let plan = spec(apfl, AUTO).plan().unwrap();
    let (_, found) = train(run(&plan));
    let mut expected = Vec::new();
    for rate in [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001] {
        let rate = format!("training.learning_rate={rate}\ntraining.rounds=5");
        let plan = spec(apfl, &rate).plan().unwrap();
        let mut setup = plan.setup().unwrap();
        let mut tenth = Choosing::from([0.0]);
        (tenth.folds, tenth.aside) = (1, 0.1);
        setup.context = setup.context.holding_out(&tenth, 1);
        let mut training = Training::new(setup, &plan.algorithm).unwrap();
        while training.next_round().unwrap().is_some() {}
        let own = training.hold_out(&[0, 1, 2, 3, 4]).unwrap();
        let rows: u64 = own.values().map(|own| own.rows).sum();
        let whole: usize = (0..5).map(|k| plan.data.load().unwrap().sizes(k).0).sum();
        assert!(rows as usize >= whole / 10 && rows as usize <= whole / 10 + 5);
        let sum: f64 = own.values().map(|own| own.sums[0]).sum();
        expected.push(sum / rows as f64);
    }
    let losses: Vec<f64> = found
        .probed
        .iter()
        .map(|probed| probed.loss.unwrap())
        .collect();
    for (loss, expected) in losses.iter().zip(&expected) {
        assert!(
            (loss - expected).abs() < 1e-12 * expected,
            "{losses:?} {expected:?}"
        );
    }
    let best = losses.iter().copied().fold(f64::INFINITY, f64::min);
    let first = losses.iter().position(|loss| *loss <= 1.01 * best).unwrap();
    assert_eq!(found.learning_rate, found.probed[first].learning_rate);
}

/// A table of three clients with numbers to predict, on which a rate of 1 diverges.
fn table(directory: &Path) -> String {
    let mut text = String::from("x,z,who,y\n");
    for row in 0..90 {
        let (x, z) = ((row * 7 % 13) as f64, (row * 5 % 11) as f64);
        let y = 2.0 * x - z + (row % 3) as f64;
        text += &format!("{x},{z},{},{y}\n", ["a", "b", "c"][row % 3]);
    }
    let path = directory.join("t.csv");
    fs::write(&path, text).unwrap();
    format!(
        "algorithm = {{ kind = 'fedavg' }}
         data = {{ kind = 'table', path = '{}', client = 'who', label = 'y', task = 'regression',
                   standardize = false }}
         training = {{ rounds = 8, local_steps = 5 }}",
        path.display()
    )
}

/// Tables have "auto" by default; a rate that diverges is found out.
#[test]
fn a_table_needs_no_rate() {
    let directory = tempfile::tempdir().unwrap();
    let text = table(directory.path());
    let plan = Spec::parse(&text).unwrap().plan().unwrap();
    assert!(plan.auto_rate);
    let (finished, found) = train(run(&plan));
    assert_eq!(found.probed[0].loss, None, "1 diverges");
    let shared = finished.summary.models.unwrap().shared.pooled.valid.loss;
    assert!(shared.is_finite());
    // With the rate that was the default it ends with an error that names the remedy.
    let mut fixed = Spec::parse(&text).unwrap();
    fixed.set("training.learning_rate=1").unwrap();
    let error = run(&fixed.plan().unwrap()).train().unwrap_err();
    assert!(
        error
            .to_string()
            .contains("set training.learning_rate to \"auto\""),
        "{error}"
    );
}

/// A run that diverges with the rate that was found starts again with a third, at most three times.
#[test]
fn a_run_that_diverges_starts_again_with_a_third() {
    let directory = tempfile::tempdir().unwrap();
    let plan = Spec::parse(&table(directory.path()))
        .unwrap()
        .plan()
        .unwrap();
    let path = directory.path().join("run");
    let stopped = run(&plan).directory(&path).watch(&mut |event| match event {
        Event::Rate(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    assert!(matches!(stopped.unwrap(), Ended::Stopped(0)));
    // As if the probe had found 1, which diverges: the curvature of this table is about 85.
    let file = path.join("rate.json");
    let found: FoundRate = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    let lie = |restarts: u64, rate: f64| {
        let lie = FoundRate {
            learning_rate: rate,
            restarts,
            ..found.clone()
        };
        fs::write(&file, serde_json::to_string(&lie).unwrap()).unwrap();
    };
    let attempt = || -> Result<(Finished, Vec<f64>)> {
        let mut rates = Vec::new();
        let ended = run(&plan).resume(&path).watch(&mut |event| {
            if let Event::Restarts { rate, error } = event {
                assert!(matches!(error, Error::NonFinite { .. }));
                rates.push(rate);
            }
            ControlFlow::Continue(())
        })?;
        let Ended::Finished(finished) = ended else {
            panic!("nobody stops it");
        };
        Ok((*finished, rates))
    };
    lie(3, 1.0);
    assert!(matches!(attempt().unwrap_err(), Error::NonFinite { .. }));
    lie(0, 1.0);
    let (finished, rates) = attempt().unwrap();
    assert!(!rates.is_empty());
    let last = rates[rates.len() - 1];
    assert_eq!(last, rates.iter().fold(1.0, |rate, _| rate / 3.0));
    let text = fs::read_to_string(path.join("spec.toml")).unwrap();
    let there = Spec::parse(&text).unwrap().plan().unwrap();
    assert_eq!(there.local_training.learning_rate, last);
    let fixed = run(&there).train().unwrap();
    assert_eq!(fixed.summary.fingerprint, finished.summary.fingerprint);
    assert_eq!(finished.rounds().unwrap().len(), 8);
}

#[test]
fn who_has_it_and_who_cannot() {
    let rate = |algorithm: &str, more: &str| {
        let plan = spec(algorithm, more).plan().unwrap();
        let key = |table: &str, key: &str| plan.resolved[table].get(key).map(ToString::to_string);
        let own = ["outer_rate", "rate"]
            .iter()
            .find_map(|own| key("algorithm", own));
        (key("training", "learning_rate"), own)
    };
    let text = |value: &str| Some(value.to_string());
    assert_eq!(rate(FEDAVG, ""), (text("0.1"), None));
    assert_eq!(rate(FEDAVG, AUTO), (text("\"auto\""), None));
    let meta = "{ kind = 'perfedavg' }";
    assert_eq!(rate(meta, ""), (None, text("0.001")));
    assert_eq!(rate(meta, AUTO), (text("\"auto\""), None));
    assert_eq!(rate("{ kind = 'pfedme' }", AUTO), (text("\"auto\""), None));
    // A plan's spec is the plan.
    for algorithm in [FEDAVG, meta, "{ kind = 'pfedme' }"] {
        let plan = spec(algorithm, AUTO).plan().unwrap();
        let again = Spec::parse(&plan.to_toml()).unwrap().plan().unwrap();
        assert!(again.auto_rate);
        assert_eq!(again.to_toml(), plan.to_toml());
    }

    let refused = |algorithm: &str, more: &str| {
        let mut spec = spec(algorithm, "");
        let assignments = format!("{more}\n{AUTO}");
        for assignment in assignments.lines().filter(|line| !line.is_empty()) {
            spec.set(assignment.trim()).unwrap();
        }
        spec.plan().unwrap_err().to_string()
    };
    let private = "federation.privacy={ level = 'client', noise = 1.0, delta = 1e-5, clip = 1.0 }";
    for (algorithm, more, why) in [
        (FEDAVG, private, "every round of a probe is a release"),
        (
            FEDAVG,
            "training.schedule={ kind = 'theory', theorem = 2 }",
            "rates of a theorem",
        ),
        (
            "{ kind = 'perfedavg', outer_rate = 0.1 }",
            "",
            "algorithm.outer_rate is given",
        ),
        (
            "{ kind = 'l2gd' }",
            "algorithm.pull=200",
            "below every rate of the probe",
        ),
    ] {
        let message = refused(algorithm, more);
        assert!(message.contains(why), "{message}");
        assert!(
            message.contains("training.learning_rate: found \"auto\""),
            "{message}"
        );
    }
    // A table has a number where "auto" is not allowed, or where a rate is written.
    let directory = tempfile::tempdir().unwrap();
    let table = table(directory.path());
    for (more, expected) in [
        ("", true),
        (private, false),
        ("training.learning_rate=0.5", false),
        (
            "training.schedule={ kind = 'theory', theorem = 5, smoothness = 2 }",
            false,
        ),
        ("algorithm={ kind = 'pfedme' }", true),
        ("algorithm={ kind = 'pfedme', rate = 0.1 }", false),
    ] {
        let mut spec = Spec::parse(&table).unwrap();
        spec.set("model.kind=mlp").unwrap();
        if !more.is_empty() {
            spec.set(more).unwrap();
        }
        assert_eq!(spec.plan().unwrap().auto_rate, expected, "{more}");
    }
}

/// A builder offers it, for the library's algorithms and for the caller's own.
#[test]
fn a_builder_probes_when_asked() {
    use apfl::algorithm::OneModel;
    use apfl::local_client::{LocalClient, Sgd};
    use apfl::{Examples, InMemory, Loss, Mlp};

    #[derive(Clone, Debug)]
    struct Averaging;
    impl OneModel for Averaging {
        type ClientState = ();
        fn join(&self, _w0: &[f32]) {}
        fn local_round(
            &self,
            sent: &[f32],
            _: &mut (),
            client: &mut LocalClient<'_>,
        ) -> apfl::Params {
            let mut w = sent.to_vec();
            Sgd::round(&mut w, client);
            w
        }
    }
    let build = || {
        let mut data = InMemory::classes(["x"], ["no", "yes"]);
        for client in ["north", "south"] {
            let x: Vec<f32> = (0..40).map(|k| k as f32 / 20.0 - 1.0).collect();
            let y = x.iter().map(|x| u32::from(*x > 0.1)).collect();
            data.add(client, Examples::classes(1, x, y).unwrap(), 0.25)
                .unwrap();
        }
        let model = Mlp::new(1, &[], 2, Loss::Softmax, 1e-4);
        Run::builder(data, model).algorithm(Averaging).rounds(4)
    };
    let (finished, found) = train(build().learning_rate_auto().build().unwrap());
    let fixed = build()
        .learning_rate(found.learning_rate)
        .build()
        .unwrap()
        .train()
        .unwrap();
    assert_eq!(finished.summary.fingerprint, fixed.summary.fingerprint);
    // Without a run there is no rate.
    let setup = build()
        .learning_rate_auto()
        .build()
        .unwrap()
        .setup()
        .clone();
    let error = Training::with_algorithm(setup, Averaging)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("found \"auto\", which a run finds by a probe"),
        "{error}"
    );
}
