"""The benchmarks that every peer runs: clients, examples, batches, first parameters, timing.

Clients have 600 examples, 480 of them for training, as in `apfl bench`. This file has what must be
the same for every peer.
"""

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

EXAMPLES, TRAIN, CLASSES = 600, 480, 10
RATE, MIXING = 0.01, 0.5  # η and α⁰
L2 = {"linear": 1e-4, "mlp": 0.0, "cnn": 0.0}
LOCAL_STEPS = {"linear": 10, "mlp": 20, "cnn": 10}
CLIENTS = {"linear": 100, "mlp": 100, "cnn": 10}  # a CNN's round of 100 takes a minute
BENCHMARKS = [  # name, batch
    ("apfl-linear", 20),
    ("apfl-mlp", 20),
    ("apfl-cnn", 20),
    ("fedavg-mlp", 20),
    *((f"step-{model}", batch) for model in L2 for batch in (20, 50)),
]


def shapes(model, channels=(32, 64)):
    """Weights and biases in turn: dense (inputs, outputs), filters (k, k, inputs, outputs).

    Two 5×5 convolutions without padding, each pooled by 2: 32 → 28 → 14 → 10 → 5.
    """
    first, second = channels
    weights = {
        "linear": [(784, 10)],
        "mlp": [(784, 200), (200, 200), (200, 10)],
        "cnn": [(5, 5, 3, first), (5, 5, first, second), (25 * second, 512), (512, 10)],
    }[model]
    return [shape for weight in weights for shape in (weight, weight[-1:])]


def first_parameters(model, channels=(32, 64)):
    """Zeros for the linear model, else uniform in ±1/√(inputs of the unit)."""
    rng = np.random.default_rng(1)
    parameters, bound = [], 0.0
    for shape in shapes(model, channels):
        if len(shape) > 1:
            bound = 0.0 if model == "linear" else np.prod(shape[:-1]) ** -0.5
        parameters.append(rng.uniform(-bound, bound, shape).astype(np.float32))
    return parameters


def read_idx(path):
    """The bytes of an IDX file, plain or gzipped; None where there is no such file."""
    for path, opener in ((path, open), (Path(f"{path}.gz"), gzip.open)):
        if path.is_file():
            with opener(path, "rb") as file:
                content = file.read()
            if content[:3] != b"\0\0\x08":
                sys.exit(f"{path}: is not an IDX file of bytes")
            shape = np.frombuffer(content, ">u4", content[3], 4)
            return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)
    return None


def digits():
    """Bytes (60000, 784) and labels: MNIST in $APFL_DATA/mnist, else as sparse as MNIST."""
    folder = Path(os.environ.get("APFL_DATA", "")) / "mnist"
    images = read_idx(folder / "train-images-idx3-ubyte")
    labels = read_idx(folder / "train-labels-idx1-ubyte")
    if images is not None and labels is not None:
        return images.reshape(len(images), -1), labels
    print(f"no MNIST in {folder} ($APFL_DATA): random bytes, 81% zeros", file=sys.stderr)
    rng = np.random.default_rng(2)
    images = rng.integers(1, 256, (60_000, 784), np.uint8)
    images[rng.random(images.shape, np.float32) < 0.81] = 0
    return images, rng.integers(0, CLASSES, len(images), np.uint8)


def examples(model, clients, planes=False):
    """Training rows of all clients, one client after the other, and their labels.

    Each client has two stripes of the digits in order of their label, hence about two
    classes. Floats, as PyTorch and JAX loops keep them: (rows, 784), or (rows, 32, 32, 3),
    or with `planes` (rows, 3, 32, 32).
    """
    rng = np.random.default_rng(3)
    if model == "cnn":
        x = np.empty((clients, TRAIN, *((3, 32, 32) if planes else (32, 32, 3))), np.float32)
        for client in x:
            sampled = rng.random((TRAIN, 32, 32, 3), np.float32) - np.float32(0.5)
            client[:] = sampled.transpose(0, 3, 1, 2) if planes else sampled
        return x.reshape(-1, *x.shape[2:]), rng.integers(0, CLASSES, clients * TRAIN, np.int32)
    images, labels = digits()
    stripes = np.argsort(labels, kind="stable").reshape(-1, EXAMPLES // 2)
    stripes = rng.permutation(stripes).reshape(-1, EXAMPLES)[:clients]
    clients = rng.permuted(stripes, axis=1)[:, :TRAIN]
    # Bytes are converted by a table, client by client, to avoid a copy of all data as floats.
    counts = sum(np.bincount(images[rows].ravel(), minlength=256) for rows in clients)
    mean = counts @ np.arange(256) / counts.sum()
    deviation = np.sqrt(counts @ (np.arange(256) - mean) ** 2 / counts.sum())
    table = ((np.arange(256) - mean) / deviation).astype(np.float32)
    x = np.empty((clients.size, images.shape[1]), np.float32)
    for k, rows in enumerate(clients):
        x[k * TRAIN : (k + 1) * TRAIN] = table[images[rows]]
    return x, labels[clients.ravel()].astype(np.int32)


def order(rng, clients, steps, batch):
    """Rows of each client's mini-batches, (clients, steps, batch): a fresh permutation of
    its training rows for each client and round. No benchmark takes more than one pass."""
    assert steps * batch <= TRAIN
    rows = np.arange(clients * TRAIN, dtype=np.int32).reshape(clients, TRAIN)
    return rng.permuted(rows, axis=1)[:, : steps * batch].reshape(clients, steps, batch)


def in_batches(examples, batch):
    """The first client's examples as (batches, batch, …), for steps without sampling."""
    whole = TRAIN // batch
    return examples[: whole * batch].reshape(whole, batch, *examples.shape[1:])


def step_count(model, batch):
    """The number of steps per call for a model alone: some passes over those batches."""
    return TRAIN // batch * (1 if model == "cnn" else 10)


def peak_rss_mb():
    """The peak memory of this process in 10⁶ bytes. Prefers VmHWM, as exec keeps the
    ru_maxrss of the calling process."""
    try:
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) * 1024 / 1e6
    except (OSError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most * (1 if sys.platform == "darwin" else 1024) / 1e6


def measure(call, seconds):
    """Calls `call`, which returns its number of steps, for `seconds`, after a warm-up."""
    for _ in range(2):
        call()
    steps, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        steps += call()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "steps_per_second": round(steps / wall, 1),
        "steps_per_cpu_second": round(steps / cpu, 1),
        "seconds": round(wall, 2),
        "peak_rss_mb": round(peak_rss_mb(), 1),
    }


def main(description, peer, prepare, options=lambda parser: None):
    """The command of a peer: prints one line of JSON per benchmark, each in its own process,
    so that its peak memory is its own."""
    parser = argparse.ArgumentParser(description=description)
    names = list(dict.fromkeys(name for name, _ in BENCHMARKS))
    parser.add_argument("--work", choices=names, help="only this benchmark")
    parser.add_argument("--batch", type=int, choices=(20, 50), help="only this batch size")
    parser.add_argument("--channels", default="32,64", choices=("32,64", "20,50"))
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds to measure each benchmark")
    parser.add_argument("--check", action="store_true", help="compare the peers' results instead")
    options(parser)
    args = parser.parse_args()
    if args.check:
        sys.exit(subprocess.run([sys.executable, Path(__file__).with_name("check.py")]).returncode)
    chosen = [
        (work, batch)
        for work, batch in BENCHMARKS
        if args.work in (None, work) and args.batch in (None, batch)
    ]
    if not chosen:
        parser.error(f"{args.work} is not measured with batch {args.batch}")
    if len(chosen) > 1:
        for work, batch in chosen:
            only = ["--work", work, "--batch", str(batch)]
            done = subprocess.run([sys.executable, *sys.argv, *only])
            if done.returncode:
                sys.exit(f"{peer(args)}: {work} with batch {batch} failed")
        return
    [(work, batch)] = chosen
    channels = tuple(int(c) for c in args.channels.split(","))
    call = prepare(*work.split("-"), batch, channels, args)
    line = {"peer": peer(args), "work": work, "batch": batch, "threads": 1}
    if work.endswith("cnn"):
        line["channels"] = channels
    print(json.dumps(line | measure(call, args.seconds)), flush=True)
