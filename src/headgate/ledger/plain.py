"""Statements whose words say that they touch one table, and look at nothing else.

Who defers a statement does not see what becomes of it. Where several have nothing to do with each
other, nobody could tell in which order they came; and inserts of the same words put the same rows
into a table as one insert of many rows. Whether a statement is like that is read from its words
alone: whatever is not known here counts as a statement that looks around. Whether its table is as
plain as its words, Postgres is asked (`deferred.sql`).

Words are read where quotes are masked, character by character, so that what is inside of them
cannot look like a word: `VALUES ('a)', "b")` is read as `VALUES (____, ...)`, with characters for
`_` and `.` that no statement has.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

_QUOTED = re.compile(r"""'(?:[^'\\]|'')*'|"(?:[^"]|"")+\"""")
_TEXT, _NAMED = "\x01", "\x02"
_READABLE = re.compile(r"[\w\s$,.():+*/<>=~!@#%^&|?\x01\x02-]*", re.ASCII)
_OTHERWISE = re.compile(
    r"""--|/\*  # a comment
    | [\w$&][\x01\x02]  # E'…' and U&"…" are quoted in another way
    | \w\$ | \$(?!\d+(?!\w))  # a name with a dollar, or text between two of them
    | \)\s*\.  # a part of a value
    """,
    re.ASCII | re.VERBOSE,
)
# Each of these looks somewhere else, or says more than is read here.
_MORE = re.compile(
    r"\b(?:select|with|table|returning|default|using|values|current\s+of|(?<!distinct\s)from)\b",
    re.IGNORECASE,
)
# Casts, calls and operators of somebody's own may run code of theirs, which may look around.
_TYPES = frozenset(
    """
    bigint bool boolean bytea char date decimal double float4 float8 int int2 int4 int8 integer
    interval json jsonb numeric real smallint text time timestamp timestamptz uuid varchar
    """.split()  # noqa: SIM905  (a list of them would take a page)
)
_CALLS = frozenset(
    """
    and or not in set where when then else conflict
    coalesce greatest least nullif now lower upper abs round to_timestamp gen_random_uuid
    numeric decimal varchar char timestamp time
    """.split()  # noqa: SIM905
)
_OPERATORS = frozenset("= <> != < <= > >= + - * / % || -> ->>".split())  # noqa: SIM905
_BEFORE_TEXT = _TYPES | {"and", "or", "not", "like", "ilike", "in", "then", "else", "when", "zone"}
_WORD = r"[\w\x02]+"
_CAST = re.compile(rf"::\s*({_WORD}(?:\s*\.\s*{_WORD})?)", re.ASCII)
_CALL = re.compile(rf"({_WORD}(?:\s*\.\s*{_WORD})*)\s*\(", re.ASCII)
_OPERATOR = re.compile(r"[-+*/<>=~!@#%^&|?]+")
_TYPED_TEXT = re.compile(rf"({_WORD})\s+\x01", re.ASCII)
_ALLOWED = ((_CAST, _TYPES), (_CALL, _CALLS), (_TYPED_TEXT, _BEFORE_TEXT))
# What follows a dot is a column, or else a function that is called like one.
_DOTTED = re.compile(rf"\.\s*((?!\d){_WORD})", re.ASCII)

_NAME = r"(?:[a-z_]\w*|\x02+)"
_TABLE = rf"(?P<table>{_NAME}(?:\.{_NAME})?)(?:\s+as\s+{_NAME})?"
_BEGINS = [
    (touches, re.compile(rf"\s*{begin}", re.ASCII | re.IGNORECASE))
    for touches, begin in (
        (
            "",
            rf"insert\s+into\s+{_TABLE}\s*(?:\((?P<columns>[^()]*)\)\s*)?\b(?P<values>values)\s*\(",
        ),
        ("upd", rf"update\s+{_TABLE}\s+set\b"),
        ("del", rf"delete\s+from\s+{_TABLE}\s*(?:\bwhere\b|$)"),
    )
]
_UPDATES = re.compile(r"\bdo\s+update\b", re.IGNORECASE)
# All that may follow the values. Of an update, what it does is kept as it is.
_ENDS = re.compile(
    r"\s*(?:on\s+conflict\s*(?:\((?P<key>[^()]*)\)\s*)?"
    r"do\s+(?:nothing|(?P<update>update\s+set\b[^$]*)))?\s*",
    re.ASCII | re.IGNORECASE,
)
_LEAVES_OUT = re.compile(r"\b(?:nothing|where)\b", re.IGNORECASE)
_PART = re.compile(r"[^,]+")
_ARGUMENT = re.compile(r"\$(\d+)")
_ONLY_AN_ARGUMENT = re.compile(r"\s*\$(\d+)\s*(?:::\s*\w+\s*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Many:
    """An INSERT of many rows. Each of its arguments is a column of them."""

    head: str
    values: str
    tail: str
    arguments: int
    key: tuple[int, ...]  # arguments that no two rows of one statement may have in common
    each: bool  # no row is left out: if it is not refused, each of them counts

    def sql(self, columns: Sequence[str], where: str) -> str:
        """The statement. `columns` are arrays, as SQL."""
        names = ", ".join(f"a{n + 1}" for n in range(self.arguments))
        return (
            f"{self.head} SELECT {self.values}"
            f" FROM unnest({', '.join(columns)}) AS headgate_many ({names})"
            f" WHERE {where} {self.tail}".rstrip()
        )


@dataclass(frozen=True, slots=True)
class Plain:
    """A statement of one table."""

    table: str  # as it was written
    touches: str  # what it may do to keys that are there: `upd`, `del` or nothing
    columns: frozenset[str]  # what must be columns for it to be plain
    many: Many | None = None


@lru_cache(512)
def plain(sql: str) -> Plain | None:
    """The statement, if its words say that it touches one table and looks at no other."""
    masked = _QUOTED.sub(lambda q: (_TEXT if q[0][0] == "'" else _NAMED) * len(q[0]), sql)
    if _READABLE.fullmatch(masked) is None or _OTHERWISE.search(masked) is not None:
        return None
    begins = ((touches, begin.match(masked)) for touches, begin in _BEGINS)
    touches, head = next(((touches, head) for touches, head in begins if head), ("", None))
    if head is None:
        return None
    start = head.end()
    said = [
        (word[1].lower(), allowed)
        for pattern, allowed in _ALLOWED
        for word in pattern.finditer(masked, start)
    ]
    said += ((operator[0], _OPERATORS) for operator in _OPERATOR.finditer(masked, start))
    if _MORE.search(masked, start) or not all(word in allowed for word, allowed in said):
        return None
    if _UPDATES.search(masked, start):
        touches = "upd"
    columns = (_as_read(sql[slice(*dotted.span(1))]) for dotted in _DOTTED.finditer(masked, start))
    many = _many(sql, masked, head) if "values" in head.groupdict() else None
    return Plain(sql[slice(*head.span("table"))], touches, frozenset(columns), many)


def _many(sql: str, masked: str, head: re.Match[str]) -> Many | None:
    values = _values(masked, head.end())
    if values is None:
        return None
    start, end = values[0].start, values[-1].stop
    arguments = [int(n) for n in _ARGUMENT.findall(masked, start, end)]
    ends = _ENDS.fullmatch(masked, end + 1)  # past the parenthesis
    if ends is None or not arguments:
        return None
    key: list[int] = []
    if ends["update"] is not None:
        # What is updated must not have come with the same statement. So we have to see the key.
        if ends["key"] is None or head["columns"] is None:
            return None
        at = dict(zip(_names(sql, masked, head.span("columns")), values, strict=False))
        for name in _names(sql, masked, ends.span("key")):
            value = at.get(name, range(0))
            alone = _ONLY_AN_ARGUMENT.fullmatch(masked, value.start, value.stop)
            if alone is None:
                return None
            key.append(int(alone[1]) - 1)
    return Many(
        head=sql[: head.start("values")].strip(),
        values=_with_columns(sql, masked, start, end).strip(),
        tail=sql[end + 1 :].strip(),
        arguments=max(arguments),
        key=tuple(key),
        each=_LEAVES_OUT.search(masked, end) is None,
    )


def _values(masked: str, at: int) -> list[range] | None:
    """Where each of the values stands, up to the parenthesis that closes them."""
    values: list[range] = []
    depth, start = 0, at
    for n in range(at, len(masked)):
        match masked[n]:
            case "(":
                depth += 1
            case ")" if depth:
                depth -= 1
            case ")":
                return [*values, range(start, n)]
            case "," if not depth:
                values.append(range(start, n))
                start = n + 1
            case _:
                pass
    return None


def _names(sql: str, masked: str, span: tuple[int, int]) -> list[str]:
    """Names in a list, as Postgres reads them."""
    return [_as_read(sql[p.start() : p.end()].strip()) for p in _PART.finditer(masked, *span)]


def _as_read(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name.lower()


def _with_columns(sql: str, masked: str, start: int, end: int) -> str:
    """Values whose arguments are columns."""
    parts: list[str] = []
    for argument in _ARGUMENT.finditer(masked, start, end):
        parts += sql[start : argument.start()], f"headgate_many.a{int(argument[1])}"
        start = argument.end()
    return "".join([*parts, sql[start:end]])
