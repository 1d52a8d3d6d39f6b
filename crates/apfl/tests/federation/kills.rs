//! A server that is killed in any exchange and resumed ends with the same bits.

use super::{Room, one_process, over_sites, shown, spec};
use apfl::Error;

fn killed_anywhere(algorithm: &str, exchanges: usize) {
    let room = Room::new();
    let plan = spec(room.0.path(), algorithm, "").plan().unwrap();
    let here = shown(&one_process(&plan, &room.path("here")));
    for dies_at in 1..=exchanges {
        let post = room.post(&format!("states-{dies_at}"));
        let run = room.path(&format!("run-{dies_at}"));
        post.lock().unwrap().dies_at = Some(dies_at);
        let error = over_sites(&plan, &post, &run, false).unwrap_err();
        assert!(matches!(error, Error::Engine(_)), "{error}");
        post.lock().unwrap().dies_at = None;
        let there = over_sites(&plan, &post, &run, true).unwrap();
        assert_eq!(shown(&there), here, "killed in exchange {dies_at}");
    }
}

#[test]
fn a_server_killed_in_any_exchange_goes_on() {
    killed_anywhere("{ kind = 'apfl', mixing = { adaptive = 0.5 } }", 9);
}

#[test]
fn so_does_one_without_memories() {
    killed_anywhere("{ kind = 'fedavg' }", 8);
}

/// Old memories are forgotten once two checkpoints do not need them.
#[test]
fn old_memories_are_forgotten() {
    let room = Room::new();
    let more = "training.rounds=12\nfederation.participation=1\ncheckpoint.every=1";
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", more)
        .plan()
        .unwrap();
    let post = room.post("states");
    over_sites(&plan, &post, &room.path("run"), false).unwrap();
    let status = apfl::federation::Node::status(&room.path("states/north")).unwrap();
    assert!(status.finalized);
    assert!(status.state_rounds.len() <= 4, "{:?}", status.state_rounds);
    assert_eq!(status.state_rounds.last(), Some(&12));
}

/// A run that stops by itself, killed anywhere: its best round is kept at every site.
#[test]
fn a_run_that_stops_serves_its_best_round_over_sites() {
    let room = Room::new();
    let more = "training.rounds=9\nevaluation.every=1\ntraining.learning_rate=0.5
                federation.participation=1\ntraining.stop={ patience = 2, min_delta = 0.2 }";
    let chosen = "{ kind = 'apfl', mixing = { fixed = 0.5 } }";
    for share in ["1", "0.75"] {
        let more = format!("{more}\nfederation.participation={share}");
        let plan = spec(room.0.path(), chosen, &more).plan().unwrap();
        let here = one_process(&plan, &room.path(&format!("here-{share}")));
        let stopped = here.summary.stopped.unwrap();
        assert!(stopped.served <= here.summary.rounds && here.summary.rounds < 9);
        let here = shown(&here);
        for dies_at in [0, 4, 6, 7] {
            let post = room.post(&format!("states-{share}-{dies_at}"));
            let run = room.path(&format!("run-{share}-{dies_at}"));
            let there = if dies_at == 0 {
                over_sites(&plan, &post, &run, false).unwrap()
            } else {
                post.lock().unwrap().dies_at = Some(dies_at);
                over_sites(&plan, &post, &run, false).unwrap_err();
                post.lock().unwrap().dies_at = None;
                over_sites(&plan, &post, &run, true).unwrap()
            };
            assert_eq!(shown(&there), here, "{share}, killed in exchange {dies_at}");
        }
    }
}

/// The probe of a learning rate is a part of the run: killed in it or after it, a federation goes
/// on, and it ends as one process does.
#[test]
fn a_probed_rate_over_sites_is_that_of_one_process() {
    let room = Room::new();
    let more = "training.rounds=3\ntraining.learning_rate=auto";
    for algorithm in [
        "{ kind = 'apfl', mixing = { fixed = 0.5 } }",
        "{ kind = 'pfedme' }",
    ] {
        let plan = spec(room.0.path(), algorithm, more).plan().unwrap();
        assert!(plan.auto_rate);
        let kind = plan.algorithm.kind();
        let here = shown(&one_process(&plan, &room.path(&format!("here-{kind}"))));
        for dies_at in [9, 30] {
            let post = room.post(&format!("states-{kind}-{dies_at}"));
            let run = room.path(&format!("run-{kind}-{dies_at}"));
            post.lock().unwrap().dies_at = Some(dies_at);
            over_sites(&plan, &post, &run, false).unwrap_err();
            post.lock().unwrap().dies_at = None;
            let there = over_sites(&plan, &post, &run, true).unwrap();
            assert_eq!(shown(&there), here, "{kind}, killed in exchange {dies_at}");
            // The spec that a site keeps has the number.
            let text = std::fs::read_to_string(
                room.path(&format!("states-{kind}-{dies_at}/north/run/spec.toml")),
            );
            assert!(!text.unwrap().contains("auto"));
        }
    }
}
