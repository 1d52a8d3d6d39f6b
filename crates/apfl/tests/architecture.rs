//! Who may know whom: reads the source of the crates and fails on a forbidden arrow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every room and the rooms it may use. A room is a file or a folder of `src`; the
/// files of `store` are rooms of their own, for tensors are below the spec and the run
/// directory above it. Each room stands below those it uses, so there is no cycle.
const ROOMS: &[(&str, &[&str])] = &[
    ("params", &[]),
    ("choice", &[]),
    ("rng", &[]),
    ("schedule", &[]),
    ("moments", &[]),
    ("metrics", &["moments"]),
    ("settings", &[]),
    ("error", &["settings"]),
    ("pack", &["params"]),
    ("privacy", &["error", "params", "rng", "settings"]),
    ("digest", &["error", "pack"]),
    ("store::private", &["error"]),
    ("store::time", &[]),
    ("store::lock", &["error", "store::time"]),
    ("store::atomic", &["error", "store::private"]),
    ("store::slots", &["error"]),
    (
        "store::releases",
        &["error", "privacy", "store::atomic", "store::private"],
    ),
    ("data", &["digest", "error", "moments", "rng", "settings"]),
    (
        "model",
        &["data", "error", "metrics", "params", "rng", "settings"],
    ),
    (
        "store::tensors",
        &[
            "error",
            "model",
            "pack",
            "params",
            "store::atomic",
            "store::slots",
        ],
    ),
    (
        "store::archive",
        &["digest", "error", "pack", "store::atomic", "store::tensors"],
    ),
    (
        "site",
        &[
            "choice", "data", "metrics", "model", "params", "privacy", "rng", "schedule",
        ],
    ),
    (
        "predict",
        &[
            "data",
            "error",
            "metrics",
            "model",
            "params",
            "site",
            "store::tensors",
        ],
    ),
    (
        "curvature",
        &[
            "data", "error", "model", "params", "rng", "schedule", "site",
        ],
    ),
    (
        "algorithm",
        &[
            "choice", "model", "pack", "params", "rng", "settings", "site",
        ],
    ),
    ("aggregation", &["error", "pack", "params", "settings"]),
    (
        "attack",
        &["aggregation", "data", "error", "rng", "settings"],
    ),
    ("memories", &["error", "pack", "store::slots"]),
    (
        "clients",
        &[
            "choice",
            "algorithm",
            "data",
            "digest",
            "error",
            "memories",
            "metrics",
            "model",
            "pack",
            "params",
            "privacy",
            "rng",
            "site",
            "store::archive",
            "store::slots",
        ],
    ),
    (
        "engine",
        &[
            "choice",
            "algorithm",
            "clients",
            "data",
            "digest",
            "error",
            "metrics",
            "pack",
            "params",
            "site",
            "store::archive",
            "store::slots",
        ],
    ),
    (
        "training",
        &[
            "choice",
            "aggregation",
            "algorithm",
            "attack",
            "clients",
            "digest",
            "engine",
            "error",
            "metrics",
            "pack",
            "params",
            "privacy",
            "rng",
            "site",
            "store::archive",
        ],
    ),
    (
        "spec",
        &[
            "choice",
            "aggregation",
            "algorithm",
            "attack",
            "clients",
            "curvature",
            "data",
            "engine",
            "error",
            "model",
            "params",
            "privacy",
            "rng",
            "schedule",
            "settings",
            "site",
            "store::tensors",
            "training",
        ],
    ),
    (
        "store::run_dir",
        &[
            "choice",
            "clients",
            "data",
            "error",
            "metrics",
            "model",
            "params",
            "predict",
            "privacy",
            "settings",
            "site",
            "spec",
            "store::atomic",
            "store::lock",
            "store::private",
            "store::tensors",
            "training",
        ],
    ),
    (
        "store::manifest",
        &[
            "digest",
            "error",
            "spec",
            "store::archive",
            "store::atomic",
            "training",
        ],
    ),
    (
        "store::checkpoint",
        &[
            "digest",
            "error",
            "pack",
            "store::atomic",
            "store::archive",
            "store::manifest",
            "store::private",
            "store::tensors",
            "training",
        ],
    ),
    (
        "run",
        &[
            "choice",
            "aggregation",
            "algorithm",
            "attack",
            "clients",
            "data",
            "digest",
            "engine",
            "error",
            "metrics",
            "model",
            "params",
            "predict",
            "privacy",
            "rng",
            "schedule",
            "site",
            "spec",
            "store::checkpoint",
            "store::lock",
            "store::manifest",
            "store::private",
            "store::releases",
            "store::run_dir",
            "training",
        ],
    ),
    (
        "store",
        &[
            "store::atomic",
            "store::checkpoint",
            "store::archive",
            "store::lock",
            "store::manifest",
            "store::private",
            "store::run_dir",
            "store::slots",
            "store::tensors",
            "store::time",
        ],
    ),
    (
        "federation",
        &[
            "choice",
            "clients",
            "data",
            "digest",
            "engine",
            "error",
            "model",
            "privacy",
            "run",
            "site",
            "spec",
            "store",
            "store::archive",
            "store::atomic",
            "store::lock",
            "store::private",
            "training",
        ],
    ),
    ("advise", &["error", "metrics", "store::run_dir"]),
    (
        "join",
        &[
            "choice",
            "algorithm",
            "data",
            "error",
            "metrics",
            "model",
            "params",
            "rng",
            "site",
        ],
    ),
];

/// The modules of the other crates in ranks, one rank a line: a module may use those of the
/// lines above its own. The program's last rank is its commands, so no command uses another.
const RANKS: &[(&str, &[&str])] = &[
    (
        "apfl-report",
        &["chart statistics table words", "advise", "report"],
    ),
    ("apfl-paper", &["grid", "reproduce theory"]),
    (
        "apfl-cli",
        &[
            "directory estimate kinds npz output",
            "args guard memory progress signals summary",
            "cluster served",
            "advise bench check data evaluate export init join predict privacy report reproduce \
             run site sweep theory",
        ],
    ),
];

fn source() -> PathBuf {
    source_of("apfl")
}

fn source_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(name)
        .join("src")
}

/// Every source file of the library.
fn files() -> BTreeMap<String, String> {
    files_of("apfl")
}

/// Every source file of a crate with its path within `src`, parts joined by `/`.
fn files_of(name: &str) -> BTreeMap<String, String> {
    fn collect(directory: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                collect(&path, &format!("{prefix}{name}/"), files);
            } else if name.ends_with(".rs") {
                files.insert(
                    format!("{prefix}{name}"),
                    fs::read_to_string(&path).unwrap(),
                );
            }
        }
    }
    let mut files = BTreeMap::new();
    collect(&source_of(name), "", &mut files);
    assert!(files.len() > 10, "the search finds what is there");
    files
}

/// The room of a module path such as `store::tensors::read_one` or `data::Batch`.
fn room_of(parts: &[&str]) -> String {
    let file = parts.iter().take(2).copied().collect::<Vec<_>>().join("::");
    match ROOMS.iter().any(|(room, _)| *room == file) {
        true => file,
        false => parts[0].to_string(),
    }
}

/// The code of a file: without comments, and without its tests, which may look around.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]").next().unwrap_or_default();
    let line = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    body.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The rooms that the code names: `crate::a::b`, `super::b` within a folder of rooms,
/// and each entry of `crate::{a::b, c}`.
fn uses(module: &[&str], code: &str) -> BTreeSet<String> {
    let path = |text: &str| -> Vec<String> {
        let end = text
            .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
            .unwrap_or(text.len());
        text[..end].split("::").map(str::to_owned).collect()
    };
    let mut found = BTreeSet::new();
    for (start, prefix) in code.match_indices("crate::") {
        let rest = &code[start + prefix.len()..];
        let entries = match rest.strip_prefix('{') {
            None => vec![path(rest)],
            Some(group) => {
                let group = group.split(';').next().unwrap_or_default();
                group.split(',').map(|entry| path(entry.trim())).collect()
            }
        };
        for entry in entries.iter().filter(|entry| !entry[0].is_empty()) {
            found.insert(room_of(
                &entry.iter().map(String::as_str).collect::<Vec<_>>(),
            ));
        }
    }
    // super:: leaves a file for its folder; one that is deeper stays in its room.
    if let [folder, file] | [folder, file, "mod"] = module
        && *file != "mod"
    {
        for (start, prefix) in code.match_indices("super::") {
            let entry = path(&code[start + prefix.len()..]);
            found.insert(room_of(&[folder, &entry[0]]));
        }
    }
    found
}

#[test]
fn every_room_knows_only_whom_it_may() {
    let rooms: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut forbidden = Vec::new();
    for (name, text) in files() {
        if name == "lib.rs" {
            continue; // the map of the house
        }
        let module: Vec<&str> = name.trim_end_matches(".rs").split('/').collect();
        let room = room_of(&module);
        let Some(allowed) = rooms.get(room.as_str()) else {
            forbidden.push(format!(
                "{name}: a new room; give '{room}' its place in ROOMS"
            ));
            continue;
        };
        for used in uses(&module, &code(&text)) {
            if used != room && !allowed.contains(&used.as_str()) {
                forbidden.push(format!("{name}: '{room}' may not use '{used}'"));
            }
        }
    }
    assert!(forbidden.is_empty(), "\n{}", forbidden.join("\n"));
}

#[test]
fn the_table_itself_has_no_cycle() {
    let mut below = BTreeSet::new();
    for (room, uses) in ROOMS.iter().copied() {
        for used in uses {
            assert!(
                below.contains(used),
                "'{room}' uses '{used}', which stands above it"
            );
        }
        assert!(below.insert(room), "'{room}' stands twice");
    }
}

/// A module of another crate uses only what stands above it.
#[test]
fn the_other_crates_have_ranks() {
    let mut forbidden = Vec::new();
    for (name, ranks) in RANKS {
        let ranks = ranks.iter().enumerate();
        let ranks: BTreeMap<&str, usize> = ranks
            .flat_map(|(rank, modules)| modules.split_whitespace().map(move |m| (m, rank)))
            .collect();
        let mut seen = BTreeSet::new();
        for (file, text) in files_of(name) {
            if file == "lib.rs" || file == "main.rs" {
                continue;
            }
            let path: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
            let module = path[0];
            let Some(rank) = ranks.get(module) else {
                forbidden.push(format!("{name}: give '{module}' its rank in RANKS"));
                continue;
            };
            seen.insert(module.to_owned());
            for used in uses(&path, &code(&text)) {
                if used != module && ranks.get(&*used).is_some_and(|of_used| of_used >= rank) {
                    forbidden.push(format!("{name}, {file}: '{module}' may not use '{used}'"));
                }
            }
        }
        let stale = ranks.keys().filter(|module| !seen.contains(**module));
        forbidden.extend(stale.map(|module| format!("{name}: there is no module '{module}'")));
    }
    assert!(forbidden.is_empty(), "\n{}", forbidden.join("\n"));
}

#[test]
fn arrows_are_seen_however_they_are_written() {
    let seen = |module: &[&str], text: &str| {
        uses(module, &code(text))
            .into_iter()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        seen(&["site"], "use crate::data::{Batch, FeatureView};"),
        "data"
    );
    assert_eq!(
        seen(&["site"], "use crate::{data::Batch,\n rng};"),
        "data rng"
    );
    assert_eq!(
        seen(&["site"], "let x = crate::store::tensors::read();"),
        "store::tensors"
    );
    for module in [&["store", "checkpoint"][..], &["store", "run_dir", "mod"]] {
        assert_eq!(seen(module, "use super::atomic::X;"), "store::atomic");
    }
    assert_eq!(
        seen(&["data", "table"], "use super::partition::iid;"),
        "data"
    );
    let hidden = "// crate::spec\nfn f() {}\n#[cfg(test)]\nuse crate::spec::Spec;";
    assert_eq!(seen(&["site"], hidden), "");
}

/// The program and the Python module alone speak to a person.
#[test]
fn the_libraries_never_print() {
    for library in ["apfl", "apfl-report", "apfl-paper"] {
        for (name, text) in files_of(library) {
            for word in ["println!", "eprintln!", "print!", "eprint!", "dbg!"] {
                assert!(!code(&text).contains(word), "{library}, {name} has {word}");
            }
        }
    }
}

/// `cargo fmt` finds files by their `mod` lines and does not look into macros, such as the
/// list of algorithms.
#[test]
fn files_that_a_macro_declares_are_formatted_too() {
    let files = files();
    let paths = files.keys().map(|name| source().join(name));
    let rustfmt = Command::new("rustfmt")
        .args(["--check", "--edition", "2024"])
        .args(paths)
        .output();
    match rustfmt {
        Err(e) => println!("SKIPPED: rustfmt cannot be started: {e}"),
        Ok(output) => assert!(
            output.status.success(),
            "rustfmt --edition 2024 FILE formats it:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

#[test]
fn unsafe_code_is_in_the_kernels_alone() {
    let mut kernels = 0;
    for (name, text) in files() {
        let code = code(&text);
        let words = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        let count = words.filter(|word| *word == "unsafe").count();
        if name.starts_with("model/kernels") {
            kernels += count;
        } else {
            assert_eq!(count, 0, "{name} has unsafe code");
        }
    }
    assert!(kernels > 0, "the search finds what is there");
}

/// Every file that the documents name in backticks is there.
#[test]
fn documents_name_files_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let rooms = [
        "",
        "crates/apfl",
        "crates/apfl/src",
        "crates/apfl-report/src",
        "crates/apfl-paper/src",
        "crates/apfl-cli/src",
    ];
    let rooms = rooms.map(|room| root.join(room));
    let example = "crates/apfl/examples/own_algorithm.rs";
    let mut named = 0;
    for document in [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "PAPER.md",
        "README.md",
        example,
    ] {
        let text = fs::read_to_string(root.join(document)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let endings = [".rs", ".sh", ".md", ".py"];
            let is_file = endings.iter().any(|ending| word.ends_with(ending));
            if !is_file || word.contains([' ', '*', '{', '<', '…']) {
                continue;
            }
            named += 1;
            let word = word.trim_start_matches("./");
            let there = rooms.iter().any(|room| room.join(word).exists());
            assert!(there, "{document} names {word}, which is not there");
        }
    }
    assert!(named > 10, "the search finds what is there");
}
