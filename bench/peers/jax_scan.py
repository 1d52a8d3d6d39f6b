"""APFL, FedAvg and single steps in JAX: one jit per round, scans over clients and steps,
one thread."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "")
    + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import work


def dense(p, x):
    """Logistic (no hidden layer) and MLP. The last weights are kept outputs first: with
    ten outputs, that is the order in which XLA is faster."""
    for k in range(0, len(p) - 2, 2):
        x = jax.nn.relu(x @ p[k] + p[k + 1])
    return x @ p[-2].T + p[-1]


def conv(x, filters):
    """A convolution as matrix products over shifted copies of the image.

    XLA's own convolution loses its fast path inside a scan on a CPU, and is then some ten
    times slower than this. Few channels: all shifts side by side, one product. Many: the
    shifts along the width side by side, one product for each row of the filter.
    """
    b, h, w, c = x.shape
    k, _, _, outputs = filters.shape
    h, w = h - k + 1, w - k + 1
    if c < 8:
        shifts = [x[:, i : i + h, j : j + w] for i in range(k) for j in range(k)]
        z = jnp.concatenate(shifts, 3).reshape(b * h * w, -1) @ filters.reshape(-1, outputs)
    else:
        wide = jnp.concatenate([x[:, :, j : j + w] for j in range(k)], 3)
        z = sum(
            wide[:, i : i + h].reshape(b * h * w, -1) @ filters[i].reshape(-1, outputs)
            for i in range(k)
        )
    return z.reshape(b, h, w, outputs)


def cnn(p, x):
    """conv 5×5, ReLU, max-pool 2, twice; dense, ReLU; dense.

    The pool is a maximum over a reshaped array: its gradient is much faster on a CPU
    than that of `reduce_window`, and differs only where two positive values are equal.
    """
    for k in (0, 2):
        z = jax.nn.relu(conv(x, p[k]) + p[k + 1])
        b, h, w, c = z.shape
        x = z.reshape(b, h // 2, 2, w // 2, 2, c).max((2, 4))
    return dense(p[4:], x.reshape(len(x), -1))


def turned(p):
    """Parameters with the last weights outputs first, or back again."""
    return [*p[:-2], jnp.array(p[-2].T), p[-1]]


def gradient(name, at, x, y):
    """∇f(at; ξ) of the cross-entropy + ½λ‖·‖²."""
    forward, l2 = (cnn if name == "cnn" else dense), work.L2[name]

    def loss(p):
        z = forward(p, x)
        own = jnp.take_along_axis(z, y[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(z, axis=1) - own)

    g = jax.grad(loss)(at)
    return [a + l2 * b for a, b in zip(g, at)] if l2 else g


def rows_of(x, y, rows):
    """ξ: the given rows, or the batch of the given number of examples in batches."""
    take = {"mode": "promise_in_bounds"}
    return x.at[rows].get(**take), y.at[rows].get(**take)


def descend(at, g, rate):
    return [a - rate * b for a, b in zip(at, g)]


def mix(alpha, v, w):
    return [b + alpha * (a - b) for a, b in zip(v, w)]


def apfl_round(name, w, v, alpha, x, y, batches, eta):
    """One client.

    w ← w − η∇f(w), v ← v − ηα∇f(v̄), α ← clip(α − η⟨v−w, ∇f(v̄)⟩) in the first step,
    v̄ ← αv + (1−α)w, every right-hand side at the values before the step.
    """

    def step(state, rows, learn=False):
        w, v, v_bar, alpha = state
        xi, yi = rows_of(x, y, rows)
        g_w, g = gradient(name, w, xi, yi), gradient(name, v_bar, xi, yi)
        new = alpha
        if learn:
            slope = sum(jnp.vdot(a - b, c) for a, b, c in zip(v, w, g))
            new = jnp.clip(alpha - eta * slope, 0.0, 1.0)
        w, v = descend(w, g_w, eta), descend(v, g, eta * alpha)
        return (w, v, mix(new, v, w), new), None

    state, _ = step((w, v, mix(alpha, v, w), alpha), batches[0], learn=True)
    (w, v, _, alpha), _ = lax.scan(step, state, batches[1:])
    return w, v, alpha


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def sgd(name, w, x, y, batches, eta):
    """w ← w − η∇f(w): a client of FedAvg, and the single step."""

    def step(w, rows):
        return descend(w, gradient(name, w, *rows_of(x, y, rows)), eta), None

    return lax.scan(step, w, batches)[0]


@partial(jax.jit, static_argnums=(0, 1), donate_argnums=(2, 3, 4))
def one_round(algorithm, name, w, v, alpha, x, y, batches, eta):
    """All clients in turn, then the server's mean."""

    def client(state, turn):
        total, v, alpha = state
        i, rows = turn
        if algorithm == "apfl":
            own = [a[i] for a in v]
            end, own, mixing = apfl_round(name, w, own, alpha[i], x, y, rows, eta)
            v = [a.at[i].set(b) for a, b in zip(v, own)]
            alpha = alpha.at[i].set(mixing)
        else:
            end = sgd(name, w, x, y, rows, eta)
        return ([a + b for a, b in zip(total, end)], v, alpha), None

    state = [jnp.zeros_like(a) for a in w], v, alpha
    (total, v, alpha), _ = lax.scan(client, state, (jnp.arange(len(batches)), batches))
    return [a / len(batches) for a in total], v, alpha


class Federation:
    """The server's w, and each client's v and α, which stay from round to round."""

    def __init__(self, algorithm, name, first, clients):
        self.algorithm, self.name = algorithm, name
        self.w = turned([jnp.array(a) for a in first])
        apfl = algorithm == "apfl"
        self.v = [jnp.tile(a, (clients,) + (1,) * a.ndim) for a in self.w] if apfl else []
        self.alpha = jnp.full(clients, work.MIXING, jnp.float32)

    def round(self, x, y, batches, eta=work.RATE):
        self.w, self.v, self.alpha = one_round(
            self.algorithm, self.name, self.w, self.v, self.alpha, x, y, batches, eta
        )
        jax.block_until_ready((self.w, self.v))


def prepare(algorithm, name, batch, channels, args):
    """Returns the function to measure, which runs some steps and returns their number."""
    clients = 1 if algorithm == "step" else work.CLIENTS[name]
    x, y = work.examples(name, clients)
    first = work.first_parameters(name, channels)
    if algorithm == "step":
        w = turned([jnp.array(a) for a in first])
        x, y = (jnp.asarray(work.in_batches(a, batch)) for a in (x, y))

        def steps(count=work.step_count(name, batch)):
            nonlocal w
            turns = np.arange(count, dtype=np.int32) % len(x)
            w = jax.block_until_ready(sgd(name, w, x, y, turns, work.RATE))
            return count

        return steps
    x, y = jnp.asarray(x), jnp.asarray(y)
    federation = Federation(algorithm, name, first, clients)
    rng = np.random.default_rng(4)

    def a_round(tau=work.LOCAL_STEPS[name]):
        federation.round(x, y, work.order(rng, clients, tau, batch))
        return clients * tau

    return a_round


if __name__ == "__main__":
    work.main(__doc__, lambda args: "jax-scan", prepare)
