"""Times whole jobs of apfl and of fluke in turns; called by whole.sh."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

OPTIONS = {
    "fedavg": ["algorithm.kind=fedavg"],
    "ditto": ["algorithm.kind=ditto", "algorithm.proximal=0.1"],
    "apfl": ["algorithm.kind=apfl", "algorithm.mixing={ fixed = 0.25 }"],
}


def timed(command):
    """Wall seconds, CPU seconds, and the output of a command."""
    before, started = os.times(), time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    wall, after = time.monotonic() - started, os.times()
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed")
    spent = after.children_user + after.children_system
    return wall, spent - before.children_user - before.children_system, done.stdout


def ours(kind):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        sets = [word for option in OPTIONS[kind] for word in ("--set", option)]
        command = [os.environ["APFL"], "run", os.environ["SPEC"], *sets, "--threads", "1"]
        wall, spent, _ = timed([*command, "--out", out, "--quiet"])
        rounds = (out / "rounds.jsonl").read_text().splitlines()
        return wall, spent, sum(json.loads(line)["seconds"] for line in rounds)


def theirs(kind):
    wall, spent, output = timed([sys.executable, Path(os.environ["HERE"]) / "fluke_job.py", kind])
    return wall, spent, json.loads(output.splitlines()[-1])["rounds_seconds"]


def main():
    print(f"fluke {version('fluke-fl')}, PyTorch {version('torch')}; seconds, medians of the turns\n")
    head = ["job", "apfl: all", "cpu", "rounds", "fluke: all", "cpu", "rounds", "all", "cpu", "rounds"]
    print("".join(cell.rjust(11) for cell in head))
    for kind in OPTIONS:
        turns = [(ours(kind), theirs(kind)) for _ in range(int(os.environ["REPEAT"]))]
        row = [statistics.median(turn[who][k] for turn in turns) for who in (0, 1) for k in range(3)]
        times = [statistics.median(b[k] / a[k] for a, b in turns) for k in range(3)]
        cells = [kind, *(f"{x:.2f}" for x in row), *(f"{x:.1f}×" for x in times)]
        print("".join(cell.rjust(11) for cell in cells), flush=True)


if __name__ == "__main__":
    main()
