"""Estimators for scikit-learn: personalized models with `fit(X, y, groups=clients)`.

>>> import numpy
>>> from apfl.sklearn import APFLClassifier
>>> rng = numpy.random.default_rng(0)
>>> X = rng.normal(size=(300, 3))
>>> clients = rng.choice(["north", "south"], 300)
>>> y = (X[:, 0] > 0) ^ (clients == "south")           # the clients disagree
>>> model = APFLClassifier().fit(X, y, groups=clients)
>>> bool(model.score(X, y, groups=clients) > 0.95)
True
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from ._model import Model
from ._run import Run
from ._train import train

__all__ = ["APFLClassifier", "APFLRegressor"]

Array = numpy.ndarray[Any, Any]

# Names that columns of a frame are unlikely to have.
_CLIENT, _LABEL, _SPLIT = "__client__", "__label__", "__split__"


class _Federated(BaseEstimator):  # type: ignore[misc]
    """Base of both estimators. Settings are keys of a spec; `spec` sets any other. All rows are
    for training unless `validation` holds out a share of each client's rows. The learning rate
    "auto" is found by a probe. Where rows are held out (by `validation`, or for a chosen mixing),
    training stops when their loss no longer improves, so that `rounds` is a maximum."""

    _task: str

    def __init__(
        self,
        algorithm: str = "apfl",
        *,
        mixing: Mapping[str, Any] | None = None,
        hidden: tuple[int, ...] = (),
        l2: float = 1e-4,
        rounds: int = 50,
        local_steps: int = 10,
        batch: int | str = 50,
        learning_rate: float | str = "auto",
        participation: float = 1.0,
        standardize: bool | str = True,
        validation: float = 0.0,
        random_state: int | None = 1,
        threads: int = 0,
        spec: Mapping[str, Any] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.mixing = mixing
        self.hidden = hidden
        self.l2 = l2
        self.rounds = rounds
        self.local_steps = local_steps
        self.batch = batch
        self.learning_rate = learning_rate
        self.participation = participation
        self.standardize = standardize
        self.validation = validation
        self.random_state = random_state
        self.threads = threads
        self.spec = spec

    run_: Run
    """The run: scores, report, the clients' models."""
    clients_: Array
    """The clients that have a model of their own."""
    n_features_in_: int

    def _spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "seed": 1 if self.random_state is None else self.random_state,
            "data": {
                "kind": "table",
                "task": self._task,
                "client": _CLIENT,
                "label": _LABEL,
                "standardize": self.standardize,
            },
            "model": {"kind": "logistic", "l2": self.l2},  # one linear layer
            "algorithm": {"kind": self.algorithm},
            "federation": {"participation": self.participation},
            "training": {
                "rounds": self.rounds,
                "local_steps": self.local_steps,
                "batch": self.batch,
            },
            "evaluation": {"every": self.rounds},
            "engine": {"threads": self.threads},
        }
        if self.learning_rate != "auto":  # the default for a table
            spec["training"]["learning_rate"] = self.learning_rate
        if self.validation > 0 or "chosen" in (self.mixing or {}):
            spec["training"]["stop"] = {"patience": 10}
            spec["evaluation"]["every"] = 1
        if self.validation > 0:
            spec["data"]["validation"] = self.validation
        else:
            spec["data"]["split"] = _SPLIT
        if len(self.hidden):
            spec["model"].update(kind="mlp", hidden=list(self.hidden))
        if self.mixing is not None:
            spec["algorithm"]["mixing"] = dict(self.mixing)
        return _merged(spec, self.spec or {})

    def _columns(self, X: Any, reset: bool) -> dict[str, Any]:
        """Returns the features by name. A frame keeps its names and types, an array has x0, x1, …"""
        if hasattr(X, "columns"):
            validate_data(self, X=X, reset=reset, skip_check_array=True)
            return {str(name): X[name] for name in X.columns}
        # NaN is a missing number.
        X = validate_data(self, X=X, reset=reset, dtype="numeric", ensure_all_finite="allow-nan")
        return {f"x{k}": X[:, k] for k in range(X.shape[1])}

    def _train(self, columns: dict[str, Any], y: Array, groups: Any) -> None:
        clients = _groups(groups, len(y))
        columns = columns | {_CLIENT: numpy.array(clients), _LABEL: y}
        if not self.validation > 0:
            # A run needs validation rows: the training rows, scored once at the end.
            twice = numpy.tile(numpy.arange(len(y)), 2)
            columns = {name: _picked(column, twice) for name, column in columns.items()}
            columns[_SPLIT] = ["train"] * len(y) + ["valid"] * len(y)
        self.run_ = train(self._spec(), data=columns)
        self.clients_ = numpy.array([client["client"] for client in self.run_.clients])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _predict(self, X: Any, groups: Any, method: str) -> Array:
        """Predicts each row by its client's model. Unknown clients, and all rows without groups,
        are served by the shared model."""
        check_is_fitted(self, "run_")
        columns = self._columns(X, reset=False)
        check_consistent_length(X, groups)
        rows = len(next(iter(columns.values())))
        if groups is None:
            predictions: Array = getattr(self._model(None), method)(columns)
            return predictions
        clients = numpy.array(_groups(groups, rows))
        known = set(self.clients_)
        served = numpy.array([name if name in known else "" for name in clients], dtype=object)
        out: Array | None = None
        for name in sorted(set(served)):
            mine = numpy.flatnonzero(served == name)
            part = {key: _picked(column, mine) for key, column in columns.items()}
            predictions = getattr(self._model(name or None), method)(part)
            if out is None:
                out = numpy.empty((rows, *predictions.shape[1:]), dtype=predictions.dtype)
            out[mine] = predictions
        assert out is not None
        return out

    def _model(self, client: str | None) -> Model:
        return self.run_.model(client, "shared" if client is None else "personal")


class APFLClassifier(ClassifierMixin, _Federated):  # type: ignore[misc]
    """A classifier with a model for every client.

    `fit(X, y, groups=clients)` trains one shared model and one for each client;
    `predict(X, groups=clients)` uses the model of each row's client. Without groups all rows are
    of one client, and the shared model predicts. X may be an array of numbers or a frame, whose
    texts and missing values are prepared as those of a table.
    """

    _task = "classification"
    classes_: Array

    def fit(self, X: Any, y: Any, groups: Any = None) -> APFLClassifier:
        """Trains on rows, their classes and their clients."""
        columns = self._columns(X, reset=True)
        y = _labels(self, X, y, groups)
        check_classification_targets(y)
        self.classes_, index = numpy.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"found one class, {self.classes_[0]!r}, expected at least two")
        self._train(columns, index, groups)
        return self

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Returns the class of each row by its client's model."""
        return self._of_class(self._predict(X, groups, "predict"))

    def predict_proba(self, X: Any, groups: Any = None) -> Array:
        """Returns the probability of each class."""
        check_is_fitted(self, "run_")
        seen = self._model(None).classes
        assert seen is not None
        scores = self._predict(X, groups, "predict_proba")
        out = numpy.zeros((len(scores), len(self.classes_)))
        out[:, seen] = scores  # a class may be missing in the training rows
        return out

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Returns the accuracy."""
        return float(accuracy_score(y, self.predict(X, groups), sample_weight=sample_weight))

    def _of_class(self, index: Array) -> Array:
        classes: Array = self.classes_[index]
        return classes


class APFLRegressor(RegressorMixin, _Federated):  # type: ignore[misc]
    """A regressor with a model for every client; see `APFLClassifier`."""

    _task = "regression"

    def fit(self, X: Any, y: Any, groups: Any = None) -> APFLRegressor:
        """Trains on rows, their values and their clients."""
        columns = self._columns(X, reset=True)
        y = _labels(self, X, y, groups)
        self._train(columns, numpy.asarray(y, dtype=numpy.float64), groups)
        return self

    def predict(self, X: Any, groups: Any = None) -> Array:
        """Returns the value of each row by its client's model."""
        return self._predict(X, groups, "predict")

    def score(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> float:
        """Returns R²."""
        return float(r2_score(y, self.predict(X, groups), sample_weight=sample_weight))


def _labels(estimator: Any, X: Any, y: Any, groups: Any) -> Array:
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but the target y "
            "is None"
        )
    check_consistent_length(X, y, groups)
    labels: Array = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f" and not numpy.isfinite(labels).all():
        raise ValueError("Input y contains NaN or infinity.")
    return labels


def _groups(groups: Any, rows: int) -> list[str]:
    """Returns the client of each row."""
    if groups is None:
        return ["all"] * rows
    return [str(name) for name in column_or_1d(groups)]


def _picked(column: Any, rows: Array) -> Any:
    if hasattr(column, "iloc"):
        return column.iloc[rows]
    return column[rows]


def _merged(spec: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in more.items():
        inner = spec.get(key)
        if isinstance(inner, dict) and isinstance(value, Mapping):
            _merged(inner, value)
        else:
            spec[key] = value
    return spec
