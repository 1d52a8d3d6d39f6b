"""Personalized federated learning: one shared model, and a personal model for each client.

>>> import apfl
>>> run = apfl.train({"data": {"clients": 5}, "training": {"rounds": 3}})
>>> len(run.rounds), len(run.clients)
(3, 5)
>>> run.model("0").predict({f"x{k}": [0.5, -0.5] for k in range(60)}).shape
(2,)

Give your own rows as a frame of pandas, polars or pyarrow, or as a dict of columns. The guide is
docs/PYTHON.md of the project.
"""

from ._apfl import RunError, SpecError, version as _version
from ._model import Model
from ._records import Records
from ._run import Run, load
from ._train import train

__version__: str = _version()[0]

__all__ = [
    "Model",
    "Records",
    "Run",
    "RunError",
    "SpecError",
    "load",
    "train",
]
