//! A panic in one client's work: its name, no hang, and a run that can go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use apfl::Params;
use apfl::algorithm::{FedAvg, OneModel};
use apfl::local_client::LocalClient;
use apfl::run::Checkpoints;
use apfl::spec::Spec;
use apfl::training::{Setup, Training};

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
