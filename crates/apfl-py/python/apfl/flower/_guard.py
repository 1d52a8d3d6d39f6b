"""Refuses bundles with code, which Flower would otherwise run at a site.

Flower puts a bundle's folder in front of the module path, so a folder `apfl` in it would replace the
installed package. `python -m apfl.flower node …` starts a SuperNode whose processes check a bundle
before it is unpacked.
"""

from __future__ import annotations

import io
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMPONENT = "apfl.flower.client_app:app"
ALLOWED = {"pyproject.toml", "LICENSE", "LICENSE.md"}


class Refused(Exception):
    """A bundle that this site refuses to run."""


def require_no_code(bundle: bytes) -> None:
    """Raises Refused if a bundle has more than settings, or names another component."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as files:
        names = [name for name in files.namelist() if not name.endswith("/")]
        more = [name for name in names if name not in ALLOWED and not name.startswith(".info/")]
        if more:
            raise Refused(f"the bundle has files besides its settings: {', '.join(more[:5])}")
        project = tomllib.loads(files.read("pyproject.toml").decode())
    component = project["tool"]["flwr"]["app"]["components"].get("clientapp")
    if component != COMPONENT:
        raise Refused(f"the bundle's component is {component!r}, allowed is {COMPONENT!r}")


def guarded(install: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps Flower's `install_from_fab` to refuse bundles with code."""

    def check_first(fab_file: Path | bytes, *rest: Any, **named: Any) -> Any:
        require_no_code(fab_file if isinstance(fab_file, bytes) else fab_file.read_bytes())
        return install(fab_file, *rest, **named)

    return check_first
