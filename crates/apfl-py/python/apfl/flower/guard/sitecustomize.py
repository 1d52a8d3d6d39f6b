"""Loaded by every Python process of a SuperNode started by `python -m apfl.flower node`: wraps the
function that unpacks bundles when its module is imported."""

import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any

INSTALL_MODULE = "flwr.cli.install"


class Guard(importlib.abc.MetaPathFinder):
    """Finds the module in the usual way and wraps its function after loading."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != INSTALL_MODULE:
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
