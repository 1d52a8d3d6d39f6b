//! The checkpoint reader: `mkdir -p fuzz/found/checkpoint; cargo +nightly fuzz run checkpoint fuzz/found/checkpoint fuzz/corpus/checkpoint`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::checkpoint(bytes);
});
