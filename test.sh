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

# A test opens the report in a browser; on a machine without one it says SKIPPED.
if ! command -v chromium >/dev/null && command -v apt-get >/dev/null; then
    as_root=()
    [ "$(id -u)" = 0 ] || as_root=(sudo -n)
    if ! { "${as_root[@]}" apt-get update -qq &&
        "${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1; then
        echo "chromium is missing and could not be installed: the browser test will be skipped" >&2
    fi
fi

cargo fmt --all -- --check
cargo clippy --workspace --all-targets --locked -- -D warnings
cargo test --workspace --locked
