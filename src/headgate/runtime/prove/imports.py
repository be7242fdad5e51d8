"""A word with a module as soon as it is imported, whoever imports it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

Changed = Callable[[ModuleType], None]

_wanted: dict[str, Changed] = {}


def when_imported(name: str, change: Changed) -> None:
    """Call `change` with the module `name`: now if it is there, else when it has been imported."""
    if (there := sys.modules.get(name)) is not None:
        change(there)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _wanted[name] = change


class _Finder(MetaPathFinder):
    """Finds nothing itself: it lends the real spec a loader that says when it is done."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = _wanted.pop(fullname, None)
        if change is None:
            return None
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        spec.loader = _Announcing(spec.loader, change)
        return spec


class _Announcing(Loader):
    def __init__(self, real: Loader, change: Changed) -> None:
        self._real = real
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        self._change(module)
