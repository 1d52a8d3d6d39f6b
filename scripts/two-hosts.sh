#!/usr/bin/env bash
# Compares a run on two hosts (network namespaces of this machine, joined by a veth pair) with the
# same run on threads: the fingerprints must be equal. Needs root, iproute2 and Open MPI.
#   cargo build --release --features mpi && scripts/two-hosts.sh
set -euo pipefail
cd "$(dirname "$0")/.."
apfl=$PWD/target/release/apfl
[ -x "$apfl" ] || { echo "build first: cargo build --release --features mpi" >&2; exit 1; }
work=$(mktemp -d)

end() {
    ip netns del apfl-a 2>/dev/null || true
    ip netns del apfl-b 2>/dev/null || true
    rm -rf "$work"
}
trap end EXIT

ip netns add apfl-a
ip netns add apfl-b
ip link add apfl-veth-a netns apfl-a type veth peer name apfl-veth-b netns apfl-b
ip -n apfl-a addr add 10.77.0.1/24 dev apfl-veth-a
ip -n apfl-b addr add 10.77.0.2/24 dev apfl-veth-b
for host in a b; do
    ip -n apfl-$host link set lo up
    ip -n apfl-$host link set apfl-veth-$host up
done

# Runs a command on the host of an address, in place of ssh.
cat >"$work/on" <<'ON'
#!/usr/bin/env bash
case $1 in 10.77.0.1) host=apfl-a ;; 10.77.0.2) host=apfl-b ;; *) exit 1 ;; esac
shift
exec ip netns exec $host unshare --uts sh -c "hostname $host; $*"
ON
chmod +x "$work/on"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$work/spec.toml" <<'SPEC'
[data]
clients = 40
[model]
kind = "mlp"
[federation]
participation = 0.5
[training]
rounds = 20
SPEC
spec=(run "$work/spec.toml" --quiet)
network=10.77.0.0/24
on_two() {
    "$work/on" 10.77.0.1 mpirun --host 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$work/on" \
        --mca btl tcp,self --mca btl_tcp_if_include $network --mca oob_tcp_if_include $network \
        "$@"
}
fingerprint() { sed -n 's/.*"fingerprint": "\(.*\)".*/\1/p' "$1/summary.json"; }
received() { ip netns exec apfl-a cat /sys/class/net/apfl-veth-a/statistics/rx_bytes; }

on_two hostname
"$apfl" "${spec[@]}" --out "$work/threads"
before=$(received)
on_two "$apfl" "${spec[@]}" --set engine.kind=mpi --out "$work/hosts"
echo "threads on one host  $(fingerprint "$work/threads")"
echo "ranks on two hosts   $(fingerprint "$work/hosts")"
updates=$(python3 -c "
import json
print(sum(json.loads(line)['bytes_up'] for line in open('$work/hosts/rounds.jsonl')))")
echo "received by the first host: $(($(received) - before)) bytes; updates of all clients: $updates bytes"
[ "$(fingerprint "$work/threads")" = "$(fingerprint "$work/hosts")" ]
echo "the fingerprints are equal"
