//! The reader of CIFAR-10's batches: `mkdir -p fuzz/found/cifar; cargo +nightly fuzz run cifar fuzz/found/cifar fuzz/corpus/cifar`
#![no_main]

#[path = "../readers.rs"]
mod readers;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = readers::cifar(bytes);
});
