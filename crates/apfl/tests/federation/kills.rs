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

/// A site keeps the states of two checkpoints, however rare these are, and the newest two.
#[test]
fn old_states_are_removed() {
    let room = Room::new();
    let more = "training.rounds=12\nfederation.participation=1\ncheckpoint.every=10";
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", more)
        .plan()
        .unwrap();
    let post = room.post("states");
    over_sites(&plan, &post, &room.path("run"), false).unwrap();
    let status = apfl::federation::Node::status(&room.path("states/north")).unwrap();
    assert!(status.finalized);
    // Round 10 is recorded, and saved, when its scores have come with round 11.
    assert_eq!(status.state_rounds, [11, 12]);
}

/// Killed in round 11, resumed from the last checkpoint, killed again a round later. Then that
/// checkpoint is damaged: the run goes on from the one before, whose states the sites still have.
#[test]
fn the_states_of_the_checkpoint_before_outlive_a_resume() {
    let room = Room::new();
    let more = "training.rounds=13\nfederation.participation=1\ncheckpoint.every=2";
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", more)
        .plan()
        .unwrap();
    let post = room.post("states");
    let run = room.path("run");
    // Survey, agreement, ten rounds; then an agreement and one round.
    for (dies_at, resumes) in [(2 + 11, false), (2 + 11 + 3, true)] {
        post.lock().unwrap().dies_at = Some(dies_at);
        over_sites(&plan, &post, &run, resumes).unwrap_err();
    }
    // Round 8 was recorded with round 9, and round 6 with round 7.
    let manifest = |round: u64| run.join(format!("checkpoint/checkpoint-{round}.manifest"));
    assert!(manifest(7).exists() && manifest(9).exists() && !manifest(10).exists());
    let status = apfl::federation::Node::status(&room.path("states/north")).unwrap();
    assert_eq!(status.state_rounds, [7, 9, 10]);
    std::fs::write(manifest(9), "damaged").unwrap();
    post.lock().unwrap().dies_at = None;
    let there = over_sites(&plan, &post, &run, true).unwrap();
    let notes = post.lock().unwrap().notes.join("\n");
    assert!(!notes.contains("lost"), "{notes}");
    let here = one_process(&plan, &room.path("here"));
    assert_eq!(shown(&there), shown(&here));
}
