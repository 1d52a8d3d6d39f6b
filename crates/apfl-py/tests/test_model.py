"""What a model answers, against NumPy on its tensors and the documented preparation."""

import numpy as np
import pandas as pd
import pytest
from conftest import table

import apfl


def prepared(model: apfl.Model, frame: pd.DataFrame) -> np.ndarray:
    """The features of raw rows, by `schema` alone, as docs/PYTHON.md says."""
    preparation = model.schema["normalization"]
    own = preparation.get("clients", {}).get(model.client)
    out = []
    for k, column in enumerate(preparation["columns"]):
        raw = frame[column["name"]]
        if column["type"] == "category":
            known = column["values"]
            text = [None if pd.isna(x) else f"{x:g}" if isinstance(x, float) else str(x) for x in raw]
            for value in known:
                out.append([float(x == value) for x in text])
            out.append([float(x not in known) for x in text])
            continue
        x = raw.astype(object).map(lambda x: np.nan if pd.isna(x) else float(x)).to_numpy(dtype=float)
        missing = np.isnan(x)
        # A client's own moments take the place of the federation's.
        scale = column.get("scale")
        fill = column["fill"]
        if own is not None and own[k] is not None:
            fill = own[k]["mean"]
            scale = own[k] if scale is not None else None
        x = np.where(missing, fill, x)
        if scale is not None:
            x = (x - scale["mean"]) / scale["deviation"]
        out.append(x)
        if column["indicator"]:
            out.append(missing.astype(float))
    return np.array(out, dtype=np.float32).T.astype(np.float64)


def outputs(model: apfl.Model, x: np.ndarray) -> np.ndarray:
    tensors = {name: array.astype(np.float64) for name, array in model.state_dict().items()}
    layers = len(tensors) // 2
    for k in range(1, layers + 1):
        x = x @ tensors[f"layer{k}.weight"] + tensors[f"layer{k}.bias"]
        if k < layers:
            x = np.maximum(x, 0)
    return x


def softmax(z: np.ndarray) -> np.ndarray:
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("which", ["personal", "shared", "localized", "local"])
@pytest.mark.parametrize("standardize", [True, False, "client"])
@pytest.mark.parametrize("hidden", [[], [7, 5]])
def test_probabilities_are_those_of_numpy(which, standardize, hidden):
    frame = table()
    spec = {
        "data": {"standardize": standardize, "categorical": ["grade"]},
        "model": {"kind": "mlp", "hidden": hidden},
        "training": {"rounds": 3, "learning_rate": 0.1 if standardize else 1e-4},
    }
    run = apfl.train(spec, data=frame)
    # Rows as they were, rows with gaps, and words that training did not have.
    new = frame.copy()
    new["colour"] = new["colour"].astype(object)
    new.loc[new.index[:20], "colour"] = "violet"
    new.loc[new.index[20:40], "age"] = np.nan
    new["client"] = "south"
    for rows in (frame, new):
        mine = rows[rows["client"] == "south"]
        model = run.model("south", which)
        if which == "shared":
            model.client = "south"  # whose moments prepare the rows, where they are a client's
        wanted = softmax(outputs(model, prepared(model, mine)))
        assert model.predict_proba(mine) == pytest.approx(wanted, abs=1e-6)
        names = np.array(["healthy", "ill"])
        sure = np.abs(wanted[:, 0] - 0.5) > 1e-5
        assert (model.predict(mine) == names[wanted.argmax(axis=1)])[sure].all()


def test_values_are_those_of_numpy_in_the_labels_units():
    frame = table("regression")
    frame["label"] = 1000 * frame["label"] + 5e5
    spec = {"data": {"standardize": True, "task": "regression"}, "training": {"rounds": 5}}
    run = apfl.train(spec, data=frame)
    model = run.model("west")
    assert model.classes is None
    scale = model.schema["normalization"]["label"]
    standardized = outputs(model, prepared(model, frame))[:, 0]
    wanted = standardized * scale["deviation"] + scale["mean"]
    assert model.predict(frame) == pytest.approx(wanted, rel=1e-6)
    with pytest.raises(apfl.RunError, match="no class probabilities"):
        model.predict_proba(frame)


def test_classes_are_what_labels_were(frame):
    rng = np.random.default_rng(1)
    spec = {"training": {"rounds": 1}, "data": {"standardize": True}}
    for labels, dtype in [
        (rng.integers(0, 3, len(frame)), "int64"),
        (rng.choice([0.5, 1.5], len(frame)), "float64"),
        (rng.random(len(frame)) < 0.5, "bool"),
        (rng.choice(["a", "b"], len(frame)), "<U1"),
    ]:
        model = apfl.train(spec, data=frame.assign(label=labels)).model("north")
        assert model.classes.dtype == dtype
        assert model.classes.tolist() == sorted(set(labels.tolist()))
        assert set(model.predict(frame).tolist()) <= set(labels.tolist())


def test_other_columns_are_ignored_and_missing_ones_an_error(frame):
    model = apfl.train({"training": {"rounds": 1}, "data": {"standardize": True}}, data=frame).model("north")
    wanted = model.predict_proba(frame)
    other = frame[reversed(frame.columns)].assign(more="x").drop(columns=["label", "client"])
    assert (model.predict_proba(other) == wanted).all()
    with pytest.raises(apfl.RunError, match="no column 'dose', which the model was trained on"):
        model.predict(frame.drop(columns="dose"))
    with pytest.raises(TypeError, match="found a Series, which is one column"):
        model.predict(frame["age"])
    assert model.predict(frame.iloc[:0]).shape == (0,)
    assert model.predict_proba(frame.iloc[:0]).shape == (0, 2)


def test_scores_that_are_no_probabilities(frame):
    spec = {"training": {"rounds": 1, "learning_rate": 0.01}, "data": {"standardize": True}, "model": {"loss": "squared-hinge"}}
    model = apfl.train(spec, data=frame).model("north")
    assert set(model.predict(frame)) <= {"healthy", "ill"}
    with pytest.raises(apfl.RunError, match="no probabilities"):
        model.predict_proba(frame)


@pytest.mark.filterwarnings("default")
def test_what_training_did_not_show_is_a_warning(frame):
    model = apfl.train({"training": {"rounds": 1}, "data": {"standardize": True}}, data=frame).model("north")
    with pytest.warns(UserWarning, match="colour.*violet|violet.*colour|colour"):
        model.predict(frame.assign(colour="violet"))


def test_arrays_may_be_changed(frame):
    model = apfl.train({"training": {"rounds": 1}, "data": {"standardize": True}}, data=frame).model("north")
    first = model.state_dict()
    first["layer1.weight"][:] = 0
    assert model.state_dict()["layer1.weight"].any()
