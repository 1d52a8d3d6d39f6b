#!/usr/bin/env bash
# Tests the kernels, the only `unsafe` code, under AddressSanitizer and, if installed, Miri: the
# library's unit tests (for every vector width) and the tests that compare layers, networks and
# gradients with slow sums. Needs a nightly toolchain.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "a nightly toolchain is missing: rustup toolchain install nightly" >&2
    exit 1
fi
host=$(rustc +nightly -vV | sed -n 's/^host: //p')

# With --target, build scripts and macros are built without the sanitizer. Doctests are left out, as
# rustdoc would need it too.
echo "=== AddressSanitizer"
export ASAN_OPTIONS=detect_leaks=0 # thread pools live until the end
RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
    cargo +nightly test -p apfl --locked --target "$host" --target-dir target/sanitize --lib
RUSTFLAGS="-Zsanitizer=address -Cforce-frame-pointers=yes" \
    cargo +nightly test -p apfl --locked --target "$host" --target-dir target/sanitize \
    --test all -- dense:: cnn:: gradients::

# Miri has no vector instructions and is slow: only the scalar kernels and small tests.
echo "=== Miri"
if cargo +nightly miri --version >/dev/null 2>&1; then
    MIRIFLAGS="-Zmiri-disable-isolation" \
        cargo +nightly miri test -p apfl --locked --target-dir target/miri --lib -- \
        model::kernels params pack
else
    echo "SKIPPED: Miri is not installed: rustup component add miri --toolchain nightly"
fi
