"""Trained models of a run."""

from __future__ import annotations

import json
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy

from ._apfl import RunError, open_model

if TYPE_CHECKING:
    from ._run import Run


class Model:
    """A trained model of a run: the shared one, or a client's.

    It predicts raw rows: a frame or a dict of columns with the feature columns of the training
    table. Other columns are ignored.

    >>> import apfl
    >>> data = {"client": ["a"] * 8 + ["b"] * 8, "x": list(range(8)) * 2, "label": [0, 1] * 8}
    >>> model = apfl.train({"training": {"rounds": 2}}, data=data).model("a")
    >>> model
    Model(personal of client 'a': 1 feature, classes 0, 1)
    >>> model.predict({"x": [1.0, 2.5]}).dtype
    dtype('int64')
    >>> [(name, array.shape) for name, array in model.state_dict().items()]
    [('layer1.weight', (1, 2)), ('layer1.bias', (2,))]
    """

    def __init__(self, run: Run, client: str | None, which: str) -> None:
        self._model = open_model(os.fspath(run.directory), which, client or "")
        self._run = run  # its directory lives as long as the model
        self.client = client
        """The client; None for the shared model."""
        self.which = which
        """`personal`, `shared`, `localized`, `local` or `alone`."""

    @property
    def features(self) -> list[str]:
        """The names of the raw feature columns."""
        return self._model.features()

    @property
    def classes(self) -> numpy.ndarray[Any, Any] | None:
        """The classes, in the order of `predict_proba`'s columns; None in regression.

        They are numbers if all labels were numbers, bools if all were bools, else strings."""
        names = self._model.classes()
        return None if names is None else _typed(names)

    @property
    def schema(self) -> dict[str, Any]:
        """The run's `schema.json`: features, classes and the preparation of columns."""
        schema: dict[str, Any] = json.loads(self._model.schema())
        return schema

    def predict(self, data: Any) -> numpy.ndarray[Any, Any]:
        """Returns the class or the value of each row."""
        predictions, _ = self._predict(data)
        classes = self.classes
        if classes is None:
            return predictions
        labels: numpy.ndarray[Any, Any] = classes[predictions]
        return labels

    def predict_proba(self, data: Any) -> numpy.ndarray[Any, Any]:
        """Returns the probabilities: one row per row of `data`, one column per class."""
        if self._model.classes() is None:
            raise RunError("a regression has no class probabilities; use predict")
        if not self._model.has_probabilities():
            raise RunError(
                'the model\'s loss gives no probabilities; train with model.loss = "softmax"'
            )
        _, scores = self._predict(data)
        assert scores is not None
        return scores

    def _predict(
        self, data: Any
    ) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any] | None]:
        predictions, scores, notes = self._model.predict(data)
        for note in notes:
            warnings.warn(note, stacklevel=3)
        return predictions, scores

    def state_dict(self) -> dict[str, numpy.ndarray[Any, Any]]:
        """Returns the float32 tensors by layer, as `apfl export` writes them. They are writable
        copies, fit for torch.from_numpy. A dense weight has shape (inputs, outputs): y = x·W + b."""
        return dict(self._model.tensors())

    def __reduce__(self) -> Any:
        return (Model, (self._run, self.client, self.which))

    def __repr__(self) -> str:
        which = "shared" if self.client is None else f"{self.which} of client {self.client!r}"
        count = len(self.features)
        features = f"{count} feature" + ("" if count == 1 else "s")
        names = self._model.classes()
        if names is None:
            return f"Model({which}: {features}, a number)"
        more = ", …" if len(names) > 10 else ""
        return f"Model({which}: {features}, classes {', '.join(names[:10])}{more})"


def _typed(names: list[str]) -> numpy.ndarray[Any, Any]:
    """Converts the names of classes to bools or numbers if all of them are."""
    if set(names) <= {"false", "true"}:
        return numpy.array([name == "true" for name in names])
    for number in (int, float):
        try:
            return numpy.array([number(name) for name in names])
        except (OverflowError, ValueError):
            pass
    return numpy.array(names)
