#!/usr/bin/env bash
# The long form of the kill test: kills the program with SIGKILL at random moments, resumes it
# each time, and compares the fingerprint with the uninterrupted run's, over several algorithms
# and with client states in RAM and on disk. The last line is the result.
#
#   scripts/kill-200.sh [KILLS] [PROGRAM]        # 200, target/release/apfl
set -euo pipefail

kills=${1:-200}
apfl=${2:-"$(dirname "$0")/../target/release/apfl"}
RANDOM=${SEED:-1}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

algorithms=(
    '{ kind = "apfl", mixing = { adaptive = 0.01 } }'
    '{ kind = "apfl", mixing = { fixed = 0.5 }, output = "averaged", averaging_shift = 20 }'
    '{ kind = "apfl", mixing = { adaptive = 0.5 }, agnostic = true }'
    '{ kind = "fedavg" }'
    '{ kind = "scaffold" }'
    '{ kind = "perfedavg" }'
    '{ kind = "pfedme" }'
    '{ kind = "local" }'
    '{ kind = "fedprox" }'
    '{ kind = "ditto" }'
    '{ kind = "fedper" }'
    '{ kind = "fedrep" }'
    '{ kind = "lgfedavg", warmup = 5 }'
    '{ kind = "l2gd" }'
    '{ kind = "mapper" }'
    '{ kind = "hypcluster" }'
)
base=(--quiet --set data.clients=60 --set data.max_examples=300
    --set federation.participation=0.5 --set training.rounds=60
    --set checkpoint.every=1 --set evaluation.every=5
    --set 'model={ kind = "mlp", hidden = [100] }')

fingerprint() { sed -n 's/.*"fingerprint": "\([0-9a-f]*\)".*/\1/p' "$1/summary.json"; }
lines() { sed 's/"seconds":[^,]*,//' "$1/rounds.jsonl"; }

done_kills=0 ended=0 wrong=0 runs=0 writing=0
while ((done_kills < kills)); do
    for algorithm in "${algorithms[@]}"; do
        for memory in ram disk; do
            ((done_kills < kills)) || break 2
            settings=("${base[@]}" --set "algorithm=$algorithm" --set "engine.memory=$memory")
            # L2GD needs every client in every round.
            [[ $algorithm != *l2gd* ]] || settings+=(--set federation.participation=1)
            [[ $memory == ram ]] || settings+=(--set engine.budget_mb=1)
            whole="$work/whole-$memory-$(md5sum <<<"$algorithm" | cut -c1-8)"
            if [[ ! -d $whole ]]; then
                start=$(date +%s%N)
                "$apfl" run "${settings[@]}" --out "$whole"
                # Kills are spread over this time, in milliseconds.
                echo $((($(date +%s%N) - start) / 1000000 + 1)) >"$whole.ms"
            fi
            length=$(<"$whole.ms")
            run="$work/run"
            rm -rf "$run"
            # Up to four kills, then to the end.
            for attempt in 1 2 3 4 last; do
                if [[ -f $run/spec.toml ]]; then
                    command=("$apfl" run --resume --quiet --out "$run")
                else
                    rm -rf "$run"
                    command=("$apfl" run "${settings[@]}" --out "$run")
                fi
                if [[ $attempt == last ]]; then
                    "${command[@]}"
                    break
                fi
                "${command[@]}" 2>"$work/log" &
                child=$!
                pause=$((RANDOM % (length / 2 + 1)))
                sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
                kill -KILL "$child" 2>/dev/null || true
                status=0
                wait "$child" 2>/dev/null || status=$?
                case $status in
                137) ((done_kills += 1)) ;;
                0) ((ended += 1)); break ;;
                *) cat "$work/log" >&2; echo "ended with $status: $algorithm $memory" >&2; exit 1 ;;
                esac
                if compgen -G "$run/checkpoint/*.tmp" >/dev/null; then ((writing += 1)); fi
            done
            ((runs += 1))
            if [[ $(fingerprint "$run") != "$(fingerprint "$whole")" ]] ||
                ! cmp -s <(lines "$run") <(lines "$whole"); then
                echo "differs: $algorithm, client states: $memory" >&2
                ((wrong += 1))
            fi
        done
    done
done
echo "$done_kills kills ($writing while a checkpoint was being written) in $runs runs of" \
    "${#algorithms[@]} algorithms, client states in RAM and on disk: $wrong differ"
((wrong == 0))
