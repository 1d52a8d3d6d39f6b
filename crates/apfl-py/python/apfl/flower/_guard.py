"""Refuses bundles with code, which Flower would otherwise run at a site.

Flower puts a bundle's folder in front of the module path, so a folder `apfl` in it would replace the
installed package. `python -m apfl.flower node …` starts a SuperNode whose processes check a bundle
before it is unpacked.
"""

from __future__ import annotations

import io
import re
import tomllib
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from .._apfl import quoted

COMPONENT = "apfl.flower.client_app:app"
ALLOWED = {"pyproject.toml", "LICENSE", "LICENSE.md"}

# Tables and keys that name no code and nothing to install or to build.
PROJECT_KEYS = {
    "authors",
    "classifiers",
    "dependencies",
    "description",
    "keywords",
    "license",
    "name",
    "requires-python",
    "urls",
    "version",
}

# flwr itself, of any version: no extras, no address, no marker.
DEPENDENCY = re.compile(r"flwr\s*([<>=!~]=?=?\s*[\w.*]+\s*,?\s*)*", re.ASCII)

MAX_SETTINGS = 16 << 20
"""The most bytes of a bundle's pyproject.toml."""


class Refused(Exception):
    """A bundle that this site refuses to run."""


def require_no_code(bundle: bytes) -> None:
    """Raises Refused if a bundle has more than settings, names another component, or has something
    installed."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as files:
        entries = [entry for entry in files.infolist() if not entry.is_dir()]
        names = [entry.filename for entry in entries]
        more = [name for name in names if name not in ALLOWED and name != ".info/CONTENT"]
        if more:
            raise Refused(f"the bundle has files besides its settings: {_listed(more)}")
        if len(set(names)) < len(names):
            raise Refused("the bundle has two files of one name")
        if any(entry.file_size > MAX_SETTINGS for entry in entries):
            raise Refused(f"the bundle has a file of more than {MAX_SETTINGS >> 20} MB")
        if "pyproject.toml" not in names:
            raise Refused("the bundle has no pyproject.toml")
        text = files.read("pyproject.toml")
    try:
        settings = tomllib.loads(text.decode())
    except ValueError as error:
        raise Refused(f"the bundle's pyproject.toml is invalid: {quoted(str(error))}") from None
    _require_no_installation(settings)
    component = _table(settings, "tool", "flwr", "app", "components").get("clientapp")
    if component != COMPONENT:
        raise Refused(
            f"the bundle's component is {quoted(repr(component))}, allowed is {COMPONENT!r}"
        )


def _require_no_installation(settings: dict[str, Any]) -> None:
    """Raises Refused if a tool could install or build something because of these settings."""
    project = _table(settings, "project")
    _require_known("", settings, {"project", "tool"})
    _require_known("tool.", _table(settings, "tool"), {"flwr"})
    _require_known("project.", project, PROJECT_KEYS)
    dependencies = project.get("dependencies", [])
    if not isinstance(dependencies, list):
        raise Refused("the bundle's project.dependencies is not a list")
    other = [str(d) for d in dependencies if not _is_flwr(d)]
    if other:
        raise Refused(f"the bundle has dependencies besides flwr: {_listed(other)}")


def _is_flwr(dependency: Any) -> bool:
    short = isinstance(dependency, str) and len(dependency) < 100
    return short and DEPENDENCY.fullmatch(dependency) is not None


def _require_known(prefix: str, table: dict[str, Any], known: set[str]) -> None:
    other = sorted(set(table) - known)
    if other:
        names = _listed(prefix + name for name in other)
        raise Refused(f"the bundle's pyproject.toml has {names}, which this site does not allow")


def _table(table: Any, *keys: str) -> dict[str, Any]:
    """Returns the table of a path; empty if there is none."""
    for key in keys:
        table = table.get(key) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(quoted(name) for name in list(names)[:5])


def guarded(install: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Flower's `install_from_fab` to refuse bundles with code."""

    def check_first(fab_file: Path | bytes, *rest: Any, **named: Any) -> Any:
        require_no_code(fab_file if isinstance(fab_file, bytes) else fab_file.read_bytes())
        return install(fab_file, *rest, **named)

    return check_first
