//! The spec parser: `mkdir -p fuzz/found/spec; cargo +nightly fuzz run spec fuzz/found/spec fuzz/corpus/spec`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::spec(bytes);
});
