#!/usr/bin/env bash
# Everything that must hold before a change lands: format, lints, tests, doctests.
set -euo pipefail
cd "$(dirname "$0")"

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

# A test opens the report in a browser; on a machine without one it says SKIPPED.
if ! command -v chromium >/dev/null && ! install chromium; then
    echo "chromium is missing and could not be installed: the browser test will be skipped" >&2
fi

# The MPI engine is built and tested where there is Open MPI (and libclang, to build it).
features=()
have_mpi() { command -v mpirun >/dev/null && command -v mpicc >/dev/null; }
have_libclang() { compgen -G '/usr/lib/llvm*/lib/libclang*.so*' >/dev/null || ldconfig -p | grep -q libclang; }
if { have_mpi && have_libclang; } || install openmpi-bin libopenmpi-dev libclang-dev; then
    features=(--features mpi)
else
    echo "Open MPI or libclang is missing and could not be installed: engine.kind = \"mpi\" is not tested" >&2
fi

cargo fmt --all -- --check
cargo clippy --workspace --all-targets --locked -- -D warnings
if [ ${#features[@]} -gt 0 ]; then
    cargo clippy --workspace --all-targets --locked "${features[@]}" -- -D warnings
fi
cargo test --workspace --locked "${features[@]}"
