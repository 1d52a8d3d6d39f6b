#!/usr/bin/env python3
"""Measures whole commands of `apfl`: wall time, seconds per round, peak memory.

    python3 bench/goals.py [path of apfl] [names …]

`apfl bench` measures the kernels; this measures what a user waits for. Needs MNIST (`apfl data get
mnist`). Nothing else should run on the machine.
"""

import json
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SPECS = HERE / "specs"
PRESETS = HERE.parent / "crates" / "apfl-paper" / "presets"


def run(apfl, *args):
    """Runs `apfl run` in a fresh directory: (wall seconds, summary, peak memory in MB, rounds)."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        command = [apfl, "run", *map(str, args), "--out", out, "--json", "--quiet"]
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os.execv(command[0], command)
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - started
        if status != 0:
            sys.exit(f"{' '.join(command)} failed")
        rounds = [json.loads(line) for line in open(os.path.join(out, "rounds.jsonl"))]
        summary = json.load(open(os.path.join(out, "summary.json")))
        return wall, summary, usage.ru_maxrss * 1024 / 1e6, [r["seconds"] for r in rounds]


def median(values):
    return sorted(values)[len(values) // 2]


# The paper's synthetic(1, 1) with a learned α: 100 clients, 100 rounds.
SYNTHETIC = [
    "--set", "data={ kind = 'synthetic' }",
    "--set", "algorithm={ kind = 'apfl' }",
    "--set", "training.rounds=100",
]


def start(apfl):
    one = [*SYNTHETIC, "--set", "training.rounds=1", "--set", "delivery.clients=none"]
    wall = min(run(apfl, *one)[0] for _ in range(3))
    return f"synthetic run, from start to the end of the first round: {wall:.3f} s"


def default(apfl):
    wall, _, memory, _ = run(apfl, *SYNTHETIC)
    return f"synthetic run (100 clients, 100 rounds, finalization): {wall:.2f} s, {memory:.0f} MB"


def thousand(apfl):
    wall, _, memory, _ = run(apfl, SPECS / "thousand-clients.toml")
    return f"1000 clients, 10 per round, 100 rounds, logistic MNIST: {wall:.2f} s, {memory:.0f} MB"


def fedjax(apfl):
    # Synthetic clients are generated when first sampled; the last rounds have few new ones.
    _, _, memory, rounds = run(apfl, SPECS / "fedjax-size.toml")
    return f"3400 clients, 340 per round, MLP: {median(rounds[-10:]):.2f} s per round, {memory:.0f} MB"


def table2(apfl):
    wall, summary, memory, _ = run(apfl, PRESETS / "table2.toml")
    accuracy = summary["personal"]["pooled"]["valid"]["accuracy"]
    return (
        f"table 2's adaptive APFL, three models evaluated every round: {wall:.1f} s, "
        f"{memory:.0f} MB, personal {100 * accuracy:.2f}%"
    )


def many(apfl):
    lines = []
    for clients, share in [(10_000, 0.1), (1_000_000, 0.001)]:
        size = ["--set", f"data.clients={clients}", "--set", f"federation.participation={share}"]
        wall, _, memory, rounds = run(apfl, SPECS / "many-clients.toml", *size)
        lines.append((clients, median(rounds[1:]), wall, memory))
    ratio = lines[1][1] / lines[0][1]
    text = [f"{n} clients, 1000 per round: {r:.3f} s per round, {w:.1f} s in total, {m:.0f} MB" for n, r, w, m in lines]
    return "\n".join(text + [f"time per round, a million clients against ten thousand: {ratio:.2f}×"])


def threads(apfl):
    lines = []
    equal = ["--set", "data.examples=600", "--set", "evaluation.every=1"]
    for name, args in [("100 equal clients", equal), ("lognormal sizes", [])]:
        args = args + ["--set", "training.local_epochs=5", "--set", "training.rounds=30"]
        args += ["--set", "delivery.clients=none"]
        one, two = (sum(run(apfl, *args, "--threads", n)[3]) for n in (1, 2))
        lines.append(f"two threads against one, {name}: {one / two:.2f}×")
    return "\n".join(lines)


def disk(apfl):
    lines = []
    for memory in ["ram", "disk"]:
        spec = [SPECS / "memories-on-disk.toml", "--set", f"engine.memory={memory}"]
        if memory == "disk":
            spec += ["--set", "engine.budget_mb=1500"]
        wall, summary, peak, rounds = run(apfl, *spec)
        lines.append((memory, median(rounds), wall, peak, summary["fingerprint"][:16]))
    text = [
        f"100,000 clients, 100 per round, client states in {m}: {r:.3f} s per round, {w:.0f} s in total, "
        f"{p:.0f} MB, fingerprint {f}"
        for m, r, w, p, f in lines
    ]
    return "\n".join(text + [f"speed of disk against RAM: {lines[0][1] / lines[1][1]:.2f}×"])


GOALS = {f.__name__: f for f in (start, default, thousand, fedjax, table2, many, threads, disk)}

if __name__ == "__main__":
    arguments = sys.argv[1:]
    apfl = str(HERE.parent / "target/release/apfl")
    if arguments and arguments[0] not in GOALS:
        apfl = os.path.abspath(arguments.pop(0))
    for name in arguments or GOALS:
        print(GOALS[name](apfl), flush=True)
