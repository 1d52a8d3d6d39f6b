"""Records of a run directory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas


class Records(list[dict[str, Any]]):
    """A list of dicts that converts to a pandas table.

    >>> Records([{"round": 1, "shared": {"valid": {"loss": 0.5}}}]).to_pandas().columns.to_list()
    ['round', 'shared.valid.loss']
    """

    def to_pandas(self) -> pandas.DataFrame:
        """Returns one row per record; nested keys are paths, such as `shared.valid.loss`."""
        import pandas

        return pandas.json_normalize(list(self))


def read(path: Path, whole: bool) -> Records:
    """Reads the records of a file, one per line. With `whole=False` the file may be missing or
    end within a line, as in an unfinished run."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        if whole:
            raise
        return Records()
    lines = text.split("\n")
    last = lines.pop()  # empty, or a line that is being written
    if whole and last:
        lines.append(last)
    records = Records(json.loads(line) for line in lines)
    if not all(isinstance(record, dict) for record in records):
        raise ValueError("a line is not an object")
    return records
