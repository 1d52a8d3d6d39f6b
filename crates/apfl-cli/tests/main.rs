//! All tests of the program as one test binary, which is linked once and shares the cores. A new
//! test file is a line here.

mod accidents;
mod advise;
mod cli;
mod cluster;
mod data;
mod faults;
mod federation;
mod files;
mod inputs;
mod limits;
mod privacy;
mod program;
#[path = "../../apfl/tests/published_data.rs"]
mod published_data;
mod report;
mod resume;
mod short_run;
#[path = "../../apfl/tests/skipped.rs"]
mod skipped;
mod state;
mod sweep;
mod tables;
mod theory;

/// A file that is not named above would not be tested.
#[test]
fn every_file_here_is_named_above() {
    let named = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let is_module = path.extension().is_some_and(|e| e == "rs") || path.join("mod.rs").exists();
        if is_module && name != "main" {
            assert!(
                named.contains(&format!("\nmod {name};\n")),
                "tests/main.rs does not name {name}"
            );
        }
    }
}
