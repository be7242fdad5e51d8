"""Deferred statements (`tx.later`): on their way to Postgres, as if in the order they were said.

A round trip for each would be most of what it costs, so neighbours of the same words travel
together. Handlers say two or three different things, though, one entry after the other: then no
statement has a neighbour like itself. And even together, Postgres begins and ends each of them.

So where nobody could tell, statements travel by their words, and inserts of the same words are one
insert of many rows. Nobody could tell where each of them touches a table of its own that is as
plain as its words (`plain.py`, `deferred.sql`), but for one thing: a foreign key may find a row
that a later entry brings, and is not refused.

What was changed like this and then refused is undone and sent again as it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, count, groupby
from operator import itemgetter
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from headgate.pg import Link, driver, queries
from headgate.pg.link import rename

from .arrays import literal
from .plain import Many, Plain, plain

Q = queries.load(__file__)

Deferred = tuple[str, tuple[Any, ...]]
Arguments = Sequence[Sequence[Any]]
_Words = dict[str, list[tuple[Any, ...]]]
AT_ONCE_BYTES = 48 * 1024
MANY_BYTES = 1 << 20
# Fewer than these are as fast one by one.
MANY_ROWS = 8
# Who says more different things has put values into the text, and it is looked at no further.
MOST_WORDS = 16
MOST_WAYS = 256
LOOK_AGAIN_SECONDS = 60.0
NOT_PLAIN = "HG004"  # is_plain in deferred.sql
# Types of arguments that may travel as arrays: an array of them holds nothing but single values.
_TEXTS = frozenset(["text", "varchar"])
_KNOWN = frozenset(name for _, name, _ in driver.ARRAYS.values()) | _TEXTS
_SINGLE = frozenset([str, bytes, bool, int, float, type(None), datetime, date, Decimal, UUID])
_SMALL = (int, float, type(None), datetime, date, Decimal, UUID)
_WORDS = itemgetter(0)


async def send(link: Link, deferred: Iterable[Deferred]) -> None:
    """Send deferred statements, in their order. Neighbours with the same text travel together."""
    for sql, rows in _neighbours(deferred):
        await _each(link, sql, rows)


async def _each(link: Link, sql: str, rows: Arguments) -> None:
    for some in portions(rows):
        await link.raw.executemany(sql, some)


def portions(args: Arguments, most: int = AT_ONCE_BYTES) -> Iterator[list[Sequence[Any]]]:
    """Arguments that travel together, in portions that the driver hands over at once.

    More than the kernel takes at once it sends piece by piece, and there it is deaf: whoever gives
    up waiting, since somebody else holds a lock, would wait for ever.
    """
    some: list[Sequence[Any]] = []
    held = 0
    for one in args:
        size = 0
        for value in one:
            if isinstance(value, str):
                size += len(value) if value.isascii() else 4 * len(value)
            elif isinstance(value, bytes):
                size += len(value)
            else:
                size += 40 if isinstance(value, _SMALL) else AT_ONCE_BYTES
        if some and held + size > most:
            yield some
            some, held = [], 0
        some.append(one)
        held += size
    if some:
        yield some


class _Form(NamedTuple):
    """An INSERT of one row as one of many, which fails where its table is not plain any more."""

    sql: str
    sure: str  # the same, where it was asked before in this transaction
    many: Many
    types: Sequence[str]  # of the arguments

    def travelling(self, rows: Arguments) -> Iterator[Sequence[Any] | str]:
        return map(_travelling, zip(*rows, strict=True), self.types)


class _Group(NamedTuple):
    """Statements of the same words that travel together."""

    sql: str
    parts: Sequence[Arguments]
    form: _Form | None = None  # each part is one statement, and this is how

    async def send(self, link: Link) -> None:
        for part in self.parts:
            if self.form is None:
                await _each(link, self.sql, part)
                continue
            for some in portions(part, MANY_BYTES):
                await link.raw.execute(self.form.sql, *self.form.travelling(some))


class Parcel(NamedTuple):
    """Deferred statements as they are sent."""

    groups: Sequence[_Group]
    tables: Sequence[tuple[str, str]] = ()  # where the order is not that in which they were said

    @property
    def as_said(self) -> bool:
        """One by one, in the order in which they were said."""
        return not self.tables and all(group.form is None for group in self.groups)

    async def send(self, link: Link) -> None:
        for group in self.groups:
            await group.send(link)
        if self.tables and any(group.form is None for group in self.groups):
            # These did not ask for themselves. Their tables are locked by now.
            await link.fetch(Q.surely_plain, *_columns(self.tables))


class _Way(NamedTuple):
    """How statements of certain words may travel."""

    tables: Sequence[tuple[str, str]] = ()  # of each, where none sees what another did
    forms: Mapping[str, _Form] = MappingProxyType({})
    until: float = 0.0

    def pack(self, words: _Words, deferred: Iterable[Deferred]) -> Parcel:
        said = words.items() if self.tables else _neighbours(deferred)
        groups = [_group(sql, rows, self.forms.get(sql)) for sql, rows in said]
        return Parcel(groups, self.tables if len(groups) > 1 else ())


class Deferring:
    """How the deferred statements of a pipeline may travel, as far as we have seen.

    What was seen is forgotten after a while: a column's type may have changed.
    """

    def __init__(self) -> None:
        self._ways: dict[tuple[str, ...], _Way] = {}
        self._as_said_until = 0.0

    async def pack(self, link: Link, deferred: Sequence[Deferred]) -> Parcel:
        """These statements, in an order of our own where nobody could tell."""
        words = _by_words(deferred)
        way = await self._way(link, tuple(words)) if len(words) <= MOST_WORDS else _Way()
        return way.pack(words, deferred)

    async def at_once(self, link: Link, sql: str, rows: Arguments, sure: set[str]) -> bool:
        """Run a statement for all of these rows at once, if each of them surely counts as one.

        The tables of those in `sure` were asked for in this transaction, and are locked since.
        """
        form = (await self._way(link, (sql,))).forms.get(sql)
        if form is None or not form.many.each:
            return False
        group = _group(sql, rows, form)
        if group.form is None or len(group.parts) > 1 or len(list(portions(rows, MANY_BYTES))) > 1:
            return False
        await link.raw.execute(form.sure if sql in sure else form.sql, *form.travelling(rows))
        sure.add(sql)
        return True

    async def _way(self, link: Link, words: tuple[str, ...]) -> _Way:
        now = monotonic()
        if now < self._as_said_until:
            return _Way()
        way = self._ways.get(words)
        if way is None or way.until <= now:
            way = await _look(link, words, now + LOOK_AGAIN_SECONDS)
            if len(self._ways) >= MOST_WAYS:
                self._ways.clear()
            self._ways[words] = way
        return way

    def refused(self, error: BaseException) -> None:
        """What was not sent as it was said was refused, and as it was said it was not."""
        self._ways.clear()
        if driver.sqlstate(error) != NOT_PLAIN:
            self._as_said_until = monotonic() + LOOK_AGAIN_SECONDS


async def _look(link: Link, words: Iterable[str], until: float) -> _Way:
    """Ask what these statements' tables are like."""
    read = {sql: plain(sql) for sql in words}
    known = {sql: p for sql, p in read.items() if p is not None}
    if len(known) < len(read):  # one of them may do anything
        return _Way(until=until)
    names = [(p.table, p.touches) for p in known.values()]
    told = await link.fetch(Q.tables, *_columns(names))
    fit = {
        sql: p.many
        for (sql, p), table in zip(known.items(), told, strict=True)
        if table["plain"] and p.columns.issubset(table["columns"])
    }
    forms: dict[str, _Form] = {}
    for sql, many in fit.items():
        if many is not None:
            asked = (await link.raw.prepare(sql)).get_parameters()
            types = [t.name if t.schema == "pg_catalog" else "" for t in asked]
            if _KNOWN.issuperset(types):
                arrays = list(map(_array, types, count(1)))
                asks = many.sql(arrays, _surely_plain(link, known[sql]))
                forms[sql] = _Form(asks, many.sql(arrays, "true"), many, types)
    apart = len(fit) == len({table["oid"] for table in told}) == len(read)
    return _Way(names if apart else (), forms, until)


def _surely_plain(link: Link, p: Plain) -> str:
    table = p.table.replace("'", "''")
    return f"{rename('headgate.is_plain', link.schema)}('{table}', '{p.touches}', true)"


def _group(sql: str, rows: Arguments, form: _Form | None) -> _Group:
    """One by one, where that is as fast, or where many could be taken for something else."""
    if form is None or len(rows) < MANY_ROWS or set(map(len, rows)) != {len(form.types)}:
        return _Group(sql, [rows])
    if not _SINGLE.issuperset(map(type, chain.from_iterable(rows))):
        return _Group(sql, [rows])
    parts = list(_without_repetition(rows, form.many.key))
    if len(parts) * MANY_ROWS > len(rows):
        return _Group(sql, [rows])
    return _Group(sql, parts, form)


def _by_words(deferred: Iterable[Deferred]) -> _Words:
    """The arguments of each text, the texts in the order in which they were first said."""
    words: _Words = {}
    for sql, args in deferred:
        words.setdefault(sql, []).append(args)
    return words


def _neighbours(deferred: Iterable[Deferred]) -> Iterator[tuple[str, list[tuple[Any, ...]]]]:
    for sql, group in groupby(deferred, key=_WORDS):
        yield sql, [args for _, args in group]


def _without_repetition(rows: Arguments, key: Sequence[int]) -> Iterator[Arguments]:
    """Rows, in their order, in parts in which none has the key of another."""
    keys = list(map(itemgetter(*key), rows)) if key else []
    if len(set(keys)) == len(keys):
        yield rows
        return
    start = 0
    seen: set[Any] = set()
    for n, one in enumerate(keys):
        if one in seen:
            yield rows[start:n]
            start = n
            seen.clear()
        seen.add(one)
    yield rows[start:]


def _array(kind: str, n: int) -> str:
    return f"(${n}::text)::{kind}[]" if kind in _TEXTS else f"${n}::{kind}[]"


def _columns(tables: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [name for name, _ in tables], [touched for _, touched in tables]


def _travelling(column: Sequence[Any], kind: str) -> Sequence[Any] | str:
    return literal(column) if kind in _TEXTS else column
