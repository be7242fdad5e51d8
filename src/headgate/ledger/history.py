"""What happened, for whoever asks: all in all, entry by entry, and why.

overview    each pipeline in figures
find        the entries that an id, a key or a uri means
life        everything that is known about one entry
explain     the same in sentences, each with the row that proves it
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote_from_bytes

from headgate.errors import UsageError
from headgate.pg import Database, queries

from . import flow, worker
from .entries import EntryState
from .explain import Statement, explain
from .life import Life, life

__all__ = [
    "EntryState", "Life", "Overview", "PipelineFigures", "Statement",
    "explain", "find", "life", "overview",
]  # fmt: skip

Q = queries.load(__file__)

NEWEST = 2**63 - 1
PREFIX = 8
_POINTER = re.compile(r"(?:journal )?(\d{1,18})/(\d{1,9})")
_HEX = re.compile(r"[0-9a-f]{1,64}")


@dataclass(slots=True)
class PipelineFigures:
    """One pipeline in figures. `skipped` is by reason."""

    pipeline: str
    received: int
    entries: int
    duplicates: int
    conflicts: int
    ready: int = 0
    claimed: int = 0
    waiting: int = 0
    quarantined: int = 0
    finalized: int = 0
    discarded: int = 0
    skipped: dict[str, int] = field(default_factory=dict[str, int])
    last_settled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Overview:
    """All pipelines in figures, and how many workers hold a lease."""

    pipelines: list[PipelineFigures]
    workers_alive: int


async def overview(db: Database) -> Overview:
    """Each pipeline in figures, as of one moment."""
    async with db.transaction() as link:
        await link.execute(Q.snapshot)
        figures: dict[int, PipelineFigures] = {}
        for id, name, received, admitted, duplicates, conflicts in await link.fetch(Q.received):
            figures[id] = PipelineFigures(name, received, admitted, duplicates, conflicts)
        live = {id: f.entries for id, f in figures.items()}
        for id, total in (await flow.totals(link)).items():
            f = _of(figures, id)
            f.finalized, f.skipped = total.finalized, total.skipped
            f.discarded, f.quarantined = total.discarded, total.quarantined
            f.last_settled_at = total.last_at
            live[id] = f.entries - total.ended - total.quarantined
        for id, queue in (await flow.queued(link, live)).items():
            f = _of(figures, id)
            f.ready, f.claimed, f.waiting = queue.ready, queue.claimed, queue.waiting
        return Overview(list(figures.values()), await worker.alive(link))


def _of(figures: dict[int, PipelineFigures], pipeline: int) -> PipelineFigures:
    # A pipeline that has rows and is not registered is verify's business; here it is shown.
    return figures.setdefault(pipeline, PipelineFigures(f"pipeline {pipeline}", 0, 0, 0, 0))


async def find(
    db: Database, text: str, *, limit: int = 50, quick: bool = False
) -> list[EntryState]:
    """The entries that `text` means: an id, a key or its beginning, a line of the journal, a uri,
    or a file's path.

    Newest first; empty when there is none. Raises `UsageError` when a beginning fits several keys.
    A uri is looked for among all entries; `quick`, among what is published or in quarantine.
    """
    text = text.strip()
    ids: list[int] = []
    if text.isdecimal() and len(text) < 19:
        ids = [r["entry"] for r in await db.fetch(Q.by_ids, [int(text)])]
    key = text.lower().removeprefix("sha256:")
    if not ids and len(key) >= PREFIX and _HEX.fullmatch(key):
        ids = await _by_key(db, key)
    if not ids and (line := await at_pointer(db, text)) is not None:
        ids = [line[0]]
    if not ids and text:
        by_uri = Q.ids_by_uri_quick if quick else Q.ids_by_uri
        ids = [r["id"] for r in await db.fetch(by_uri, uris(text), limit)]
    return [EntryState(*row) for row in await db.fetch(Q.by_ids, ids)] if ids else []


async def at_pointer(db: Database, text: str) -> tuple[int, str] | None:
    """The entry and the outcome of a journal line, as in `12/3` or `journal 12/3`."""
    if (said := _POINTER.fullmatch(text.strip())) is None:
        return None
    row = await db.fetchrow(Q.at_pointer, int(said[1]), int(said[2]))
    return None if row is None else (row["entry"], row["outcome"])


async def _by_key(db: Database, begins: str) -> list[int]:
    low, high = bytes.fromhex(begins.ljust(64, "0")), bytes.fromhex(begins.ljust(64, "f"))
    rows = await db.fetch(Q.ids_by_key, low, high)
    keys = sorted({r["key"] for r in rows})
    if len(keys) > 1:
        some = ", ".join(k.hex()[: len(begins) + 4] + "…" for k in keys[:3])
        raise UsageError(
            f"{begins} is the beginning of several keys: {some}", hint="give more of it"
        )
    return [r["id"] for r in rows]


def uris(text: str) -> Sequence[str]:
    """The uris that a text may mean: itself, or the file at that path."""
    path = os.path.abspath(os.path.expanduser(text))
    return [text, "file://" + quote_from_bytes(os.fsencode(path))]
