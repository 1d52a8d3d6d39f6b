//! Every test of the library from outside, as one program: it is linked once, and its
//! tests share the cores. A new file of tests is a line here.

mod agnostic;
mod algorithms;
mod alpha_held_out;
mod architecture;
mod auto_rate;
mod averaging;
mod bad_data;
mod baselines;
mod chosen;
mod cnn;
mod corpus;
mod data_rules;
mod dense;
mod engines;
mod equations;
mod examples;
mod extras;
mod family;
mod faults;
mod federation;
mod final_scores;
mod finishing;
mod front_door;
mod gradients;
mod identities;
mod kinds;
mod loaders;
mod mpi;
mod one_step;
mod options;
mod own_algorithm;
#[cfg(feature = "parquet")]
mod parquet;
mod pinned;
mod privacy;
mod published_data;
mod real_data;
mod reference;
mod resume;
mod robust;
mod skipped;
mod small;
mod spec_page;
mod specs;
mod stopping;
mod tables;
mod typed_plans;

/// A file that nobody names would be tested by nobody.
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
