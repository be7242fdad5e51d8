"""Reset: let a key run again, by somebody's decision (S2 § 11). What it means depends on its end.

    waiting      its attempts begin anew, and it is due now
    skipped      the gates are asked again: they may well answer the same
    finalized    its change runs again as an entry of its own, from the bytes that were kept, and
                 what comes of it takes the place of the publication; nothing stands beside it

Nothing passes a gate by this. What is in quarantine is released, what was discarded is taken back:
those are decisions of their own. The key's row is never removed: told again, it is a duplicate.
"""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from typing import Literal

import orjson

from headgate.errors import UsageError
from headgate.model.crash import reached
from headgate.model.entry import Point, Status
from headgate.pg import Database, Link, queries

from . import gate, journal, revert

Q = queries.load(__file__)

How = Literal["retry", "ask again", "run again"]
MEANS: Mapping[How, str] = {
    "retry": "its attempts begin anew, and it is due now",
    "ask again": "the gates are asked again; they may answer the same",
    "run again": "its change runs again, from the bytes that were kept, and what comes of it takes"
    " the place of what readers see now; calls to the outside are made again",
}

_ELSEWHERE = {
    "received": ("waits for its first attempt", "A running `headgate up` takes it."),
    "claimed": (
        "is being worked on",
        "Wait until it ends; a worker that died is found out, and its work is freed.",
    ),
    "quarantined": ("is in quarantine", 'headgate quarantine release {} --because "…"'),
    "rolled_back": ("was discarded", 'headgate quarantine undiscard {} --because "…"'),
}


async def plan(db: Database, entry: int) -> How:
    """What a reset of this entry would mean. Raises `UsageError` where it means nothing."""
    async with db.connection() as link:
        how = _how(entry, await link.fetchval(Q.status, entry))
    if how == "run again":
        await revert.plan(db, entry, again=True)
    return how


async def reset(db: Database, entry: int, *, because: str, actor: str = "") -> int:
    """Let its key run again: durable when it returns. The entry that will do it."""
    if not because.strip():
        raise UsageError("a reason is needed", hint='add: --because "why"')
    how = await plan(db, entry)
    if how == "run again":
        return await revert.ask(db, entry, because=because, actor=actor, again=True)
    who = actor or getpass.getuser()
    async with db.transaction() as link:
        if how == "retry":
            await _retry(link, entry, who, because)
        else:
            await _ask_again(link, entry, who, because)
        reached(Point.BEFORE_RELEASE)
    reached(Point.AFTER_RELEASE)
    return entry


def _how(entry: int, status: str | None) -> How:
    match status:
        case Status.WAITING:
            return "retry"
        case Status.SKIPPED:
            return "ask again"
        case Status.FINALIZED:
            return "run again"
        case None:
            raise UsageError(f"there is no entry {entry}", hint="See: headgate entry list")
        case _:
            said, hint = _ELSEWHERE[status]
            raise UsageError(f"entry {entry} {said}; nothing was changed", hint=hint.format(entry))


async def _retry(link: Link, entry: int, actor: str, because: str) -> None:
    if not await link.fetch(Q.retry, entry):
        raise _moved(entry)
    await link.execute(Q.act, actor, entry, because)


async def _ask_again(link: Link, entry: int, actor: str, because: str) -> None:
    row = await link.fetchrow(Q.lock, entry)
    if row is None or await link.fetchval(Q.status, entry) != Status.SKIPPED:
        raise _moved(entry)
    back = gate.Stay(entry, row["subject"], row["fence"], 0, 0, False, None, None, None, None)
    await gate.stay(link, row["pipeline"], [back])
    await link.execute(Q.act, actor, entry, because)
    said = orjson.dumps({"skipped": row["reason"]})
    steps = f"{Status.SKIPPED} {Status.RECEIVED}"
    line = journal.Line(entry, row["fence"], Status.RECEIVED, 0, None, "reset", steps, said)
    await journal.seal(link, row["pipeline"], [line])


def _moved(entry: int) -> UsageError:
    """Whoever claimed or reset it meanwhile was quicker: it is somewhere else by now."""
    return UsageError(
        f"entry {entry} has moved on meanwhile; nothing was changed",
        hint=f"See where it is: headgate entry show {entry}",
    )
