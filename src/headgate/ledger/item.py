"""Items: what a search over the catalog finds. One row per head of a catalogued pipeline.

A row is written in the transaction that makes its publication the head, and goes with it. What the
item says is in the journal line; the row has only what a search asks for.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import orjson

from headgate.model.facts import Item
from headgate.model.revert import restored
from headgate.pg import Link, queries

from .arrays import column
from .attempt import Attempt

Q = queries.load(__file__)

Box = tuple[tuple[float, float], tuple[float, float]]


async def publish(link: Link, pipeline: int, attempts: Sequence[Attempt]) -> None:
    """Write the rows of what these attempts publish. A removal has none, unless it retires."""
    await _inherit(link, attempts)
    told = sorted(
        (
            (a.claim.id, a.item, a.retired)
            for a in attempts
            if a.item is not None and (not a.claim.removed or a.retired)
        ),
        key=itemgetter(0),
    )
    if told:
        await link.execute(
            Q.publish,
            pipeline,
            [entry for entry, _, _ in told],
            column([item.collection for _, item, _ in told]),
            [item.id for _, item, _ in told],
            [item.start for _, item, _ in told],
            [item.end for _, item, _ in told],
            [box(item.bbox) for _, item, _ in told],
            column([retired for _, _, retired in told]),
        )


def box(bbox: Sequence[float] | None) -> Box | None:
    """A bounding box as a search sees it: flat, and beyond 180 where it crosses the antimeridian.

    A search there has to look twice: for its own box, and for the one 360 degrees further east.
    """
    if bbox is None:
        return None
    half = len(bbox) // 2
    west, south, east, north = bbox[0], bbox[1], bbox[half], bbox[half + 1]
    return (west, south), (east if west <= east else east + 360, north)


async def _inherit(link: Link, attempts: Sequence[Attempt]) -> None:
    """What is taken away is the item that it was, and what is brought back is it again."""
    heirs = {of: a for a in attempts if (of := _inherits(a)) is not None}
    if heirs:
        for row in await link.fetch(Q.said, sorted(heirs)):
            said: dict[str, Any] = orjson.loads(row["doc"] or b"{}")
            if "item" in said:
                heirs[row["entry"]].item = Item.restore(said["item"])


def _inherits(attempt: Attempt) -> int | None:
    """The publication whose item this one is, if it is not one of its own."""
    claim = attempt.claim
    if claim.removed:
        return None if claim.head is None else claim.head.entry
    return None if claim.reverts is None else restored(claim.envelope())
