"""Runs a whole job with the published package fluke (PyPI: fluke-fl), on one thread.

    python fluke_job.py fedavg|ditto|apfl [--rounds 5]

The job of bench/specs/whole-job.toml: MNIST over 100 clients, 480 training rows each, an MLP
784-200-200-10, one local epoch of batch 20 on every client and round. Prints a line of JSON with the
seconds of the rounds alone; the caller times the process.
"""

import argparse
import json
import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.apfl import APFL
from fluke.algorithms.ditto import Ditto
from fluke.algorithms.fedavg import FedAVG
from fluke.data import DataContainer, DataSplitter
from fluke.evaluation import ClassificationEval

import work

torch.set_num_threads(1)

# Ditto's personal model takes one epoch too; APFL's α is fixed, and the server aggregates every round.
KINDS = {
    "fedavg": (FedAVG, {}, {}),
    "ditto": (Ditto, {"tau": 1, "lam": 0.1}, {}),
    "apfl": (APFL, {"lam": 0.25}, {"tau": 1}),
}


def job(kind):
    algorithm, client, server = KINDS[kind]
    FlukeENV().set_seed(1)
    FlukeENV().set_device("cpu")
    FlukeENV().set_inmemory(True)
    FlukeENV().set_evaluator(ClassificationEval(eval_every=1, n_classes=work.CLASSES))
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    images, labels = work.digits()
    x = torch.from_numpy(images.copy()).float().div_(255)
    y = torch.from_numpy(labels.copy()).long()
    data = DataContainer(x, y, x[:100], y[:100], work.CLASSES)
    splitter = DataSplitter(dataset=data, distribution="iid", client_split=0.2)
    hyper = DDict(
        client=DDict(
            batch_size=20,
            local_epochs=1,
            loss="CrossEntropyLoss",
            optimizer=DDict(name="SGD", lr=work.RATE),
            scheduler=DDict(name="StepLR", gamma=1.0, step_size=1),
            **client,
        ),
        server=DDict(weighted=False, **server),
        model="MNIST_2NN",
        net_args=DDict(hidden_size=(200, 200), softmax=False),
    )
    if kind != "fedavg":  # the others have a model of their own at every client
        hyper.client.update(model=hyper.model, net_args=hyper.net_args)
    return algorithm(n_clients=100, data_splitter=splitter, hyper_params=hyper)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    federation = job(args.kind)
    started = time.perf_counter()
    federation.run(n_rounds=args.rounds, eligible_perc=1.0)
    rounds = time.perf_counter() - started
    print(json.dumps({"peer": "fluke", "kind": args.kind, "rounds_seconds": round(rounds, 2)}))


if __name__ == "__main__":
    main()
