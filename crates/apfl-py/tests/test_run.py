"""Runs out: numbers, models, report, pickles."""

import contextlib
import copy
import json
import multiprocessing
import pickle
import shutil

import numpy as np
import pytest
from conftest import SPEC, table

import apfl
from apfl._run import _unpacked


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return apfl.train(SPEC, data=table(), out=tmp_path_factory.mktemp("runs") / "first")


def test_what_a_run_says(run):
    assert run.finished and len(run.fingerprint) == 64
    assert [r["round"] for r in run.rounds] == [1, 2, 3, 4]
    assert {c["client"] for c in run.clients} == {"north", "south", "west"}
    assert run.summary == json.loads((run.directory / "summary.json").read_text())
    assert run.spec["training"]["rounds"] == 4 and run.spec["data"]["path"] == []
    assert any("age" in note for note in run.notes)
    assert (run.directory / "report.html").exists()
    assert repr(run) == "Run(apfl on table: 4 rounds, 3 clients, finished)"


def test_records_as_tables(run):
    rounds = run.rounds.to_pandas()
    assert rounds["round"].tolist() == [1, 2, 3, 4]
    assert rounds["personal.valid.loss"].tolist() == [r["personal"]["valid"]["loss"] for r in run.rounds]
    clients = run.clients.to_pandas()
    assert clients["examples.train"].sum() == sum(c["examples"]["train"] for c in run.clients)


def test_a_run_is_opened_again(run):
    again = apfl.load(run.directory)
    assert (again.fingerprint, again.rounds, again.clients) == (run.fingerprint, run.rounds, run.clients)
    assert apfl.load(str(run.directory)).summary == run.summary


def test_notebooks_show_a_table(run):
    html = run._repr_html_()
    accuracy = run.summary["personal"]["pooled"]["valid"]["accuracy"]
    assert f"{accuracy:.2%}" in html and "<table>" in html
    stopped = apfl.train(SPEC, data=table(), on_round=lambda r: False)
    assert "not finished" in stopped._repr_html_()
    spec = {"data": {"task": "regression", "standardize": True}, "training": {"rounds": 2}}
    regression = apfl.train(spec, data=table("regression"))
    assert "rmse" in regression._repr_html_()


def test_the_report(run, tmp_path):
    page = run.report(tmp_path / "page.html")
    assert run.fingerprint in page.read_text()
    with pytest.raises(apfl.RunError, match="cannot"):
        run.report(tmp_path / "nowhere" / "page.html")


def test_a_run_is_pickled_as_its_directory(run):
    again = pickle.loads(pickle.dumps(run))
    assert again.directory == run.directory
    assert len(pickle.dumps(run)) < 1000


def test_a_temporary_run_is_pickled_with_its_files(frame):
    run = apfl.train(SPEC, data=frame)
    again = pickle.loads(pickle.dumps(run))
    assert again.directory != run.directory
    wanted = run.model("west").predict_proba(frame)
    assert (again.model("west").predict_proba(frame) == wanted).all()
    assert (copy.deepcopy(run.model("west")).predict_proba(frame) == wanted).all()


class Hostile:
    """Pickles as a temporary run with these files."""

    def __init__(self, files) -> None:
        self.files = files

    def __reduce__(self):
        return (_unpacked, (self.files,))


@pytest.mark.parametrize(
    "name",
    [
        "../{victim}",
        "{absolute}",
        "models/../../{victim}",
        "models/x/../../../{victim}",
        "checkpoint/x",
        "models/.safetensors",
        "models/a/b.safetensors",
        "models",
        "",
        ".",
        "\x1b[2J",
        3,
    ],
)
def test_a_pickle_writes_the_files_of_a_run_alone(run, tmp_path, monkeypatch, name):
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(home))
    if isinstance(name, str):
        name = name.format(victim="victim", absolute=tmp_path / "victim")
    ours = {"spec.toml": (run.directory / "spec.toml").read_bytes()}
    hostile = pickle.dumps(Hostile(ours | {name: b"owned"}))
    with pytest.raises(apfl.RunError, match="the pickle is damaged") as raised:
        pickle.loads(hostile)
    assert "\x1b" not in str(raised.value)
    # Nothing was written anywhere.
    assert list(tmp_path.rglob("*")) == [home]
    assert not pickle.loads(pickle.dumps(Hostile(ours))).finished
    with pytest.raises(apfl.RunError, match="the pickle is damaged"):
        pickle.loads(pickle.dumps(Hostile({"spec.toml": "text"})))


def test_models_go_to_other_processes(run, frame):
    model = run.model("north")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(model.predict_proba, (frame,))
    assert (there == model.predict_proba(frame)).all()


def test_models_by_name(run):
    assert run.model("north").which == "personal"
    shared = run.model(which="shared").state_dict()
    assert set(shared) == {"layer1.weight", "layer1.bias"}
    assert run.model("north", which="shared").client is None
    for which in ("localized", "local"):
        assert run.model("south", which=which).state_dict()["layer1.bias"].shape == (2,)
    for wrong, words in (("nroth", "did you mean 'north'"), ("", "no client of that name")):
        with pytest.raises(apfl.RunError, match=words):
            run.model(wrong)
    with pytest.raises(apfl.RunError, match="client is missing"):
        run.model()
    with pytest.raises(ValueError, match="allowed is personal"):
        run.model("north", which="best")


def test_clients_may_be_asked_for_by_number():
    run = apfl.train({"data": {"clients": 3}, "training": {"rounds": 1}})
    assert run.model(2).client == "2"


def test_a_dead_directory(tmp_path, frame):
    run = apfl.train(SPEC, data=frame, out=tmp_path / "run")
    (run.directory / "clients.jsonl").write_text("not what it was\n")
    with pytest.raises(apfl.RunError, match="clients.jsonl"):
        apfl.load(run.directory).clients
    (run.directory / "models" / "personal.safetensors").write_bytes(b"")
    with pytest.raises(apfl.RunError):
        apfl.load(run.directory).model("north")
    (run.directory / "summary.json").write_text("{")
    with pytest.raises(apfl.RunError, match="summary.json"):
        apfl.load(run.directory)
    (run.directory / "spec.toml").unlink()
    with pytest.raises(apfl.RunError, match="no run was begun there"):
        apfl.load(run.directory)


@pytest.mark.parametrize("name", ["spec.toml", "rounds.jsonl", "clients.jsonl", "summary.json"])
@pytest.mark.parametrize("content", [None, b"", b"\xff\xfe\0", b"not what it was\n", b"{}", b"[1]\n"])
@pytest.mark.parametrize("finished", [True, False])
def test_a_damaged_run_is_a_run_error_and_no_other(run, tmp_path, name, content, finished):
    broken = tmp_path / "run"
    shutil.copytree(run.directory, broken)
    if not finished:
        (broken / "summary.json").unlink()
        (broken / "clients.jsonl").unlink()
    if content is None:
        (broken / name).unlink(missing_ok=True)
    else:
        (broken / name).write_bytes(content)

    def use():
        found = apfl.load(broken)
        repr(found)
        found._repr_html_()
        return found.rounds, found.clients, found.fingerprint, found.notes, found.model("north")

    # A file that is empty may be whole; a spec or the lines of another file are not.
    if name == "spec.toml" or not finished or content == b"[1]\n":
        with pytest.raises(apfl.RunError):
            use()
    else:
        with contextlib.suppress(apfl.RunError):
            use()


def test_what_was_trained_on_can_be_answered(run, frame):
    # The scores of delivery are those of the delivered models on the clients' rows.
    for client in run.clients:
        mine = frame[frame["client"] == client["client"]]
        right = (run.model(client["client"]).predict(mine) == mine["label"]).to_numpy()
        examples = client["examples"]
        wanted = sum(
            client["personal"][part]["accuracy"] * examples[part] for part in ("train", "valid")
        )
        assert right.sum() == round(wanted)
        assert len(mine) == examples["train"] + examples["valid"]


def test_the_directory_is_its_owners_alone(run):
    assert run.directory.stat().st_mode & 0o077 == 0


def test_arrays_are_ready_for_use(run):
    for array in run.model("west").state_dict().values():
        assert array.dtype == np.float32 and array.flags.writeable and array.flags.c_contiguous


def test_advice_is_the_programs(frame, tmp_path, apfl_program):
    spec = SPEC | {"algorithm": {"kind": "apfl", "mixing": {"chosen": [0, 0.5, 1], "folds": 2}}}
    run = apfl.train(spec, data=frame, out=tmp_path / "run")
    advice = run.advise()
    assert advice == apfl_program("advise", run.directory, "--json")
    assert {c["client"] for c in advice["clients"]} == {"north", "south", "west"}
    verdicts = [c["verdict"] for c in advice["clients"]]
    assert [verdicts.count(v) for v in ("helps", "harms", "undecided")] == [
        advice["total"][v] for v in ("helps", "harms", "undecided")
    ]
    # The gain is the loss of the own tuned fit minus that of the model served, on those rows.
    records = {c["client"]: c for c in run.clients}
    for client in advice["clients"]:
        own = records[client["client"]]
        gain = own["baseline"]["valid"]["loss"] - own["personal"]["valid"]["loss"]
        assert client["gain"] == pytest.approx(gain, abs=1e-6)
    assert run.model("north", which="alone").predict(frame).shape == (len(frame),)


def test_advice_needs_a_choice(run):
    with pytest.raises(apfl.RunError, match="alone"):
        run.advise()
