//! The IDX reader: `cargo +nightly fuzz run idx fuzz/found/idx fuzz/corpus/idx`
#![no_main]

use apfl::data::idx::Array;
use apfl::data::images::Images;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(array) = Array::parse(bytes) {
        let _ = array.integers();
        let _ = Images::of(array);
    }
});
