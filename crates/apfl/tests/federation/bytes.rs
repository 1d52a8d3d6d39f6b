//! What travels: no feature value, no cell, no vᵢ and no αᵢ.

use super::{Room, SITES, over_sites, spec};
use apfl::federation::Message;
use apfl::files::tensors::TensorFile;

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack
        .windows(needle.len())
        .any(|window| window == needle)
}

/// A number in every way it could be written.
fn spellings(text: &str) -> Vec<Vec<u8>> {
    let x: f64 = text.parse().unwrap();
    vec![
        text.as_bytes().to_vec(),
        x.to_le_bytes().to_vec(),
        x.to_be_bytes().to_vec(),
        (x as f32).to_le_bytes().to_vec(),
        (x as f32).to_be_bytes().to_vec(),
    ]
}

#[test]
fn training_messages_hold_no_data_and_nothing_personal() {
    let room = Room::new();
    let more = "federation.participation=1\nfederation.disclose=[]\ndata.standardize=false
         model={ kind = 'linear' }\ntraining.learning_rate=2e-4\ncheckpoint.every=0";
    let algorithm = "{ kind = 'apfl', mixing = { adaptive = 0.37 } }";
    let plan = spec(room.0.path(), algorithm, more).plan().unwrap();
    let post = room.post("states");
    // A site keeps few states: a copy of every one, as soon as it is written.
    let (states, copies) = (room.path("states"), room.path("copies"));
    let keep = move |site: &str| {
        let copies = copies.join(site);
        std::fs::create_dir_all(&copies).unwrap();
        for entry in std::fs::read_dir(states.join(site).join("memories")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copies.join(entry.file_name())).unwrap();
        }
    };
    post.lock().unwrap().forge = Some(Box::new(move |(_, client), bytes| {
        keep(SITES[client]);
        bytes
    }));
    let run = over_sites(&plan, &post, &room.path("run"), false).unwrap();
    // Nothing personal came to the server at all.
    assert!(run.clients().unwrap().is_empty());
    assert_eq!(run.summary.mixing, None);
    assert!(
        run.rounds()
            .unwrap()
            .iter()
            .all(|round| round.mixing.is_none())
    );
    let post = post.lock().unwrap();
    // Survey and agreement are the first two messages of each.
    let work: Vec<&(Message, Message)> = post.seen.iter().skip(2 * SITES.len()).collect();
    assert_eq!(work.len(), (5 + 1 + 1) * SITES.len());
    let all: Vec<&[u8]> = (work.iter())
        .flat_map(|(there, back)| [&there.bytes[..], &back.bytes[..]])
        .collect();
    let absent = |needle: &[u8], what: &str| {
        let found = all.iter().position(|bytes| contains(bytes, needle));
        assert_eq!(found, None, "{what} is in a message");
    };
    for site in SITES {
        let table = std::fs::read_to_string(room.path(&format!("{site}.csv"))).unwrap();
        for line in table.lines().skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            for number in cells[..2].iter().filter(|cell| !cell.is_empty()) {
                let spelled = spellings(number).into_iter();
                spelled.for_each(|bytes| absent(&bytes, number));
            }
        }
        for text in [
            "red", "green", "blue", "smokes", "pressure", "colour", "well",
        ] {
            absent(text.as_bytes(), text);
        }
        // What the client remembers after every round: v and α.
        let (mut seen, mut learned) = (0, 0);
        for entry in std::fs::read_dir(room.path(&format!("copies/{site}"))).unwrap() {
            let mut file = TensorFile::open(&entry.unwrap().path()).unwrap();
            for tensor in file.entries().unwrap() {
                let bytes = file.read(&tensor).unwrap();
                match tensor.name.rsplit('/').next().unwrap() {
                    "alpha" => {
                        let alpha = f32::from_le_bytes(bytes[..].try_into().unwrap());
                        assert!(alpha > 0.0 && alpha < 1.0, "{alpha}");
                        // In the first round v = w, and α does not move.
                        if alpha != 0.37 {
                            learned += 1;
                            absent(&bytes, "α");
                        }
                    }
                    "v" => {
                        let pieces = bytes.chunks_exact(8).filter(|piece| **piece != [0; 8]);
                        pieces.for_each(|piece| absent(piece, "v"));
                    }
                    other => panic!("a memory has {other}"),
                }
                seen += 1;
            }
        }
        assert!(seen >= 8, "{seen} arrays of {site}'s memories");
        assert!(learned >= 3, "{learned} learned α of {site}");
    }
    // The models are at the site, and a run directory can be made of it.
    let run = apfl::run::run_dir::FinishedRun::open(&room.path("states/east/run")).unwrap();
    let personal = run.model(apfl::WhichModel::Personal, "east").unwrap();
    let pieces = personal.params().chunks_exact(4);
    for piece in pieces.filter(|piece| piece.iter().all(|x| *x != 0.0)) {
        let bytes: Vec<u8> = piece.iter().flat_map(|x| x.to_le_bytes()).collect();
        absent(&bytes, "the personal model");
    }
}

/// A text cell in a column of numbers: the server learns a code and a name, not the cell.
#[test]
fn a_broken_table_is_a_code() {
    let room = Room::new();
    let file = room.path("south.csv");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for row in [4, 5, 6, 7, 8, 9, 10, 11] {
        lines[row] = lines[row].replacen(',', ",Zanzibar", 1);
    }
    std::fs::write(&file, lines.join("\n")).unwrap();
    let plan = spec(room.0.path(), "{ kind = 'fedavg' }", "federation.rare=send");
    let post = room.post("states");
    let error = over_sites(&plan.plan().unwrap(), &post, &room.path("run"), false).unwrap_err();
    let said = error.to_string();
    assert!(said.contains("south: data (its table"), "{said}");
    let post = post.lock().unwrap();
    let told = format!("{said}{:?}", post.notes);
    assert!(!told.contains("Zanzibar"), "{told}");
    let back = |(_, back): &(Message, Message)| !contains(&back.bytes, b"Zanzibar");
    assert!(post.seen.iter().all(back), "the cell is in a message");
    let log = std::fs::read_to_string(room.path("states/south/log")).unwrap();
    assert!(
        log.contains("Zanzibar") && log.contains("pressure"),
        "{log}"
    );
}
