//! Scores of a site that are wrong: the run goes on without the site.

use apfl::clients::Response;
use apfl::engine::remote::{Outcome, SiteResponse};

use super::{Fate, Room, over_sites, shown, spec};

/// Changes the content of a response. Its bytes are a body, the encoded response and its length.
fn changed(bytes: Vec<u8>, change: impl Fn(&mut SiteResponse)) -> Vec<u8> {
    let (rest, length) = bytes.split_last_chunk().unwrap();
    let (body, tail) = rest.split_at(rest.len() - u32::from_le_bytes(*length) as usize);
    let mut response: SiteResponse = postcard::from_bytes(tail).unwrap();
    change(&mut response);
    let tail = postcard::to_stdvec(&response).unwrap();
    let length = (tail.len() as u32).to_le_bytes();
    [body, &tail, &length].concat()
}

type Lie = fn(&mut SiteResponse);

/// Applies `f` to the last of the responses to a message.
macro_rules! in_response {
    ($response:expr, $pattern:pat => $change:expr) => {
        match &mut $response.result {
            Ok(Outcome::Handled(handled)) => match handled.responses.last_mut() {
                Some($pattern) => $change,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    };
}

const NOT_FINITE: &str = "its scores have numbers that are not finite";
const OTHER_ROWS: &str = "its scores count other rows than it has";

/// Runs with lies of the site 'east' in an exchange, each as if its response were lost.
fn as_lost(exchange: usize, when: &str, lies: &[(&str, Lie)]) {
    let room = Room::new();
    let more = "federation.participation=1";
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", more)
        .plan()
        .unwrap();
    let lost = room.post("lost");
    lost.lock().unwrap().fates = [((exchange, 2), Fate::Lost)].into();
    let lost = over_sites(&plan, &lost, &room.path("lost-run"), false).unwrap();
    for (k, (why, lie)) in lies.iter().copied().enumerate() {
        let post = room.post(&format!("states-{k}"));
        post.lock().unwrap().forge = Some(Box::new(move |place, bytes| match place {
            place if place == (exchange, 2) => changed(bytes, lie),
            _ => bytes,
        }));
        let path = room.path(&format!("run-{k}"));
        let run = over_sites(&plan, &post, &path, false).unwrap();
        assert_eq!(shown(&run), shown(&lost), "{k}: {why}");
        let notes = post.lock().unwrap().notes.join("\n");
        let note = format!("site 'east' is left out {when}: {why}");
        assert!(notes.contains(&note), "{k}: {notes}");
        let rounds = std::fs::read_to_string(path.join("rounds.jsonl")).unwrap();
        assert!(!rounds.contains("null"), "{rounds}");
    }
}

#[test]
fn wrong_scores_of_a_round_are_as_no_response() {
    // Round 2 is evaluated: exchange 4.
    as_lost(
        4,
        "in round 2",
        &[
            (NOT_FINITE, |response| {
                in_response!(response, Response::Trained(Some(reply)) => {
                    reply.tallies.as_mut().unwrap().0.train.loss = f64::INFINITY;
                })
            }),
            (NOT_FINITE, |response| {
                in_response!(response, Response::Trained(Some(reply)) => {
                    reply.tallies.as_mut().unwrap().1.valid.loss = f64::NAN;
                })
            }),
            (OTHER_ROWS, |response| {
                in_response!(response, Response::Trained(Some(reply)) => {
                    reply.tallies.as_mut().unwrap().0.train.examples = 0;
                })
            }),
            (OTHER_ROWS, |response| {
                in_response!(response, Response::Trained(Some(reply)) => {
                    reply.tallies.as_mut().unwrap().1.valid.examples -= 1;
                })
            }),
        ],
    );
}

#[test]
fn wrong_final_scores_are_as_no_response() {
    const INCONSISTENT: &str = "its final scores are inconsistent";
    const SURVEY: &str = "its row counts differ from those of its survey";
    // Survey, agreement, five rounds, the last scores, finalization.
    as_lost(
        9,
        "at finalization",
        &[
            (NOT_FINITE, |response| {
                in_response!(response, Response::Finalized(Some(own)) => {
                    own.finals.shared.tallies.train.loss = f64::NEG_INFINITY;
                })
            }),
            (NOT_FINITE, |response| {
                in_response!(response, Response::Finalized(Some(own)) => {
                    own.finals.personal.valid.brier = Some(f64::NAN);
                })
            }),
            (OTHER_ROWS, |response| {
                in_response!(response, Response::Finalized(Some(own)) => {
                    own.finals.localized.tested.examples = 0;
                })
            }),
            (INCONSISTENT, |response| {
                in_response!(response, Response::Finalized(Some(own)) => {
                    *own.finals.shared.valid.confusion.values_mut().next().unwrap() += 1;
                })
            }),
            (INCONSISTENT, |response| {
                in_response!(response, Response::Finalized(Some(own)) => {
                    own.finals.shared.test.calibration[0].1 = f64::INFINITY;
                })
            }),
            (
                SURVEY,
                |response| in_response!(response, Response::Finalized(Some(own)) => own.examples.0 = 0),
            ),
            (
                SURVEY,
                |response| in_response!(response, Response::Finalized(Some(own)) => own.classes[0] = u64::MAX),
            ),
        ],
    );
}
