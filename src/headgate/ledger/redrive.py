"""Redrives: a plan in a table, moved on by whoever sweeps (`model/redrive.py` is its rule).

A plan is a frozen list: what was in quarantine and fitted when it was made. Each step is one
transaction that holds the plan's row, so a crash anywhere leaves it where it was, and two sweepers
never release twice. Entries go back to work as `quarantine release` sends them: the same keys,
fresh attempts, the same place in their order, through the same gates. What fails again is back in
quarantine, and this plan does not touch it a second time.
"""

from __future__ import annotations

import getpass
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

import orjson

from headgate.errors import UsageError
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.redrive import (
    ACTIVE,
    RECENT,
    End,
    Held,
    Hold,
    Progress,
    Release,
    State,
    Step,
    Terms,
    decide,
)
from headgate.pg import Database, Link, Record, queries

from . import backlog, budget, quarantine

Q = queries.load(__file__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries of the quarantine; None is any."""

    pipeline: str | None = None
    classed: str | None = None
    reason: str | None = None
    since: datetime | None = None

    def told(self) -> str:
        """As the plan's row keeps it."""
        said = {
            "pipeline": self.pipeline,
            "class": self.classed,
            "reason": self.reason,
            "since": self.since,
        }
        return orjson.dumps({k: v for k, v in said.items() if v is not None}).decode()


@dataclass(frozen=True, slots=True)
class Planned:
    """What a plan would do: how many of what, and which go first."""

    counts: dict[tuple[str, str, str], int]  # by pipeline, class and reason
    first: list[int]
    total: int


@dataclass(frozen=True, slots=True)
class Redrive:
    """A plan as it stands now."""

    id: int
    made_at: datetime
    actor: str
    because: str
    asked: dict[str, Any]
    state: State
    held: Held | None
    ended_why: str | None
    began_at: datetime | None
    ended_at: datetime | None
    terms: Terms
    progress: Progress
    pipelines: list[str]
    seconds: float | None

    @property
    def left_seconds(self) -> float | None:
        """How long the rest takes at the pace so far; None while that says nothing."""
        ended = self.progress.passed + self.progress.failed
        flows = self.state == "running" and self.held in (None, "rate")
        if not flows or not self.seconds or not ended:
            return None
        paced = self.progress.left / self.terms.per_second if self.terms.per_second else 0.0
        return max(paced, (self.progress.left + self.progress.live) * self.seconds / ended)


@dataclass(frozen=True, slots=True)
class Back:
    """Entries that a plan let run again and that are in quarantine once more."""

    classed: str
    reason: str
    entries: int
    example: int


@dataclass(frozen=True, slots=True)
class Decided:
    """What somebody said about a plan."""

    at: datetime
    actor: str
    verb: str
    because: str


@dataclass(frozen=True, slots=True)
class Followed:
    """A plan as it stands, what failed again by it, and who decided what about it."""

    redrive: Redrive
    back: list[Back]
    actions: list[Decided]

    def document(self) -> dict[str, Any]:
        """For programs."""
        back = [
            {"class": b.classed, "reason": b.reason, "entries": b.entries, "example": b.example}
            for b in self.back
        ]
        return {"redrive": self.redrive, "back": back, "actions": self.actions}


async def preview(db: Database | Link, wanted: Wanted, terms: Terms) -> Planned:
    """What a plan would do now; nothing is changed, and nothing but its figures is read."""
    asked = (wanted.pipeline, wanted.classed, wanted.reason, wanted.since)
    counts = {(r[0], r[1], r[2]): r[3] for r in await db.fetch(Q.counted, *asked)}
    first = [r["entry"] for r in await db.fetch(Q.first, *asked, terms.canary)]
    return Planned(counts, first, sum(counts.values()))


async def plan(db: Database, wanted: Wanted, terms: Terms, *, because: str, actor: str = "") -> int:
    """Make a plan of what is in quarantine now. A running sweeper begins with it at once."""
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    async with db.transaction() as link:
        rows = await _look(link, wanted, terms)
        if not rows:
            raise UsageError(
                "nothing in quarantine is like that", hint="See: headgate quarantine summary"
            )
        other = await link.fetchrow(Q.taken, [r["entry"] for r in rows])
        if other is not None:
            raise UsageError(
                f"entry {other['entry']} is part of redrive {other['redrive']} already",
                hint=f"Let it end, or: headgate quarantine redrive stop {other['redrive']}"
                ' --because "…"',
            )
        who = actor or getpass.getuser()
        pipelines = sorted({r["pipeline"] for r in rows})
        made: int = await link.fetchval(
            Q.make,
            who,
            because,
            wanted.told(),
            pipelines,
            terms.canary,
            terms.batch,
            terms.per_second,
            terms.stop_share,
            terms.backlog,
            len(rows),
        )
        await link.execute(
            Q.list_entries,
            made,
            [r["entry"] for r in rows],
            [r["pipeline"] for r in rows],
            [r["fence"] for r in rows],
        )
        await link.execute(Q.act, who, f"plan redrive {made}", because)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return made


async def _look(link: Link, wanted: Wanted, terms: Terms) -> list[Record]:
    """What fits, in the order in which it is to be released.

    Those that go first are spread over pipelines and reasons: one reason must not speak for
    another. Each is the oldest of its subject, and the rest follows by number: order is kept.
    """
    asked = (wanted.pipeline, wanted.classed, wanted.reason, wanted.since)
    rows = await link.fetch(Q.matching, *asked)
    able = sorted((r for r in rows if r["first"]), key=lambda r: (r["rank"], r["entry"]))
    first = able[: terms.canary]
    ahead = {r["entry"] for r in first}
    return [*first, *(r for r in rows if r["entry"] not in ahead)]


async def move(db: Database) -> bool:
    """Move every plan a step on; True while one of them wants to go on at once."""
    soon = False
    for row in await db.fetch(Q.open):
        soon = await _step(db, row["id"]) or soon
    return soon


async def is_open(db: Database) -> bool:
    """Is there a plan that somebody has to look after?"""
    return bool(await db.fetch(Q.open))


async def is_busy(db: Database, pipelines: Collection[str]) -> bool:
    """Is a plan of these pipelines about to release something?"""
    return await db.fetchval(Q.busy, list(pipelines))


async def _step(db: Database, id: int) -> bool:
    async with db.transaction() as link:
        row = await link.fetchrow(Q.lock, id)
        if row is None:  # another sweeper is at it
            return False
        terms = _terms(row)
        ended = Counter(r["state"] for r in await link.fetch(Q.settle, id))
        tokens = row["tokens"]
        if terms.per_second is not None:
            tokens = min(float(terms.batch), tokens + terms.per_second * row["since"])
        held: dict[int, Held] = {}
        step: Step | None = None
        if row["state"] in ACTIVE:
            at = await _progress(link, row, ended)
            step = decide(terms, at, row["state"], tokens)
        if isinstance(step, Release):
            held = await _held(link, row["pipelines"], terms, step)
        due: list[Record] = []
        if isinstance(step, Release):
            due = await link.fetch(Q.next, id, step.entries, sorted(held))
        taken = await quarantine.take(link, [r["entry"] for r in due], [r["fence"] for r in due])
        gone = len(due) - len(taken)
        state, why, text = _turned(row, step, held, bool(due))
        if step is not None and step.state == "running":
            tokens -= len(taken)
        if due or ended or (state, why) != (row["state"], row["held"]):
            there = {r["entry"] for r in taken}
            await link.execute(
                Q.mark, id, [r["n"] for r in due], [r["entry"] in there for r in due]
            )
            counts = (len(taken), gone, ended["passed"], ended["failed"])
            await link.execute(Q.move, id, state, why, max(tokens, 0.0), *counts, text)
        if taken:
            because = f"{row['because']} (redrive {id})"
            await quarantine.put_back(link, taken, because=because, actor=row["actor"])
            reached(Point.BEFORE_RELEASE)
    if taken:
        reached(Point.AFTER_RELEASE)
    return bool(due) and terms.per_second is None


def _turned(
    row: Record, step: Step | None, held: dict[int, Held], moved: bool
) -> tuple[State, Held | None, str | None]:
    """The state after a step, why nothing was released in it, and why nothing will be."""
    match step:
        case None:  # paused or at its end: it only looks after what it released
            return row["state"], row["held"], None
        case Release(state=state):
            return state, None if moved else next(iter(held.values()), None), None
        case Hold(why=why, state=state):
            return state, why, None
        case End(state=state, why=why):
            return state, None, why


async def _progress(link: Link, row: Record, ended: Counter[str]) -> Progress:
    recent = await link.fetchrow(Q.recent, row["id"], RECENT)
    assert recent is not None, "an aggregate has one row"
    return Progress(
        row["total"],
        row["released"],
        row["passed"] + ended["passed"],
        row["failed"] + ended["failed"],
        row["gone"],
        recent["tried"],
        recent["failed"],
        recent["failing"],
    )


async def _held(link: Link, pipelines: list[int], terms: Terms, step: Release) -> dict[int, Held]:
    """The pipelines that take nothing more now: enough is ready, or too much fails."""
    held: dict[int, Held] = {}
    # A few may be tried whatever the budget says: somebody has to find out that it works again.
    tries = step.state == "canary" and step.entries <= budget.A_TRY
    spent = {r["id"] for r in await link.fetch(budget.Q.spent)}
    for pipeline in pipelines:
        if pipeline in spent and not tries:
            held[pipeline] = "budget"
        elif await backlog.ready(link, pipeline, terms.backlog) >= terms.backlog:
            held[pipeline] = "backlog"
    return held


async def turn(
    db: Database,
    id: int,
    verb: Literal["pause", "resume", "stop"],
    *,
    because: str,
    actor: str = "",
) -> State:
    """Pause, resume or stop a plan; its state afterwards. What it released goes on."""
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    async with db.transaction() as link:
        row = await link.fetchrow(Q.wait, id)
        if row is None:
            raise _unknown(id)
        state: State = row["state"]
        if state in ("stopped", "done"):
            raise UsageError(
                f"redrive {id} is {state} already",
                hint="What is still in quarantine needs a new plan: headgate quarantine redrive",
            )
        if (verb == "resume") != (state == "paused") and verb != "stop":
            raise UsageError(
                f"redrive {id} is {state}: there is nothing to {verb}",
                hint=f"See how far it is: headgate quarantine redrive show {id}",
            )
        now = _after(verb, row)
        await link.execute(Q.turn, id, now, because)
        await link.execute(Q.act, actor or getpass.getuser(), f"{verb} redrive {id}", because)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return now


def _after(verb: str, row: Record) -> State:
    if verb == "stop":
        return "stopped"
    if verb == "pause":
        return "paused"
    if not row["released"]:
        return "planned"
    return "canary" if row["released"] <= row["canary"] else "running"


async def redrives(db: Database, *, id: int | None = None, limit: int = 50) -> list[Redrive]:
    """Plans as they stand, the latest first. Raises `UsageError` for a number nobody knows."""
    rows = await db.fetch(Q.seen, id, limit)
    if id is not None and not rows:
        raise _unknown(id)
    return [
        Redrive(
            r["id"],
            r["made_at"],
            r["actor"],
            r["because"],
            orjson.loads(r["asked"]),
            r["state"],
            r["held"],
            r["ended_why"],
            r["began_at"],
            r["ended_at"],
            _terms(r),
            Progress(r["total"], r["released"], r["passed"], r["failed"], r["gone"]),
            list(r["pipelines"]),
            r["seconds"],
        )
        for r in rows
    ]


async def followed(db: Database, id: int) -> Followed:
    """One plan in full. Raises `UsageError` for a number nobody knows."""
    (found,) = await redrives(db, id=id)
    return Followed(
        found,
        [Back(*row) for row in await db.fetch(Q.back, id)],
        [Decided(*row) for row in await db.fetch(Q.decided, str(id))],
    )


def _terms(row: Record) -> Terms:
    return Terms(row["canary"], row["batch"], row["per_second"], row["stop_share"], row["backlog"])


def _unknown(id: int) -> UsageError:
    return UsageError(f"there is no redrive {id}", hint="See: headgate quarantine redrive list")
