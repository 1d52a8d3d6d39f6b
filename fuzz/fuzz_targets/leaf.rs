//! The reader of LEAF's files: `mkdir -p fuzz/found/leaf; cargo +nightly fuzz run leaf fuzz/found/leaf fuzz/corpus/leaf`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::leaf(bytes);
});
