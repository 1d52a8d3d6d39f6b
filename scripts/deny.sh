#!/usr/bin/env bash
# Checks licences, duplicate versions and sources of every dependency (deny.toml), and security
# advisories if their database can be fetched. Needs cargo-deny: `cargo install cargo-deny`.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo deny --all-features check licenses bans sources

database=${CARGO_HOME:-$HOME/.cargo}/advisory-dbs
if cargo deny --all-features fetch db; then
    cargo deny --all-features --offline check advisories
else
    line="SKIPPED: advisories of dependencies: the database cannot be fetched into $database"
    echo "$line"
    [ -z "${APFL_SKIPS:-}" ] || echo "$line" >>"$APFL_SKIPS"
fi
