#!/usr/bin/env bash
# Rewrites crates/apfl/tests/pinned/: the fingerprints of every algorithm on this CPU's vectors and,
# if qemu-x86_64 is installed, on narrower ones. Run it only in a commit that changes bits on
# purpose, and say so in CHANGELOG.md.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo test -p apfl --test all --no-run
tests=$(cargo test -p apfl --test all --no-run --message-format=json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/all-[^"]*\)".*/\1/p')

cd crates/apfl # where cargo runs tests
export APFL_PIN=1
"$tests" --exact pinned::every_algorithm_has_the_bits_it_had
if command -v qemu-x86_64 >/dev/null; then
    # Haswell has AVX2, Nehalem only SSE.
    for cpu in Haswell Nehalem; do
        qemu-x86_64 -cpu "$cpu" "$tests" --exact pinned::every_algorithm_has_the_bits_it_had
    done
else
    echo "SKIPPED: narrower vectors: qemu-x86_64 is not installed" >&2
fi
git diff --stat -- tests/pinned
