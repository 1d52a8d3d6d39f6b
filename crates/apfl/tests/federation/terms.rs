//! What a site agrees to, and what it refuses.

use std::sync::{Arc, Mutex};

use super::{Post, Room, SITES, over_sites, spec};
use apfl::engine::remote::SiteRequest;
use apfl::federation::{Accept, Node, Server, Site, terms_of};
use apfl::run::Program;
use apfl::spec::Spec;

fn said(room: &Room, more: &str, post: &Arc<Mutex<Post>>, run: &str) -> String {
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    match over_sites(&plan, post, &room.path(run), false) {
        Ok(_) => "done".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_operator_is_asked_first() {
    let room = Room::new();
    let post = room.post("states");
    post.lock().unwrap().sites[0].accept = Accept::Operator;
    let first = said(&room, "", &post, "one");
    assert!(first.contains("north: not-accepted"), "{first}");
    let state = room.path("states/north");
    let proposal = std::fs::read_to_string(state.join("proposal.toml")).unwrap();
    assert!(proposal.contains("[federation]"), "{proposal}");
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "")
        .plan()
        .unwrap();
    let hash = terms_of(&plan, &Program::default()).unwrap().hash();
    let other = Node::accept(&state, "0000").unwrap_err().to_string();
    assert!(other.contains(&hash), "{other}");
    Node::accept(&state, &hash).unwrap();
    assert_eq!(said(&room, "", &post, "two"), "done");
    // Other terms in the same directory are refused, whatever was accepted.
    let other = said(&room, "training.rounds=6", &post, "three");
    for site in SITES {
        assert!(
            other.contains(&format!("{site}: other-agreement")),
            "{other}"
        );
    }
    // The same terms again are not.
    assert_eq!(said(&room, "", &post, "four"), "done");
}

#[test]
fn a_file_may_hold_the_expected_hash() {
    let room = Room::new();
    let post = room.post("states");
    let file = room.path("expected");
    post.lock().unwrap().sites[2].accept = Accept::File(file.clone());
    std::fs::write(&file, "0000\n").unwrap();
    assert!(said(&room, "", &post, "one").contains("east: not-accepted"));
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "")
        .plan()
        .unwrap();
    let hash = terms_of(&plan, &Program::default()).unwrap().hash();
    std::fs::write(&file, hash + "\n").unwrap();
    assert_eq!(said(&room, "", &post, "two"), "done");
}

#[test]
fn another_program_is_refused() {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "")
        .plan()
        .unwrap();
    let other = Program {
        version: "9.9".into(),
        commit: "x".into(),
    };
    let server = Server::new(plan, other, room.post("states"), room.path("run"), false);
    let error = server.convene(None).unwrap_err().to_string();
    assert!(error.contains("west: other-program"), "{error}");
}

#[test]
fn rare_values_stay_unless_they_are_declared_or_allowed() {
    let room = Room::new();
    let file = room.path("west.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("red", "violet", 1)).unwrap();
    let post = room.post("states");
    let refused = said(&room, "", &post, "one");
    assert!(refused.contains("west: rare"), "{refused}");
    let log = std::fs::read_to_string(room.path("states/west/log")).unwrap();
    assert!(log.contains("colour") && !log.contains("violet"), "{log}");
    assert_eq!(
        said(&room, "federation.rare=send", &room.post("more"), "two"),
        "done"
    );
    let declared = "data.categories={ colour = ['red', 'green', 'blue'] }";
    assert_eq!(
        said(&room, declared, &room.post("declared"), "three"),
        "done"
    );
}

/// What is declared does not travel, and makes the same bits as in one process.
#[test]
fn what_is_declared_does_not_travel() {
    let room = Room::new();
    let more = "data.categories={ colour = ['red', 'green', 'blue'] }
         data.classes=['well', 'ill']
         data.moments={ age = { mean = 50, deviation = 17.5 }, pressure = { mean = 130.5, deviation = 25 } }
         training.class_weights=none";
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", more)
        .plan()
        .unwrap();
    let post = room.post("states");
    let there = over_sites(&plan, &post, &room.path("there"), false).unwrap();
    let here = super::one_process(&plan, &room.path("here"));
    assert_eq!(super::shown(&here), super::shown(&there));
    let post = post.lock().unwrap();
    for (_, back) in &post.seen[..SITES.len()] {
        for text in ["red", "green", "blue", "well", "ill"] {
            let found = back.bytes.windows(text.len()).any(|w| w == text.as_bytes());
            assert!(!found, "{text}");
        }
    }
}

#[test]
fn messages_that_make_no_sense_are_answered_with_a_code() {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'apfl' }", "").plan().unwrap();
    let post = room.post("states");
    over_sites(&plan, &post, &room.path("run"), false).unwrap();
    let post = post.lock().unwrap();
    let site: Site = post.sites[1].clone();
    let node = Node::open(site, Program::default()).unwrap();
    let messages = post.seen.iter().filter(|(there, _)| there.client == 1);
    for (message, _) in messages {
        for cut in [0, 1, 3, message.bytes.len() / 2, message.bytes.len() - 1] {
            let (_, error) = node.answer(&message.bytes[..cut]);
            assert!(error.is_some(), "cut to {cut} bytes");
        }
        let (_, error) = node.answer(&message.bytes[1.min(message.bytes.len() - 1)..]);
        drop(error); // a message without its first byte may be whole but for a payload
    }
}

#[test]
fn what_cannot_be_over_sites_is_refused() {
    let problems = |more: &str| {
        let text = format!(
            "data = {{ kind = 'table' }}
             federation = {{ sites = ['a', 'b'] }}
             {more}"
        );
        match Spec::parse(&text).unwrap().plan() {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    };
    assert_eq!(problems(""), "");
    let refused = [
        ("training = { schedule = 'theory' }", "training.schedule"),
        ("model = { init = 'w.safetensors' }", "model.init"),
        (
            "algorithm = { kind = 'apfl', mixing = { chosen = [0, 1] } }",
            "algorithm.mixing",
        ),
    ];
    for (more, key) in refused {
        assert!(problems(more).contains(key), "{more}: {}", problems(more));
    }
    for (text, key) in [
        ("federation = { sites = ['a', 'a'] }", "federation.sites"),
        (
            "federation = { sites = ['a', 'b'], min_sites = 3 }",
            "federation.min_sites",
        ),
        (
            "federation = { sites = ['a', 'b'], disclose = ['all'] }",
            "federation.disclose",
        ),
        ("federation = { min_sites = 2 }", "federation.min_sites"),
        ("federation = { sites = ['a', 'b'] }", "data.kind"),
        (
            "federation = { sites = ['a', 'b'], attack = 'sign-flip' }\ndata = { kind = 'table' }",
            "federation.attack",
        ),
        (
            "federation = { sites = ['a', 'b'] }\ndata = { kind = 'table', min_examples = 3 }",
            "data.min_examples",
        ),
        (
            "federation = { sites = ['a', 'b'] }\ndata = { kind = 'table', client = '' }",
            "data.client",
        ),
    ] {
        let error = Spec::parse(text).unwrap().plan().unwrap_err().to_string();
        assert!(error.contains(key), "{text}: {error}");
    }
}

/// A site whose own table has too many labels sends nothing, and a server cannot give it more
/// classes than the terms allow.
#[test]
fn labels_have_limits_at_a_site() {
    let room = Room::new();
    let file = room.path("west.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    let lines = text.lines().enumerate().map(|(k, line)| match k {
        0 => line.to_owned(),
        _ => format!("{}{k}", line.replace(",ill", ",well")),
    });
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n")).unwrap();
    let more = "data.max_classes=20\nfederation.rare=send";
    let refused = said(&room, more, &room.post("states"), "one");
    assert!(refused.contains("west: data"), "{refused}");
    let log = std::fs::read_to_string(room.path("states/west/log")).unwrap();
    assert!(log.contains("at most 20 are allowed"), "{log}");

    std::fs::write(&file, text).unwrap();
    assert_eq!(said(&room, more, &room.post("good"), "two"), "done");
    let agreement = std::fs::read_to_string(room.path("two/agreement.json")).unwrap();
    let mut agreement: serde_json::Value = serde_json::from_str(&agreement).unwrap();
    let names: Vec<String> = (0..21).map(|k| format!("k{k}")).collect();
    agreement["schema"]["classes"] = names.into();
    agreement["classes"] = vec![1; 21].into();
    let request = SiteRequest::Agree(agreement.to_string().into_bytes());
    let tail = postcard::to_stdvec(&request).unwrap();
    let length = (tail.len() as u32).to_le_bytes();
    let post = room.post("fresh");
    let site = post.lock().unwrap().sites[0].clone();
    let node = Node::open(site, Program::default()).unwrap();
    let error = node.answer(&[&tail[..], &length].concat()).1.unwrap();
    let error = error.to_string();
    assert!(
        error.contains("the agreement's classes") && error.contains("found 21 classes"),
        "{error}"
    );
}

/// A simulation's noise can be removed by the server: the operator reads so before accepting.
#[test]
fn a_proposal_warns_of_noise_that_the_server_knows() {
    let proposal = |name: &str, seed: &str| {
        let room = Room::new();
        let post = room.post(name);
        post.lock().unwrap().sites[0].accept = Accept::Operator;
        let more = format!(
            "federation.privacy={{ level = 'example', noise = 1.0, clip = 1.0{seed} }}
             training.class_weights=none"
        );
        assert!(said(&room, &more, &post, "run").contains("not-accepted"));
        std::fs::read_to_string(room.path(name).join("north/proposal.toml")).unwrap()
    };
    let simulated = proposal("simulated", ", noise_seed = 'seed'");
    assert!(
        simulated.contains("# WARNING: federation.privacy.noise_seed = \"seed\""),
        "{simulated}"
    );
    let private = proposal("private", "");
    assert!(private.contains("[federation.privacy]") && !private.contains("WARNING"));
}

/// The noise for an ε is searched at the agreement, kept, and used from then on.
#[test]
fn the_noise_of_an_epsilon_is_searched_once() {
    let room = Room::new();
    let more =
        "federation.privacy={ level = 'example', epsilon = 20.0, clip = 1.0, noise_seed = 'seed' }
         federation.participation=1
         training.rounds=2
         training.class_weights=none";
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", more)
        .plan()
        .unwrap();
    let run = |name: &str, other: Option<&str>| {
        let post = room.post(name);
        let file = room.path(&format!("{name}/north/noise"));
        let (kept, other) = (file.clone(), other.map(str::to_owned));
        post.lock().unwrap().forge = Some(Box::new(move |place, bytes| {
            if let (Some(other), (2, 0)) = (&other, place) {
                let text = std::fs::read_to_string(&kept).unwrap();
                let (hash, _) = text.split_once(' ').unwrap();
                std::fs::write(&kept, format!("{hash} {other}\n")).unwrap();
            }
            bytes
        }));
        let run = over_sites(&plan, &post, &room.path(&format!("{name}-run")), false).unwrap();
        (run.summary, std::fs::read_to_string(file).unwrap())
    };
    let (found, kept) = run("found", None);
    let noise: f64 = kept.trim().split_once(' ').unwrap().1.parse().unwrap();
    assert_eq!(noise, found.privacy.unwrap().noise);
    // What is kept is what is used: another number changes the run, no number is searched again.
    let (other, _) = run("other", Some(&format!("{}", 2.0 * noise)));
    assert_ne!(other.fingerprint, found.fingerprint);
    for damaged in ["nan", "-1", "0.001", "torn"] {
        let (again, text) = run(damaged, Some(damaged));
        assert_eq!(
            (again.fingerprint, text),
            (found.fingerprint.clone(), kept.clone())
        );
    }
}
