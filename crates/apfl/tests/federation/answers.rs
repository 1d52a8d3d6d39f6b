//! Whatever the post does, the bits are those of one process.

use super::{Fate, Room, one_process, over_sites, shown, spec};
use apfl::algorithm::every_algorithm;
use apfl::federation::Node;
use apfl::run::Program;

/// Answers reversed and doubled, every message answered twice by nodes opened anew: records,
/// clients, summary and fingerprint of threads, for every algorithm.
#[test]
fn every_algorithm_has_the_bits_of_one_process() {
    let room = Room::new();
    for (k, algorithm) in every_algorithm().iter().enumerate() {
        let plan = spec(room.0.path(), algorithm, "").plan().unwrap();
        let here = one_process(&plan, &room.path(&format!("here-{k}")));
        let post = room.post(&format!("states-{k}"));
        let run = room.path(&format!("there-{k}"));
        let there = over_sites(&plan, &post, &run, false)
            .unwrap_or_else(|e| panic!("{algorithm}: {e}\n{:?}", post.lock().unwrap().notes));
        assert_eq!(shown(&here), shown(&there), "{algorithm}");
        assert!(!run.join("models/personal.safetensors").exists());
    }
}

/// Exchanges: survey, agreement, one a round, the last scores, delivery.
#[test]
fn a_round_is_one_exchange() {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", "evaluation.every=1");
    let post = room.post("states");
    over_sites(&plan.plan().unwrap(), &post, &room.path("run"), false).unwrap();
    assert_eq!(post.lock().unwrap().exchange, 2 + 5 + 1 + 1);
}

/// Who trained but answered too late is as one that was never asked.
#[test]
fn late_is_as_never_asked() {
    let room = Room::new();
    let plan = spec(
        room.0.path(),
        "{ kind = 'apfl', mixing = { adaptive = 0.5 } }",
        "federation.participation=1",
    );
    let plan = plan.plan().unwrap();
    let run = |name: &str, fate: Option<Fate>| {
        let post = room.post(&format!("states-{name}"));
        // Round 3 is the fifth exchange.
        post.lock().unwrap().fates = fate.map(|fate| ((5, 1), fate)).into_iter().collect();
        over_sites(&plan, &post, &room.path(name), false).unwrap()
    };
    let (late, lost, all) = (
        run("late", Some(Fate::Late)),
        run("lost", Some(Fate::Lost)),
        run("all", None),
    );
    assert_eq!(shown(&late), shown(&lost));
    assert_ne!(late.summary.fingerprint, all.summary.fingerprint);
    let rounds = late.rounds().unwrap();
    assert_eq!(rounds[2].skipped, ["south"]);
    assert_eq!((rounds[2].cohort, rounds[3].cohort), (3, 4));
    assert_eq!(late.clients().unwrap()[1].rounds, 4);
}

/// A site that is absent at delivery is left out and named.
#[test]
fn absent_at_delivery() {
    let room = Room::new();
    let plan = spec(
        room.0.path(),
        "{ kind = 'apfl' }",
        "federation.participation=1",
    );
    let post = room.post("states");
    post.lock().unwrap().fates.insert((9, 2), Fate::Lost);
    let run = over_sites(&plan.plan().unwrap(), &post, &room.path("run"), false).unwrap();
    assert_eq!(run.summary.skipped, ["east"]);
    assert_eq!(run.summary.clients, 3);
    let names: Vec<String> = (run.clients().unwrap().into_iter())
        .map(|client| client.client)
        .collect();
    assert_eq!(names, ["north", "south", "west"]);
    let here = one_process(
        &spec(
            room.0.path(),
            "{ kind = 'apfl' }",
            "federation.participation=1",
        )
        .plan()
        .unwrap(),
        &room.path("here"),
    );
    // Delivery changes no memory: the digests are known from the rounds.
    assert_eq!(run.summary.fingerprint, here.summary.fingerprint);
}

/// Fewer answers than `min_sites` end the run with an error that names who is missing.
#[test]
fn too_few_answers_are_an_error_with_names() {
    let room = Room::new();
    let more = "federation.participation=1\nfederation.min_sites=3";
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    let post = room.post("states");
    for client in [0, 3] {
        post.lock().unwrap().fates.insert((4, client), Fate::Lost);
    }
    let run = room.path("run");
    let error = over_sites(&plan, &post, &run, false).unwrap_err();
    let said = error.to_string();
    assert!(
        said.contains(
            "in round 2 only 2 sites gave a usable response in time, but at least 3 must"
        ) && said.contains("north, west"),
        "{said}"
    );
    // They come back, and it goes on to the bits of an undisturbed run.
    let resumed = over_sites(&plan, &post, &run, true).unwrap();
    let here = one_process(&plan, &room.path("here"));
    assert_eq!(shown(&resumed), shown(&here));
}

/// With noise of the operating system a message that comes twice gets the answer of the first
/// time (the post asserts it): one release.
#[test]
fn noise_that_cannot_be_made_again_leaves_once() {
    let room = Room::new();
    let more = "federation.privacy={ level = 'example', noise = 1.0, delta = 1e-5, clip = 1.0 }
         training.class_weights=none";
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    let run = |name: &str| {
        let post = room.post(&format!("states-{name}"));
        over_sites(&plan, &post, &room.path(name), false).unwrap()
    };
    let (one, other) = (run("one"), run("other"));
    assert_ne!(one.summary.fingerprint, other.summary.fingerprint);
    let released = std::fs::read_dir(room.path("states-one/north/released")).unwrap();
    assert!(released.count() <= 4);
}

/// A node without its state starts from w⁰ and says so.
#[test]
fn a_lost_state_is_said() {
    let room = Room::new();
    let plan = spec(
        room.0.path(),
        "{ kind = 'apfl' }",
        "federation.participation=1",
    );
    let plan = plan.plan().unwrap();
    let post = room.post("states");
    post.lock().unwrap().dies_at = Some(6);
    let run = room.path("run");
    over_sites(&plan, &post, &run, false).unwrap_err();
    post.lock().unwrap().dies_at = None;
    std::fs::remove_dir_all(room.path("states/west")).unwrap();
    over_sites(&plan, &post, &run, true).unwrap();
    let post = post.lock().unwrap();
    let lost = |note: &String| note.contains("site 'west' has lost its client state of round 3");
    assert!(post.notes.iter().any(lost), "{:?}", post.notes);
}

/// An update that is not finite, that cannot be read or is of another length is as none: the run
/// goes on without the site, and w has not seen it.
#[test]
fn what_makes_no_sense_is_as_no_answer() {
    let room = Room::new();
    let plan = spec(
        room.0.path(),
        "{ kind = 'apfl' }",
        "federation.participation=1",
    )
    .plan()
    .unwrap();
    let without = room.post("without");
    without.lock().unwrap().fates = [((3, 2), Fate::Lost)].into();
    let without = over_sites(&plan, &without, &room.path("without-run"), false).unwrap();
    let shorter = |mut bytes: Vec<u8>| {
        // Behind the update its arrays are listed: name, type and length.
        let name = bytes.windows(6).rposition(|w| w == b"\x05model").unwrap();
        bytes[name + 7] -= 1;
        bytes.split_off(4)
    };
    let not_finite = |mut bytes: Vec<u8>| {
        bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
        bytes
    };
    let cut = |mut bytes: Vec<u8>| bytes.split_off(4);
    type Forge = fn(Vec<u8>) -> Vec<u8>;
    let forgeries: [(&str, Forge); 3] = [
        ("its update has the wrong length", shorter),
        ("its update has numbers that are not finite", not_finite),
        ("its update cannot be read", cut),
    ];
    for (k, (why, forgery)) in forgeries.into_iter().enumerate() {
        let post = room.post(&format!("states-{k}"));
        post.lock().unwrap().forge = Some(Box::new(move |place, bytes| match place {
            (3, 2) => forgery(bytes),
            _ => bytes,
        }));
        let with = over_sites(&plan, &post, &room.path(&format!("run-{k}")), false).unwrap();
        assert_eq!(shown(&with), shown(&without), "{why}");
        let notes = post.lock().unwrap().notes.join("\n");
        let note = format!("site 'east' is left out in round 1: {why}");
        assert!(notes.contains(&note), "{notes}");
    }
}

/// A site keeps account of what has left it: another message for the same round is answered three
/// times, within ε, and not again. An update that came too late has left all the same.
#[test]
fn a_site_counts_what_has_left_it() {
    let room = Room::new();
    let run = |name: &str, amount: &str, fates: &[((usize, usize), Fate)]| {
        let more = format!(
            "federation.privacy={{ level = 'example', {amount}, delta = 1e-5, clip = 1.0 }}
             federation.participation=1
             training.rounds=2
             training.class_weights=none"
        );
        let plan = spec(room.0.path(), "{ kind = 'fedavg' }", &more).plan();
        let post = room.post(name);
        post.lock().unwrap().fates = fates.iter().copied().collect();
        let run = room.path(&format!("{name}-run"));
        let run = over_sites(&plan.unwrap(), &post, &run, false).unwrap();
        (run.summary.privacy.unwrap().epsilon, post)
    };
    let again = |post: &std::sync::Mutex<super::Post>| -> Vec<bool> {
        let post = post.lock().unwrap();
        let mut messages = post.seen.iter().filter(|(there, _)| there.client == 0);
        let (message, _) = messages.nth(3).unwrap(); // survey, agreement, round 1, round 2
        let node = Node::open(post.sites[0].clone(), Program::default()).unwrap();
        let other = |k: u8| {
            let mut bytes = message.bytes.clone();
            bytes[0] ^= k; // the last bits of w's first number
            node.answer(&bytes).1.is_none()
        };
        (1..=4).map(other).collect()
    };
    let (all, post) = run("noise", "noise = 1.0", &[]);
    assert_eq!(again(&post), [true, true, true, false]);
    let releases = std::fs::read_to_string(room.path("noise/north/releases")).unwrap();
    assert_eq!(releases.lines().count(), 2 + 3);
    let most = format!("noise = 1.0, epsilon = {}", all.unwrap() + 1e-6);
    let (_, post) = run("epsilon", &most, &[]);
    assert_eq!(again(&post), [false; 4]);
    let (late, _) = run("late", "noise = 1.0", &[((4, 0), Fate::Late)]);
    assert_eq!(late, all);
}
