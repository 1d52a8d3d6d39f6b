#!/usr/bin/env bash
# Installs the Python module into a new virtual environment (`pip install ./crates/apfl-py`), prints
# the size of the wheel, and runs the README's Python block. Takes some minutes for the release build.
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
