"""The memory of operations: who may work on a key, what came of it, and what was said about it.

Each take writes a token of its own and raises the fence. Every later write shows both, so a caller
that slept through its lease changes nothing. Read operation.sql first: the rules are there; this
file gives them types.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeVar, cast

import orjson

from headgate.errors import Fenced
from headgate.model.operation import Left, Named
from headgate.model.operation_facts import OperationFacts, OperationLine
from headgate.pg import Database, Link, Record, driver, queries

Q = queries.load(__file__)

T = TypeVar("T")
LOST = "HG001"  # raised by operation_end: the lease belongs to somebody else by now
Status = Literal["running", "success", "failure", "partial"]
Event = Literal["denied", "escalated", "conflict"]


class Lease(NamedTuple):
    """One attempt's right to work on a key. `was` is how the key stood before."""

    id: int
    fence: int
    token: bytes
    attempts: int
    was: Literal["new", "running", "failure", "partial"]


class Kept(NamedTuple):
    """What a finished operation left: bytes under a codec, or only their digest and a store."""

    id: int
    codec: str
    data: bytes | None
    digest: bytes
    store: str | None = None


class Held(NamedTuple):
    """Somebody else works on it, or on its dataset. `id` is None where the key is still unknown."""

    id: int | None
    token: bytes
    holder: str
    left_seconds: float


class OtherPayload(NamedTuple):
    """The key is known, with another payload."""

    id: int


class Asking(NamedTuple):
    """Everything that one take tells the ledger."""

    key: bytes
    lock_key: int
    alone: bool
    payload: bytes | None
    token: bytes
    lease_seconds: float
    named: Named
    base: bytes | None
    dead: bytes | None = None
    lenient: bool = False


Answer = Lease | Kept | Held | OtherPayload


async def take(db: Database, holder: str, asking: Asking) -> Answer:
    """Look at a key, and take it if it is free: one round trip."""
    a = asking
    row = await db.fetchrow(
        Q.take, a.key, a.lock_key, a.alone, a.payload, a.token, holder, a.lease_seconds, a.dead,
        a.lenient, _names(a.named), a.named.params_hash, a.base, _parts(a.named),
    )  # fmt: skip
    assert row is not None
    return _answer(row, a.token)


async def take_many(db: Database, holder: str, asking: Sequence[Asking]) -> list[Answer]:
    """The same for many keys, which come sorted; none of them asks for a dataset."""
    # Most come for one operation: what they share is said once.
    kinds: dict[tuple[Any, ...], int] = {}
    shared: list[Asking] = []
    kind: list[int] = []
    for a in asking:
        told = (a.named.names(), a.named.params_hash, a.lease_seconds)
        if (n := kinds.get(told)) is None:
            shared.append(a)
            n = kinds[told] = len(shared)
        kind.append(n)
    rows = await db.fetch(
        Q.take_many,
        holder,
        [_names(a.named) for a in shared],
        [a.named.params_hash for a in shared],
        [a.lease_seconds for a in shared],
        kind if len(shared) > 1 else None,
        [a.key for a in asking],
        [a.lock_key for a in asking],
        [a.token for a in asking],
        [_parts(a.named) for a in asking],
        _unless_empty([a.payload for a in asking]),
        _unless_empty([a.base for a in asking]),
        _unless_empty([a.dead for a in asking]),
        [a.lenient for a in asking] if any(a.lenient for a in asking) else None,
    )
    answers = {row["asked"]: row for row in rows}
    return [_answer(answers[one.token], one.token) for one in asking]


def _unless_empty(column: list[T | None]) -> list[T | None] | None:
    """None for a column of nothing but nulls: it is not worth the way."""
    return None if column.count(None) == len(column) else column


def _names(n: Named) -> str:
    return "\x1f".join(part or "" for part in n.names())


def _answer(row: Record, token: bytes) -> Answer:
    match cast("str", row["verdict"]):
        case "done":
            return _kept(row)
        case "held":
            return Held(row["id"], row["token"], row["holder"], row["left_seconds"])
        case "conflict":
            return OtherPayload(row["id"])
        case _:
            return Lease(row["id"], row["fence"], token, row["attempts"], row["was"])


def _kept(row: Record) -> Kept:
    return Kept(row["id"], row["codec"], row["result"], row["result_hash"], row["store"])


def _parts(named: Named) -> str:
    """What the key was made of, for people: the caller's own part and what was derived."""
    shown = {"key": named.own, "params": named.params, "derived": named.derived}
    return orjson.dumps(shown, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


async def period(db: Database, base: bytes, budget_seconds: float) -> str | None:
    """The period in which an unfinished operation was first seen, while it may be retried."""
    return await db.fetchval(Q.period, base, budget_seconds)


class Ending(NamedTuple):
    """How an attempt ended, as it is recorded."""

    status: Literal["success", "failure", "partial"]
    doc: str
    reason: str | None = None
    data: bytes | None = None
    codec: str | None = None
    digest: bytes | None = None
    store: str | None = None

    def columns(self) -> tuple[Any, ...]:
        return self.status, self.reason, self.data, self.codec, self.digest, self.store, self.doc


async def end_within(link: Link, lease: Lease, ending: Ending) -> None:
    """Record a success in the transaction of its SQL. Raises `Fenced`.

    Nothing but COMMIT may follow, and the answer to that can be looked up.
    """
    row = await _end(link, Q.end, lease, ending)
    link.xid, link.proof = row["xid"], (Q.ended, (lease.id, lease.token, lease.fence))


async def end_many(link: Link, ended: Sequence[tuple[Lease, Ending]]) -> None:
    """The same for many, with their locks. One that lost its lease, or finds no lock, fails all."""
    xid = await _fenced(
        link.fetchval(
            Q.end_many,
            [lease.id for lease, _ in ended],
            [lease.token for lease, _ in ended],
            [lease.fence for lease, _ in ended],
            [e.data for _, e in ended],
            [e.codec for _, e in ended],
            [e.digest for _, e in ended],
            _unless_empty([e.store for _, e in ended]),
            [e.doc for _, e in ended],
        )
    )
    lease = ended[0][0]
    link.xid, link.proof = xid, (Q.ended, (lease.id, lease.token, lease.fence))


async def end(
    db: Database, lease: Lease, ending: Ending, lock_key: int, wait_seconds: float
) -> None:
    """Record a success that has no SQL of its own. Saying it again is harmless. Raises `Fenced`."""
    await _end(db, Q.end_alone, lease, ending, lock_key, round(wait_seconds * 1000))


async def end_in_passing(db: Database, lease: Lease, ending: Ending) -> None:
    """Record a failure and give the key back, without waiting for the disk. Raises `Fenced`."""
    await _end(db, Q.end_in_passing, lease, ending)


async def _end(on: Database | Link, sql: str, lease: Lease, ending: Ending, *more: int) -> Record:
    row = await _fenced(
        on.fetchrow(sql, lease.id, lease.token, lease.fence, *ending.columns(), *more)
    )
    assert row is not None
    return row


async def _fenced(ending: Awaitable[T]) -> T:
    try:
        return await ending
    except driver.PostgresError as error:
        if driver.sqlstate(error) == LOST:
            raise Fenced(f"{error}: nothing was kept") from error
        raise


async def give_back(db: Database, key: bytes, token: bytes, lock_key: int) -> None:
    """Whatever an interrupted `take` may have taken."""
    await db.execute(Q.give_back, key, token, lock_key)


async def renew(db: Database, leases: Sequence[tuple[Lease, float]]) -> set[int]:
    """Prolong leases; those that are still ours."""
    ids = [lease.id for lease, _ in leases]
    tokens = [lease.token for lease, _ in leases]
    rows = await db.fetch(Q.renew, ids, tokens, [seconds for _, seconds in leases])
    return {row["id"] for row in rows}


async def note(db: Database, id: int, event: Event, who: str, reason: str, doc: str) -> None:
    """Write down that a caller was denied, escalated, or came with another payload."""
    await db.execute(Q.note, id, event, who, reason, doc)


@dataclass(frozen=True, slots=True)
class Step:
    """A foreign call of one operation; `done` when it was made before, with its answer."""

    name: str
    key: str
    done: bool
    result: bytes | None


async def call_begin(db: Database, lease: Lease, operation_key: bytes, name: str) -> Step:
    """Durable before the call is made. Raises `Fenced`: who lost the lease calls nobody."""
    key = hashlib.sha256(b"headgate:call:1\0" + operation_key + name.encode()).digest()
    row = await db.fetchrow(Q.call_begin, lease.id, lease.token, lease.fence, name, key)
    if row is None:
        raise Fenced(f"operation {lease.id}: its lease was lost before {name!r} was called")
    return Step(name, row["key"].hex(), row["done"] is not None, row["result"])


async def call_done(db: Database, lease: Lease, name: str, result: bytes) -> None:
    """The call was made, and this is what it answered."""
    await db.execute(Q.call_done, lease.id, name, result)


async def call_undone(db: Database, lease: Lease, names: Sequence[str]) -> None:
    """These calls were taken back: another attempt makes them again."""
    for name in names:
        await db.execute(Q.call_undone, lease.id, name)


async def left(db: Database, id: int) -> list[Left]:
    """Foreign calls that were made for an operation and not taken back, the last one first."""
    rows = await db.fetch(Q.calls, id)
    made = [row for row in rows if row["done"] is not None]
    return [Left(r["name"], r["key"].hex(), orjson.loads(r["result"])) for r in reversed(made)]


async def facts(db: Database, row: Record) -> OperationFacts:
    """Everything that is known about an operation that was found."""
    parts = orjson.loads(row["parts"])
    same = (
        "id", "pipeline", "task", "dataset", "operation", "version", "checksum_in", "period",
        "status", "reason", "attempts", "fence", "holder", "lock_key", "exclusive", "created_at",
        "begun_at", "updated_at", "lease_until", "codec",
    )  # fmt: skip
    digest = row["result_hash"]
    return OperationFacts(
        **{name: row[name] for name in same},
        ledger=str(await db.fetchval(Q.ledger)),
        key=row["key"].hex(),
        params_hash=row["params"].hex(),
        own=parts["key"],
        derived=parts["derived"],
        result_hash=None if digest is None else digest.hex(),
        result_store=row["store"],
        lines=await lines(db, row["id"]),
        calls=[
            {
                **dict(call),
                "key": call["key"].hex(),
                "result": orjson.loads(call["result"] or b"null"),
            }
            for call in await db.fetch(Q.calls, row["id"])
        ],
    )


async def lines(db: Database, id: int) -> list[OperationLine]:
    """The journal of one operation."""
    return [
        OperationLine(
            r["n"], r["at"], r["fence"], r["event"], r["holder"], r["reason"],
            orjson.loads(r["doc"]), r["hash"].hex(),
        )
        for r in await db.fetch(Q.lines, id)
    ]  # fmt: skip


async def find(db: Database, asked: str) -> Record | None:
    """An operation by its key, the first digits of it, its number, or a journal pointer."""
    if asked.startswith("operation/"):
        asked = asked.split("/")[1]
    if asked.isdigit() and len(asked) < 10:
        return await db.fetchrow(Q.found_by_id, int(asked))
    try:
        begin = bytes.fromhex(asked.ljust(len(asked) + len(asked) % 2, "0"))
    except ValueError:
        return None
    if len(begin) == 32:
        return await db.fetchrow(Q.found, begin)
    low = bytes.fromhex(asked.ljust(64, "0"))
    high = bytes.fromhex(asked.ljust(64, "f"))
    rows = await db.fetch(Q.found_by_prefix, low, high)
    return rows[0] if len(rows) == 1 else None


async def listed(
    db: Database,
    *,
    task: str | None = None,
    dataset: str | None = None,
    status: str | None = None,
    before: int | None = None,
    most: int = 50,
) -> list[Record]:
    """Operations, the newest first."""
    return await db.fetch(Q.listed, task, dataset, status, before, most)


async def reset(db: Database, key: bytes, *, actor: str, because: str, forget: bool) -> str | None:
    """The next call runs again, who is at it is fenced out: the journal pointer, if it is known."""
    return await db.fetchval(Q.reset, key, actor, because, forget)


async def decisions(db: Database) -> tuple[int, datetime]:
    """The last decision of a person, and now: from where `rewritten` goes on."""
    row = await db.fetchrow(Q.decisions)
    assert row is not None
    return row["last"], row["now"]


async def rewritten(db: Database, after: int, since: datetime) -> list[Record]:
    """How often which operations were reset since then."""
    if not await db.fetchval(Q.reset_after, after):
        return []
    return await db.fetch(Q.rewritten, since)
