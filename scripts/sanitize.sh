#!/usr/bin/env bash
# The kernels, which alone have `unsafe`, under AddressSanitizer, and under Miri where it is
# installed: the library's unit tests (with every width of vector among them) and the tests that
# hold layers, networks and gradients against slow sums. Needs a nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "a nightly toolchain is missing: rustup toolchain install nightly" >&2
    exit 1
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')

# With a target named, build scripts and macros are built without the sanitizer. Doctests would
# need it in rustdoc too: only the named tests.
echo "=== AddressSanitizer"
export ASAN_OPTIONS=detect_leaks=0 # the pools of threads live to the end
RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
    cargo +nightly test -p apfl --locked --target "$host" --target-dir target/sanitize --lib
RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
    cargo +nightly test -p apfl --locked --target "$host" --target-dir target/sanitize \
    --test all -- dense:: cnn:: gradients::

# Miri interprets: no vector instructions, so the scalar kernels alone, and only small tests.
echo "=== Miri"
if cargo +nightly miri --version >/dev/null 2>&1; then
    MIRIFLAGS="-Zmiri-disable-isolation" \
        cargo +nightly miri test -p apfl --locked --target-dir target/miri --lib -- \
        model::kernels params pack
else
    echo "SKIPPED: Miri is not installed: rustup component add miri --toolchain nightly"
fi
