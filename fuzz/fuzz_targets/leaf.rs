//! The reader of LEAF's files: `cargo +nightly fuzz run leaf fuzz/found/leaf fuzz/corpus/leaf`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = apfl::data::leaf::parse(bytes);
});
