"""From an object to its item: what the path does to describe what it is about to publish."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from headgate.model.facts import File, Item, media_type
from headgate.model.object import Object
from headgate.model.pipeline import ItemStep, Step
from headgate.model.ports import Spool

from . import about
from .footprint import Located, footprint


def look(
    collection: str,
    declared: ItemStep | None,
    obj: Object,
    artifacts: Sequence[Mapping[str, Any]],
    spools: Mapping[bytes, Spool],
) -> Item:
    """The item that an object is, as far as its source and its files tell."""
    envelope = obj.envelope
    if declared is not None and declared.of is not None:
        name = about.name_as_said(declared.of(obj), "item=")
    elif envelope.item:
        name = about.name_as_said(envelope.item, "its source")
    else:
        name = about.name_of(obj.uri)
    data = File("data", obj.digest, obj.size, media_type(obj.uri, envelope.content_type))
    files = [Located(data, obj.uri, obj.open, obj.path)]
    for file in (File(**artifact) for artifact in artifacts):
        spool = spools.get(bytes.fromhex(file.digest))
        if spool is not None:  # what a revert brings back is in the store
            at = spool.path
            files.append(Located(file, file.name, partial(at.open, "rb"), partial(Path, at)))
    return about.found(collection, name, obj.event_time, footprint(files))


def hand(
    declared: ItemStep, item: Item, obj: Object, artifacts: Sequence[Mapping[str, Any]]
) -> tuple[Step, Callable[[Any], Item]]:
    """The handler with the item in its hands, and what reads the item from what it gives back."""
    data = File("data", obj.digest, obj.size, media_type(obj.uri, obj.envelope.content_type))
    before = about.offered(item, obj.uri, [data, *(File(**artifact) for artifact in artifacts)])
    handed: Any = deepcopy(before)
    if declared.wants_pystac:
        handed = about.as_pystac(handed)

    def read(given: Any) -> Item:
        return about.amended(item, before, handed if given is None else given)

    function = partial(declared.step.function, handed)
    return replace(declared.step, function=function, takes=declared.step.takes - 1), read
