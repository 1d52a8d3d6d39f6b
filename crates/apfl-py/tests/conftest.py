"""What the tests share: a table like those people have, and the program."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[3]


def table(task: str = "classification", rows: int = 240) -> pd.DataFrame:
    """Three clients, numbers of several widths, texts, truths, gaps."""
    rng = np.random.default_rng(7)
    age = rng.normal(55, 12, rows).round(1)
    count = rng.integers(0, 9, rows)
    client = rng.choice(["north", "south", "west"], rows)
    signal = (age - 55) / 12 + (count - 4) / 3 + np.where(client == "south", -1, 1)
    frame = pd.DataFrame(
        {
            "client": client,
            "age": age,
            "count": count,
            "dose": rng.normal(size=rows).astype("float32"),
            "smoker": rng.random(rows) < 0.3,
            "colour": pd.Categorical(rng.choice(["red", "green", "blue"], rows)),
            "grade": pd.array(rng.integers(1, 5, rows), dtype="Int64"),
        },
        index=pd.Index(rng.permutation(rows), name="number"),
    )
    frame.loc[frame.index[::7], "age"] = np.nan
    frame.loc[frame.index[::11], "grade"] = pd.NA
    frame.loc[frame.index[::13], "colour"] = None
    if task == "regression":
        frame["label"] = (3 * signal + rng.normal(size=rows)).round(3)
    else:
        frame["label"] = np.where(signal + rng.normal(size=rows) > 0, "ill", "healthy")
    return frame


@pytest.fixture
def frame() -> pd.DataFrame:
    return table()


SPEC = {"data": {"standardize": True}, "training": {"rounds": 4, "local_steps": 3, "learning_rate": 0.1}}


def program() -> str | None:
    """The program `apfl` that was built beside this module."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    places = [os.environ.get("APFL_PROGRAM"), target / "debug/apfl", target / "release/apfl"]
    return next((str(place) for place in places if place and Path(place).exists()), None)


@pytest.fixture
def apfl_program():
    path = program()
    if path is None:
        pytest.skip("SKIPPED: the program apfl is not built (cargo build, or APFL_PROGRAM=…)")

    def run(*args: object) -> dict:
        words = [path, *map(str, args)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in words else {}

    return run
