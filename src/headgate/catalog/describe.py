"""Describing: what a catalog shows of a publication, found in its files, amended by a handler."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from headgate.model.facts import Item
from headgate.model.object import Object
from headgate.model.pipeline import Pipeline
from headgate.model.step import ItemStep, Step
from headgate.model.verdict import checking

from . import about
from .footprint import Located, footprint

Take = Callable[[Any], None]


def describing(
    declared: Pipeline,
    obj: Object,
    named: str | None,
    files: Sequence[Located],
    take: Callable[[Item], None],
    *,
    restored: bool,
) -> Generator[tuple[Step, Take], None, None]:
    """Steps to be called, like those of the path. Whoever calls them is handed the item by `take`.

    `named` is the item that the source says it is part of. Finding is a step like any other: it
    reads files, and may take its time.
    """
    step = declared.item_step
    made: list[Item] = []

    def keep(item: Item) -> None:
        made.append(item)
        take(item)

    with checking("item" if step is None else step.step.name, "item"):
        yield Step(partial(_found, declared, obj, named, files), "item", False, 0), keep
        if step is not None and not restored:
            yield _amend(step, made[-1], obj, files, keep)


def _found(declared: Pipeline, obj: Object, named: str | None, files: Sequence[Located]) -> Item:
    step = declared.item_step
    if step is not None and step.of is not None:
        name = about.name_as_said(step.of(obj), "item=")
    elif named:
        name = about.name_as_said(named, "its source")
    else:
        name = about.name_of(obj.uri)
    return about.found(declared.collection or "", name, obj.event_time, footprint(files))


def _amend(
    declared: ItemStep,
    item: Item,
    obj: Object,
    files: Sequence[Located],
    keep: Callable[[Item], None],
) -> tuple[Step, Take]:
    before = about.offered(item, obj.uri, [located.file for located in files])
    handed: Any = deepcopy(before)
    if declared.wants_pystac:
        handed = about.as_pystac(handed)

    def take(given: Any) -> None:
        keep(about.amended(item, before, handed if given is None else given))

    function = partial(declared.step.function, handed)
    return replace(declared.step, function=function, takes=declared.step.takes - 1), take
