"""Frames in: every memory order and type is right or refused, never silently wrong."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars
import pyarrow
import pytest
from conftest import SPEC, table

import apfl


pytestmark = pytest.mark.filterwarnings("ignore:missing cells in columns:UserWarning")


def features(column) -> np.ndarray:
    """What a model of one raw column sees: its outputs are linear in it, so two columns that give
    equal probabilities on a model with a slope are equal."""
    return MODEL.predict_proba({"x": column})[:, 0]


def _model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    data = {"client": ["a", "b"] * 30, "x": x, "label": (x > 0).astype(int)}
    return apfl.train({"training": {"rounds": 5}}, data=data).model("a")


MODEL = _model()
X = np.array([0.5, -1.25, 3.0, 0.0, 7.5, -2.0])
WANTED = features(X)


def test_the_model_tells_numbers_apart():
    assert len(set(WANTED)) == len(X)


@pytest.mark.parametrize(
    "column",
    [
        X.tolist(),
        tuple(X),
        X.astype(">f8"),
        X.astype("<f8"),
        X.astype("f4"),
        X.astype(">f4"),
        X.astype("f2"),
        X.astype(np.longdouble),
        X.astype(object),
        X.astype(str),
        np.repeat(X, 3)[::3],
        X[::-1].copy()[::-1],
        np.asfortranarray(np.stack([X, X + 1], axis=1))[:, 0],
        np.stack([X, X + 1])[0],
        np.stack([X, X + 1], axis=1)[:, 0],
        np.ma.masked_array(X),
        pd.Series(X, index=[9, 8, 7, 6, 5, 4]),
        pd.Series(X, dtype="Float32"),
        pd.Series(X, dtype="Float64"),
        pd.Series(X, dtype="category"),
        pd.Series(X, dtype="double[pyarrow]"),
        pd.arrays.SparseArray(X),
        polars.Series(X),
        polars.Series(X, dtype=polars.Float32),
        pyarrow.array(X),
        pyarrow.chunked_array([X[:2], X[2:]]),
        [str(x) for x in X],
        [np.float32(x) for x in X],
        [np.float64(x) for x in X],
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_numbers_of_any_kind_and_order(column):
    assert features(column).tolist() == WANTED.tolist()


def test_read_only_memory_and_maps(tmp_path):
    frozen = X.copy()
    frozen.flags.writeable = False
    assert features(frozen).tolist() == WANTED.tolist()
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert features(mapped).tolist() == WANTED.tolist()
    record = np.zeros(len(X), dtype=[("pad", "i1"), ("x", ">f8")])
    record["x"] = X
    assert MODEL.predict_proba(record)[:, 0].tolist() == WANTED.tolist()


@pytest.mark.parametrize("dtype", ["i1", "i2", ">i4", "i8", "u1", ">u2", "u4", "u8"])
def test_whole_numbers_of_any_width(dtype):
    whole = np.array([0, 1, 1, 0, 1])
    assert features(whole.astype(dtype)).tolist() == features(whole.astype(float)).tolist()


def test_whole_numbers_beyond_63_bits():
    huge = np.array([2**64 - 1, 1], dtype="u8")
    assert features(huge).tolist() == features([float(2**64 - 1), 1.0]).tolist()


@pytest.mark.parametrize(
    "gaps",
    [
        [1.0, None, 2.0],
        [1.0, float("nan"), 2.0],
        np.array([1.0, np.nan, 2.0], dtype=">f4"),
        np.array([1, None, 2], dtype=object),
        np.ma.masked_array([1.0, 5.0, 2.0], [False, True, False]),
        pd.Series([1, None, 2], dtype="Int64"),
        pd.Series([1, None, 2], dtype="Float32"),
        pd.Series([1, None, 2], dtype="int64[pyarrow]"),
        pd.Series(["1", None, "2"]),
        pd.Series([1, pd.NaT, 2], dtype=object),
        polars.Series([1, None, 2]),
        polars.Series([1.0, None, 2.0]),
        pyarrow.array([1, None, 2]),
        pyarrow.array([1.0, None, 2.0]),
        ["1", "", "2"],
        ["1", "NA", "2"],
    ],
    ids=lambda column: f"{type(column).__module__}.{type(column).__name__}",
)
def test_gaps_are_missing_however_they_are_written(gaps):
    fill = MODEL.schema["normalization"]["columns"][0]["fill"]
    assert features(gaps) == pytest.approx(features([1.0, fill, 2.0]), abs=1e-7)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.to_datetime(["2024-01-01", "2024-01-02"]).to_series(), "date or time"),
        (np.array(["2024-01-01", "2024-01-02"], dtype="M8[D]"), "date or time"),
        ([datetime.date(2024, 1, 1)] * 2, "date or time"),
        (polars.Series([datetime.date(2024, 1, 1)] * 2), "date or time"),
        (pyarrow.array([datetime.datetime(2024, 1, 1)] * 2), "date or time"),
        (pyarrow.array([decimal.Decimal("1.5")] * 2), "Decimal"),
        (np.array([1 + 2j, 3j]), "complex128"),
        ([b"1", b"2"], "bytes"),
        ([[1, 2], [3]], "list"),
        (polars.Series([[1], [2]]), "list"),
        ([1.0, float("inf")], "too large|not finite|infinite|finite"),
        (["1", "much"], "much"),
    ],
)
def test_what_is_no_number_is_refused(column, words):
    with pytest.raises(apfl.RunError, match=words) as raised:
        features(column)
    assert "column 'x'" in str(raised.value)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (lambda f: f["age"], TypeError, "found a Series, which is one column"),
        (lambda f: polars.from_pandas(f)["age"], TypeError, "found a Series, which is one column"),
        (lambda f: polars.from_pandas(f).lazy(), TypeError, "collect"),
        (lambda f: f.to_numpy(), TypeError, "without column names"),
        (lambda f: f.to_csv(), TypeError, "found a str"),
        (lambda f: 5, TypeError, "found a int"),
        (lambda f: [1, 2], TypeError, "found a list"),
        (lambda f: {"x": "abc"}, TypeError, "found a single text"),
        (lambda f: {"x": 5}, TypeError, "expected a list or an array"),
        (lambda f: {"x": np.zeros((2, 2))}, ValueError, "expected one"),
        (lambda f: {"x": [1, 2], "y": [1]}, apfl.RunError, "column 'y' has 1 rows"),
        (lambda f: f.drop(columns="label"), apfl.RunError, "no column 'label'"),
        (lambda f: f.drop(columns="client"), apfl.RunError, "no column 'client'"),
        (lambda f: f.iloc[:0], apfl.RunError, "a header but no rows"),
        (lambda f: {}, apfl.RunError, "empty|column"),
        (lambda f: pd.concat([f, f[["age"]]], axis=1), apfl.RunError, "both named 'age'"),
        (lambda f: f.assign(label=None), apfl.RunError, "label"),
        (lambda f: f.assign(label="same"), apfl.RunError, "same"),
        (lambda f: f.assign(age=["old", *f["age"][1:]]), apfl.RunError, "old"),
        (
            lambda f: f.set_axis(pd.MultiIndex.from_product([["a"], f.columns]), axis=1),
            ValueError,
            "several levels",
        ),
    ],
)
def test_a_wrong_frame_is_an_exception_with_a_way_out(tmp_path, data, kind, words):
    with pytest.raises(kind, match=words):
        apfl.train(SPEC, data=data(table()), out=tmp_path / "run")
    # Nothing is left in the way: the same directory serves the frame when it is right.
    assert apfl.train(SPEC, data=table(), out=tmp_path / "run").finished


class Odd:
    """What says that it is an array."""

    def __init__(self, found) -> None:
        self.found = found

    def __array__(self, dtype=None, copy=None):
        return self.found


def test_what_makes_no_array_is_refused():
    assert features(Odd(X)).tolist() == WANTED.tolist()
    assert features(Odd(np.ma.masked_array(X))).tolist() == WANTED.tolist()
    for found, kind in [(X.tolist(), "list"), (None, "NoneType"), ("abc", "str")]:
        words = f"found a .*Odd whose __array__ returns a {kind}, expected a NumPy array"
        with pytest.raises(TypeError, match=words) as raised:
            features(Odd(found))
        assert raised.value.__notes__ == ["in column 'x' of the data"]


def test_an_index_is_no_feature(frame):
    model = apfl.train(SPEC, data=frame).model("north")
    assert model.features == ["age", "count", "dose", "smoker", "colour", "grade"]
    assert apfl.train(SPEC, data=frame.reset_index(drop=True)).fingerprint == model._run.fingerprint


def test_names_of_columns_may_be_numbers(frame):
    model = apfl.train(SPEC, data=frame.rename(columns={"age": 7})).model("north")
    assert model.features[0] == "7"


def test_the_frame_is_left_as_it_was(frame):
    before = frame.copy(deep=True)
    apfl.train(SPEC, data=frame).model("west").predict(frame)
    pd.testing.assert_frame_equal(frame, before)
