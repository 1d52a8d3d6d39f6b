//! The reader of a user's CSV: `mkdir -p fuzz/found/csv; cargo +nightly fuzz run csv fuzz/found/csv fuzz/corpus/csv`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::csv(bytes);
});
