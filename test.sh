#!/usr/bin/env bash
# Everything that must hold before a change lands, cheap things first: format, lints, documents,
# the library alone and on another processor, the oldest compiler, licences, tests, doctests, Python,
# a federation on Flower.
# What cannot be done on this machine is skipped with a line that begins with SKIPPED; the last
# lines repeat them all.
set -euo pipefail
cd "$(dirname "$0")"

export APFL_SKIPS
APFL_SKIPS=$(mktemp)
trap 'rm -f "$APFL_SKIPS"' EXIT

skip() { echo "SKIPPED: $*" | tee -a "$APFL_SKIPS"; }
step() { printf '\n=== %s (after %d s)\n' "$*" "$SECONDS"; }

if ! command -v cargo >/dev/null; then
    echo "cargo is missing: install the Rust toolchain first (rustup.rs)" >&2
    exit 1
fi
for component in rustfmt clippy; do
    if ! cargo "${component/rustfmt/fmt}" --version >/dev/null 2>&1; then
        rustup component add "$component"
    fi
done

# Installs Debian packages where that can be done.
install() {
    local as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    command -v apt-get >/dev/null &&
        { "${as_root[@]}" apt-get update -qq &&
            "${as_root[@]}" apt-get install -y -qq --no-install-recommends "$@"; } >/dev/null 2>&1
}

# A test opens the report in a browser; on a machine without one it says SKIPPED itself.
command -v chromium >/dev/null || install chromium || true

# The MPI engine is built and tested where there is Open MPI (and libclang, to build it).
features=()
have_mpi() { command -v mpirun >/dev/null && command -v mpicc >/dev/null; }
have_libclang() { compgen -G '/usr/lib/llvm*/lib/libclang*.so*' >/dev/null || ldconfig -p | grep -q libclang; }
if { have_mpi && have_libclang; } || install openmpi-bin libopenmpi-dev libclang-dev; then
    features=(--features mpi)
else
    skip "engine.kind = \"mpi\": Open MPI or libclang is missing and could not be installed"
fi

step format
cargo fmt --all -- --check

step lints
cargo clippy --workspace --all-targets --locked "${features[@]}" -- -D warnings

step documents
export RUSTDOCFLAGS="-D warnings"
cargo doc --workspace --no-deps --locked "${features[@]}"
unset RUSTDOCFLAGS

step "the library without its features"
cargo clippy -p apfl --lib --no-default-features --locked -- -D warnings

step "the library on another processor"
other=aarch64-unknown-linux-gnu
has_target() { rustup target list --installed 2>/dev/null | grep -qx "$other"; }
if has_target || { timeout 60 rustup target add "$other" >/dev/null 2>&1 && has_target; }; then
    cargo check -p apfl --lib --target "$other" --locked
else
    skip "cargo check for $other: rustup has not its standard library and could not add it"
fi

step "the oldest compiler"
oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if cargo "+$oldest" --version >/dev/null 2>&1; then
    cargo "+$oldest" check --workspace --locked
else
    skip "cargo check by Rust $oldest: it is not installed (clippy's incompatible_msrv was on)"
fi

step "licences, sources and advisories of dependencies"
if command -v cargo-deny >/dev/null; then
    scripts/deny.sh
else
    skip "scripts/deny.sh: cargo-deny is not installed"
fi

step "tests and doctests"
# (Examples are checked above, and tests run them.)
cargo test --workspace --lib --bins --tests --locked "${features[@]}"
cargo test --workspace --doc --locked "${features[@]}"

step "the Python module"
# In a virtual environment of its own, made once; the program is asked for fingerprints.
target=${CARGO_TARGET_DIR:-$PWD/target}
venv=$target/python
python=
for name in python3.13 python3.12 python3.11 python3; do
    if "$name" -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$name
        break
    fi
done
prepared() {
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check \
        'flwr>=1.41' ipykernel mypy nbclient nbformat 'pandas>=2.1' polars pyarrow pytest 'scikit-learn>=1.6' tqdm
}
if [ -z "$python" ]; then
    skip "crates/apfl-py: there is no Python 3.11 or later (with venv)"
elif ! prepared; then
    skip "crates/apfl-py: its virtual environment could not be made (no network?)"
else
    # As the tests were built, so that nothing is built twice (scripts/wheel.sh builds the wheel).
    cargo build --workspace --lib --bins --tests --locked "${features[@]}"
    module=$target/debug/lib_apfl.so
    [ -e "$module" ] || module=$target/debug/lib_apfl.dylib
    (
        cd crates/apfl-py
        cp "$module" python/apfl/_apfl.abi3.so
        PYTHONPATH=$PWD/python APFL_PROGRAM=$target/debug/apfl "$venv/bin/python" -m pytest
    )
    step "a federation on Flower, beside one process"
    for tool in openssl ssh-keygen; do command -v "$tool" >/dev/null || missing="$tool"; done
    if [ -n "${missing:-}" ]; then
        skip "scripts/federation-demo.sh: $missing is not installed"
    else
        PYTHONPATH=$PWD/crates/apfl-py/python APFL_PYTHON=$venv/bin/python \
            APFL_PROGRAM=$target/debug/apfl APFL_ROUNDS=3 scripts/federation-demo.sh
    fi
fi

skipped=$(sort -u "$APFL_SKIPS")
count=$(grep -c . <<<"$skipped" || true)
printf '\n=== everything passed in %d s; skipped: %d\n' "$SECONDS" "$count"
[ "$count" = 0 ] || echo "$skipped"
