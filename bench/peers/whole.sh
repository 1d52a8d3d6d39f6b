#!/usr/bin/env bash
# Times whole jobs, from the start of a process to its end, with apfl and with a published package,
# in turns on the same core, and prints one table. The job is bench/specs/whole-job.toml.
#
#   bench/peers/whole.sh [--repeat N]
#
# APFL_WHOLE_VENV: the virtual environment (default bench/peers/.venv-whole; created if missing)
# APFL_BENCH_CORE: the core to use (default: the last one available to this shell)
# APFL_DATA:       the data directory, with mnist/ in it
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${APFL_WHOLE_VENV:-$here/.venv-whole}
repeat=3
if (($#)); then
    if [[ $1 != --repeat || $# != 2 ]]; then
        sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
        exit 2
    fi
    repeat=$2
fi
if [[ ! -x $venv/bin/python ]]; then
    echo "creating the virtual environment $venv" >&2
    python3 -m venv "$venv"
fi
if ! "$venv/bin/python" -c 'import fluke' 2>/dev/null; then
    "$venv/bin/python" -m pip install fluke-fl >&2
fi
pin=()
if command -v taskset >/dev/null; then
    allowed=$(taskset -cp $$ | sed 's/.*[:,-] *//')
    pin=(taskset -c "${APFL_BENCH_CORE:-$allowed}")
fi
(cd "$root" && cargo build --release)
apfl=${CARGO_TARGET_DIR:-$root/target}/release/apfl

export APFL=$apfl SPEC=$root/bench/specs/whole-job.toml HERE=$here REPEAT=$repeat
exec ${pin[@]+"${pin[@]}"} "$venv/bin/python" "$here/whole.py"
