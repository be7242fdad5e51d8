"""Replays: what is to be run again, frozen when it is asked for, and how far it is (C10).

Asking freezes everything the results depend on and the list of inputs, in one transaction. What was
another when the inputs were first run is named; unless it is accepted, nothing is kept.

A replay that publishes is no work yet: its inputs wait in a table of their own, and workers admit
them in portions when live work leaves room. Each portion and the place to go on from are one
transaction, so a replay is shared and goes on after a crash by itself.
"""

from __future__ import annotations

import getpass
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from headgate.errors import UsageError
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import Envelope
from headgate.model.frozen import SCHEMA, SEEDS, Changed, FrozenManifest, Pins, pins
from headgate.model.identity import change_key
from headgate.model.ports import Noticed
from headgate.pg import Database, Link, Record, queries

from . import inbox, watermark
from .inbox import NOTICE, Registered

Q = queries.load(__file__)
SOURCE = "replay"
Mode = Literal["verify", "publish"]


@dataclass(frozen=True, slots=True)
class Unseen:
    """An object that was never seen, as its source, or a manifest, tells of it."""

    source: str
    noticed: Noticed


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for. `only` names publications; None is all of the window that readers see."""

    pipeline: str
    mode: Mode
    pins: Pins
    environment: Mapping[str, str]
    start: datetime | None = None
    end: datetime | None = None
    because: str | None = None
    actor: str = ""
    per_second: float | None = None
    accepted: Collection[str] = ()
    only: Sequence[int] | None = None
    every: bool = False  # every version, not only what readers see
    known: bool = True  # what was published before is run again
    unseen: Sequence[Unseen] = field(default_factory=list[Unseen])


@dataclass(frozen=True, slots=True)
class Frozen:
    """A replay that was asked for."""

    id: int
    inputs: int
    manifest: FrozenManifest


class Otherwise(UsageError):
    """Something that the results depend on is another than it was, and nobody accepted that."""

    def __init__(self, manifest: FrozenManifest, changed: Sequence[Changed]) -> None:
        self.manifest = manifest
        named = sorted({one["aspect"] for one in changed})
        super().__init__(
            "these are others than when the inputs were first run: "
            + ", ".join(sorted({spoken(one) for one in changed})),
            hint=f"bring back what ran then, or say that you mean it: --accept {','.join(named)}",
        )


def spoken(one: Changed) -> str:
    """What changed, as people say it: `code`, `lookups stations`."""
    return f"{one['aspect']} {one['name']}".strip()


async def ask(db: Database, wanted: Wanted, *, dry_run: bool = False) -> Frozen:
    """Freeze a replay: durable when it returns. Raises `Otherwise`, and then nothing is kept.

    A verification of the very same that was broken off is gone on with.
    """
    if wanted.mode == "publish" and not (wanted.because or "").strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    if wanted.start is not None and wanted.end is not None and wanted.start >= wanted.end:
        raise UsageError(
            f"the window [{wanted.start.isoformat()}, {wanted.end.isoformat()}) holds no moment",
            hint="It begins with the earlier time, and ends before the later one.",
        )
    try:
        async with db.transaction() as link:
            frozen = await _freeze(link, wanted)
            if dry_run:
                raise _Only(frozen)
            reached(Point.BEFORE_RECEIVE)
    except _Only as only:
        return only.frozen
    reached(Point.AFTER_RECEIVE)
    return frozen


class _Only(Exception):
    """It was only looked at, or there is one already: nothing of it is kept."""

    def __init__(self, frozen: Frozen) -> None:
        self.frozen = frozen


async def _freeze(link: Link, wanted: Wanted) -> Frozen:
    pipeline = await link.fetchval(Q.pipeline, wanted.pipeline)
    if pipeline is None:
        raise UsageError(
            f"the ledger knows no pipeline {wanted.pipeline!r}",
            hint="Run it once: headgate up FILE.py. Or name its ledger: --home, --database-url.",
        )
    await _can_be_superseded(link, wanted, pipeline)
    actor = wanted.actor or getpass.getuser()
    id = await link.fetchval(
        Q.make,
        pipeline,
        wanted.mode,
        wanted.pins.digest,
        actor,
        wanted.because,
        wanted.per_second,
    )
    passed = watermark.combined(await watermark.streams(link, wanted.pipeline))
    upto = passed.get(wanted.pipeline)
    if wanted.known:
        w = wanted
        await link.execute(
            Q.publications, id, pipeline, w.start, w.end, w.every, w.only, w.mode, upto
        )
    if unseen := [u for u in wanted.unseen if upto is None or u.noticed.event_time <= upto]:
        await _list_unseen(link, id, pipeline, unseen)
    counted = await link.fetchrow(Q.counted, id)
    assert counted is not None
    manifest = _manifest(wanted, counted, await _changed(link, id, wanted.pins), upto)
    refused = [c for c in manifest["changed"] if _matters(c, wanted)]
    if refused:
        raise Otherwise(manifest, refused)
    text = orjson.dumps(manifest).decode()
    await link.execute(Q.freeze, id, text, counted["inputs"])
    if wanted.mode == "verify":
        before = await link.fetchval(Q.unfinished, pipeline, id, wanted.pins.digest, text)
        if before is not None:
            raise _Only(Frozen(before, counted["inputs"], manifest))
    else:
        await link.execute(Q.act, actor, "replay", wanted.because)
    return Frozen(id, counted["inputs"], manifest)


async def _can_be_superseded(link: Link, wanted: Wanted, pipeline: int) -> None:
    if wanted.mode == "verify" or not wanted.known:
        return
    if stuck := [r["handler"] for r in await link.fetch(Q.stuck, pipeline)]:
        raise UsageError(
            f"pipeline {wanted.pipeline} runs SQL of its own ({', '.join(stuck)}) and has not said"
            " how to take it back, so nothing can take its place",
            hint="declare it with apply(undo=…) and start it once; then replay",
        )


async def _list_unseen(link: Link, id: int, pipeline: int, unseen: Sequence[Unseen]) -> None:
    said = [
        orjson.dumps(
            {
                "hint": u.noticed.hint,
                "strength": u.noticed.strength,
                "event_time": u.noticed.event_time.isoformat(),
                "size": u.noticed.size,
                "content_type": u.noticed.content_type,
                "clock": u.noticed.clock,
                "item": u.noticed.item,
            }
        ).decode()
        for u in unseen
    ]
    uris, sources = [u.noticed.uri for u in unseen], [u.source for u in unseen]
    await link.execute(Q.unseen, id, pipeline, uris, sources, said)


async def _changed(link: Link, id: int, now: Pins) -> list[Changed]:
    """What was another when the inputs were first run, and for how many of them."""
    found: dict[tuple[str, str], Changed] = {}
    for row in await link.fetch(Q.deployments, id):
        then = pins_of(row)
        for aspect, name in now.differing(then):
            was, is_now = getattr(then, aspect), getattr(now, aspect)
            one = found.setdefault(
                (aspect, name),
                {
                    "aspect": aspect,
                    "name": name,
                    "was": [],
                    "now": is_now.get(name, "") if name else is_now,
                    "publications": 0,
                },
            )
            one["was"].append(was.get(name, "") if name else was)
            one["publications"] += row["publications"]
    return list(found.values())


def _matters(changed: Changed, wanted: Wanted) -> bool:
    # A verification reads the copies of that time, whatever the files say by now.
    if wanted.mode == "verify" and changed["aspect"] == "lookups":
        return False
    return changed["aspect"] not in wanted.accepted


def _manifest(
    wanted: Wanted, counted: Record, changed: list[Changed], upto: datetime | None
) -> FrozenManifest:
    p = wanted.pins
    return {
        "schema": SCHEMA,
        "pipeline": wanted.pipeline,
        "mode": wanted.mode,
        "window": {"start": _moment(wanted.start), "end": _moment(wanted.end)},
        "pipeline_version": p.version,
        "code": f"sha256:{p.code}",
        "params": f"sha256:{p.params}",
        "config": f"sha256:{p.config}",
        "schemas": {name: f"sha256:{digest}" for name, digest in p.schemas.items()},
        "lookups": {name: f"sha256:{digest}" for name, digest in p.lookups.items()},
        "seeds": SEEDS,
        "environment": dict(wanted.environment),
        "inputs": {
            "count": counted["inputs"],
            "digest": f"sha256:{counted['digest'].hex()}",
            "list": None,
        },
        "watermark": _moment(upto),
        "changed": changed,
        "accepted": sorted(wanted.accepted),
    }


def _moment(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()


def pins_of(row: Record) -> Pins:
    """The pins of a deployment's row."""
    declared: dict[str, Any] = orjson.loads(row["declared"])
    return pins(row["version"], row["code"], row["params"], declared)


@dataclass(frozen=True, slots=True)
class Portion:
    """What was admitted, of which replay; how many came from anywhere else so far."""

    admitted: int
    live: int


Naming = Callable[[str, Noticed, int, datetime], Envelope]


async def advance(
    db: Database, at: Registered, pinned: bytes, most: int, naming: Naming
) -> Portion | None:
    """Admit the next portion of a replay; None when there is none that we may go on with.

    `naming` makes the envelope of an object that was never seen: source, change, generation, time.
    """
    async with db.transaction() as link:
        row = await link.fetchrow(Q.next, at.pipeline, pinned, most)
        if row is None:
            return None
        id, done, many, tokens, live = row
        if many > 0:
            if seen := await link.fetchval(Q.seen, id, done, many):  # they come first
                many = seen
                parts = await _parts(link, at, id, done, many)
                await link.fetchval(Q.admit, id, done, many, at.pipeline, parts)
            else:
                await _bring_in(link, at, id, await link.fetch(Q.page, id, done, many), naming)
            await link.execute(Q.move, id, many, tokens)
        reached(Point.BEFORE_RECEIVE)
    reached(Point.AFTER_RECEIVE)
    return Portion(many, live)


async def _parts(link: Link, at: Registered, id: int, done: int, many: int) -> list[str] | None:
    if at.partition is None:
        return None
    rows = await link.fetch(Q.envelopes, id, done, many)
    return [at.partition(Envelope.restore(**dict(row))) for row in rows]


async def _bring_in(
    link: Link, at: Registered, id: int, page: Sequence[Record], naming: Naming
) -> None:
    """Number and admit objects that were never seen; one that was seen since is left alone."""
    await link.execute("SELECT pg_advisory_xact_lock(1751606891, $1)", at.pipeline)
    now: datetime = await link.fetchval("SELECT clock_timestamp()")
    for source in sorted({r["source"] for r in page}):
        told = {r["uri"]: _noticed(r) for r in page if r["source"] == source}
        none = [0] * len(told)
        numbered = await link.fetch(
            NOTICE,
            at.pipeline,
            source,
            list(told),
            [change.hint for change in told.values()],
            none,
            [False] * len(told),
        )
        envelopes = [naming(source, told[r["uri"]], r["generation"], now) for r in numbered]
        if envelopes:
            await inbox.admit(link, at, SOURCE, envelopes)
            await link.execute(Q.mark, id, at.pipeline, [change_key(e) for e in envelopes])


def _noticed(row: Record) -> Noticed:
    said: dict[str, Any] = orjson.loads(row["noticed"])
    said["event_time"] = datetime.fromisoformat(said["event_time"])
    return Noticed(row["uri"], "created", expected=0, **said)


async def running(db: Database, pipeline: int, pinned: bytes) -> bool:
    """Is there a replay for this worker to go on with? Those that have come to their end, end."""
    row = await db.fetchrow(Q.running, pipeline, pinned)
    assert row is not None
    if row["ending"]:
        await db.execute(Q.finish, pipeline)
    return row["left"] > 0


async def left(db: Database, pinned: Collection[bytes]) -> dict[str, int]:
    """What replays of these pins have still to admit or to end, by pipeline."""
    rows = await db.fetch(Q.left, list(pinned))
    return {r["pipeline"]: max(r["inputs"], int(r["ending"])) for r in rows}


async def stop(db: Database, id: int, *, because: str, actor: str = "") -> tuple[int, int] | None:
    """Admit nothing more; how far it was. What is admitted already is done. None: it had ended."""
    async with db.transaction() as link:
        row = await link.fetchrow(Q.stop, id)
        if row is not None:
            await link.execute(Q.act, actor or getpass.getuser(), "stop replay", because)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return None if row is None else (row["done"], row["inputs"])


async def ends(db: Database) -> dict[tuple[str, str], int]:
    """How many replays of each pipeline ended in which way."""
    return {(row["pipeline"], row["outcome"]): row["replays"] for row in await db.fetch(Q.ends)}
