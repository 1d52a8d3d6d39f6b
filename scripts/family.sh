#!/usr/bin/env bash
# Makes the comparison of docs/FAMILY.md: every algorithm at the best of a few rates.
#
#   scripts/family.sh [OUT] [ROUNDS] [SEEDS] [PROGRAM]     # runs/family, 100, 3, target/release/apfl
#
# Writes OUT/mlp and OUT/linear with sweep.md, sweep.csv, report.html and the runs. Running it again
# runs what is missing.
set -euo pipefail

cd "$(dirname "$0")/.."
out=${1:-runs/family}
rounds=${2:-100}
seeds=${3:-3}
apfl=${4:-target/release/apfl}

linear=fedavg,scaffold,fedprox,perfedavg,pfedme,local,apfl,ditto,l2gd,mapper,hypcluster
layers=fedper,fedrep,lgfedavg
for model in mlp linear; do
    kinds=$linear
    [[ $model == linear ]] || kinds+=,$layers
    "$apfl" sweep "bench/specs/family-$model.toml" --over "algorithm.kind=$kinds" \
        --over rate=0.01,0.03,0.1,0.3 --best rate --seeds "$seeds" \
        --set "training.rounds=$rounds" --set "evaluation.every=$rounds" --out "$out/$model"
done
