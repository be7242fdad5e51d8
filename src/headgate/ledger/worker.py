"""Workers: who holds a lease. The lease belongs to the worker; entries only carry its number.

Burying a worker gives back all it held, at once. An attempt is charged to the entry that killed it,
and to no neighbour: when it is not known which one did, nobody is charged yet and each of them runs
alone next time. The one that then dies alone pays for both.
"""

from __future__ import annotations

import os
import random
import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from headgate.errors import DeadlineExceeded, WorkerLost
from headgate.model.crash import reached
from headgate.model.entry import Point, Status
from headgate.model.signal import LOST, emit
from headgate.model.verdict import Quarantine, Retry, RetryPlan, judge, plan_of
from headgate.pg import Database, Link, queries

from . import gate, quarantine
from .journal import Line, seal

Q = queries.load(__file__)


def here() -> str:
    """This host, this boot, this process namespace: where a pid means one process."""
    host = socket.gethostname()
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return host
    return f"{host} {boot} {space}"


async def register(db: Database, name: str, lease_seconds: float) -> int:
    """A new worker with a fresh lease."""
    return await db.fetchval(Q.register, name, here(), os.getpid(), lease_seconds)


async def alive(db: Database | Link) -> int:
    """How many workers hold a lease."""
    return await db.fetchval(Q.alive)


@dataclass(frozen=True, slots=True)
class Living:
    """A worker that holds a lease, until when, and what time it is."""

    id: int
    name: str
    host: str
    pid: int
    started_at: datetime
    alive_until: datetime
    now: datetime


async def living(db: Database, most: int = 100) -> list[Living]:
    """The workers that hold a lease, the first that came first."""
    return [Living(*row) for row in await db.fetch(Q.living, most)]


async def bury_dead_here(db: Database, spare: Collection[int] = ()) -> list[int]:
    """Free the work of workers of this host whose process is gone: no need to wait for a lease.

    `spare` are left to whoever knows better what they were doing when they died.
    """
    buried: list[int] = []
    for row in await db.fetch(Q.unburied, here()):
        gone = row["id"] not in spare and _is_gone(row["pid"])
        if gone and await bury(db, row["id"], "process gone", running=None):
            buried.append(row["id"])
    return buried


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False  # somebody's process; the lease decides
    # A zombie answers too, and where a supervisor was killed nobody may be there to reap it.
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


async def beat(db: Database, workers: Sequence[int], lease_seconds: float) -> set[int]:
    """Renew leases; those missing from the answer were buried and have to register anew."""
    if not workers:
        return set()
    return {r["id"] for r in await db.fetch(Q.beat, list(workers), lease_seconds)}


async def bury_expired(db: Database) -> list[int]:
    """Free the work of every worker whose lease ran out."""
    buried: list[int] = []
    for row in await db.fetch(Q.expired):
        if await bury(db, row["id"], "lease expired", running=None, sure=False):
            buried.append(row["id"])
    return buried


async def bury(
    db: Database,
    worker: int,
    why: str,
    *,
    running: Collection[int] | None,
    innocent: bool = False,
    overdue: bool = False,
    sure: bool = True,
) -> bool:
    """Free everything `worker` holds. False when someone else did, or its lease is alive after all.

    `running` are the entries whose handler was at work when it died; None if nobody knows.
    `innocent` says that it was stopped from outside: nobody is charged.
    `sure` says that we know it is dead, whatever its lease says.
    """
    async with db.transaction() as link:
        row = await link.fetchrow(Q.bury, worker, why, sure)
        if row is None:
            return False
        held = await gate.held(link, worker)
        suspects = [] if innocent else [h for h in held if running is None or h.id in running]
        await _free(link, worker, held, suspects, why, overdue, row["now"])
        reached(Point.BEFORE_BURY)
    reached(Point.AFTER_BURY)
    if not innocent:
        emit(LOST, reason=why.replace(" ", "_"))
    return True


async def give_back(db: Database, worker: int, known: Collection[int]) -> int:
    """Return what `worker` holds without knowing it: a claim whose answer was lost."""
    async with db.transaction() as link:
        unknown = [h for h in await gate.held(link, worker) if h.id not in known]
        now = await link.fetchval("SELECT clock_timestamp()")
        await _free(link, worker, unknown, [], "claim_unknown", False, now)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return len(unknown)


@dataclass(frozen=True, slots=True)
class _Fate:
    held: gate.Held
    verdict: Retry | Quarantine | None
    attempts: int
    deaths: int
    alone: bool


async def _free(
    link: Link,
    worker: int,
    held: list[gate.Held],
    suspects: list[gate.Held],
    why: str,
    overdue: bool,
    now: datetime,
) -> None:
    plans = await _plans(link, {h.pipeline for h in held})
    culprit = suspects[0].id if len(suspects) == 1 else None
    suspected = {h.id for h in suspects}
    error = DeadlineExceeded(why) if overdue else WorkerLost(f"worker {worker}: {why}")
    for pipeline in sorted({h.pipeline for h in held}):
        plan, deployment = plans[pipeline]
        fates: list[_Fate] = []
        for h in (h for h in held if h.pipeline == pipeline):
            if h.id == culprit:
                attempts = h.attempts + h.deaths
                verdict = judge(
                    error,
                    attempts=attempts,
                    first_at=h.first_at or now,
                    now=now,
                    plan=plan or plan_of(h.detector),
                    chance=random.random(),
                )
                fates.append(_Fate(h, verdict, attempts, 0, True))
            elif h.id in suspected:
                # Not charged, but due now and alone: the next death tells.
                fates.append(_Fate(h, None, h.attempts - 1, h.deaths + 1, True))
            else:
                fates.append(_Fate(h, None, h.attempts - 1, h.deaths, h.alone))
        await _settle(link, pipeline, deployment, worker, fates, why, now)


async def _settle(
    link: Link,
    pipeline: int,
    deployment: int,
    worker: int,
    fates: list[_Fate],
    why: str,
    now: datetime,
) -> None:
    ids, fences = [f.held.id for f in fates], [f.held.fence for f in fates]
    await link.execute(gate.leaving(pipeline, worker, ids, fences))
    back: list[gate.Stay] = []
    aside: list[quarantine.Aside] = []
    lines: list[Line] = []
    for f in fates:
        h = f.held
        steps, reason, doc = ["claimed"], "released", None
        match f.verdict:
            case Retry(due_at, reason, text, _):
                outcome, steps = Status.WAITING, ["claimed", "failed", "waiting"]
                doc = orjson.dumps({"error": text})
                back.append(gate.Stay.of(h, f.attempts, f.deaths, f.alone, due_at))
            case Quarantine(classed, reason, text):
                outcome = Status.QUARANTINED
                steps = ["claimed", "failed", "rolled_back", "quarantined"]
                doc = orjson.dumps({"error": text, "class": classed})
                aside.append(
                    quarantine.Aside(
                        h.id,
                        h.subject,
                        h.fence,
                        f.attempts,
                        classed,
                        reason,
                        text,
                        None,
                        None,
                        h.first_at,
                        h.part,
                    )
                )
            case None:
                due = now if f.alone else h.due_at
                outcome = Status.WAITING if due else Status.RECEIVED
                steps, reason = ["claimed", outcome.value], why.replace(" ", "_")
                back.append(gate.Stay.of(h, f.attempts, f.deaths, f.alone, due))
        lines.append(Line(h.id, h.fence, outcome, f.attempts, worker, reason, " ".join(steps), doc))
    await gate.stay(link, pipeline, back)
    await quarantine.enter(link, pipeline, deployment, aside)
    if lines:
        await seal(link, pipeline, lines)


async def _plans(link: Link, pipelines: set[int]) -> dict[int, tuple[RetryPlan | None, int]]:
    rows = await link.fetch(Q.plans, sorted(pipelines))
    plans: dict[int, tuple[RetryPlan | None, int]] = {}
    for r in rows:
        plan = None
        if r["retry"]:
            declared: dict[str, Any] = orjson.loads(r["retry"])
            declared["delays"] = tuple(declared["delays"])
            plan = RetryPlan(**declared)
        plans[r["pipeline"]] = (plan, r["deployment"])
    return plans
