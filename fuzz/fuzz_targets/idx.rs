//! The IDX reader: `mkdir -p fuzz/found/idx; cargo +nightly fuzz run idx fuzz/found/idx fuzz/corpus/idx`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::idx(bytes);
});
