"""The change feed: how each change ended, in the order in which that was committed.

The journal is the feed. A line has a place, its commit's position and its number in it, and a place
is a cursor: whoever has read up to it goes on behind it, now or next week, and sees each line once.
No line appears behind a cursor later on (changes.sql says why), so nobody has to wait, to read
twice, or to hold a snapshot open.

A change has ended when it was finalized, skipped, quarantined or rolled back. A retry is no end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

import orjson

from headgate.errors import UsageError
from headgate.model.dataset import Access
from headgate.model.envelope import stored
from headgate.model.facts import run_name
from headgate.model.layout import Layout, of_folders
from headgate.pg import Database, Link, Record, queries

Q = queries.load(__file__)

Outcome = Literal["finalized", "skipped", "quarantined", "rolled_back"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
# A window grows while nothing is found in it; so many lines are looked at for one page.
WIDEST = 2_000
EFFORT = 3_000
NEWEST = 2**63 - 2
_CURSOR = re.compile(r"(\d{1,18})-(\d{1,9})", re.ASCII)
# Who told us noticed it at the source; who was asked is noticed by us, when we hear it.
_TOLD = frozenset({"event", "webhook", "sse", "log"})


class Cursor(NamedTuple):
    """A place in the feed: behind line `n` of commit `position`."""

    position: int
    n: int

    def __str__(self) -> str:
        return f"{self.position}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """The inverse of `str`. Raises `UsageError`."""
        found = _CURSOR.fullmatch(text.strip())
        if found is None:
            raise UsageError(
                f"{text[:60]!r} is no place in the change feed",
                hint="Give the cursor of a change, as it was told; or begin without one.",
            )
        return cls(int(found[1]), min(int(found[2]), 2**31 - 1))


BEGINNING = Cursor(0, 0)


@dataclass(frozen=True, slots=True)
class Identity:
    """What an object is, whatever it is called: its bytes, and its source's name for them."""

    sha256: str | None
    version_id: str | None


@dataclass(frozen=True, slots=True)
class Quality:
    """What was checked. `failed` names the checks that did not pass."""

    checks: int
    passed: int
    failed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """How one change ended. All of it was written in one commit and stays as it is.

    `change_event_id` is its place in the feed. The three references lead to the files beside the
    data, where the pipeline has a dataset. `access` is the dataset's label, the stricter one of
    then and now; None where there is no dataset.
    """

    cursor: Cursor
    entry: int
    run: str
    pipeline: str
    dataset: str | None
    access: Access | None
    outcome: Outcome
    reason: str | None
    key: str
    source: str
    source_uri: str
    removed: bool
    event_time: datetime
    detected_at: datetime
    received_at: datetime
    at: datetime
    object_identity: Identity
    version: int | None
    predecessor: int | None
    reverts: int | None
    replays: int | None
    qa_summary: Quality
    error: str | None
    journal: str
    store: str
    layout: Layout

    @property
    def change_event_id(self) -> str:
        return str(self.cursor)

    @property
    def published_at(self) -> datetime | None:
        return self.at if self.outcome == "finalized" else None

    @property
    def has_records(self) -> bool:
        """Are there files of its run? Of what was published or given up under a dataset."""
        return self.dataset is not None and self.outcome in ("finalized", "quarantined")

    @property
    def delta_manifest_ref(self) -> str | None:
        published = self.has_records and self.version is not None
        return self._beside(f"runs/{self.run}/delta_manifest.json") if published else None

    @property
    def prov_ref(self) -> str | None:
        return self._beside(f"prov/{self.run}.prov.jsonld") if self.has_records else None

    @property
    def openlineage_ref(self) -> str | None:
        return self._beside(f"runs/{self.run}/openlineage.ndjson") if self.has_records else None

    def _beside(self, name: str) -> str:
        return f"{self.store.rstrip('/')}/{self.layout.place(name)}"

    def document(self) -> dict[str, Any]:
        """For programs: every field by its name."""
        return {
            "change_event_id": self.change_event_id,
            "detected_at": self.detected_at,
            "received_at": self.received_at,
            "source_uri": self.source_uri,
            "object_identity": self.object_identity,
            "delta_manifest_ref": self.delta_manifest_ref,
            "qa_summary": self.qa_summary,
            "prov_ref": self.prov_ref,
            "openlineage_ref": self.openlineage_ref,
            "entry": self.entry,
            "run": self.run,
            "pipeline": self.pipeline,
            "dataset": self.dataset,
            "access": self.access,
            "outcome": self.outcome,
            "reason": self.reason,
            "error": self.error,
            "key": self.key,
            "source": self.source,
            "removed": self.removed,
            "event_time": self.event_time,
            "at": self.at,
            "published_at": self.published_at,
            "version": self.version,
            "predecessor": self.predecessor,
            "reverts": self.reverts,
            "replays": self.replays,
            "journal": self.journal,
            "cursor": str(self.cursor),
        }


@dataclass(frozen=True, slots=True)
class Page:
    """Some changes, and where to go on. `more`: there is, or may be, something behind it.

    A page can be short, or empty, and have more behind it: so much was looked at, and no more.
    """

    changes: list[Change]
    cursor: Cursor
    more: bool


async def changes(
    db: Database | Link,
    after: Cursor | None = None,
    limit: int = 100,
    *,
    pipelines: Iterable[str] | None = None,
    outcome: Iterable[Outcome] | None = None,
    uri_prefix: str | None = None,
    newest_first: bool = False,
) -> Page:
    """The changes behind a cursor, at most `limit`; from the beginning without one.

    With `newest_first` it goes the other way: from the end, or from the cursor back.
    """
    place = after or (Cursor(NEWEST, 0) if newest_first else BEGINNING)
    named = None if pipelines is None else sorted(set(pipelines))
    wanted = sorted(set(outcome or OUTCOMES))
    window = _windows(named is not None, newest_first)
    found: list[Record] = []
    lines, looked, more = limit, 0, True
    while more and len(found) <= limit and looked < EFFORT:
        seen = await db.fetch(window, *place, lines, *([] if named is None else [named]))
        commits, more = [c for c in seen if not c["beyond"]], any(c["beyond"] for c in seen)
        if commits:
            found += await db.fetch(
                Q.lines,
                [c["pos"] for c in commits],
                [c["batch"] for c in commits],
                *place,
                newest_first,
                wanted,
                uri_prefix,
                limit + 1 - len(found),
            )
            # Behind all lines of the last commit, or before all of them.
            place = Cursor(commits[-1]["pos"], 0 if newest_first else commits[-1]["n"])
        looked, lines = looked + lines, min(lines * 4, WIDEST)
    if len(found) > limit:
        found, more = found[:limit], True
        place = Cursor(found[-1]["pos"], found[-1]["n"])
    return Page(await _read(db, found), place, more)


def _windows(by_pipeline: bool, newest_first: bool) -> str:
    if newest_first:
        return Q.window_down_of if by_pipeline else Q.window_down
    return Q.window_up_of if by_pipeline else Q.window_up


async def change(db: Database | Link, place: Cursor) -> Change | None:
    """The change at a place, or None."""
    batch = await db.fetchval(Q.at, place.position)
    if batch is None:
        return None
    before = place.position, place.n - 1
    rows = await db.fetch(Q.lines, [before[0]], [batch], *before, False, OUTCOMES, None, 1)
    return (await _read(db, rows))[0] if rows and rows[0]["n"] == place.n else None


async def latest(db: Database | Link) -> Cursor:
    """The end of the feed: whoever goes on from here sees only what is new."""
    row = await db.fetchrow(Q.last)
    return BEGINNING if row is None else Cursor(row["pos"], row["n"])


async def since(db: Database | Link, moment: datetime) -> Cursor:
    """The place behind everything that was committed before a moment."""
    row = await db.fetchrow(Q.since, moment)
    return BEGINNING if row is None else Cursor(row["pos"], row["n"])


@dataclass(frozen=True, slots=True)
class _Labels:
    """Datasets by deployment, and by pipeline as they are declared now."""

    then: dict[int, tuple[str | None, Access | None]]
    now: dict[int, tuple[str | None, Access | None]]

    def of(self, pipeline: int, deployment: int | None) -> tuple[str | None, Access | None]:
        now = self.now.get(pipeline, (None, None))
        then = now if deployment is None else self.then.get(deployment, now)
        access = then[1] if then[1] != "public" else now[1]
        return then[0] or now[0], access or then[1] or now[1]


async def _read(db: Database | Link, rows: Sequence[Record]) -> list[Change]:
    if not rows:
        return []
    docs: list[dict[str, Any]] = [orjson.loads(r["doc"]) if r["doc"] else {} for r in rows]
    by = [r["deployment"] or d.get("deployment") for r, d in zip(rows, docs, strict=True)]
    named = sorted({d for d in by if d is not None})
    labels = _Labels({}, {})
    for r in await db.fetch(Q.labels, named, sorted({r["pipeline_id"] for r in rows})):
        if r["id"] is None:
            labels.now[r["pipeline"]] = r["name"], r["access"]
        else:
            labels.then[r["id"]] = r["name"], r["access"]
    layout = of_folders(*await db.fetchval("SELECT layout FROM headgate.identity"))
    return [
        _change(r, d, labels.of(r["pipeline_id"], deployment), layout)
        for r, d, deployment in zip(rows, docs, by, strict=True)
    ]


def _change(
    r: Record, doc: dict[str, Any], label: tuple[str | None, Access | None], layout: Layout
) -> Change:
    said = stored(r["envelope"])
    content: str | None = r["content"].hex() if r["content"] is not None else doc.get("content")
    strong = said.get("strength") == "immutable"
    checks: list[dict[str, Any]] = doc.get("checks") or []
    failed = tuple(c["name"] for c in checks if not c["passed"])
    told = said["detector"] in _TOLD
    return Change(
        cursor=Cursor(r["pos"], r["n"]),
        entry=r["entry"],
        run=run_name(r["entry"], r["fence"]),
        pipeline=r["pipeline"],
        dataset=label[0],
        access=label[1],
        outcome=r["outcome"],
        reason=r["reason"],
        key=r["key"].hex(),
        source=said.get("source", ""),
        source_uri=r["uri"],
        removed=bool(r["removed"]) or said.get("kind") == "removed",
        event_time=r["event_time"],
        detected_at=r["event_time"] if told else r["received_at"],
        received_at=r["received_at"],
        at=r["at"],
        object_identity=Identity(
            content, said.get("version_id") or (said.get("version_hint") if strong else None)
        ),
        version=r["version"],
        predecessor=r["predecessor"],
        reverts=r["reverts"],
        replays=r["replays"],
        qa_summary=Quality(len(checks), len(checks) - len(failed), failed),
        error=doc.get("error"),
        journal=f"{r['batch']}/{r['n']}",
        store=r["store"],
        layout=layout,
    )
