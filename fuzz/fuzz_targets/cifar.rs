//! The reader of CIFAR-10's batches: `cargo +nightly fuzz run cifar fuzz/found/cifar fuzz/corpus/cifar`
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = apfl::data::cifar10::parse(bytes, &mut Vec::new(), &mut Vec::new());
});
