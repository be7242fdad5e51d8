"""What a world came to: everything that somebody outside could see afterwards.

Bookkeeping is left out, and so is what the server made up by itself: a serial number or a time of
arrival is another one in every world, and nobody's effect.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import orjson

from headgate.pg import Database, queries

Q = queries.load(__file__)
Record = dict[str, Any]
# A longer file is compared by its digest alone.
READ_BYTES = 1 << 20
_BYPRODUCTS = frozenset({"__pycache__", ".temp"})


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of one sample."""

    outcome: str
    reason: str = ""
    error: str = ""
    artifacts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class File:
    """A file as it was at the end. `text` is None when it is long, or no text."""

    digest: str
    text: str | None

    @property
    def lines(self) -> int | None:
        return None if self.text is None else len(self.text.splitlines())


@dataclass(slots=True)
class State:
    """The end of a world."""

    endings: dict[str, Ending] = field(default_factory=dict[str, Ending])
    rows: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    files: dict[str, File] = field(default_factory=dict[str, File])
    writers: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    records: list[Record] = field(default_factory=list[Record])

    @property
    def effects(self) -> int:
        """Samples whose effect is published."""
        return sum(e.outcome == "finalized" for e in self.endings.values())


async def read(db: Database, work: Path, shadow: Path, log: Path, scratch: str) -> State:
    """Everything, once all processes of the world have ended. `scratch` is its own folder."""
    state = State()
    for row in await db.fetch(Q.endings):
        made = cast("list[dict[str, str]]", orjson.loads(row["artifacts"] or "[]"))
        state.endings[row["uri"]] = Ending(
            row["outcome"],
            row["reason"] or "",
            (row["error"] or "").replace(scratch, ""),
            tuple(sorted((a["name"], a["digest"]) for a in made)),
        )
    for row in await db.fetch(Q.tables):
        made = await db.fetch(
            f"SELECT (to_jsonb(t) - $1::text[])::text AS row FROM {row['name']} t", row["made_up"]
        )
        # A path of the scratch folder is a path of the user's folder.
        state.rows[row["label"]] = Counter(r["row"].replace(scratch, "") for r in made)
    for row in await db.fetch(Q.writers):
        state.writers.setdefault(row["relation"], set()).add(row["who"])
    state.files = {**_files(work, ""), **_files(shadow, "/")}
    state.records = list(_records(log, {f"{work}{os.sep}": "", str(shadow): ""}))
    return state


def _files(folder: Path, prefix: str) -> dict[str, File]:
    found: dict[str, File] = {}
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - _BYPRODUCTS)
        for name in names:
            path = Path(at, name)
            if name.endswith(".pyc") or not path.is_file():
                continue
            found[prefix + str(path.relative_to(folder))] = _file(path)
    return found


def _file(path: Path) -> File:
    with path.open("rb") as body:
        digest = hashlib.file_digest(body, "sha256").hexdigest()
    if path.stat().st_size > READ_BYTES:
        return File(digest, None)
    try:
        return File(digest, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        return File(digest, None)


def _records(log: Path, scratch: dict[str, str]) -> Iterator[Record]:
    """What the witness saw, with paths as the user knows them."""
    try:
        lines = log.read_bytes().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        record: Record = orjson.loads(line)
        if record["what"] == "file":
            detail = record["detail"]
            for folder, named in scratch.items():
                if detail["path"].startswith(folder):
                    detail["path"] = named + detail["path"].removeprefix(folder)
        yield record
