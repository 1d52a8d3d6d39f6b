#!/usr/bin/env bash
# Installs the Python module as a user would, `pip install ./crates/apfl-py`, into a new virtual
# environment; says how large the wheel is; and runs the README's Python block in it as it stands.
# It takes some minutes: the module is built for release.
set -euo pipefail
cd "$(dirname "$0")/.."

at=$(mktemp -d)
trap 'rm -rf "$at"' EXIT
python3 -m venv "$at/venv"
"$at/venv/bin/python" -m pip install -q --disable-pip-version-check ./crates/apfl-py
"$at/venv/bin/python" -m pip wheel -q --disable-pip-version-check --no-deps -w "$at" ./crates/apfl-py
size=$(stat -c %s "$at"/*.whl)
echo "$(basename "$at"/*.whl): $((size / 1000)) kB"
awk '/^```python/ { inside = 1; next } /^```/ { inside = 0 } inside' README.md >"$at/block.py"
(cd "$at" && venv/bin/python block.py)
