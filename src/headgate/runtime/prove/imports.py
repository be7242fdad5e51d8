"""Other functions in the place of a module's own: of one that is loaded, or will be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

Changed = Callable[[ModuleType], None]

Function = Callable[..., Any]

_LEFT_ALONE = ("headgate", "importlib", "posix", "_io", "zipimport", "_frozen_importlib_external")
_KEPT = ("scandir", "lstat", "stat", "open")  # as static methods
_FUNCTIONS = (FunctionType, BuiltinFunctionType)

_wanted: dict[str, Changed] = {}


def when_imported(name: str, change: Changed) -> None:
    """Call `change` with the module `name`: now if it is there, else when it has been imported."""
    if (there := sys.modules.get(name)) is not None:
        change(there)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _wanted[name] = change


def replace_everywhere(new: Mapping[Function, Function]) -> None:
    """Put functions in the place of others, also where a library kept one under another name.

    Headgate's modules keep what they have, and so does the machinery of imports.
    """
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _LEFT_ALONE or type(module) is not ModuleType:
            continue
        holders: list[ModuleType | type] = [module]
        if name in ("glob", "pathlib"):  # newer ones keep them in their classes
            holders += [c for c in vars(module).values() if isinstance(c, type)]
        for holder in holders:
            held_by: list[tuple[str, Any]] = list(vars(holder).items())
            for key, value in held_by:
                function: Any = getattr(value, "__func__", value) if key in _KEPT else value
                if isinstance(function, _FUNCTIONS) and function in new:
                    held = new[function]
                    setattr(holder, key, held if function is value else staticmethod(held))


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
