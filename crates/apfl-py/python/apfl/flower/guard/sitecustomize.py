"""Loaded by every Python process of a SuperNode that `python -m apfl.flower node` started."""

import importlib.abc
import importlib.util
import sys


class Guard(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Puts the guard around what unpacks bundles, when its module is first imported."""

    name = "flwr.cli.install"

    def find_spec(self, name, path=None, target=None):  # type: ignore[no-untyped-def]
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        self.loader = spec.loader
        spec.loader = self
        return spec

    def create_module(self, spec):  # type: ignore[no-untyped-def]
        return self.loader.create_module(spec)

    def exec_module(self, module):  # type: ignore[no-untyped-def]
        self.loader.exec_module(module)
        from apfl.flower._guard import guarded

        module.install_from_fab = guarded(module.install_from_fab)


sys.meta_path.insert(0, Guard())
