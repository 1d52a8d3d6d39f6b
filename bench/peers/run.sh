#!/usr/bin/env bash
# Runs the benchmarks with apfl and its peers, on the same core, in turns, and prints one table.
#
#   bench/peers/run.sh [--seconds N] [--repeat N] [--check]
#
# APFL_BENCH_VENV: the virtual environment (default bench/peers/.venv; created if missing)
# APFL_BENCH_CORE: the core to use (default: the last one available to this shell)
# APFL_DATA:       the data directory; with mnist/ in it, MNIST is used
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
venv=${APFL_BENCH_VENV:-$here/.venv}

check=
seconds=3
repeat=1
while (($#)); do
    case $1 in
        --check) check=yes ;;
        --seconds)
            seconds=${2:?--seconds needs a number}
            shift
            ;;
        --repeat)
            repeat=${2:?--repeat needs a number}
            shift
            ;;
        *)
            sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
            exit 2
            ;;
    esac
    shift
done

if [[ ! -x $venv/bin/python ]]; then
    echo "creating the virtual environment $venv" >&2
    python3 -m venv "$venv"
fi
python=$venv/bin/python
if ! "$python" -c 'import jax, numpy, torch' 2>/dev/null; then
    "$python" -m pip install --requirement "$here/requirements.txt" >&2
fi

if [[ $check ]]; then
    exec "$python" "$here/check.py"
fi

pin=()
if command -v taskset >/dev/null; then
    allowed=$(taskset -cp $$ | sed 's/.*[:,-] *//')
    pin=(taskset -c "${APFL_BENCH_CORE:-$allowed}")
else
    echo "taskset is not installed: processes have one thread but are not pinned to a core" >&2
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
files=()
status=0

(cd "$root" && cargo build --release)
apfl=${CARGO_TARGET_DIR:-$root/target}/release/apfl
ours() { # batch, benchmarks
    local batch=$1 file=$out/apfl-$1-$turn.json
    shift
    echo "measuring apfl, batch $batch" >&2
    if ${pin[@]+"${pin[@]}"} "$apfl" bench "$@" --json --quiet --threads 1 --batch "$batch" \
        --seconds "$seconds" >"$file" 2>"$out/apfl.err"; then
        files+=("$file")
    else
        status=1
        echo "apfl bench failed, so the table has the peers alone. Its output:" >&2
        sed 's/^/    /' "$out/apfl.err" >&2
    fi
}
peer() { # name, script, further arguments
    local name=$1 script=$2 file=$out/$1-$turn.jsonl
    shift 2
    echo "measuring $name" >&2
    if ! ${pin[@]+"${pin[@]}"} "$python" "$here/$script" "$@" --seconds "$seconds" >"$file"; then
        status=1
        echo "$name did not finish; the table has its measurements so far" >&2
    fi
    [[ ! -s $file ]] || files+=("$file")
}

steps=(step-linear step-mlp step-cnn)
for ((turn = 1; turn <= repeat; turn++)); do
    ((repeat == 1)) || echo "turn $turn of $repeat" >&2
    ours 20 apfl-linear apfl-mlp apfl-cnn fedavg-mlp "${steps[@]}"
    ours 50 "${steps[@]}"
    peer pytorch pytorch.py
    peer pytorch-compile pytorch.py --compile
    for work in apfl-cnn step-cnn; do # the memory format matters to the convolutions only
        peer "pytorch-channels-last-$work" pytorch.py --channels-last --work "$work"
        peer "pytorch-compile-channels-last-$work" pytorch.py --compile --channels-last --work "$work"
    done
    peer jax jax_scan.py
done

"$python" -c 'import jax, torch; print(f"\nPyTorch {torch.__version__}, JAX {jax.__version__}\n")'
"$python" "$here/table.py" "${files[@]}"
exit $status
