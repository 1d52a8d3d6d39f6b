"""The same spec and rows give the bits of `apfl run`, whatever the rows lie in."""

import pandas as pd
import polars
import pyarrow
import pytest
import tomllib
from conftest import SPEC, table

import apfl

ALGORITHMS = {
    "apfl": {"kind": "apfl", "mixing": {"adaptive": 0.05}},
    "fedavg": {"kind": "fedavg"},
    "scaffold": {"kind": "scaffold"},
}


def toml(spec: dict, path) -> str:
    """A spec on that file, as text."""
    lines = [f'data.path = "{path}"']
    for part, keys in spec.items():
        for key, value in keys.items():
            value = "{ adaptive = 0.05 }" if isinstance(value, dict) else value
            value = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
            bare = isinstance(value, (int, float)) or value in ("true", "false") or str(value)[0] == "{"
            lines.append(f"{part}.{key} = {value if bare else repr(value)}")
    return "\n".join(lines).replace("'", '"')


@pytest.mark.parametrize("task", ["classification", "regression"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_frame_is_its_csv_and_its_parquet(tmp_path, apfl_program, task, algorithm):
    frame = table(task)
    spec = SPEC | {"algorithm": ALGORITHMS[algorithm]}
    spec["data"] = {"kind": "table", "standardize": True, "task": task}
    run = apfl.train(spec, data=frame)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    for name in ["rows.csv", "rows.parquet"]:
        text = toml(spec, tmp_path / name)
        assert tomllib.loads(text)["data"]["task"] == task
        (tmp_path / "spec.toml").write_text(text)
        out = tmp_path / f"run-{name}"
        summary = apfl_program("run", tmp_path / "spec.toml", "--out", out, "--json")
        assert summary["fingerprint"] == run.fingerprint, name
        # What the program left opens here, and says the same.
        other = apfl.load(out)
        assert other.clients == run.clients
        timeless = [[{**r, "seconds": 0} for r in one.rounds] for one in (run, other)]
        assert timeless[0] == timeless[1]
        # And the file itself can be named in a spec.
        assert apfl.train(text).fingerprint == run.fingerprint


def test_polars_and_pyarrow_give_the_same_bits():
    frame = table()
    wanted = apfl.train(SPEC, data=frame).fingerprint
    arrow = pyarrow.Table.from_pandas(frame, preserve_index=False)
    same = {
        "polars": polars.from_arrow(arrow),
        "pyarrow": arrow,
        "batch": arrow.combine_chunks().to_batches()[0],
        "chunks": pyarrow.concat_tables([arrow.slice(0, 100), arrow.slice(100)]),
        "arrow-backed pandas": frame.convert_dtypes(dtype_backend="pyarrow"),
        "nullable pandas": frame.convert_dtypes(),
        "columns": {name: frame[name] for name in frame},
        "lists": {name: frame[name].astype(object).tolist() for name in frame if name != "dose"}
        | {"dose": frame["dose"].to_numpy()},
    }
    # Columns by name: their order is the order of the features.
    same["lists"] = {name: same["lists"][name] for name in frame}
    for name, data in same.items():
        assert apfl.train(SPEC, data=data).fingerprint == wanted, name


def test_the_number_of_threads_changes_nothing():
    frame = table()
    prints = {
        apfl.train(SPEC | {"engine": {"threads": n}}, data=frame).fingerprint for n in (1, 2, 3)
    }
    assert len(prints) == 1


def test_a_run_of_the_program_and_one_of_python_are_one(tmp_path, apfl_program):
    spec = {"data": {"clients": 6}, "training": {"rounds": 6}, "checkpoint": {"every": 2}}
    whole = apfl.train(spec)
    (tmp_path / "spec.toml").write_text(
        "[data]\nclients = 6\n[training]\nrounds = 6\n[checkpoint]\nevery = 2\n"
    )
    # Begun here, ended there.
    out = tmp_path / "run"
    stopped = apfl.train(spec, out=out, on_round=lambda r: r["round"] < 3)
    assert not stopped.finished and len(stopped.rounds) == 3
    summary = apfl_program("run", tmp_path / "spec.toml", "--resume", "--out", out, "--json", "--force")
    assert summary["fingerprint"] == whole.fingerprint
    assert pd.DataFrame(apfl.load(out).rounds)["round"].tolist() == [1, 2, 3, 4, 5, 6]
