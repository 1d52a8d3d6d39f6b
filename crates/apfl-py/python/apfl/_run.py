"""Runs: numbers, models and report."""

from __future__ import annotations

import html
import json
import os
import shutil
import tempfile
import tomllib
import weakref
from functools import cached_property
from pathlib import Path
from typing import Any

from ._apfl import RunError, advise, report, require_run
from ._apfl import train as _train
from ._model import Model
from ._records import Records, read

# The files of a run that are pickled; checkpoints are not.
_KEPT = ["spec.toml", "environment.json", "schema.json", "rounds.jsonl", "clients.jsonl", "summary.json"]


class Temporary:
    """A directory that is removed with this object, in the process that created it."""

    def __init__(self) -> None:
        self.path = os.path.abspath(tempfile.mkdtemp(prefix="apfl-"))
        weakref.finalize(self, _remove, self.path, os.getpid())
        _TEMPORARY[self.path] = self


_TEMPORARY: weakref.WeakValueDictionary[str, Temporary] = weakref.WeakValueDictionary()


def _remove(path: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(path, ignore_errors=True)


class Run:
    """A run in its directory, returned by `apfl.train` and `apfl.load`.

    >>> import apfl
    >>> run = apfl.train({"data": {"clients": 4}, "training": {"rounds": 2}})
    >>> run
    Run(apfl on synthetic: 2 rounds, 4 clients, finished)
    >>> run.finished, len(run.fingerprint), sorted(run.summary["personal"])
    (True, 64, ['max', 'mean', 'min', 'pooled', 'std', 'worst_decile'])
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        _temporary: Temporary | None = None,
    ) -> None:
        self.directory = Path(directory).absolute()
        """The run directory."""
        # A run in a temporary directory keeps the directory alive.
        self._temporary = _temporary or _TEMPORARY.get(os.fspath(self.directory))
        self.finished: bool = require_run(os.fspath(self.directory))
        """Whether it has all rounds and a summary; if not, it can be resumed."""

    @cached_property
    def summary(self) -> dict[str, Any] | None:
        """The final numbers, `summary.json`; None if the run is not finished."""
        if not self.finished:
            return None
        summary: dict[str, Any] = json.loads(self._text("summary.json"))
        return summary

    @property
    def fingerprint(self) -> str | None:
        """A hash of the whole state of training; None if the run is not finished."""
        return None if self.summary is None else str(self.summary["fingerprint"])

    @cached_property
    def rounds(self) -> Records:
        """One dict per round, `rounds.jsonl`."""
        return self._lines("rounds.jsonl")

    @cached_property
    def clients(self) -> Records:
        """One dict per finalized client, `clients.jsonl`."""
        return self._lines("clients.jsonl") if self.finished else Records()

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The resolved spec, with all defaults."""
        return tomllib.loads(self._text("spec.toml"))

    @cached_property
    def notes(self) -> list[str]:
        """Notes on the data."""
        lines = self._text("spec.toml").splitlines()
        return [line[2:] for line in lines if line.startswith("# ")]

    def finish(self, data: Any = None, *, force: bool = False) -> Run:
        """Ends a run that was stopped (by `on_round`, Ctrl-C or a kill) at its last checkpoint:
        with scores, models and a report, as a finished run of that many rounds. Returns it.

        data: the rows that were given to `apfl.train`, if any.
        force: finishes a run of another version.

        >>> import apfl
        >>> spec = {"data": {"clients": 3}, "training": {"rounds": 5}}
        >>> run = apfl.train(spec, on_round=lambda record: record["round"] < 2).finish()
        >>> run.finished, len(run.rounds), len(run.clients)
        (True, 2, 3)
        """
        if not self.finished:
            _train(None, data, os.fspath(self.directory), True, True, force, None)
            fresh = Run(self.directory, _temporary=self._temporary)
            if self._temporary is None:
                fresh.report()
            self.__dict__.clear()
            self.__dict__.update(fresh.__dict__)
        return self

    def model(self, client: object = None, which: str = "personal") -> Model:
        """Returns a model: a client's `personal`, `localized` or `local` one, that of training
        `alone` if the run has it, or the `shared` one, which needs no client."""
        self._require_finished()
        if which == "shared":
            client = None
        elif client is None:
            raise RunError(
                'client is missing; name a client, or use which="shared"'
            )
        return Model(self, None if client is None else str(client), which)

    def advise(self) -> dict[str, Any]:
        """Returns whether joining is worth it, for whom, and which model should serve each client.

        The dict has `part` (the rows that measured), `clients` (for each its rows, α, the model to
        serve, the gain with its 95% interval and the verdict: helps, harms or undecided) and
        `total`. The run must have chosen its mixing with 1 among the candidates:
        `"mixing": {"chosen": [0, 0.25, 0.5, 0.75, 1]}`."""
        self._require_finished()
        advice: dict[str, Any] = json.loads(advise(os.fspath(self.directory)))
        return advice

    def report(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Writes a self-contained HTML page with the run's curves, clients and scores, by default
        `report.html` in the run directory. Returns its path."""
        path = self.directory / "report.html" if path is None else Path(path)
        report([os.fspath(self.directory)], os.fspath(path))
        return path

    def _require_finished(self) -> None:
        if not self.finished:
            raise RunError(
                f"{self.directory}: the run is not finished; "
                f"apfl.train(resume={str(self.directory)!r}) resumes it, "
                "and its finish() ends it at its last checkpoint"
            )

    def _text(self, name: str) -> str:
        path = self.directory / name
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise RunError(f"{path}: cannot read: {error.strerror}") from error

    def _lines(self, name: str) -> Records:
        path = self.directory / name
        try:
            return read(path, whole=self.finished)
        except OSError as error:
            raise RunError(f"{path}: cannot read: {error.strerror}") from error
        except ValueError as error:
            raise RunError(f"{path}: the file is damaged: {error}") from error

    def __reduce__(self) -> Any:
        """Pickles a run as its path; a run in a temporary directory with its files, without
        checkpoints."""
        if self._temporary is None:
            return (load, (os.fspath(self.directory),))
        models = sorted(path.name for path in (self.directory / "models").glob("*.safetensors"))
        names = _KEPT + [f"models/{name}" for name in models]
        paths = ((name, self.directory / name) for name in names)
        return (_unpacked, ({name: path.read_bytes() for name, path in paths if path.exists()},))

    def __repr__(self) -> str:
        done = len(self.rounds)
        rounds = f"{done} round" + ("" if done == 1 else "s")
        kind = f"{self.spec['algorithm']['kind']} on {self.spec['data']['kind']}"
        if self.summary is None:
            return f"Run({kind}: {rounds} of {self.spec['training']['rounds']}, not finished)"
        return f"Run({kind}: {rounds}, {self.summary['clients']} clients, finished)"

    def _repr_html_(self) -> str:
        """Returns the table of the three models for notebooks."""
        line = f"<p>{html.escape(repr(self))}</p>"
        if self.summary is None or "personal" not in self.summary:
            return line
        regression = self.summary["personal"]["pooled"]["train"].get("accuracy") is None
        parts = [part for part in ("train", "valid", "test") if self.summary["personal"]["pooled"].get(part)]
        head = "".join(
            f"<th>{part} loss</th><th>{'rmse' if regression else 'accuracy'}</th>" for part in parts
        )
        rows = []
        for which in ("shared", "localized", "personal"):
            cells = []
            for part in parts:
                score = self.summary[which]["pooled"][part]
                cells.append(_number(score.get("loss"), "{:.4f}"))
                cells.append(
                    _number(score.get("rmse"), "{:.4g}")
                    if regression
                    else _number(score.get("accuracy"), "{:.2%}")
                )
            cells = [f"<td>{cell}</td>" for cell in cells]
            rows.append(f"<tr><th>{which}</th>{''.join(cells)}</tr>")
        return f"{line}<table><thead><tr><th></th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def load(directory: str | os.PathLike[str]) -> Run:
    """Opens a run directory made by Python or by `apfl run`."""
    return Run(directory)


def _unpacked(files: dict[str, bytes]) -> Run:
    home = Temporary()
    for name, content in files.items():
        path = Path(home.path) / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    return Run(home.path, _temporary=home)


def _number(value: float | None, form: str) -> str:
    return "–" if value is None else form.format(value)
