"""APFL, FedAvg and single steps in PyTorch, one thread: a plain eager loop with autograd, or
with --compile a loop of steps made by torch.compile (inductor), updates included."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from functools import partial

import numpy as np
import torch
import torch.nn.functional as F

import work

torch.set_num_threads(1)


def dense(p, x):
    """Logistic (no hidden layer) and MLP."""
    for k in range(0, len(p) - 2, 2):
        x = F.relu(F.linear(x, p[k], p[k + 1]))
    return F.linear(x, p[-2], p[-1])


def cnn(p, x):
    """conv 5×5, ReLU, max-pool 2, twice; dense, ReLU; dense."""
    for k in (0, 2):
        x = F.max_pool2d(F.relu(F.conv2d(x, p[k], p[k + 1])), 2)
    return dense(p[4:], x.flatten(1))


class Model:
    """f(·; ξ) = cross-entropy + ½λ‖·‖², over lists of tensors."""

    def __init__(self, model, channels_last=False, compiled=False):
        self.name, self.forward = model, cnn if model == "cnn" else dense
        self.apfl_round = Compiled(self).apfl_round if compiled else partial(apfl_round, self)
        self.sgd = Compiled(self).sgd if compiled else partial(sgd, self)
        self.l2 = work.L2[model]
        images = channels_last and model == "cnn"
        self.layout = torch.channels_last if images else torch.contiguous_format

    def tensors(self, arrays):
        """Parameters from NumPy's layout: inputs first → outputs first."""
        out = []
        for k, a in enumerate(arrays):
            t = torch.from_numpy(a)
            if t.dim() == 4:
                t = t.permute(3, 2, 0, 1).contiguous(memory_format=self.layout)
            elif t.dim() == 2:
                if k > 0 and arrays[k - 2].ndim == 4:  # (height, width, channel) → channel first
                    t = t.view(5, 5, -1, t.shape[1]).permute(2, 0, 1, 3).flatten(0, 2)
                t = t.t().contiguous()
            out.append(t.clone(memory_format=torch.preserve_format))
        return out

    def arrays(self, tensors):
        """Parameters back in NumPy's layout."""
        out = []
        for k, t in enumerate(tensors):
            if t.dim() == 4:
                t = t.permute(2, 3, 1, 0)
            elif t.dim() == 2:
                t = t.t()
                if k > 0 and tensors[k - 2].dim() == 4:
                    t = t.reshape(-1, 5, 5, t.shape[1]).permute(1, 2, 0, 3).flatten(0, 2)
            out.append(np.ascontiguousarray(t.numpy()))
        return out

    def examples(self, clients):
        planes = self.layout is torch.contiguous_format
        x, y = work.examples(self.name, clients, planes)
        return torch.from_numpy(x), torch.from_numpy(y).long()

    def batch(self, x, y, rows):
        """ξ: the given rows, or the batch of the given number of examples in batches. Images
        keep their memory layout, since index_select would return planes."""
        if isinstance(rows, int):
            x, y = x[rows], y[rows]
        else:
            x, y = x.index_select(0, rows), y.index_select(0, rows)
        if self.layout is torch.channels_last:
            x = x.permute(0, 3, 1, 2)
        return x, y

    def loss(self, at, x, y):
        return F.cross_entropy(self.forward(at, x), y)

    def decay(self, g, at):
        """g ← g + λ·at"""
        if self.l2:
            torch._foreach_add_(g, at, alpha=self.l2)


def leaves(tensors):
    """The same memory, as parameters that gradients are taken at."""
    return [t.detach().requires_grad_() for t in tensors]


def copies(tensors):
    return [t.clone(memory_format=torch.preserve_format) for t in tensors]


def apfl_round(model, w, v, alpha, x, y, batches, eta):
    """One client: updates w and v in place and returns the new α.

    w ← w − η∇f(w), v ← v − ηα∇f(v̄), α ← clip(α − η⟨v−w, ∇f(v̄)⟩) in the first step,
    v̄ ← αv + (1−α)w, every right-hand side at the values before the step.
    """
    v_bar = [torch.lerp(a, b, alpha) for a, b in zip(w, v)]
    at_w, at_v_bar = leaves(w), leaves(v_bar)
    both, n = at_w + at_v_bar, len(w)
    for step, rows in enumerate(batches):
        xi, yi = model.batch(x, y, rows)
        # The two losses share no parameter: one backward pass gives both gradients.
        loss = model.loss(at_w, xi, yi) + model.loss(at_v_bar, xi, yi)
        g = torch.autograd.grad(loss, both)
        g_w, g = g[:n], g[n:]
        model.decay(g_w, w)
        model.decay(g, v_bar)
        old = alpha
        if step == 0:
            slope = sum(torch.sum((b - a) * c) for a, b, c in zip(w, v, g))
            alpha = min(max(alpha - eta * slope.item(), 0.0), 1.0)
        torch._foreach_add_(w, g_w, alpha=-eta)
        torch._foreach_add_(v, g, alpha=-eta * old)
        for a, b, c in zip(w, v, v_bar):
            torch.lerp(a, b, alpha, out=c)
    return alpha


def sgd(model, w, x, y, batches, eta):
    """w ← w − η∇f(w), in place: a client of FedAvg, and the single step."""
    at_w = leaves(w)
    for rows in batches:
        loss = model.loss(at_w, *model.batch(x, y, rows))
        g = torch.autograd.grad(loss, at_w)
        model.decay(g, w)
        torch._foreach_add_(w, g, alpha=-eta)


class Compiled:
    """The same two loops over steps that are one compiled graph each: forward, backward and
    the updates, which inductor joins to loops of its own."""

    def __init__(self, model):
        self.model = model
        whole = partial(torch.compile, dynamic=False, fullgraph=True)
        self.first_step = whole(partial(self.apfl_step, learn=True))
        self.step = whole(self.apfl_step)
        self.sgd_step = whole(self.one_step)

    def gradient(self, at, x, y):
        g = torch.func.grad(self.model.loss)(at, x, y)
        return [a + self.model.l2 * b for a, b in zip(g, at)] if self.model.l2 else g

    def apfl_step(self, w, v, v_bar, alpha, x, y, eta, learn=False):
        g_w, g = self.gradient(w, x, y), self.gradient(v_bar, x, y)
        new = alpha
        if learn:
            slope = sum(torch.sum((b - a) * c) for a, b, c in zip(w, v, g))
            new = torch.clamp(alpha - eta * slope, 0.0, 1.0)
        for a, b, c, d, e in zip(w, v, v_bar, g_w, g):
            a.sub_(eta * d)
            b.sub_(eta * alpha * e)
            c.copy_(a + new * (b - a))
        return new

    def one_step(self, w, x, y, eta):
        for a, g in zip(w, self.gradient(w, x, y)):
            a.sub_(eta * g)

    @torch.no_grad()
    def apfl_round(self, w, v, alpha, x, y, batches, eta):
        """As `apfl_round`."""
        alpha = torch.tensor(alpha)
        v_bar = [torch.lerp(a, b, alpha) for a, b in zip(w, v)]
        step = self.first_step
        for rows in batches:
            alpha = step(w, v, v_bar, alpha, *self.model.batch(x, y, rows), eta)
            step = self.step
        return alpha.item()

    @torch.no_grad()
    def sgd(self, w, x, y, batches, eta):
        """As `sgd`."""
        for rows in batches:
            self.sgd_step(w, *self.model.batch(x, y, rows), eta)


class Federation:
    """The server's w, and each client's v and α, which stay from round to round."""

    def __init__(self, algorithm, model, first, clients):
        self.algorithm, self.model = algorithm, model
        self.w = model.tensors(first)
        self.v = [copies(self.w) for _ in range(clients)] if algorithm == "apfl" else None
        self.alpha = [work.MIXING] * clients

    def round(self, x, y, batches, eta=work.RATE):
        total = [torch.zeros_like(t) for t in self.w]
        for i, rows in enumerate(torch.from_numpy(batches)):
            w = copies(self.w)
            if self.algorithm == "apfl":
                self.alpha[i] = self.model.apfl_round(
                    w, self.v[i], self.alpha[i], x, y, rows, eta
                )
            else:
                self.model.sgd(w, x, y, rows, eta)
            torch._foreach_add_(total, w)
        torch._foreach_div_(total, len(batches))
        self.w = total


def prepare(algorithm, name, batch, channels, args):
    """Returns the function to measure, which runs some steps and returns their number."""
    model = Model(name, args.channels_last, args.compile)
    clients = 1 if algorithm == "step" else work.CLIENTS[name]
    x, y = model.examples(clients)
    first = work.first_parameters(name, channels)
    if algorithm == "step":
        w, x, y = model.tensors(first), work.in_batches(x, batch), work.in_batches(y, batch)

        def steps(count=work.step_count(name, batch)):
            model.sgd(w, x, y, [k % len(x) for k in range(count)], work.RATE)
            return count

        return steps
    federation = Federation(algorithm, model, first, clients)
    rng = np.random.default_rng(4)

    def one_round(tau=work.LOCAL_STEPS[name]):
        federation.round(x, y, work.order(rng, clients, tau, batch))
        return clients * tau

    return one_round


def options(parser):
    parser.add_argument("--channels-last", action="store_true", help="memory format of the CNN")
    parser.add_argument("--compile", action="store_true", help="steps made by torch.compile")


def peer(args):
    how = "compile" if args.compile else None if args.channels_last else "eager"
    layout = "channels-last" if args.channels_last else None
    return "-".join(filter(None, ("pytorch", how, layout)))


if __name__ == "__main__":
    work.main(__doc__, peer, prepare, options)
