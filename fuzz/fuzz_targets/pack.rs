//! The codec of everything remembered or sent: `mkdir -p fuzz/found/pack; cargo +nightly fuzz run pack fuzz/found/pack fuzz/corpus/pack`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::pack(bytes);
});
