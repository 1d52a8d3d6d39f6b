//! Who may know whom: reads the source of the crates and fails on a forbidden arrow.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules of each crate in ranks, one rank a line: a module may use those of the lines
/// above its own. A module is a file or a folder of `src`; the files of `files` are modules of
/// their own, because tensors know models and locks do not. The program's last rank is its
/// commands, so no command uses another.
const RANKS: &[(&str, &[&str])] = &[
    (
        "apfl",
        &[
            "choice files::time moments params quote rng schedule settings",
            "error metrics pack",
            "aggregation digest files::lock files::private files::slots privacy",
            "client_states data files::atomic",
            "attack model",
            "files::tensors",
            "files::archive local_client",
            "files",
            "algorithm curvature predict",
            "clients",
            "engine",
            "training",
            "spec",
            "run",
            "advise federation join",
        ],
    ),
    (
        "apfl-report",
        &["chart format statistics table", "advise", "report"],
    ),
    ("apfl-paper", &["grid", "reproduce theory"]),
    (
        "apfl-cli",
        &[
            "directory estimate kinds npz output",
            "args guard memory progress signals small_mixing summary",
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

/// Returns the module of a path such as `files::tensors::read_one` or `data::Batch`: `files`
/// is a folder of modules, every other folder is one module.
fn module_of(parts: &[&str]) -> String {
    match parts {
        ["files", file, ..] if file.starts_with(char::is_lowercase) && *file != "mod" => {
            let is_function = !source().join("files").join(format!("{file}.rs")).exists();
            if is_function {
                "files".into()
            } else {
                format!("files::{file}")
            }
        }
        [first, ..] => (*first).to_string(),
        [] => String::new(),
    }
}

/// The code of a file: without comments, and without its tests, which may look around.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]").next().unwrap_or_default();
    let line = |line: &str| line.split("//").next().unwrap_or_default().to_string();
    body.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the modules that the code names: `crate::a::b`, `super::b` within `files`,
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
            found.insert(module_of(
                &entry.iter().map(String::as_str).collect::<Vec<_>>(),
            ));
        }
    }
    // super:: leaves a file for its folder; a deeper file stays in its module.
    if let [folder @ "files", file] | [folder @ "files", file, "mod"] = module
        && *file != "mod"
    {
        for (start, prefix) in code.match_indices("super::") {
            let entry = path(&code[start + prefix.len()..]);
            found.insert(module_of(&[folder, &entry[0]]));
        }
    }
    found
}

/// A module uses only what stands above it.
#[test]
fn modules_use_only_lower_ranks() {
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
            let module = &*module_of(&path);
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
fn the_page_has_the_ranks_of_the_library() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let page = fs::read_to_string(page).unwrap();
    let (_, ranks) = RANKS[0];
    assert!(
        page.contains(&format!("\n{}\n", ranks.join("\n"))),
        "give ARCHITECTURE.md the ranks of this test:\n{}",
        ranks.join("\n")
    );
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
        seen(&["local_client"], "use crate::data::{Batch, FeatureView};"),
        "data"
    );
    assert_eq!(
        seen(&["local_client"], "use crate::{data::Batch,\n rng};"),
        "data rng"
    );
    assert_eq!(
        seen(&["local_client"], "let x = crate::files::tensors::read();"),
        "files::tensors"
    );
    for module in [&["files", "tensors"][..], &["files", "slots", "mod"]] {
        assert_eq!(seen(module, "use super::atomic::X;"), "files::atomic");
    }
    assert_eq!(seen(&["data", "table"], "use super::partition::iid;"), "");
    let hidden = "// crate::spec\nfn f() {}\n#[cfg(test)]\nuse crate::spec::Spec;";
    assert_eq!(seen(&["local_client"], hidden), "");
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
    let folders = [
        "",
        "crates/apfl",
        "crates/apfl/src",
        "crates/apfl-report/src",
        "crates/apfl-paper/src",
        "crates/apfl-cli/src",
    ];
    let folders = folders.map(|folder| root.join(folder));
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
            let there = folders.iter().any(|folder| folder.join(word).exists());
            assert!(there, "{document} names {word}, which is not there");
        }
    }
    assert!(named > 10, "the search finds what is there");
}
