#!/usr/bin/env bash
# Counts the instructions of small fixed runs with valgrind. Counts are reproducible to one part in
# 100,000 on a busy machine, so a change of one part in a thousand is visible. valgrind has no
# AVX-512, so the AVX2 path of the kernels is counted.
#   bench/callgrind.sh [path of apfl]
set -euo pipefail
cd "$(dirname "$0")/.."
apfl=${1:-target/release/apfl}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
count() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$apfl" run --quiet --threads 1 \
        --out "$work/$1" "${@:2}" --set delivery.clients=none --set checkpoint.every=0 2>&1 |
        sed -n "s/.*refs: *//p" | sed "s/^/$1: instructions /"
}
small=(--set data.clients=4 --set data.features=784 --set data.examples=50 --set training.rounds=2)
count logistic "${small[@]}"
count mlp "${small[@]}" --set model.kind=mlp --set training.local_steps=4 --set training.batch=20
