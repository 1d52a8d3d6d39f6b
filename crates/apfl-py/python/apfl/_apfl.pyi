"""The Rust module: crates/apfl-py/src."""

from collections.abc import Callable
from typing import Any, final

import numpy

__all__ = [
    "RunError",
    "SpecError",
    "TrainedModel",
    "advise",
    "answer",
    "open_model",
    "refusal",
    "report",
    "require_run",
    "serve",
    "terms",
    "train",
    "version",
]

class SpecError(ValueError):
    """The request is invalid and nothing was done."""

    problems: list[tuple[str, str]]
    """(key, message) of each problem."""

class RunError(RuntimeError):
    """The request could not be carried out."""

@final
class TrainedModel:
    def features(self) -> list[str]: ...
    def classes(self) -> list[str] | None: ...
    def schema(self) -> str: ...
    def has_probabilities(self) -> bool: ...
    def predict(
        self, data: Any
    ) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any] | None, list[str]]: ...
    def tensors(self) -> list[tuple[str, numpy.ndarray[Any, Any]]]: ...

def advise(directory: str) -> str: ...
def answer(
    client: str, data: str, state: str, accept: str, request: bytes
) -> tuple[bytes, str | None]: ...
def refusal(request: bytes) -> bytes: ...
def open_model(directory: str, which: str, client: str) -> TrainedModel: ...
def report(runs: list[str], file: str) -> None: ...
def require_run(directory: str) -> bool: ...
def train(
    spec: Any,
    data: Any,
    directory: str,
    resume: bool,
    finish: bool,
    force: bool,
    watch: Callable[[str, int, str | None], bool] | None,
) -> tuple[bool, int]: ...
def serve(
    spec: Any,
    directory: str,
    resume: bool,
    finish: bool,
    exchange: Callable[[list[tuple[str, bytes]]], list[tuple[str, bytes]]],
    note: Callable[[str], object],
    watch: Callable[[str, int, str | None], object],
) -> tuple[bool, int, str]: ...
def terms(spec: Any) -> tuple[str, list[str], int]: ...
def version() -> tuple[str, str]: ...
