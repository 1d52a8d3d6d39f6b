"""Loaded by every Python process of a SuperNode that `python -m apfl.flower node` started: puts the
guard around what unpacks bundles, when its module is first imported."""

import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any

WHAT_UNPACKS = "flwr.cli.install"


class Guard(importlib.abc.MetaPathFinder):
    """Finds that module as others do, and changes it when it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != WHAT_UNPACKS:
            return None
        sys.meta_path.remove(self)
        found: Any = importlib.util.find_spec(name)
        load = found.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            from apfl.flower._guard import guarded

            load(module)
            unpacks: Any = module
            unpacks.install_from_fab = guarded(unpacks.install_from_fab)

        found.loader.exec_module = exec_module
        return found


sys.meta_path.insert(0, Guard())
