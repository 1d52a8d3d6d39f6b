"""Transport over Flower without a network: a grid that passes messages to the sites at once."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tomllib
import zipfile
from types import SimpleNamespace

import apfl
import pytest
from conftest import table

pytest.importorskip("flwr")

from apfl._apfl import serve, terms  # noqa: E402
from apfl.flower import __main__ as command  # noqa: E402
from apfl.flower import client_app, server_app  # noqa: E402
from apfl.flower._guard import Refused, require_no_code  # noqa: E402

SITES = ["north", "south", "west"]
SPEC = """
[data]
kind = "table"
standardize = true
[algorithm]
mixing = { adaptive = 0.5 }
[federation]
sites = ["north", "south", "west"]
rare = "send"
deadline = 20
disclose = ["mixing", "classes", "scores"]
[training]
rounds = 3
local_steps = 3
learning_rate = 0.1
"""


class Message:
    """Flower's message, as far as it is used: its own knows a run."""

    def __init__(self, content, node=None, kind=None, *, ttl=None, reply_to=None) -> None:
        self.content = content
        metadata = reply_to.metadata if reply_to else None
        self.metadata = SimpleNamespace(
            dst_node_id=node,
            src_node_id=metadata and metadata.dst_node_id,
            message_type=kind,
            reply_to_message_id=metadata and metadata.message_id,
        )

    def has_content(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def messages(monkeypatch):
    monkeypatch.setattr(server_app, "Message", Message)
    monkeypatch.setattr(client_app, "Message", Message)


class Grid:
    """Flower's grid, as far as it is used: nodes with names, or without."""

    def __init__(self, tmp_path, named: bool) -> None:
        self.nodes = [
            SimpleNamespace(node_id=10 + k, name=site if named else "")
            for k, site in enumerate(SITES)
        ]
        self.contexts = {
            10 + k: SimpleNamespace(
                node_config={
                    "client": site,
                    "data": str(tmp_path / f"{site}.csv"),
                    "state": str(tmp_path / f"state-{site}"),
                    "accept": "first",
                }
            )
            for k, site in enumerate(SITES)
        }
        self.replies = {}
        self.pushed = 0

    def get_nodes(self):
        return self.nodes

    def push_messages(self, messages):
        ids = []
        for message in messages:
            self.pushed += 1
            message.metadata.message_id = f"m{self.pushed}"
            hello = message.metadata.message_type == "query.hello"
            answer = client_app.hello if hello else client_app.respond
            context = self.contexts[message.metadata.dst_node_id]
            self.replies[f"m{self.pushed}"] = answer(message, context)
            ids.append(f"m{self.pushed}")
        return ids

    def pull_messages(self, ids):
        return [self.replies.pop(id) for id in ids if id in self.replies]


@pytest.mark.parametrize("named", [True, False])
def test_the_bits_of_one_process(tmp_path, named):
    frame = table()
    # The clients' order is that of the sites.
    frame = frame.sort_values("client", kind="stable")
    for site in SITES:
        frame[frame.client == site].to_csv(tmp_path / f"{site}.csv", index=False)
    frame.to_csv(tmp_path / "all.csv", index=False)
    transport = server_app.Transport(Grid(tmp_path, named), SITES, 20.0)
    notes: list[str] = []
    out = str(tmp_path / "run")
    done = serve(SPEC, out, False, False, transport.exchange, notes.append, server_app.watching([]))
    assert done[:2] == (True, 3)
    one = apfl.train(SPEC.replace('kind = "table"', f'kind = "table"\npath = "{tmp_path}/all.csv"'))
    assert done[2] == one.fingerprint
    assert transport.exchanges == 2 + 3 + 1 + 1
    assert apfl.load(out).fingerprint == one.fingerprint
    # What the site has is its own, and answers without the server.
    mine = apfl.load(str(tmp_path / "state-west" / "run")).model("west")
    assert (mine.predict(frame) == one.model("west").predict(frame)).all()
    with pytest.raises(apfl.RunError):
        apfl.load(out).model("west")


def test_a_registered_name_counts_more_than_a_said_one(tmp_path):
    grid = Grid(tmp_path, True)
    liar, mute = SimpleNamespace(node_id=1, name=""), SimpleNamespace(node_id=2, name="")
    grid.contexts[1] = SimpleNamespace(node_config={"client": "north"})
    grid.contexts[2] = SimpleNamespace(node_config={})
    grid.nodes, named = [liar, mute], grid.nodes
    transport = server_app.Transport(grid, SITES, 20.0)
    transport.find_nodes()
    assert transport.nodes == {"north": 1}
    grid.nodes = [liar, mute, *named]
    transport.find_nodes()
    assert transport.nodes == {"north": 10, "south": 11, "west": 12}
    # While the registered node is away no other node gets its requests.
    grid.nodes = [liar, mute, *named[1:]]
    transport.hellos.clear()
    transport.find_nodes()
    assert transport.nodes == {"south": 11, "west": 12}


def test_an_unreadable_request_has_no_response(tmp_path):
    grid = Grid(tmp_path, True)
    garbled = Message({"site": {}})
    garbled.metadata.reply_to_message_id = "m1"
    grid.push_messages = lambda messages: ["m1"]
    grid.pull_messages = lambda ids: [garbled] if "m1" in ids else []
    transport = server_app.Transport(grid, SITES, 20.0)
    assert transport.exchange([("north", b"letter")]) == []


def test_an_exception_at_a_site_is_a_code(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("Zanzibar")

    monkeypatch.setattr(client_app, "answer", fails)
    request = Message(client_app.packed(b"letter"), 10, "train.letter")
    request.metadata.message_id = "m1"
    reply = client_app.respond(request, Grid(tmp_path, True).contexts[10])
    assert b"Zanzibar" not in client_app.unpacked(reply.content)


def test_a_broken_site_is_a_code(tmp_path, caplog):
    frame = table()
    for site in SITES:
        frame[frame.client == site].to_csv(tmp_path / f"{site}.csv", index=False)
    text = (tmp_path / "south.csv").read_text()
    (tmp_path / "south.csv").write_text(text.replace("south,", "south,Zanzibar", 3))
    transport = server_app.Transport(Grid(tmp_path, True), SITES, 20.0)
    with pytest.raises(apfl.RunError, match="south: data") as raised:
        serve(SPEC, str(tmp_path / "run"), False, False, transport.exchange, print, server_app.watching([]))
    assert "Zanzibar" not in str(raised.value)
    assert "Zanzibar" in (tmp_path / "state-south" / "log").read_text()


def test_an_app_folder_has_settings_and_no_code(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC + "# ünïcode\n")
    assert command.main(["new", str(tmp_path / "app"), "--spec", str(spec)]) == 0
    assert sorted(p.name for p in (tmp_path / "app").iterdir()) == ["LICENSE", "pyproject.toml"]
    project = tomllib.loads((tmp_path / "app" / "pyproject.toml").read_text())
    assert project["tool"]["flwr"]["app"]["config"]["spec"] == spec.read_text()
    assert terms(SPEC)[0] in (tmp_path / "app" / "pyproject.toml").read_text()
    assert command.main(["new", str(tmp_path / "app"), "--spec", str(spec)]) == 1
    spec.write_text("[training]\nrounds = 3\n")
    assert command.main(["new", str(tmp_path / "other"), "--spec", str(spec)]) == 2


def bundle(**files: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/"), text)
    return out.getvalue()


def test_the_guard_refuses_code(tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC)
    command.main(["new", str(tmp_path / "app"), "--spec", str(spec)])
    project = (tmp_path / "app" / "pyproject.toml").read_text()
    ours = {"pyproject.toml": project, "LICENSE": "x", ".info__CONTENT": "x"}
    require_no_code(bundle(**ours))
    for more in ["apfl__flower__client_app.py", "evil.so", "sitecustomize.py"]:
        with pytest.raises(Refused, match="besides its settings"):
            require_no_code(bundle(**ours, **{more: "print('evil')"}))
    other = project.replace("apfl.flower.client_app:app", "os:abort")
    with pytest.raises(Refused, match="component"):
        require_no_code(bundle(**{**ours, "pyproject.toml": other}))


def test_a_guarded_process_looks_before_it_unpacks(tmp_path):
    guard = command.Path(command.__file__).with_name("guard")
    code = (
        "from flwr.cli.install import install_from_fab\n"
        "import sys\n"
        "try: install_from_fab(open(sys.argv[1], 'rb').read(), skip_prompt=True)\n"
        "except Exception as e: print(json.dumps([type(e).__name__, str(e)]))\n"
    )
    bad = tmp_path / "bad.fab"
    bad.write_bytes(bundle(**{"pyproject.toml": "", "evil.py": ""}))
    done = subprocess.run(
        [sys.executable, "-c", "import json\n" + code, str(bad)],
        env={
            # The guard first, then the package, wherever this process has it from.
            "PYTHONPATH": os.pathsep.join([str(guard), str(guard.parents[2])]),
            "FLWR_HOME": str(tmp_path),
            "PATH": "",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    kind, words = json.loads(done.stdout.splitlines()[-1])
    assert kind == "Refused" and "evil.py" in words
