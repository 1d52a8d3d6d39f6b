#!/usr/bin/env bash
# Runs a federation on this machine: a SuperLink and three SuperNodes of Flower on loopback, with TLS
# and registered keys, one hospital each; then the same in one process. The last two lines are
# `federation <fingerprint>` and `one process <fingerprint>`; exits with 1 if they differ.
#   scripts/federation-demo.sh [DATA]
# DATA is the folder with the heart tables (processed.cleveland.data …), by default that of
# `apfl data get heart`; without them, three tables are generated.
#   APFL_PYTHON   a Python with apfl and flwr; default: a virtual environment that is created once
#   APFL_PROGRAM  the program; default: the newer of target/release/apfl and target/debug/apfl
#   APFL_KEEP     the work directory, which is kept with all logs
#   APFL_ROUNDS   rounds; default 5
#   APFL_DURING   a shell command to run while the federation trains: it may kill the
#                 process groups in $work/*.pid and call start_node NAME, restart_node NAME, start_link
#   APFL_TRIES    how often `flwr run` is tried, with resume=true after the first time; default 1
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}

program=${APFL_PROGRAM:-}
[ -n "$program" ] || program=$(ls -t "$target"/{release,debug}/apfl 2>/dev/null | head -1 || true)
[ -n "$program" ] || { echo "build the program first: cargo build --release" >&2; exit 1; }
python=${APFL_PYTHON:-}
if [ -z "$python" ]; then
    venv=$target/flower
    [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check 'maturin>=1.9.4,<2' 'flwr>=1.41'
    (cd crates/apfl-py && VIRTUAL_ENV=$venv "$venv/bin/maturin" develop --release --locked -q)
    python=$venv/bin/python
fi
bin=$(dirname "$("$python" -c 'import sys; print(sys.executable)')")
export PATH=$bin:$PATH FLWR_TELEMETRY_ENABLED=0 FLWR_SUPEREXEC_TASK_POLL_INTERVAL=0.3

work=${APFL_KEEP:-}
if [ -n "$work" ]; then mkdir -p "$work" && chmod 700 "$work"; else work=$(mktemp -d); fi
work=$(cd "$work" && pwd)
export FLWR_HOME=$work/flwr
: >"$work/pids"
end() {
    # In reverse order, each with its child processes.
    tac "$work/pids" | while read -r pid; do kill -- "-$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    [ -n "${APFL_KEEP:-}" ] || rm -rf "$work"
}
trap end EXIT
begin() { # LOG COMMAND…: starts it in the background, in its own process group
    local log=$1
    shift
    set -m
    "$@" >>"$log" 2>&1 &
    set +m
    last=$!
    echo "$last" >>"$work/pids"
}
free_port() { "$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }

# Three hospitals.
hospitals=(cleveland hungarian va)
data=${1:-${APFL_DATA:-$HOME/.local/share/apfl}/heart}
mkdir -p "$work/tables"
columns="'age', 'sex', 'cp', 'trestbps', 'chol', 'fbs', 'restecg', 'thalach', 'exang', 'oldpeak', 'slope', 'ca', 'thal', 'num'"
if [ -e "$data/processed.cleveland.data" ]; then
    for name in "${hospitals[@]}"; do cp "$data/processed.$name.data" "$work/tables/$name.csv"; done
else
    echo "no heart tables in $data: generating three tables" >&2
    "$python" - "$work/tables" "${hospitals[@]}" <<'MAKE'
import random, sys
for k, name in enumerate(sys.argv[2:]):
    r = random.Random(k)
    with open(f"{sys.argv[1]}/{name}.csv", "w") as table:
        for _ in range(200 + 40 * k):
            age, pressure = r.randint(29, 77), r.randint(94, 200)
            ill = r.random() < 1 / (1 + 2.718 ** (-(age - 54 + 3 * k) / 6))
            cells = [age, r.randint(0, 1), r.randint(1, 4), pressure, r.choice(["?", r.randint(130, 400)]),
                     r.randint(0, 1), r.randint(0, 2), r.randint(80, 200), r.randint(0, 1),
                     r.randint(0, 40) / 10, r.randint(1, 3), r.randint(0, 3), r.choice([3, 6, 7]), int(ill)]
            print(*cells, sep=",", file=table)
MAKE
fi
cat >"$work/spec.toml" <<SPEC
seed = 1
[data]
kind = "table"
client = { file = true }
header = [$columns]
label = "num"
label_map = { "0" = "healthy", "*" = "ill" }
standardize = true
categories = { cp = [1, 2, 3, 4], restecg = [0, 1, 2], slope = [1, 2, 3], ca = [0, 1, 2, 3], thal = [3, 6, 7] }
[model]
kind = "mlp"
hidden = [16]
[algorithm]
kind = "apfl"
mixing = { adaptive = 0.25 }
[federation]
sites = ["cleveland", "hungarian", "va"]
min_sites = 3
deadline = ${APFL_DEADLINE:-180}
disclose = ["scores"]
[training]
rounds = ${APFL_ROUNDS:-5}
local_steps = 10
batch = 32
[checkpoint]
every = 1
SPEC

# A certificate authority, and a key for every site.
mkdir -p "$work/tls" "$work/keys"
(
    cd "$work/tls"
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=apfl demo" -keyout ca.key -out ca.pem
    openssl req -newkey rsa:2048 -nodes -subj "/CN=localhost" -keyout server.key -out server.csr
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\n' >san
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.pem
) 2>/dev/null
for name in "${hospitals[@]}" stranger; do
    [ -e "$work/keys/$name" ] || ssh-keygen -q -t ecdsa -b 384 -N "" -C "$name" -f "$work/keys/$name"
done

port=$(free_port)
mkdir -p "$FLWR_HOME"
link=(--ssl-certfile "$work/tls/server.pem" --ssl-keyfile "$work/tls/server.key" --ssl-ca-certfile "$work/tls/ca.pem")
cat >"$FLWR_HOME/config.toml" <<CONFIG
[superlink]
default = "demo"
[superlink.demo]
address = "127.0.0.1:$port"
root-certificates = "$work/tls/ca.pem"
CONFIG
start_link() {
    begin "$work/superlink.log" flower-superlink "${link[@]}" --host 127.0.0.1 --port "$port" \
        --enable-supernode-auth --disable-runtime-dependency-installation --database "$work/link.db"
    echo "$last" >"$work/superlink.pid"
}
start_node() { # NAME: starts its SuperNode
    local name=$1
    begin "$work/node-$name.log" "$python" -m apfl.flower node --root-certificates "$work/tls/ca.pem" --superlink "127.0.0.1:$port" \
        --auth-supernode-private-key "$work/keys/$name" --host 127.0.0.1 --port "$(free_port)" \
        --node-config "client=\"$name\" data=\"$work/tables/$name.csv\" state=\"$work/state-$name\" accept=\"first\""
    echo "$last" >"$work/node-$name.pid"
}
restart_node() { # NAME: restarts it repeatedly, as systemd would: Flower rejects it at first
    until [ -e "$work/run/summary.json" ]; do
        start_node "$1"
        while kill -0 "$last" 2>/dev/null && [ ! -e "$work/run/summary.json" ]; do sleep 1; done
        sleep 3
    done
}
wait_for() { # SECONDS COMMAND…: repeats it until it succeeds
    local until=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$until" ] || { echo "gave up waiting for: $*" >&2; return 1; }
        sleep 0.5
    done
}

start_link
wait_for 60 flwr supernode list demo
for name in "${hospitals[@]}"; do
    flwr supernode register "$work/keys/$name.pub" --name "$name" demo >>"$work/register.log"
    start_node "$name"
done
rm -rf "$work/app"
"$python" -m apfl.flower new "$work/app" --spec "$work/spec.toml" --out "$work/run"
if [ -n "${APFL_DURING:-}" ]; then
    (eval "$APFL_DURING") >"$work/during.log" 2>&1 &
fi
federation=
for ((try = 1; try <= ${APFL_TRIES:-1} && ${#federation} == 0; try++)); do
    wait_for 60 flwr supernode list demo
    resume=false
    [ ! -e "$work/run/spec.toml" ] || resume=true
    flwr run "$work/app" demo --run-config "resume=$resume" --stream >>"$work/server.log" 2>&1 || true
    federation=$(sed -n 's/.*federation \([0-9a-f]\{64\}\).*/\1/p' "$work/server.log" | tail -1)
done
if [ -z "$federation" ]; then
    tail -n 40 "$work/server.log" >&2
    echo "the federation did not finish; APFL_KEEP=DIR keeps the logs" >&2
    exit 1
fi
grep -E 'round [0-9]+:|exchanges' "$work/server.log" | sed 's/.*INFO *://' || true

paths=$(printf '"%s",' "${hospitals[@]/#/$work/tables/}" | sed 's/",/.csv",/g')
rm -rf "$work/one"
"$program" run "$work/spec.toml" --quiet --set "data.path=[${paths%,}]" --out "$work/one"
one=$(sed -n 's/.*"fingerprint": "\(.*\)".*/\1/p' "$work/one/summary.json")
[ -e "$work/run/report.html" ] || { echo "report.html is missing" >&2; exit 1; }
echo "federation $federation"
echo "one process $one"
[ "$federation" = "$one" ]
