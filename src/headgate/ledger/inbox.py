"""The inbox: an entry is durable before anybody has a receipt for it, and there is one per key.

Its work may begin a moment earlier, and ends in a later commit of the same log: an effect never
outlives its entry. What is done outside Postgres (`run.call`, bytes in a store) is preceded by a
commit that waits for the disk, and with it for the entry.

A delivery that was told before is counted, not stored. The same key with another payload is a
conflict: refused, and kept as evidence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime

import orjson

from headgate.errors import SchemaError
from headgate.model import trace
from headgate.model.crash import reached
from headgate.model.entry import Point
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key, fingerprint
from headgate.model.lookup import Lookup
from headgate.model.ports import Known, Noticed
from headgate.model.watermark import EventTime
from headgate.pg import Database, Link, queries

from . import nearby, watermark
from .arrays import column, literal
from .aside import Aside, park
from .nearby import Told
from .pace import Pace

Q = queries.load(__file__)

RECEIVE = (
    "SELECT * FROM headgate.receive($1, $2, $3, $4::bytea[], $5::text::text[], $6::timestamptz[],"
    " $7::timestamptz[], $8::bigint[], $9::bool[], $10::text[], $11::text[], $12::bytea[],"
    " $13::bytea[], $14::int[], $15::text[])"
)
# Whoever waits for work hears of it before the disk does; `receive` answers after both. A crash of
# the server breaks the connection, so nobody gets a receipt. But a pooler in between could hand us
# to the server that comes after: where the session is not the one that greeted us, it waits.
AHEAD = (
    " WHERE set_config('synchronous_commit', CASE pg_backend_pid() WHEN ${} THEN 'off'"
    " ELSE current_setting('synchronous_commit') END, true) IS NOT NULL"
)
RECEIVE_AHEAD = RECEIVE + AHEAD.format(16)
RECEIVE_TIMED = (
    RECEIVE.replace("receive(", "receive_timed(").removesuffix(")") + ", $16::bool[], $17, $18)"
)
TIMED = RECEIVE_TIMED, RECEIVE_TIMED + AHEAD.format(19)
# A transaction that says nothing, and waits for the disk and for synchronous standbys as any other
# does. The log is in order: whatever was committed before it is then safe as well.
FLUSH = "SELECT pg_logical_emit_message(true, 'headgate', '')"
NOTICE = (
    "SELECT uri, generation"
    " FROM headgate.notice($1, $2, $3::text[], $4::text[], $5::bigint[], $6::bool[])"
)


@dataclass(frozen=True, slots=True)
class Registered:
    """A pipeline as the ledger knows it, and how its changes are told apart into partitions."""

    pipeline: int
    deployment: int
    store: int
    partition: Callable[[Envelope], str] | None = None
    event_time: EventTime | None = None
    lookups: Mapping[str, Lookup] = field(default_factory=dict[str, Lookup])
    several: bool = False  # it has several sources: entries say which one told them

    @property
    def is_plain(self) -> bool:
        """Is a change admitted by what it says alone?"""
        return self.event_time is None and self.partition is None

    @property
    def holds(self) -> bool:
        """Is what comes late set aside on arrival?"""
        return self.event_time is not None and self.event_time.late == "hold"


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a batch of deliveries. It is durable when you hold one.

    `late` are the keys of new events that came late, with the watermark that had passed each.
    """

    received: int
    admitted: int
    known: frozenset[str] = frozenset()
    conflicting: frozenset[str] = frozenset()
    conflicts: int = 0  # deliveries; one key may be contradicted several times
    late: Mapping[bytes, datetime] = field(default_factory=dict[bytes, datetime])

    @property
    def duplicates(self) -> int:
        return self.received - self.admitted - self.conflicts


async def register(
    db: Database,
    *,
    name: str,
    store: str,
    version: str,
    code: bytes,
    params: bytes,
    declared: Mapping[str, object],
    pace: Pace,
    partition: Callable[[Envelope], str] | None = None,
    event_time: EventTime | None = None,
    streams: Sequence[str] = (),
    several: bool = False,
) -> Registered:
    """Make a pipeline and its deployment known. Registering the same again changes nothing.

    `streams` are the sources whose events count, where there is event time.
    """
    async with db.transaction() as link:
        kept_in = await link.fetchval(Q.store, store)
        pipeline = await link.fetchval(Q.register, name, kept_in, *astuple(pace))
        deployment = await link.fetchval(
            Q.deploy, pipeline, version, code, params, orjson.dumps(declared).decode()
        )
        if event_time is not None:
            await watermark.declare(link, pipeline, streams)
        return Registered(pipeline, deployment, kept_in, partition, event_time, several=several)


async def receive(
    db: Database,
    to: Registered,
    source: str,
    envelopes: Sequence[Envelope],
    aside: Sequence[Aside] = (),
) -> Receipt:
    """Admit what is new, and set aside what came but cannot run: durable when it returns.

    If the reply is lost, call again: the keys make it harmless.
    """
    # Where it is traced, it is the ordinary way that tells of itself.
    lone = len(envelopes) == 1 and not aside and to.is_plain and not trace.tracing()
    idle = nearby.find(db, to.pipeline) if lone else None
    if idle is not None and await nearby.hand_over(db, _told(to, source, envelopes[0]), idle):
        reached(Point.AFTER_RECEIVE)
        return Receipt(1, 1)
    if aside or to.holds:
        async with db.transaction() as link:
            receipt = await admit(link, to, source, envelopes, aside)
            reached(Point.BEFORE_RECEIVE)
    else:
        # One statement is a transaction of its own. Its work begins at once; the disk is waited
        # for beside it. If the server crashes in between, nothing came and nobody has a receipt.
        async with db.connection() as link:
            reached(Point.BEFORE_RECEIVE)
            receipt = await _receive(link, to, source, envelopes, ahead=True)
            await link.execute(FLUSH)
    reached(Point.AFTER_RECEIVE)
    return receipt


async def admit(
    link: Link,
    to: Registered,
    source: str,
    envelopes: Sequence[Envelope],
    aside: Sequence[Aside] = (),
) -> Receipt:
    """The same inside a transaction of the caller's."""
    told = [*envelopes, *(a.envelope for a in aside)]
    receipt = await _receive(link, to, source, told, events=len(envelopes))
    if aside or (to.holds and receipt.late):
        # What was told before has a life of its own by now, and keeps it.
        new = [a for a in aside if change_key(a.envelope).hex() not in receipt.known]
        if to.holds:
            new += watermark.held(source, envelopes, receipt.late)
        await park(link, to.pipeline, to.deployment, new)
    return receipt


async def poll(
    db: Database,
    to: Registered,
    source: str,
    changes: Sequence[Noticed],
    envelope: Callable[[Noticed, int], Envelope],
    also: Callable[[Link, Sequence[Envelope], Receipt], Awaitable[None]] | None = None,
) -> Receipt:
    """Number what a polled source noticed and admit it, in one transaction; `also` is part of it.

    The generation is what makes the change this change; a watcher that compared with an older
    listing gets no number and admits nothing.
    """
    by_uri = {change.uri: change for change in changes}
    async with db.transaction() as link:
        # Two sources that show the same uri (one is being renamed, say) must not take one number.
        await link.execute("SELECT pg_advisory_xact_lock(1751606891, $1)", to.pipeline)
        numbered = await link.fetch(
            NOTICE,
            to.pipeline,
            source,
            [c.uri for c in by_uri.values()],
            [c.hint for c in by_uri.values()],
            [c.expected for c in by_uri.values()],
            [c.kind == "removed" for c in by_uri.values()],
        )
        # In the order they were noticed: what is late follows from it.
        number = {row["uri"]: row["generation"] for row in numbered}
        envelopes = [envelope(c, number[c.uri]) for c in by_uri.values() if c.uri in number]
        if not envelopes:
            return Receipt(0, 0)
        receipt = await admit(link, to, source, envelopes)
        if also is not None:
            await also(link, envelopes, receipt)
        reached(Point.BEFORE_RECEIVE)
    reached(Point.AFTER_RECEIVE)
    return receipt


async def known(db: Database, pipeline: int, source: str) -> dict[str, Known]:
    """What a polled source has shown us so far, by uri."""
    rows = await db.fetch(Q.listing, pipeline, source)
    return {r["uri"]: Known(r["hint"], r["generation"], r["removed"]) for r in rows}


async def _receive(
    link: Link,
    to: Registered,
    source: str,
    envelopes: Sequence[Envelope],
    *,
    ahead: bool = False,
    events: int | None = None,
) -> Receipt:
    # `events`: so many of the envelopes, the first, are told by the source; the rest is set aside.
    # A batch may say the same thing twice. The first one counts, unless they differ: then the later
    # one is told again on its own, so that the ledger sees and records the conflict.
    first: dict[bytes, tuple[Envelope, int]] = {}
    differing: list[Envelope] = []
    for envelope in envelopes:
        _refuse_nul(envelope)
        print_ = fingerprint(envelope)
        if first.setdefault(change_key(envelope), (envelope, print_))[1] != print_:
            differing.append(envelope)
    keys = sorted(first)
    told = [first[key][0] for key in keys]
    uris = [e.uri for e in told]
    subjects = [e.subject or e.uri for e in told]
    ranks = timing = None
    if to.event_time is not None:
        timing = watermark.timing(to.event_time, told, envelopes[:events])
    if timing is not None or len(set(subjects)) < len(subjects):
        order = {key: n for n, key in enumerate(first, 1)}
        ranks = [order[key] for key in keys]
    plain, early = (RECEIVE, RECEIVE_AHEAD) if timing is None else TIMED
    span = _span(source, envelopes) if trace.tracing() else None
    noticed = None if span is None else span.context.parent
    queue = source if to.several else None
    row = await link.fetchrow(
        early if ahead else plain,
        to.pipeline,
        source,
        len(envelopes) - len(differing),
        keys,
        literal(uris),
        column([e.event_time for e in told]),
        column([e.received_at for e in told]),
        [first[key][1] for key in keys],
        column([e.kind == "removed" for e in told]),
        column([e.sequence for e in told]),
        None if subjects == uris else subjects,
        [e.document(noticed, queue) for e in told],
        column([e.data for e in told]),
        ranks,
        None if to.partition is None else [to.partition(e) for e in told],
        *(timing or ()),
        *((link.raw.get_server_pid(),) if ahead else ()),
    )
    assert row is not None
    if span is not None:
        trace.end(span)
    known_keys = frozenset(k.hex() for k in row["known"] or ())
    conflicting = frozenset(k.hex() for k in row["conflicting"] or ())
    conflicts = len(conflicting)
    late: dict[bytes, datetime] = {}
    if timing is not None:
        late = dict(zip(row["late"] or (), row["passed"] or (), strict=True))
    if differing:
        rest = await _receive(link, to, source, differing, ahead=ahead)
        known_keys, conflicting = known_keys | rest.known, conflicting | rest.conflicting
        conflicts += rest.conflicts
    return Receipt(len(envelopes), row["admitted"], known_keys, conflicting, conflicts, late)


def _refuse_nul(envelope: Envelope) -> None:
    if "\0" in envelope.uri or (envelope.subject and "\0" in envelope.subject):
        raise SchemaError(
            f"event {envelope.event_id!r}: its uri or subject holds the character NUL",
            hint="Leave this delivery out and send the others again. Nothing was admitted.",
        )


def _told(to: Registered, source: str, envelope: Envelope) -> Told:
    _refuse_nul(envelope)
    document = envelope.document(None, source if to.several else None)
    return Told(
        to.pipeline, source, change_key(envelope), fingerprint(envelope), envelope, document
    )


def _span(source: str, envelopes: Sequence[Envelope]) -> trace.Span:
    """What is told now enters the queue. What came without a trace belongs to this one."""
    parent, links = trace.current(), list[trace.Context]()
    if parent is None:
        parent, links = trace.brought(envelopes)
    said: dict[str, trace.Attribute] = {
        "messaging.system": "headgate",
        "messaging.operation.name": "receive",
        "messaging.destination.name": source,
        "messaging.batch.message_count": len(envelopes),
    }
    return trace.begin(f"receive {source}", "producer", parent, said, links)
