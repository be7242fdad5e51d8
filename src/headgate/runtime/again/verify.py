"""Verifying a replay: every input is run again, and every output compared with what readers see.

The ledger and the store are only read; the handlers run in a process of their own that reaches
neither. How far it is and what was found so far is kept with the replay, so that whoever is killed
is gone on with where he was.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from headgate.errors import ObjectMissing, UsageError
from headgate.ledger import replays, reread
from headgate.ledger.replay import Frozen, Q
from headgate.model.envelope import Envelope
from headgate.model.frozen import Pins, origin, pins, seed_of
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Store
from headgate.pg import Database, Record
from headgate.pg.driver import PostgresError
from headgate.runtime import lookups
from headgate.stores import Local, open_store

from .process import Died, Process
from .report import Divergence, Report

PAGE = 50
Progress = Callable[[int, int], None]
# What a validator may not do, and what may explain that something came out otherwise.
_IMPURE = {
    "clock": "reads the clock",
    "random": "draws a number",
    "connect": "speaks to somebody",
    "database": "speaks to a database",
    "process": "starts a program",
}
_CHANCE = {**_IMPURE, "listing": "lists a folder"}
_DIFFERENCE = {
    "other": "rows that differ",
    "new": "rows that are new",
    "gone": "rows that are gone",
}
FREE_SQL = "free SQL ({0}): what it did is not comparable"
OLDER_ROWS = "rows of older versions: only counted, since newer ones have replaced them"
OVERWRITTEN = "rows that a newer event of another object has overwritten"
COLLECTED = "publications whose bytes are gone from the store"
TOO_MANY = "publications with more rows than can be compared at once"


async def verify(
    db: Database,
    target: Path,
    declared: Pipeline,
    frozen: Frozen,
    now: Pins,
    local: Local,
    progress: Progress = lambda done, inputs: None,
) -> Report:
    """Run what was frozen again, from where it was broken off; what was found."""
    begun = await replays.replay(db, frozen.id)
    report, done = Report.restore(begun.report), begun.done
    folder = Path(tempfile.mkdtemp(prefix="headgate-replay-"))
    store = open_store(declared.store, local)
    work = _Verification(db, declared, store, now, Process(target, declared.name, folder), folder)
    try:
        while page := await db.fetch(Q.inputs, frozen.id, done, PAGE):
            await work.page(page, report)
            before, done = done, page[-1]["n"]
            if not await db.fetchval(Q.verified, frozen.id, before, done, report.document()):
                raise UsageError(
                    f"somebody else goes on with replay {frozen.id}, or stopped it",
                    hint=f"See how far it is: headgate replay show {frozen.id}",
                )
            progress(done, frozen.inputs)
    finally:
        await work.close()
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return report


class _Verification:
    def __init__(
        self,
        db: Database,
        declared: Pipeline,
        store: Store,
        now: Pins,
        process: Process,
        folder: Path,
    ) -> None:
        self._db = db
        self._store = store
        self._now = now
        self._process = process
        self._folder = folder
        self._tables = {r.table.label: r.table for r in declared.row_steps}
        self._validators = {step.name for step in declared.validators}
        self._free = ", ".join(a.step.name for a in declared.applies)
        self._copies: dict[str, tuple[str, int, str]] = {}

    async def page(self, page: list[Record], report: Report) -> None:
        entries = [r["entry"] for r in page]
        calls: dict[int, dict[str, str]] = {}
        for r in await self._db.fetch(Q.calls, entries):
            calls.setdefault(r["entry"], {})[r["name"]] = (r["result"] or b"null").decode()
        for row in page:
            found, outputs = await self._input(row, calls.get(row["entry"], {}), report)
            report.add(found, outputs)

    async def close(self) -> None:
        await self._process.close()

    async def _input(
        self, row: Record, calls: dict[str, str], report: Report
    ) -> tuple[list[Divergence], int]:
        then = _pins(row)
        try:
            given = await asyncio.to_thread(self._given, row, then, calls)
        except ObjectMissing as missing:
            if "lookup" in str(missing):
                return [_divergence(row, "lookup", str(missing), "lookups")], 0
            report.apart[COLLECTED] += 1
            return [], 0
        try:
            made = await self._process.run(given)
        except Died as died:
            text = f"its process died: {died}"
            return [_divergence(row, "verdict", text, self._blame(then, []))], 1
        noted = self._process.noted()
        for one in noted:
            if one["handler"] in self._validators and one["what"] in _IMPURE:
                report.suspect(_line(one, _IMPURE))
        blame = self._blame(then, noted)
        found = list(_compared(row, made, blame))
        if not any(one.what in ("input", "verdict") for one in found):
            found += await self._rows(row, made, blame, report)
        if self._free:
            report.apart[FREE_SQL.format(self._free)] += 1
        return found, 1 + len(made["artifacts"]) + len(made["rows"])

    def _given(self, row: Record, then: Pins, calls: dict[str, str]) -> dict[str, Any]:
        data: bytes | None = row["data"]
        path = None if data is not None else str(self._store.path(row["content"]))
        # With other lookups accepted or not, what ran then is what is read.
        found = {name: self._copy(name, digest) for name, digest in then.lookups.items()}
        return {
            "n": row["n"],
            "entry": row["entry"],
            "fence": row["fence"],
            "attempt": row["attempt"],
            "key": row["key"].hex(),
            "uri": row["uri"],
            "event_time": row["event_time"].isoformat(),
            "received_at": row["received_at"].isoformat(),
            "sequence": row["sequence"],
            "document": row["document"].decode(),
            "data": None if data is None else base64.b64encode(data).decode(),
            "path": path,
            "lookups": found,
            "calls": calls,
        }

    def _copy(self, name: str, digest: str) -> tuple[str, int, str]:
        if digest not in self._copies:
            kept = lookups.reopen({name: digest}, self._store)[name]
            at = self._folder / f"lookup-{digest}"
            at.write_bytes(kept.read())
            self._copies[digest] = (digest, kept.size, str(at))
        return self._copies[digest]

    def _blame(self, then: Pins, noted: list[dict[str, Any]]) -> str:
        changed = [f"{aspect} {name}".strip() for aspect, name in self._now.differing(then)]
        changed = [one for one in changed if not one.startswith("lookups")]
        if changed:
            return ", ".join(changed)
        lines = [_line(one, _CHANCE) for one in noted if one["what"] in _CHANCE]
        if lines:
            return "; ".join(dict.fromkeys(lines))
        return "nothing that is pinned changed: a helper, a library, a file beside it, or chance"

    async def _rows(
        self, row: Record, made: dict[str, Any], blame: str, report: Report
    ) -> list[Divergence]:
        counts: dict[str, int] = _doc(row).get("rows") or {}
        found: list[Divergence] = []
        for label in sorted({*counts, *made["rows"]}):
            one = made["rows"].get(label)
            now, then = one["rows"] if one else 0, counts.get(label, 0)
            if now != then:
                text = f"{now} rows of {label}, where there were {then}"
                found.append(_divergence(row, f"rows {label}", text, blame))
            elif row["successor"] is not None:
                report.apart[OLDER_ROWS] += now > 0
            elif one is not None and label in self._tables:
                found += await self._same_rows(row, label, one, blame, report)
        return found

    async def _same_rows(
        self, row: Record, label: str, one: dict[str, Any], blame: str, report: Report
    ) -> list[Divergence]:
        text = await asyncio.to_thread(_take, Path(one["file"]))
        if text is None:
            report.apart[TOO_MANY] += 1
            return []
        try:
            differing = await reread.compare(
                self._db, self._tables[label], row["entry"], text, one["added"]
            )
        except PostgresError as error:
            return [_divergence(row, f"rows {label}", f"cannot be compared: {error}", blame)]
        report.apart[OVERWRITTEN] += sum(d.rows for d in differing if d.what == "overwritten")
        differing = [d for d in differing if d.what != "overwritten"]
        if differing and await self._replaced(row["entry"]):
            report.apart[OLDER_ROWS] += 1
            return []
        return [
            _divergence(
                row,
                f"rows {label}",
                f"{_DIFFERENCE[d.what]} in {label}: {d.rows}, such as {d.first}",
                blame,
            )
            for d in differing
        ]

    async def _replaced(self, entry: int) -> bool:
        """Did something newer take its place while we looked?"""
        sql = "SELECT successor IS NOT NULL FROM headgate.publication WHERE entry = $1"
        return await self._db.fetchval(sql, entry)


def _compared(row: Record, made: dict[str, Any], blame: str) -> Iterator[Divergence]:
    """Everything that is kept by its digest, and what decides it."""
    if made["content"] is not None and made["content"] != row["content"].hex():
        text = f"its bytes are sha256:{made['content']}, and were sha256:{row['content'].hex()}"
        yield _divergence(row, "input", text, "input")
        return
    doc = _doc(row)
    if (seed := _seed(row)) != doc.get("seed", seed):
        yield _divergence(row, "seed", f"its seed is {seed}, and was {doc['seed']}", "seed")
    if made["verdict"] != "finalized":
        yield _divergence(row, "verdict", f"{made['verdict']}: {made['error']}", blame)
        return
    artifacts: list[dict[str, Any]] = orjson.loads(row["artifacts"] or "[]")
    was = {a["name"]: a["digest"] for a in artifacts}
    for name in sorted({*was, *made["artifacts"]}):
        if (before := was.get(name)) != (after := made["artifacts"].get(name)):
            text = f"{_digest(after)}, where it was {_digest(before)}"
            yield _divergence(row, f"artifact {name}", text, blame)
    if _canonical(made["item"]) != _canonical(doc.get("item")):
        yield _divergence(row, "item", "a catalog would show another item", blame)


def _take(file: Path) -> str | None:
    """What a scratch file says, which goes with it; None when that is too much at once."""
    text = file.read_text(encoding="utf-8") if file.stat().st_size <= reread.MOST_BYTES else None
    file.unlink()
    return text


def _seed(row: Record) -> int:
    fields = ("uri", "event_time", "received_at", "sequence", "key", "data")
    envelope = Envelope.restore(row["document"], **{name: row[name] for name in fields})
    return seed_of(origin(envelope)[0])


def _digest(digest: str | None) -> str:
    return "not made" if digest is None else f"sha256:{digest[:12]}…"


def _canonical(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS, default=str)


def _doc(row: Record) -> dict[str, Any]:
    return orjson.loads(row["doc"]) if row["doc"] else {}


def _pins(row: Record) -> Pins:
    declared: dict[str, Any] = orjson.loads(row["declared"])
    return pins(row["pipeline_version"], row["code"], row["params"], declared)


def _line(one: dict[str, Any], words: dict[str, str]) -> str:
    at = f" at {one['file']}:{one['line']}" if one["file"] else ""
    return f"{one['handler'] or 'the file'} {words[one['what']]}{at}"


def _divergence(row: Record, what: str, text: str, blame: str) -> Divergence:
    return Divergence(row["entry"], row["uri"], what, text, blame)
