//! A panic in one client's work: its name, no hang, and a run that can go on. A model for scores
//! that diverges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apfl::Params;
use apfl::algorithm::{AfterRound, FedAvg, Models, OneModel};
use apfl::local_client::{LocalClient, Sgd};
use apfl::run::Checkpoints;
use apfl::spec::Spec;
use apfl::training::{Setup, Training};

use crate::small::{full, quadratics};

/// FedAvg that panics at the client with so many examples after round 5, while armed.
#[derive(Debug)]
struct Fragile {
    examples: usize,
    armed: Arc<AtomicBool>,
}

impl OneModel for Fragile {
    type ClientState = ();

    fn join(&self, _: &[f32]) {}

    fn local_round(&self, sent: &[f32], local: &mut (), site: &mut LocalClient<'_>) -> Params {
        let due = site.steps_before() >= 5 * site.steps() && site.examples() == self.examples;
        assert!(!(due && self.armed.load(Ordering::Relaxed)), "out of ideas");
        FedAvg.local_round(sent, local, site)
    }
}

fn setup() -> Setup {
    let text = "data = { clients = 12, features = 5, classes = 3, max_examples = 300 }
                training = { rounds = 9, local_steps = 3 }
                engine = { threads = 4 }";
    Spec::parse(text).unwrap().plan().unwrap().setup().unwrap()
}

#[test]
fn a_panic_names_its_client_and_leaves_a_run_that_can_go_on() {
    let setup = setup();
    let sizes = |client| setup.context.dataset.sizes(client).0;
    let examples = sizes(7);
    let victim = (0..12).find(|client| sizes(*client) == examples).unwrap();
    let armed = Arc::new(AtomicBool::new(false));
    let begin = || {
        let armed = armed.clone();
        Training::with_algorithm(setup.clone(), Fragile { examples, armed }).unwrap()
    };
    let mut whole = begin();
    while whole.next_round().unwrap().is_some() {}

    armed.store(true, Ordering::Relaxed);
    let dir = tempfile::tempdir().unwrap();
    let mut training = begin();
    let mut checkpoints = Checkpoints::new(dir.path(), Default::default());
    let error = loop {
        match training.next_round() {
            Ok(_) => checkpoints.write(&mut training).unwrap(),
            Err(error) => break error,
        }
    };
    let name = setup.context.dataset.name(victim);
    assert_eq!(
        error.to_string(),
        format!("the work of client '{name}' panicked: out of ideas")
    );
    assert_eq!((training.round(), error.is_request()), (5, false));
    drop(training);

    armed.store(false, Ordering::Relaxed);
    let mut resumed = begin();
    Checkpoints::resume(dir.path(), Default::default(), false, &mut resumed).unwrap();
    assert_eq!(resumed.round(), 5);
    while resumed.next_round().unwrap().is_some() {}
    assert_eq!(resumed.fingerprint().unwrap(), whole.fingerprint().unwrap());
}

/// FedAvg whose localized model, trained for its scores alone, diverges at clients with b > 1.
#[derive(Debug)]
struct Diverging;

impl OneModel for Diverging {
    type ClientState = ();

    fn join(&self, _: &[f32]) {}

    fn local_round(&self, sent: &[f32], _: &mut (), client: &mut LocalClient<'_>) -> Params {
        let mut w = sent.to_vec();
        Sgd::round(&mut w, client);
        w
    }

    fn models<'a>(&self, after: AfterRound<'a, Self>, _: &mut LocalClient<'_>) -> Models<'a> {
        let w = &after.update.model;
        Models::own(
            w.iter()
                .map(|x| if w[1] > 1.0 { f32::INFINITY } else { *x })
                .collect(),
        )
    }
}

/// η = ½, τ = 1, targets 4 and 1: b₁ = 2 and b₂ = ½, so w = 5/4. The first client has no score,
/// the second ½(½ − 1)² = 1/8.
#[test]
fn a_model_for_scores_alone_that_diverges_does_not_cost_the_update() {
    let small = quadratics(&[&[4.0], &[1.0]], 0.0);
    let training = |skip| {
        let mut setup = small.setup(full(1, 0.5), 1, 1.0, false);
        setup.context.skip_nonfinite = skip;
        Training::with_algorithm(setup, Diverging).unwrap()
    };
    let mut run = training(true);
    let record = run.next_round().unwrap().unwrap();
    assert_eq!((record.cohort, record.skipped.len()), (2, 0));
    assert_eq!(run.shared()[1], 1.25);
    assert_eq!(record.scores.unwrap().localized.train.loss, 0.125);
    let error = training(false).next_round().unwrap_err().to_string();
    assert!(
        error.contains("after the local steps of round 1"),
        "{error}"
    );
}
