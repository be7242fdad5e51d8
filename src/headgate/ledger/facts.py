"""Facts, read from the ledger: journal lines with the rows they point to (`model/facts.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import orjson

from headgate.model.energy import Used
from headgate.model.envelope import Envelope
from headgate.model.facts import Check, Declared, Facts, File, Item, Version, media_type, run_name
from headgate.model.layout import Layout, of_folders
from headgate.pg import Database, Link, Record, queries

Q = queries.load(__file__)


async def of_entry(db: Database, entry: int) -> list[Facts]:
    """How every attempt at an entry ended, the oldest first. Empty when there was none."""
    return await _read(db, Q.of_entry, entry)


async def of_publications(db: Database | Link, entries: Sequence[int]) -> list[Facts]:
    """What these entries published, in the order in which that was committed."""
    return await _read(db, Q.of_publications, list(entries))


async def page(db: Database | Link, pipelines: Sequence[int], after: int, upto: int) -> list[Facts]:
    """What these pipelines published or gave up in the commits after `after`, up to `upto`."""
    return await _read(db, Q.page, after, upto, list(pipelines))


async def heads(db: Database, pipeline: int, after: int, limit: int) -> list[Facts]:
    """What readers see now of a pipeline, by entry, a page at a time; removals included."""
    return await _read(db, Q.heads, pipeline, after, limit)


async def _read(db: Database | Link, sql: str, *args: Any) -> list[Facts]:
    identity = await db.fetchrow("SELECT id, layout FROM headgate.identity")
    assert identity is not None
    ledger, layout = str(identity["id"]), of_folders(*identity["layout"])
    return [_facts(ledger, layout, row) for row in await db.fetch(sql, *args)]


def _facts(ledger: str, layout: Layout, r: Record) -> Facts:
    doc: dict[str, Any] = orjson.loads(r["doc"]) if r["doc"] else {}
    envelope = Envelope.restore(
        r["envelope"],
        uri=r["uri"],
        event_time=r["event_time"],
        received_at=r["received_at"],
        sequence=r["sequence"],
        key=r["key"],
        data=None,
    )
    content = r["content"].hex() if r["content"] is not None else doc.get("content")
    return Facts(
        ledger=ledger,
        store=r["store"],
        pipeline=r["pipeline"],
        pipeline_version=r["pipeline_version"] or "",
        code=_hex(r["code"]) or "",
        params=_hex(r["params"]) or "",
        declared=_declared(r["declared"]),
        entry=r["entry"],
        fence=r["fence"],
        attempt=r["attempt"],
        outcome=r["outcome"],
        reason=r["reason"],
        at=r["at"],
        steps=steps(r["steps"]),
        position=r["pos"] or 0,
        pointer=f"{r['batch']}/{r['n']}",
        worker=r["worker"],
        key=r["key"].hex(),
        envelope=envelope,
        content=content,
        effect=_hex(r["effect"]),
        version=None if r["version"] is None else _version(r, doc, envelope),
        before=None if r["b_version"] is None else _before(r),
        successor=None if r["successor"] is None else _successor(r),
        checks=tuple(Check(**c) for c in doc.get("checks", ())),
        item=None if "item" not in doc else Item.restore(doc["item"]),
        error=doc.get("error"),
        error_class=doc.get("class"),
        reverts=r["reverts"],
        restores=r["restores"],
        replays=doc.get("replays"),
        seed=doc.get("seed"),
        because=r["because"],
        actor=r["actor"],
        late=r["late"],
        energy=Used.restore(doc["energy"]) if "energy" in doc else None,
        layout=layout,
    )


@lru_cache(256)
def _declared(text: str | None) -> Declared:
    return Declared(orjson.loads(text) if text else {})


def _version(r: Record, doc: dict[str, Any], envelope: Envelope) -> Version:
    made = _made(r, "", r["entry"], doc, envelope.uri, envelope.content_type)
    # A removal brings no bytes: what stays readable are those of the version before.
    return replace(made, inline=r["b_inline_size"] is not None) if made.removed else made


def _before(r: Record) -> Version:
    doc: dict[str, Any] = orjson.loads(r["b_doc"]) if r["b_doc"] else {}
    said: dict[str, Any] = orjson.loads(r["b_envelope"])
    return _made(r, "b_", r["predecessor"], doc, r["b_uri"], said.get("content_type"))


def _made(
    r: Record, of: str, entry: int, doc: dict[str, Any], uri: str, content_type: str | None
) -> Version:
    """A version, from the columns whose names begin with `of`."""
    return Version(
        entry=entry,
        run=run_name(entry, r[f"{of}fence"]),
        number=r[f"{of}version"],
        content=r[f"{of}content"].hex(),
        size=doc.get("size", r[f"{of}inline_size"]),
        media_type=media_type(uri, content_type),
        artifacts=_files(r[f"{of}artifacts"]),
        rows=doc.get("rows") or {},
        removed=r[f"{of}removed"],
        retired=doc.get("retired", False),
        inline=r[f"{of}inline_size"] is not None,
    )


def _successor(r: Record) -> tuple[int, str]:
    return r["successor"], run_name(r["successor"], r["z_fence"])


def steps(text: str) -> tuple[tuple[str, int | None], ...]:
    """The steps of a journal line: names, with milliseconds since the claim if they are known."""
    parted = (step.partition(":") for step in text.split())
    return tuple((name, int(ms) if ms else None) for name, _, ms in parted)


def _files(artifacts: str | None) -> tuple[File, ...]:
    made: list[dict[str, Any]] = orjson.loads(artifacts) if artifacts else []
    return tuple(File(a["name"], a["digest"], a["size"], a["media_type"]) for a in made)


def _hex(value: bytes | None) -> str | None:
    return None if value is None else value.hex()
