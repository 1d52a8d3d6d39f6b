"""Commands for federations on Flower.

`python -m apfl.flower new DIR --spec spec.toml` writes an app folder for `flwr run`.
`python -m apfl.flower node …` is `flower-supernode …` that runs no code sent by a server.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .._apfl import RunError, SpecError, terms, version

LICENSE = "This bundle holds settings and no code. The package apfl is under MIT OR Apache-2.0.\n"

PROJECT = """\
# An app folder of Flower with settings and no code: the components are in the package apfl, which
# every site installs beforehand. Terms of this spec: {terms}
[project]
name = "{name}"
version = "1.0.0"
description = "A federation over sites, trained by apfl {version}"
license = {{ file = "LICENSE" }}
dependencies = ["flwr>=1.41"]

[tool.flwr.app]
publisher = "apfl"
fab-format-version = 1
flwr-version-target = "1.41"
fab-include = ["pyproject.toml", "LICENSE"]

[tool.flwr.app.components]
serverapp = "apfl.flower.server_app:app"
clientapp = "apfl.flower.client_app:app"

[tool.flwr.app.config]
out = {out}
resume = false
spec = {spec}
"""


def new(directory: Path, spec: Path, out: Path, name: str) -> str:
    """Writes an app folder. Returns the hash of the spec's terms."""
    text = spec.read_text()
    hash, _, _ = terms(text if "\n" in text else text + "\n")
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise RunError(f"{directory}: the directory already exists and is not empty; choose another one")
    project = PROJECT.format(
        terms=hash,
        name=name,
        version=version()[0],
        out=json.dumps(str(out.absolute())),
        spec=json.dumps(text, ensure_ascii=False),  # a JSON string is a TOML string
    )
    (directory / "pyproject.toml").write_text(project)
    (directory / "LICENSE").write_text(LICENSE)
    return hash


def node(arguments: list[str]) -> int:
    """Replaces this process by a SuperNode whose processes refuse bundles with code."""
    guard = str(Path(__file__).with_name("guard"))
    path = os.environ.get("PYTHONPATH")
    environment = os.environ | {"PYTHONPATH": f"{guard}{os.pathsep}{path}" if path else guard}
    os.execvpe("flower-supernode", ["flower-supernode", *arguments], environment)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command line."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] == ["node"]:
        return node(given[1:])
    parser = argparse.ArgumentParser(
        prog="python -m apfl.flower",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("new", help="write an app folder for flwr run")
    make.add_argument("directory", type=Path)
    make.add_argument("--spec", type=Path, required=True, help="a spec with federation.sites")
    make.add_argument(
        "--out",
        type=Path,
        default=Path("runs/federation"),
        help="the run directory at the server (default: runs/federation here)",
    )
    make.add_argument("--name", default="apfl-federation", help="the app's name")
    commands.add_parser("node", help="a SuperNode that runs no code sent by a server")
    options = parser.parse_args(given)
    try:
        hash = new(options.directory, options.spec, options.out, options.name)
    except SpecError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (RunError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"terms {hash}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
