"""The estimators: scikit-learn's own checks, and what groups add to them."""

import pickle

import numpy as np
import pandas as pd
import pytest
from conftest import table
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import apfl
from apfl.sklearn import APFLClassifier, APFLRegressor


@parametrize_with_checks([APFLClassifier(rounds=20), APFLRegressor(rounds=20)])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def disagreeing():
    """Two clients with opposite answers to one question."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 4))
    groups = rng.choice(["north", "south"], 400)
    y = np.where((X[:, 0] > 0) ^ (groups == "south"), "yes", "no")
    return X, y, groups


def test_each_client_has_its_own_answer(disagreeing):
    X, y, groups = disagreeing
    model = APFLClassifier(rounds=60).fit(X, y, groups=groups)
    assert sorted(model.clients_) == ["north", "south"]
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(X, y, groups=groups) > 0.95
    assert model.score(X, y) < 0.7  # the shared model cannot please both
    # Each row is served by its client's model, whatever the order.
    north = model.run_.model("north").predict_proba({f"x{k}": X[:, k] for k in range(4)})
    assert (model.predict_proba(X, groups=["north"] * 400) == north).all()
    mixed = model.predict_proba(X, groups=groups)
    assert (mixed[groups == "north"] == north[groups == "north"]).all()
    # A client that the run does not know is served by the shared model.
    shared = model.predict_proba(X)
    assert (model.predict_proba(X, groups=["east"] * 400) == shared).all()


def test_a_regression_by_client():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(300, 2))
    groups = rng.integers(0, 2, 300)
    y = 50 + 10 * X[:, 0] * np.where(groups == 0, 1, -1)
    model = APFLRegressor(rounds=40).fit(X, y, groups=groups)
    assert model.score(X, y, groups=groups) > 0.95
    assert model.score(X, y) < 0.5


def test_all_rows_are_trained_on_unless_some_are_held_out(disagreeing):
    X, y, groups = disagreeing
    whole = APFLClassifier(rounds=2).fit(X, y, groups=groups)
    assert sum(c["examples"]["train"] for c in whole.run_.clients) == 400
    held = APFLClassifier(rounds=2, validation=0.25).fit(X, y, groups=groups)
    assert sum(c["examples"]["valid"] for c in held.run_.clients) == sum(
        -(-int((groups == name).sum()) // 4) for name in ("north", "south")
    )


def test_frames_with_texts_and_gaps():
    frame = table()
    X, y, groups = frame.drop(columns=["label", "client"]), frame["label"], frame["client"]
    model = APFLClassifier(rounds=10).fit(X, y, groups=groups)
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    assert model.score(X, y, groups=groups) > 0.75
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X.rename(columns={"age": "years"}), groups=groups)
    # As apfl.train would have it.
    spec = {
        "data": {"standardize": True, "split": "part"},
        "training": {"rounds": 10},
        "evaluation": {"every": 10},
    }
    twice = pd.concat([frame.assign(part="train"), frame.assign(part="valid")])
    twice["label"] = (twice["label"] == "ill").astype(int)
    assert apfl.train(spec, data=twice).fingerprint == model.run_.fingerprint


def test_clones_pipelines_and_searches(disagreeing):
    X, y, groups = disagreeing
    model = APFLClassifier(algorithm="fedavg", rounds=3, spec={"seed": 4})
    assert clone(model).get_params() == model.get_params()
    pipeline = make_pipeline(StandardScaler(), APFLClassifier(rounds=10, standardize=False))
    pipeline.fit(X, y, apflclassifier__groups=groups)
    assert pipeline.predict(X, groups=groups).shape == (400,)
    search = GridSearchCV(APFLClassifier(rounds=3), {"learning_rate": [0.01, 0.1]}, cv=2)
    assert search.fit(X, y).best_params_["learning_rate"] in (0.01, 0.1)
    assert len(cross_val_score(APFLClassifier(rounds=3), X, y, cv=2)) == 2


def test_a_fitted_estimator_is_pickled(disagreeing):
    X, y, groups = disagreeing
    model = APFLClassifier(rounds=3).fit(X, y, groups=groups)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(X, groups=groups) == model.predict_proba(X, groups=groups)).all()


def test_wrong_settings_are_a_specs(disagreeing):
    X, y, groups = disagreeing
    with pytest.raises(apfl.SpecError, match="training.rounds"):
        APFLClassifier(rounds=0).fit(X, y, groups=groups)
    with pytest.raises(apfl.SpecError, match="algorithm.kind"):
        APFLClassifier("fedavgg").fit(X, y, groups=groups)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        APFLClassifier().fit(X, y, groups=groups[:5])


def test_networks_and_other_algorithms(disagreeing):
    X, y, groups = disagreeing
    for model in (
        APFLClassifier(hidden=(8,), l2=0.0, rounds=20),
        APFLClassifier(mixing={"fixed": 0.5}, rounds=20),
        APFLClassifier("local", rounds=20),
    ):
        assert model.fit(X, y, groups=groups).score(X, y, groups=groups) > 0.9
