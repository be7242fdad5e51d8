"""Deferred statements (`tx.later`): on their way to Postgres, as if in the order they were said.

A round trip for each would be most of what it costs, so neighbours of the same words travel
together. Handlers say two or three different things, though, one entry after the other: then no
statement has a neighbour like itself. And even together, Postgres begins and ends each of them.

So where nobody could tell, statements travel by their words, and inserts of the same words are one
insert of many rows. Nobody could tell where each of them touches a table of its own that is as
plain as its words (`plain.py`). Two inserts that lead to different tables may have a foreign key
between them: then a row may find one that a later entry brings, and is not refused.

What was changed like this and then refused is undone and sent again as it was said.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import chain, count, groupby
from operator import itemgetter
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from headgate.pg import Link, driver, queries
from headgate.pg.link import rename

from .arrays import literal
from .plain import Many, plain

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


class TableChanged(Exception):
    """A table is not as plain as it was when it was looked at. Nothing of this may stay."""


class _Form(NamedTuple):
    """An INSERT of one row, as one of many. It adds nothing where a table is not plain any more."""

    sql: str
    many: Many
    types: Sequence[str]  # of the arguments


class _Group(NamedTuple):
    """Statements of the same words that travel together."""

    sql: str
    parts: Sequence[Arguments]
    form: _Form | None = None  # each part is one statement, and this is how

    async def send(self, link: Link, tables: Sequence[str]) -> None:
        for part in self.parts:
            if self.form is None:
                await _each(link, self.sql, part)
                continue
            for some in portions(part, MANY_BYTES):
                columns = map(_travelling, zip(*some, strict=True), self.form.types)
                tag = await link.raw.execute(self.form.sql, *columns)
                if tag == "INSERT 0 0" and not await link.fetchval(Q.are_plain, tables):
                    raise TableChanged


class Parcel(NamedTuple):
    """Deferred statements as they are sent."""

    groups: Sequence[_Group]
    tables: Sequence[str]
    moved: bool  # not in the order in which they were said

    @property
    def as_said(self) -> bool:
        """One by one, in the order in which they were said."""
        return not self.moved and all(group.form is None for group in self.groups)

    async def send(self, link: Link) -> None:
        for group in self.groups:
            await group.send(link, self.tables)


class _Way(NamedTuple):
    """How statements of certain words may travel."""

    apart: bool = False  # none of them sees what another did
    tables: Sequence[str] = ()
    forms: Mapping[str, _Form] = MappingProxyType({})

    def pack(self, words: _Words, deferred: Iterable[Deferred]) -> Parcel:
        said = words.items() if self.apart else _neighbours(deferred)
        groups = [_group(sql, rows, self.forms.get(sql)) for sql, rows in said]
        return Parcel(groups, self.tables, self.apart and len(groups) > 1)


class Deferring:
    """How the deferred statements of a pipeline may travel, as far as we have seen."""

    def __init__(self) -> None:
        self._as_said = False
        self._ways: dict[tuple[str, ...], _Way] = {}
        self._types: dict[str, Sequence[str]] = {}

    async def pack(self, link: Link, deferred: Sequence[Deferred]) -> Parcel:
        """These statements, in an order of our own where nobody could tell."""
        words = _by_words(deferred)
        if self._as_said or len(words) > MOST_WORDS:
            return _Way().pack(words, deferred)
        known = self._ways.get(tuple(words))
        parcel = (known or await self._look(link, words)).pack(words, deferred)
        if known and parcel.moved and any(group.form is None for group in parcel.groups):
            # These do not ask by themselves whether their tables are still as they were.
            parcel = (await self._look(link, words)).pack(words, deferred)
        return parcel

    def refused(self, error: BaseException) -> None:
        """What was not sent as it was said was refused, and as it was said it was not."""
        if isinstance(error, TableChanged):
            self._ways.clear()
        else:
            self._as_said = True

    async def _look(self, link: Link, words: Iterable[str]) -> _Way:
        read = {sql: plain(sql) for sql in words}
        named = {sql: p for sql, p in read.items() if p is not None}
        names = [p.table for p in named.values()]
        told = await link.fetch(Q.tables, names) if named else []
        tables = {sql: t for sql, t in zip(named, told, strict=True) if t["plain"]}
        apart = len({t["oid"] for t in tables.values()}) == len(read) and all(
            named[sql].adds or t["kept"] for sql, t in tables.items()
        )
        guard = " AND ".join(_is_plain(link, name) for name in names)
        forms: dict[str, _Form] = {}
        for sql in tables:
            many = named[sql].many
            if many is not None and _KNOWN.issuperset(types := await self._asked(link, sql)):
                forms[sql] = _Form(many.sql(list(map(_array, types, count(1))), guard), many, types)
        way = _Way(apart, names, forms)
        if len(self._ways) >= MOST_WORDS:
            self._ways.clear()
        self._ways[tuple(read)] = way
        return way

    async def _asked(self, link: Link, sql: str) -> Sequence[str]:
        """The types of a statement's arguments; empty where one is not of Postgres' own."""
        if sql not in self._types:
            if len(self._types) >= MOST_WORDS:
                self._types.clear()
            told = (await link.raw.prepare(sql)).get_parameters()
            self._types[sql] = [t.name if t.schema == "pg_catalog" else "" for t in told]
        return self._types[sql]


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


def _is_plain(link: Link, table: str) -> str:
    quoted = table.replace("'", "''")
    return f"{rename('headgate.is_plain', link.schema)}('{quoted}')"


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


def _travelling(column: Sequence[Any], kind: str) -> Sequence[Any] | str:
    return literal(column) if kind in _TEXTS else column
