//! Tests `apfl data` with a local server as the network.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::program::{fails, ok};
use crate::published_data::folder as published;

/// Serves requests by path while the test runs. A body shorter than the announced length simulates a
/// broken connection.
fn serve(answer: impl Fn(&str) -> (u16, usize, Vec<u8>) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let request = lines.next().unwrap().unwrap();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|l| !l.is_empty()))
            {}
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let (status, length, body) = answer(&path);
            let head = format!(
                "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
            );
            // The program may hang up as soon as it has seen enough.
            let _ = stream.write_all(head.as_bytes());
            let _ = stream.write_all(&body);
        }
    });
    address
}

fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn list_names_all_data_sets() {
    let data = tempfile::tempdir().unwrap();
    let text = ok(data.path(), &["data", "list"]);
    for name in ["mnist", "qmnist", "femnist", "cifar10", "leaf"] {
        assert!(text.lines().any(|line| line.starts_with(name)), "{text}");
    }
    assert!(text.contains(&data.path().display().to_string()));
    let json = ok(data.path(), &["data", "list", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["data"][0]["here"], "no");
    // 9912422 + 28881 + 1648877 + 4542
    assert_eq!(json["data"][0]["bytes"], 11_594_722);
}

#[test]
fn a_wrong_request_is_refused() {
    let data = tempfile::tempdir().unwrap();
    let printed = fails(data.path(), &["data", "get", "minst"], 2);
    assert!(printed.contains("did you mean mnist?"), "{printed}");
    let printed = fails(data.path(), &["data", "get", "leaf"], 1);
    assert!(printed.contains("TalwalkarLab/leaf"), "{printed}");
    let printed = fails(data.path(), &["data", "get", "femnist"], 1);
    assert!(printed.contains("--from DIR"), "{printed}");
    let printed = fails(
        data.path(),
        &["data", "get", "mnist", "--from", "nowhere"],
        1,
    );
    assert!(printed.contains("there is no such folder"), "{printed}");
}

#[test]
fn broken_mirrors_leave_no_file() {
    let data = tempfile::tempdir().unwrap();
    let page = b"<!DOCTYPE html><html>Please log in</html>".to_vec();
    let html = serve(move |_| (200, page.len(), page.clone()));
    let gone = serve(|_| (404, 0, Vec::new()));
    // As long as the real file, but zeros; and one that breaks off.
    let zeros = serve(|_| (200, 9_912_422, vec![0; 9_912_422]));
    let broken = serve(|_| (200, 9_912_422, vec![0; 1000]));
    let endless = serve(|_| (200, 20_000_000, vec![0; 20_000_000]));
    let nobody = "http://127.0.0.1:1".to_string();
    let mut args = vec!["data", "get", "mnist"];
    for mirror in [&html, &gone, &zeros, &broken, &endless, &nobody] {
        args.extend(["--mirror", mirror]);
    }
    let printed = fails(data.path(), &args, 1);
    for expected in [
        "the file has 41 bytes, should have 9912422",
        "404",
        "the file has the MD5",
        "the file has 9912423 bytes",
        "127.0.0.1:1/train-images-idx3-ubyte.gz",
        "no incomplete file was left",
    ] {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    assert!(!data.path().join("mnist").exists());
    let archive = format!("{html}/cifar-10-binary.tar.gz");
    let printed = fails(
        data.path(),
        &["data", "get", "cifar10", "--mirror", &archive],
        1,
    );
    assert!(
        printed.contains("is not a complete .tar.gz file"),
        "{printed}"
    );
    assert!(!data.path().join("cifar10").exists());
}

#[test]
fn from_a_folder_with_wrong_files_nothing_is_copied() {
    let data = tempfile::tempdir().unwrap();
    let from = data.path().join("downloads");
    fs::create_dir(&from).unwrap();
    fs::write(from.join("t10k-labels-idx1-ubyte.gz"), "half").unwrap();
    // What a process that died has left is cleared away.
    let folder = data.path().join("mnist");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("t10k-labels-idx1-ubyte.gz.999999999.tmp"), "ha").unwrap();
    let from = from.display().to_string();
    let printed = fails(data.path(), &["data", "get", "mnist", "--from", &from], 1);
    assert!(
        printed.contains("has 4 bytes, should have 4542"),
        "{printed}"
    );
    assert!(
        printed.contains("not there: train-images-idx3-ubyte.gz"),
        "{printed}"
    );
    assert!(!folder.exists());
}

#[test]
fn mnist_comes_from_a_mirror_and_stays() {
    let Some(mnist) = published("mnist") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("mnist");
    let served = mnist.clone();
    let mirror = serve(
        move |path| match fs::read(served.join(path.trim_start_matches('/'))) {
            Ok(bytes) => (200, bytes.len(), bytes),
            Err(_) => (404, 0, Vec::new()),
        },
    );
    let gone = serve(|_| (404, 0, Vec::new()));
    let args = [
        "data", "get", "mnist", "--mirror", &gone, "--mirror", &mirror,
    ];
    let text = ok(data.path(), &args);
    for md5 in [
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ] {
        assert!(text.contains(md5), "{text}");
    }
    assert_eq!(names(&folder).len(), 4);
    let text = ok(data.path(), &["data", "get", "mnist", "--mirror", &gone]);
    assert!(text.contains("was there already"), "{text}");
    // A file that was damaged is fetched again, and no other.
    let labels = folder.join("train-labels-idx1-ubyte.gz");
    let mut bytes = fs::read(&labels).unwrap();
    bytes[100] ^= 1;
    fs::write(&labels, &bytes).unwrap();
    let printed = fails(data.path(), &["data", "get", "mnist", "--mirror", &gone], 1);
    assert!(printed.contains("404"), "{printed}");
    let from = mnist.display().to_string();
    ok(data.path(), &["data", "get", "mnist", "--from", &from]);
    assert_eq!(
        fs::read(&labels).unwrap(),
        fs::read(mnist.join("train-labels-idx1-ubyte.gz")).unwrap()
    );
    let list = ok(data.path(), &["data", "list"]);
    assert!(
        list.lines()
            .any(|l| l.starts_with("mnist") && l.contains("yes"))
    );
}

/// A file larger than the limit fails to be written as on a full disk.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_nothing() {
    let Some(mnist) = published("mnist") else {
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let script = format!(
        "trap '' XFSZ; ulimit -f 64; exec '{}' data get mnist --from '{}'",
        env!("CARGO_BIN_EXE_apfl"),
        mnist.display()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .env("APFL_DATA", data.path())
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(
        printed.contains("train-images-idx3-ubyte.gz: cannot write"),
        "{printed}"
    );
    assert!(!data.path().join("mnist").exists());
}

#[test]
fn inspect_shows_saves_and_draws() {
    let data = tempfile::tempdir().unwrap();
    let at = data.path();
    let mut csv = "x,label\n".to_string();
    (0..40).for_each(|k| csv += &format!("{k},{}\n", ["hen", "c&t"][k % 2]));
    fs::write(at.join("t.csv"), csv).unwrap();
    fs::write(
        at.join("s.toml"),
        "[data]\nkind = 'table'\npath = 't.csv'\nclient = ''\nclients = 2\n\
         partition = { kind = 'stripe', classes = 1 }\n[training]\nrounds = 2",
    )
    .unwrap();
    let args = [
        "data", "inspect", "s.toml", "--save", "p.json", "--svg", "p.svg",
    ];
    let text = ok(at, &args);
    // Client 0 has 20 c&t, 16 of them to train on: shares (1, 0) against (½, ½).
    let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row, ["0", "16", "4", "20", "0", "1.00"]);
    assert!(
        text.contains("label divergence       1.00 to 1.00"),
        "{text}"
    );
    let svg = fs::read_to_string(at.join("p.svg")).unwrap();
    assert_eq!(svg.matches("<circle").count(), 2);
    assert!(svg.contains("c&amp;t") && !svg.contains("c&t"));

    // A run on the saved partition is the run itself, and names the file's checksum.
    let summary = |args: &[&str]| -> serde_json::Value {
        serde_json::from_str(&ok(at, &[&["run", "s.toml", "--json"], args].concat())).unwrap()
    };
    let own = summary(&["--out", "a"]);
    fs::write(
        at.join("s.toml"),
        "[data]\nkind = 'table'\npath = 't.csv'\nclient = ''\n\
         partition = { kind = 'file', path = 'p.json' }\n[training]\nrounds = 2",
    )
    .unwrap();
    let saved = summary(&["--out", "b"]);
    assert_eq!(own["fingerprint"], saved["fingerprint"]);
    let environment = fs::read_to_string(at.join("b/environment.json")).unwrap();
    assert!(environment.contains("p.json"), "{environment}");
    // Who has what is on record either way: by the checksum of the file it was saved to.
    let digest = apfl::digest::sha256_of(&fs::read(at.join("p.json")).unwrap());
    for run in ["a", "b"] {
        let text = fs::read_to_string(at.join(run).join("environment.json")).unwrap();
        let environment: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(environment["partition"], digest.as_str());
    }

    fs::write(at.join("s.toml"), "[data]\nkind = 'synthetic'").unwrap();
    let printed = fails(at, &["data", "inspect", "s.toml", "--save", "q.json"], 2);
    assert!(printed.contains("names its clients itself"), "{printed}");
}
