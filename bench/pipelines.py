"""The common job as Headgate pipelines: the same effect, said in each of the ways there are."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypedDict

import orjson

import headgate as hg

from .job import Event, is_poison

Kind = Literal["rows", "later", "apply", "poison", "independent"]
NAME = "bench"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
EFFECT = (
    "INSERT INTO effects (key, count, etype, t_enq) VALUES ($1, 1, $2, 0)"
    " ON CONFLICT (key) DO UPDATE SET count = effects.count + 1"
)


class Effect(TypedDict):
    """A declared row."""

    key: str
    etype: str


def declare(kind: Kind, folder: Path) -> hg.Pipeline:
    """The pipeline of a workload. Every process that takes part declares it anew."""
    p = hg.Pipeline(NAME, store=str(folder / "lake"), version="1")
    if kind == "rows":

        @p.rows("effects", key="key", schema=Effect)
        def effects(obj: hg.Object, run: hg.Run) -> Iterator[Effect]:
            told = orjson.loads(obj.read())
            yield {"key": told["id"], "etype": told["type"]}

        return p

    async def later(tx: hg.Transaction, obj: hg.Object) -> None:
        told = orjson.loads(obj.read())
        tx.later(EFFECT, told["id"], told["type"])

    async def now(tx: hg.Transaction, obj: hg.Object) -> None:
        told = orjson.loads(obj.read())
        await tx.execute(EFFECT, told["id"], told["type"])

    async def picky(tx: hg.Transaction, obj: hg.Object) -> None:
        told = orjson.loads(obj.read())
        if is_poison(told["id"]):
            raise hg.Permanent(f"{told['id']} is not what it should be")
        await tx.execute(EFFECT, told["id"], told["type"])

    handler = {"later": later, "poison": picky}.get(kind, now)
    p.apply(independent=kind == "independent")(handler)
    return p


def message(event: Event, sent: float = 0.0) -> bytes:
    return orjson.dumps(event.body(sent))


def envelope(event: Event, data: bytes) -> hg.Envelope:
    """A delivery as an object store would announce it, with the message inside."""
    return hg.Envelope(
        event_id=event.id,
        source="s3:ObjectCreated:Put",
        provider="s3",
        detector="event",
        uri="s3://b/" + event.payload["key"],
        etag=event.payload["etag"],
        strength="strong",
        size=event.payload["size"],
        event_time=NOON,
        received_at=NOON,
        data=data,
    )
