"""Checks that the PyTorch loops (eager and compiled) and the JAX loop end at the same w, v and α.

Runs a few rounds of a few clients from the same start with the same batches. Exits with 1 if
results differ by more than 1e-5; rounding alone gives about 1e-7.
"""

import sys

import numpy as np

import jax_scan
import pytorch
import work

CLIENTS, ROUNDS, STEPS, BATCH, TOLERANCE = 4, 3, 5, 20, 1e-5
work.L2["linear"] = 0.1  # λ of the benchmark is too small to be seen in so few steps


def difference(a, b):
    return max(float(np.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(a, b))


def compare(algorithm, name, channels_last, compiled):
    first = work.first_parameters(name, (20, 50))
    x, y = (jax_scan.jnp.asarray(a) for a in work.examples(name, CLIENTS))
    model = pytorch.Model(name, channels_last, compiled)
    ours = pytorch.Federation(algorithm, model, first, CLIENTS)
    theirs = jax_scan.Federation(algorithm, name, first, CLIENTS)
    images, labels = model.examples(CLIENTS)
    rng = np.random.default_rng(5)
    # A rate at which α moves visibly within three rounds and stays in (0, 1).
    eta = 0.02
    for _ in range(ROUNDS):
        batches = work.order(rng, CLIENTS, STEPS, BATCH)
        ours.round(images, labels, batches, eta)
        theirs.round(x, y, batches, eta)
    moved = difference(model.arrays(ours.w), first)
    differences = {"w": difference(model.arrays(ours.w), jax_scan.turned(theirs.w))}
    if algorithm == "apfl":
        for i in range(CLIENTS):
            own = jax_scan.turned([a[i] for a in theirs.v])
            differences["v"] = max(differences.get("v", 0), difference(model.arrays(ours.v[i]), own))
        differences["α"] = difference([ours.alpha], [theirs.alpha])
        moved = min(moved, abs(ours.alpha[0] - work.MIXING))
    # Two loops that do nothing would agree too.
    good = max(differences.values()) < TOLERANCE and moved > 10 * TOLERANCE
    layout = ", compiled" if compiled else ""
    layout += ", channels last" if channels_last else ""
    differences = ", ".join(f"{what} {value:.1e}" for what, value in differences.items())
    print(f"{algorithm}-{name}{layout}: differences {differences}: {'agree' if good else 'DIFFER'}")
    return good


def main():
    cases = [
        (algorithm, name, last, compiled)
        for compiled in (False, True)
        for algorithm in ("fedavg", "apfl")
        for name in work.L2
        for last in ((False, True) if name == "cnn" else (False,))
    ]
    sys.exit(0 if all([compare(*case) for case in cases]) else 1)


if __name__ == "__main__":
    main()
