"""The PyTorch loops, eager and compiled, and the JAX loop end at the same numbers: w, every v and every α.

A few rounds of a few clients from the same start with the same batches. Fails, with
exit status 1, where they differ by more than 1e-5: rounding alone gives some 1e-7.
"""

import sys

import numpy as np

import jax_scan
import pytorch
import work

CLIENTS, ROUNDS, STEPS, BATCH, MOST = 4, 3, 5, 20, 1e-5
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
    # A rate at which α moves visibly within three rounds, and stays inside of (0, 1).
    eta = 0.02
    for _ in range(ROUNDS):
        batches = work.order(rng, CLIENTS, STEPS, BATCH)
        ours.round(images, labels, batches, eta)
        theirs.round(x, y, batches, eta)
    moved = difference(model.arrays(ours.w), first)
    apart = {"w": difference(model.arrays(ours.w), jax_scan.turned(theirs.w))}
    if algorithm == "apfl":
        for i in range(CLIENTS):
            own = jax_scan.turned([a[i] for a in theirs.v])
            apart["v"] = max(apart.get("v", 0), difference(model.arrays(ours.v[i]), own))
        apart["α"] = difference([ours.alpha], [theirs.alpha])
        moved = min(moved, abs(ours.alpha[0] - work.MIXING))
    # Two loops that do nothing would agree as well.
    good = max(apart.values()) < MOST and moved > 10 * MOST
    layout = ", compiled" if compiled else ""
    layout += ", channels last" if channels_last else ""
    apart = ", ".join(f"{what} {value:.1e}" for what, value in apart.items())
    print(f"{algorithm}-{name}{layout}: apart by {apart}: {'agree' if good else 'DIFFER'}")
    return good


def main():
    works = [
        (algorithm, name, last, compiled)
        for compiled in (False, True)
        for algorithm in ("fedavg", "apfl")
        for name in work.L2
        for last in ((False, True) if name == "cnn" else (False,))
    ]
    sys.exit(0 if all([compare(*w) for w in works]) else 1)


if __name__ == "__main__":
    main()
