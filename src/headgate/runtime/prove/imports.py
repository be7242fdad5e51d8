"""Other functions in the place of a module's own: of one that is loaded, or will be."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

Changed = Callable[[ModuleType], None]

Function = Callable[..., Any]

_STANDARD = sys.stdlib_module_names - {
    "importlib", "posix", "_io", "zipimport", "_frozen_importlib_external",
}  # fmt: skip
_KEEP_IN_CLASSES = ("glob", "pathlib", "pathlib._os", "pathlib._local")

_wanted: dict[str, Changed] = {}
_looked: dict[str, ModuleType] = {}
# Where something is kept, by its identity.
_kept: dict[int, list[tuple[ModuleType, str]]] = {}


def when_imported(name: str, change: Changed) -> None:
    """Call `change` with the module `name`: now if it is there, else when it has been imported."""
    if (there := sys.modules.get(name)) is not None:
        change(there)
        return
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _wanted[name] = change


def look_around() -> None:
    """Note where the standard library keeps its functions, as far as it is loaded.

    Who forks children that will replace some of them looks before: in a child, everything that is
    looked at is copied.
    """
    for name, module in list(sys.modules.items()):
        if type(module) is not ModuleType or name.partition(".")[0] not in _STANDARD:
            continue
        if _looked.get(name) is not module:
            _looked[name] = module
            for key, value in list(vars(module).items()):
                if callable(value):
                    _kept.setdefault(id(value), []).append((module, key))


def replace_everywhere(new: Mapping[Function, Function]) -> None:
    """Put functions in the place of others, also where the library kept one under another name.

    The standard library, that is, without the machinery of imports: what else is loaded by now is
    Headgate's, and keeps what it has.
    """
    look_around()
    for old, held in new.items():
        for module, key in _kept.pop(id(old), ()):
            if vars(module).get(key) is old:
                setattr(module, key, held)
                _kept.setdefault(id(held), []).append((module, key))
    # By identity: some things that classes hold cannot be compared.
    known = {id(old): (old, held) for old, held in new.items()}
    for name in _KEEP_IN_CLASSES:
        if (module := sys.modules.get(name)) is not None:
            for value in list(vars(module).values()):
                if isinstance(value, type):
                    _replace_static(value, known)


def _replace_static(holder: type, known: Mapping[int, tuple[Function, Function]]) -> None:
    """Newer versions of `glob` and `pathlib` keep functions as static methods."""
    for key, value in list(vars(holder).items()):
        if isinstance(value, staticmethod) and id(value.__func__) in known:
            setattr(holder, key, staticmethod(known[id(value.__func__)][1]))


class _Finder(MetaPathFinder):
    """Finds nothing itself: it lends the real spec a loader that says when it is done.

    Whoever only asks whether a module is there gets such a spec, too, and may throw it away.
    """

    def __init__(self) -> None:
        self._finding: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in _wanted or fullname in self._finding:
            return None
        self._finding.add(fullname)
        try:
            spec = find_spec(fullname)
        finally:
            self._finding.discard(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Announcing(spec.loader)
        return spec


class _Announcing(Loader):
    def __init__(self, real: Loader) -> None:
        self._real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        if (change := _wanted.pop(module.__name__, None)) is not None:
            change(module)
