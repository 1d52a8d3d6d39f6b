//! A server that means harm: what its strings, models and repeated requests can do at a site.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use super::{Fate, Post, Room, SITES, over_sites, spec};
use apfl::Error;
use apfl::federation::{Accept, Node, Server};
use apfl::run::Program;

/// The requests of a finished run to the first site, with its responses.
fn requests(post: &Mutex<Post>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let post = post.lock().unwrap();
    let first = post.seen.iter().filter(|(there, _)| there.client == 0);
    first
        .map(|(there, back)| (there.bytes.clone(), back.bytes.clone()))
        .collect()
}

fn open(post: &Mutex<Post>) -> Node {
    let site = post.lock().unwrap().sites[0].clone();
    Node::open(site, Program::default()).unwrap()
}

fn finished(room: &Room, algorithm: &str) -> std::sync::Arc<Mutex<Post>> {
    let plan = spec(room.0.path(), algorithm, "federation.participation=1");
    let post = room.post("states");
    over_sites(&plan.plan().unwrap(), &post, &room.path("run"), false).unwrap();
    post
}

fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() && c != '\n' && c != '\t')
}

fn files(directory: &Path) -> usize {
    fs::read_dir(directory).unwrap().count()
}

/// Every order for round 5 with another model makes another state. The site keeps the one to
/// start from, those of two checkpoints, the new one and the newest two.
#[test]
fn many_orders_leave_few_states() {
    let room = Room::new();
    let post = finished(&room, "{ kind = 'apfl' }");
    let (request, response) = &requests(&post)[2 + 4];
    let node = open(&post);
    let memories = room.path("states/north/memories");
    for k in 1..=100 {
        let mut other = request.clone();
        other[4] ^= k; // the last bits of the second number of w
        let (answer, error) = node.answer(&other);
        assert!(error.is_none(), "{error:?}");
        assert_ne!(answer, *response);
        assert!(files(&memories) <= 6, "{} states", files(&memories));
    }
    // The state that the request names is still there.
    assert_eq!(node.answer(request).0, *response);
}

/// Models one number shorter, in every request of a run: a code, and no panic.
#[test]
fn models_of_another_length_are_refused() {
    for (algorithm, name) in [
        ("{ kind = 'apfl' }", "\x05model"),
        ("{ kind = 'fedper' }", "\x05model"),
        ("{ kind = 'scaffold' }", "\x05model"),
        ("{ kind = 'hypcluster' }", "\x06models"),
    ] {
        let room = Room::new();
        let post = finished(&room, algorithm);
        let node = open(&post);
        let all = requests(&post);
        assert!(all.len() > 2 + 5, "{algorithm}");
        let mut of_length = 0;
        for (mut bytes, _) in all.into_iter().skip(2) {
            let is_name = |at: &usize| bytes[*at..].starts_with(name.as_bytes());
            let places: Vec<usize> = (0..bytes.len()).filter(is_name).collect();
            for at in places {
                bytes[at + name.len() + 1] -= 1; // after the type, the length
            }
            let (answer, error) = node.answer(&bytes.split_off(4));
            let Some(Error::Engine(text)) = &error else {
                panic!("{algorithm}: {error:?}");
            };
            let found = text.contains("numbers, this run's has");
            of_length += usize::from(found);
            assert!(found || text.contains("cannot read a message"), "{text}");
            assert!(answer.len() < 100);
        }
        // SCAFFOLD's broadcast is two arrays, which must have one length to be read.
        assert!(of_length > 0 || algorithm.contains("scaffold"));
        let log = fs::read_to_string(room.path("states/north/log")).unwrap();
        assert!(log.contains("order (it cannot carry out the request)"));
        assert!(!log.contains("panicked"), "{log}");
    }
}

/// The table is right, so the operator must not look there.
#[test]
fn a_damaged_state_is_not_a_damaged_table() {
    let room = Room::new();
    let post = finished(&room, "{ kind = 'apfl' }");
    let (request, _) = &requests(&post)[2 + 4];
    for file in fs::read_dir(room.path("states/north/memories")).unwrap() {
        fs::write(file.unwrap().path(), "damaged").unwrap();
    }
    let (_, error) = open(&post).answer(request);
    let error = error.unwrap().to_string();
    assert!(error.contains("memory-4-"), "{error}");
    let log = fs::read_to_string(room.path("states/north/log")).unwrap();
    let last = log.lines().last().unwrap();
    assert!(last.contains("UTC state (its client state"), "{last}");
    // The table itself is `data`.
    fs::write(room.path("north.csv"), "damaged").unwrap();
    open(&post).answer(request);
    let log = fs::read_to_string(room.path("states/north/log")).unwrap();
    assert!(log.contains("UTC data (its table"), "{log}");
}

#[test]
fn temporary_files_of_killed_nodes_are_removed() {
    let room = Room::new();
    let post = room.post("states");
    let state = room.path("states/north");
    drop(open(&post));
    fs::create_dir(state.join("released")).unwrap();
    fs::create_dir(state.join("run.new")).unwrap();
    let gone = [
        "agreement.json.12.tmp",
        "memories/memory-9-ab.safetensors.4711.tmp",
        "released/ab.7.tmp",
        "run.new/schema.json",
    ];
    let kept = ["notes.tmp", "memories/memory-9-ab.safetensors"];
    for name in gone.iter().chain(&kept) {
        fs::write(state.join(name), "x").unwrap();
    }
    drop(open(&post));
    for name in gone {
        assert!(!state.join(name).exists(), "{name}");
    }
    assert!(kept.iter().all(|name| state.join(name).exists()));
}

/// A version of 20 MB that clears the screen, three times.
#[test]
fn strings_of_the_server_neither_fill_the_log_nor_move_the_cursor() {
    let room = Room::new();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "");
    let other = Program {
        version: "\u{1b}[2J\n".repeat(4_000_000),
        commit: "x".into(),
    };
    for _ in 0..3 {
        let plan = plan.plan().unwrap();
        let server = Server::new(
            plan,
            other.clone(),
            room.post("states"),
            room.path("run"),
            false,
        );
        server.convene(None).unwrap_err();
    }
    let log = fs::read_to_string(room.path("states/north/log")).unwrap();
    assert!(log.len() < 10_000, "{} bytes", log.len());
    assert!(log.contains("the server runs version \\u{1b}[2J\\n") && is_plain(&log));
    let status = Node::status(&room.path("states/north")).unwrap();
    assert!(status.log.len() >= 3 && status.log.iter().all(|line| is_plain(line)));
}

/// The operator reads the proposal on a terminal.
#[test]
fn a_proposal_moves_no_cursor() {
    let room = Room::new();
    let sites = format!(
        "federation.sites=['{}', \"\\u009b2J\\u202e\"]",
        SITES.join("', '")
    );
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", &sites);
    let post = room.post("states");
    {
        let mut post = post.lock().unwrap();
        post.fates.insert((1, 4), Fate::Lost);
        post.sites[0].accept = Accept::Operator;
    }
    let plan = plan.plan().unwrap();
    let error = over_sites(&plan, &post, &room.path("run"), false).unwrap_err();
    assert!(error.to_string().contains("north: not-accepted"), "{error}");
    let proposal = fs::read_to_string(room.path("states/north/proposal.toml")).unwrap();
    assert!(proposal.contains("2J") && is_plain(&proposal), "{proposal}");
    assert!(!proposal.contains('\u{202e}'));
    // More than a megabyte is not read.
    let long = format!("data.label={}", "x".repeat(1 << 20));
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", &long);
    let post = room.post("states");
    let plan = plan.plan().unwrap();
    over_sites(&plan, &post, &room.path("run"), false).unwrap_err();
    let log = fs::read_to_string(room.path("states/south/log")).unwrap();
    assert!(log.contains("at most 1048576 are allowed"), "{log}");
}
