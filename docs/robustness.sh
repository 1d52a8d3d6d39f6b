#!/usr/bin/env bash
# The tables of docs/ROBUSTNESS.md: validation accuracy, shared / personal, of every
# aggregation rule under a growing share of clients that send their update reversed and
# four times as long. MNIST must be there (`apfl data get mnist`).
#
#   docs/robustness.sh iid                              # or stripe
#   APFL=target/release/apfl docs/robustness.sh stripe --set data.partition.classes=4
set -uo pipefail

apfl=${APFL:-apfl}
partition=${1:-iid}
shift || true
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

echo "| sign-flipping clients | mean | median | trimmed-mean | krum | geometric-median |"
echo "|---|---|---|---|---|---|"
for share in ${SHARES:-0 0.1 0.2 0.3 0.4}; do
    row="| $share "
    for rule in mean median trimmed-mean krum geometric-median; do
        settings=(--set "federation.aggregation=$rule")
        # The rules that must be told how bad it may get are told the worst of this table.
        case $rule in
        trimmed-mean) settings+=(--set federation.trim=0.4) ;;
        krum) settings+=(--set federation.byzantine=0.4) ;;
        esac
        table=$("$apfl" run --out "$out/$rule-$share" \
            --set data.kind=mnist --set "data.partition.kind=$partition" \
            --set 'algorithm={ kind = "apfl", mixing = { adaptive = 0.01 } }' \
            --set training.rounds=50 --set evaluation.every=50 \
            --set delivery.keep=false --set checkpoint.every=0 \
            --set "federation.attack={ kind = 'sign-flip', share = $share, scale = 4 }" \
            "${settings[@]}" "$@" 2>"$out/log") || table="$(cat "$out/log")"
        cell=$(awk '/^shared /{s=$6} /^personal /{p=$6} END{if (p) print s " / " p; else print "diverged"}' <<<"$table")
        row="$row| $cell "
        rm -rf "$out/$rule-$share"
    done
    echo "$row|"
done
