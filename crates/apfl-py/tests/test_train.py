"""Training from Python: specs, callbacks, interruptions, threads."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import SPEC, table

import apfl

SMALL = {"data": {"clients": 5}, "training": {"rounds": 6}, "checkpoint": {"every": 100}}
TEXT = "[data]\nclients = 5\n[training]\nrounds = 6\n[checkpoint]\nevery = 100\n"


def test_a_spec_is_a_dict_a_text_or_a_path(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(TEXT)
    numpy = {
        "data": {"clients": np.int64(5)},
        "training": {"rounds": np.uint8(6), "learning_rate": np.float64(0.1)},
    }
    prints = {apfl.train(spec).fingerprint for spec in (SMALL, TEXT, path, str(path), numpy)}
    assert len(prints) == 1


def test_a_wrong_spec_has_all_its_problems():
    with pytest.raises(apfl.SpecError) as raised:
        apfl.train({"trainig": {}, "training": {"rounds": 0, "batch": None}, "seed": object()})
    keys = {key for key, _ in raised.value.problems}
    assert keys == {"trainig", "training.rounds", "training.batch", "seed"}
    assert 'did you mean "training"' in str(raised.value)
    assert isinstance(raised.value, ValueError)
    for wrong in ("a = = 1", "x = 1", {5: 1}, {"engine": {"kind": "mpi"}}, {"seed": 2**70}):
        with pytest.raises(apfl.SpecError):
            apfl.train(wrong)
    for wrong in (5, [1], b"x"):
        with pytest.raises(TypeError):
            apfl.train(wrong)
    with pytest.raises(apfl.RunError, match="nowhere.toml: cannot read"):
        apfl.train("nowhere.toml")
    with pytest.raises(apfl.SpecError, match="rows were given"):
        apfl.train({"data": {"kind": "synthetic"}}, data=table())


def test_rounds_are_told_and_may_be_ended(tmp_path):
    seen = []
    whole = apfl.train(SMALL, on_round=seen.append)
    assert [r["round"] for r in seen] == [1, 2, 3, 4, 5, 6]
    assert seen == whole.rounds
    stopped = apfl.train(SMALL, out=tmp_path / "run", on_round=lambda r: r["round"] != 2)
    assert (stopped.finished, stopped.summary, stopped.fingerprint) == (False, None, None)
    assert len(stopped.rounds) == 2 and stopped.clients == []
    with pytest.raises(apfl.RunError, match="not finished"):
        stopped.model("0")
    # None, 0 and "" are no False.
    again = apfl.train(SMALL, resume=tmp_path / "run", on_round=lambda r: 0 if r["round"] else None)
    assert again.fingerprint == whole.fingerprint
    # A finished run is simply opened.
    assert apfl.train(resume=tmp_path / "run").fingerprint == whole.fingerprint


def test_a_temporary_run_can_be_resumed_and_ends_with_its_last_holder():
    run = apfl.train(SMALL, on_round=lambda r: r["round"] != 3)
    directory = run.directory
    run = apfl.train(resume=run.directory)
    assert run.fingerprint == apfl.train(SMALL).fingerprint
    model = run.model("1")
    del run
    assert directory.exists() and model.predict({f"x{k}": [0.0] for k in range(60)}).shape == (1,)
    del model
    assert not directory.exists()


def test_what_a_callback_raises_comes_out_and_the_run_goes_on(tmp_path):
    def fail(record):
        if record["round"] == 3:
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        apfl.train(SMALL, out=tmp_path / "run", on_round=fail)
    run = apfl.train(resume=tmp_path / "run")
    assert run.fingerprint == apfl.train(SMALL).fingerprint


def test_rows_of_a_resumed_run_must_be_the_same(tmp_path, frame):
    whole = apfl.train(SPEC, data=frame)
    apfl.train(SPEC, data=frame, out=tmp_path / "run", on_round=lambda r: r["round"] < 2)
    other = frame.copy()
    other.iloc[3, other.columns.get_loc("count")] += 1
    with pytest.raises(apfl.RunError, match="data"):
        apfl.train(SPEC, data=other, resume=tmp_path / "run")
    with pytest.raises(apfl.RunError, match="rows came from memory"):
        apfl.train(resume=tmp_path / "run")
    with pytest.raises(apfl.RunError, match="differs in"):
        apfl.train(SPEC | {"seed": 2}, data=frame, resume=tmp_path / "run")
    assert apfl.train(data=frame, resume=tmp_path / "run").fingerprint == whole.fingerprint


def test_directories_that_will_not_do(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with pytest.raises(apfl.RunError, match="not empty"):
        apfl.train(SMALL, out=tmp_path / "full")
    assert os.listdir(tmp_path / "full") == ["letter.txt"]
    with pytest.raises(apfl.RunError, match="no run was begun there"):
        apfl.train(resume=tmp_path / "none")
    with pytest.raises(apfl.RunError, match="no run was begun there"):
        apfl.load(tmp_path / "none")
    with pytest.raises(TypeError, match="mutually exclusive"):
        apfl.train(SMALL, out=tmp_path / "a", resume=tmp_path / "b")
    (tmp_path / "file").write_text("")
    with pytest.raises(apfl.RunError):
        apfl.train(SMALL, out=tmp_path / "file")


def test_a_directory_in_use_is_refused_and_free_again(tmp_path):
    out = tmp_path / "run"

    def second(record):
        with pytest.raises(apfl.RunError, match=f"in use by process {os.getpid()}"):
            apfl.train(SMALL, resume=out)
        return False

    assert not apfl.train(SMALL, out=out, on_round=second).finished
    assert apfl.train(resume=out).finished


def test_several_threads_train_at_once():
    prints = {}

    def work(k):
        prints[k] = apfl.train(SMALL | {"seed": 1 + k % 2}).fingerprint

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert prints[0] == prints[2] != prints[1] == prints[3]


def test_the_interpreter_is_free_while_training():
    ticks, done = 0, threading.Event()

    def count():
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    apfl.train({"data": {"clients": 30}, "training": {"rounds": 60}})
    done.set()
    other.join()
    assert ticks >= 5


def test_ctrl_c_ends_after_the_round(tmp_path):
    program = textwrap.dedent(
        f"""
        import os, signal, threading, apfl
        threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT)).start()
        spec = {{"data": {{"clients": 20}}, "training": {{"rounds": 1000000}}}}
        try:
            apfl.train(spec, out={str(tmp_path / "run")!r})
        except KeyboardInterrupt as stop:
            print(*stop.__notes__)
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert "resumes the run" in done.stdout, done.stderr
    run = apfl.load(tmp_path / "run")
    rounds = len(run.rounds)
    assert not run.finished and rounds > 0
    # It goes on where it was ended.
    first = []
    apfl.train(resume=tmp_path / "run", on_round=lambda r: bool(first.append(r["round"])))
    assert first == [rounds + 1]


def test_progress_is_silent_unless_asked(capfd):
    apfl.train(SMALL)
    assert capfd.readouterr() == ("", "")
    apfl.train(SMALL, progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "rounds" in err and "finalization" in err


def test_progress_without_tqdm(capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    apfl.train(SMALL, progress=True)
    err = capfd.readouterr().err
    assert "rounds: 6 of 6, loss " in err and "finalization: 5 of 5" in err


def test_a_loss_that_blows_up_is_an_error(tmp_path):
    with pytest.raises(apfl.RunError, match="the loss of client '.*' became"):
        apfl.train({"training": {"learning_rate": 1e30}, "data": {"clients": 3}}, out=tmp_path / "r")
    with pytest.raises(apfl.RunError, match="the loss"):
        apfl.train(resume=tmp_path / "r")  # the lock is free


def test_errors_can_be_pickled():
    import pickle

    with pytest.raises(apfl.SpecError) as raised:
        apfl.train({"seed": -1})
    copy = pickle.loads(pickle.dumps(raised.value))
    assert type(copy) is apfl.SpecError and copy.problems == raised.value.problems


def test_a_signal_handler_of_ones_own_is_obeyed(tmp_path):
    caught = []
    before = signal.signal(signal.SIGUSR1, lambda *_: caught.append(1))
    try:
        apfl.train(SMALL, on_round=lambda r: os.kill(os.getpid(), signal.SIGUSR1))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught
    assert Path(tmp_path).exists()
