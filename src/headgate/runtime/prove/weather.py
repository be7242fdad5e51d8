"""The weather of a world: clock, chance and the order of listings, as the user's code meets them.

Headgate, its drivers and the event loop live under the real one. Chance belongs to the scene: the
same sample draws the same numbers in the same handler, whatever was drawn before it elsewhere.
"""

from __future__ import annotations

import functools
import os
import random
import threading
import uuid
from collections.abc import Callable
from types import ModuleType
from typing import Any, Literal, cast

from . import clock
from .imports import replace_everywhere, when_imported
from .scene import Log, doer, is_aside, now_playing
from .shadow import Entries

Listing = Literal["sorted", "reversed"]

_one_at_a_time = threading.Lock()


def watch(log: Log, stands_at: float | None, listing: Listing) -> None:
    """Make the weather from now on, and tell who looks at it."""
    clock.watch(log, stands_at)
    _replace_random(log)
    _replace_listings(log, listing)
    when_imported("numpy.random", lambda module: _replace_numpy(log, module))


def _drawn(log: Log, name: str) -> random.Random | None:
    """The chance of this scene, when it is the user who draws."""
    if doer() is None:
        return None
    log.note("random", name=name)
    return now_playing().chance


def _replace_random(log: Log) -> None:
    shared = cast("Any", random)._inst
    for name, real in list(vars(random).items()):
        if getattr(real, "__self__", None) is shared:
            setattr(random, name, _drawing(log, name, real))
    urandom = os.urandom

    def bytes_drawn(size: int, /) -> bytes:
        chance = _drawn(log, "os.urandom")
        return urandom(size) if chance is None else chance.randbytes(size)

    os.urandom = cast("Any", random)._urandom = bytes_drawn
    cast("Any", random).Random = _seeded(log)
    for name in ("uuid1", "uuid6", "uuid7"):
        if hasattr(uuid, name):
            setattr(uuid, name, _without_memory(log, name, getattr(uuid, name)))


def _drawing(log: Log, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(real)
    def draw(*args: Any, **kwargs: Any) -> Any:
        chance = _drawn(log, f"random.{name}")
        return (real if chance is None else getattr(chance, name))(*args, **kwargs)

    return draw


def _seeded(log: Log) -> type[random.Random]:
    """`random.Random`, which without a seed of its own takes one from the scene."""

    class Random(random.Random):
        def __init__(self, x: Any = None) -> None:
            if x is None and (chance := _drawn(log, "random.Random")) is not None:
                x = chance.getrandbits(64)
            super().__init__(x)

    Random.__module__, Random.__qualname__ = "random", "Random"
    return Random


def _without_memory(log: Log, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    """An id made of the time: by the world's clock, and not counted on from the one before."""

    @functools.wraps(real)
    def make(*args: Any, **kwargs: Any) -> Any:
        if _drawn(log, f"uuid.{name}") is None:
            return real(*args, **kwargs)
        if name == "uuid1" and not args:
            kwargs.setdefault("node", uuid.getnode())  # without one, C code asks the real clock
        with _one_at_a_time:  # another handler's thread would leave its memory to us
            for remembered in ("_last_timestamp", "_last_timestamp_v6", "_last_timestamp_v7"):
                if hasattr(uuid, remembered):
                    setattr(uuid, remembered, None)
            return real(*args, **kwargs)

    return make


def _replace_numpy(log: Log, module: ModuleType) -> None:
    numpy = cast("Any", module)
    default_rng, shared = numpy.default_rng, numpy.mtrand._rand

    def seeded(seed: Any = None) -> Any:
        if seed is None and (chance := _drawn(log, "numpy.random.default_rng")) is not None:
            seed = chance.getrandbits(64)
        return default_rng(seed)

    def of_scene(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def draw(*args: Any, **kwargs: Any) -> Any:
            chance = _drawn(log, f"numpy.random.{name}")
            if chance is None:
                return real(*args, **kwargs)
            kept = now_playing().kept
            if "numpy" not in kept:
                kept["numpy"] = numpy.RandomState(chance.getrandbits(32))
            return getattr(kept["numpy"], name)(*args, **kwargs)

        return draw

    numpy.default_rng = seeded
    for name, real in list(vars(module).items()):
        if getattr(real, "__self__", None) is shared or name == "seed":
            setattr(module, name, of_scene(name, real))


def _replace_listings(log: Log, listing: Listing) -> None:
    backwards = listing == "reversed"
    listdir, scandir = os.listdir, os.scandir

    def names(path: Any = None) -> Any:
        found = cast("list[Any]", listdir(path))
        if is_aside() or doer() is None:
            return found
        log.note("listing", name="os.listdir")
        return sorted(found, reverse=backwards)

    def entries(path: Any = None) -> Any:
        found = scandir(path)
        if is_aside() or doer() is None:
            return found
        log.note("listing", name="os.scandir")
        with found:
            return Entries(sorted(found, key=lambda entry: entry.name, reverse=backwards))

    replace_everywhere({listdir: names, scandir: entries})
