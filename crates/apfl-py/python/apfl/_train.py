"""Training."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ._apfl import train as _train
from ._progress import Progress
from ._run import Run, Temporary


def train(
    spec: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    data: Any = None,
    out: str | os.PathLike[str] | None = None,
    *,
    resume: str | os.PathLike[str] | None = None,
    on_round: Callable[[dict[str, Any]], object] | None = None,
    progress: bool = False,
    force: bool = False,
) -> Run:
    """Trains and finalizes a run, and returns it.

    spec: a dict, TOML text, or a path to a TOML file. Missing keys have defaults.
    data: the rows of the spec's table: a frame of pandas, polars or pyarrow, or {column: array}.
        None: the data that the spec names.
    out: the run directory, which must be empty or not exist. None: a temporary one that lives
        as long as the run.
    resume: the directory of a run to continue, instead of `out`. The spec may be omitted; the
        rows must be those of the run.
    on_round: called with a dict after every round, a line of `rounds.jsonl`. If it returns
        False, the run stops; it can be resumed, or ended there with `run.finish()`.
    progress: shows a progress bar, by tqdm if that is installed.
    force: resumes a run of another version.

    Ctrl-C stops the run after the current round.

    >>> import apfl
    >>> seen = []
    >>> run = apfl.train(
    ...     {"data": {"clients": 3}, "training": {"rounds": 5}},
    ...     on_round=lambda r: seen.append(r["round"]) or r["round"] < 2,
    ... )
    >>> seen, run.finished
    ([1, 2], False)
    >>> run.finish().summary["rounds"]
    2
    """
    home = None
    if resume is not None:
        if out is not None:
            raise TypeError("`out` and `resume` are mutually exclusive; remove one")
        directory = Path(resume)
    elif out is None:
        home = Temporary()
        directory = Path(home.path)
    else:
        directory = Path(out)
    directory = directory.absolute()
    bar = Progress() if progress else None

    def watch(event: str, number: int, text: str | None) -> bool:
        record = json.loads(text) if text else None
        if bar is not None:
            bar.see(event, number, record, directory)
        return not (on_round is not None and record is not None and on_round(record) is False)

    watched = watch if on_round is not None or bar is not None else None
    try:
        _train(spec, data, os.fspath(directory), resume is not None, False, force, watched)
    except KeyboardInterrupt as stop:
        if home is None:
            stop.add_note(
                f"apfl.train(resume={str(directory)!r}) resumes the run; "
                f"apfl.load({str(directory)!r}).finish() ends it at its last checkpoint"
            )
        raise
    finally:
        if bar is not None:
            bar.close()
    run = Run(directory, _temporary=home)
    if run.finished and home is None:
        run.report()
    return run
