"""Statements whose words say that they touch one table, and look at nothing else.

Who defers a statement does not see what becomes of it. Where several have nothing to do with each
other, nobody could tell in which order they came; and inserts of the same words put the same rows
into a table as one insert of many rows. Whether a statement is like that is read from its words
alone: whatever is not known here counts as a statement that looks around. Whether its table is as
plain as its words, Postgres is asked (`deferred.sql`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# What is quoted is looked at no further: a mark stands for each of its characters.
_QUOTED = re.compile(r"""'(?:[^'\\]|'')*'|"(?:[^"]|"")+\"""")
_TEXT, _NAMED = "\x01", "\x02"
_READABLE = re.compile(r"[\w\s$,.():+*/<>=~!@#%^&|?\x01\x02-]*", re.ASCII)
# Comments; E'…' and U&"…", which are quoted in another way; names and numbers with a dollar.
_OTHERWISE = re.compile(r"--|/\*|[\w$&][\x01\x02]|\w\$|\$(?!\d+(?!\w))", re.ASCII)
# Each of these looks somewhere else, or says more than is read here.
_MORE = re.compile(
    r"\b(?:select|with|table|returning|default|using|values|current\s+of|(?<!distinct\s)from)\b",
    re.IGNORECASE,
)
# A parenthesis after another word is a call, and whoever is called may look around.
_CALL = re.compile(r"([\w\x02]+(?:\s*\.\s*[\w\x02]+)*)\s*\(", re.ASCII)
_MAY_CALL = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "set",
        "where",
        "when",
        "then",
        "else",
        "conflict",
        "coalesce",
        "greatest",
        "least",
        "nullif",
        "now",
        "lower",
        "upper",
        "abs",
        "round",
        "to_timestamp",
        "gen_random_uuid",
        "numeric",
        "decimal",
        "varchar",
        "char",
        "timestamp",
        "time",
    ]
)
_NAME = r"(?:[a-z_]\w*|\x02+)"
_TABLE = rf"(?P<table>{_NAME}(?:\.{_NAME})?)(?:\s+as\s+{_NAME})?"
_BEGINS = [
    (adds, re.compile(rf"\s*{begin}", re.ASCII | re.IGNORECASE))
    for adds, begin in (
        (
            True,
            rf"insert\s+into\s+{_TABLE}\s*(?:\((?P<columns>[^()]*)\)\s*)?\b(?P<values>values)\s*\(",
        ),
        (False, rf"update\s+{_TABLE}\s+set\b"),
        (False, rf"delete\s+from\s+{_TABLE}\s*(?:\bwhere\b|$)"),
    )
]
# What may follow the values. Of an update, all that follows is kept as it is.
_ENDS = re.compile(
    r"\s*(?:on\s+conflict\s*(?:\((?P<key>[^()]*)\)\s*)?"
    r"do\s+(?:nothing|(?P<update>update\s+set\b[^$]*)))?\s*",
    re.ASCII | re.IGNORECASE,
)
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
    adds: bool  # an INSERT: no row goes or leaves its key
    many: Many | None = None


@lru_cache(512)
def plain(sql: str) -> Plain | None:
    """The statement, if its words say that it touches one table and looks at no other."""
    masked = _QUOTED.sub(lambda q: (_TEXT if q[0][0] == "'" else _NAMED) * len(q[0]), sql)
    if _READABLE.fullmatch(masked) is None or _OTHERWISE.search(masked) is not None:
        return None
    begins = ((adds, begin.match(masked)) for adds, begin in _BEGINS)
    adds, head = next(((adds, head) for adds, head in begins if head), (False, None))
    if head is None:
        return None
    calls = (call[1].lower() for call in _CALL.finditer(masked, head.end()))
    if _MORE.search(masked, head.end()) or not all(map(_MAY_CALL.__contains__, calls)):
        return None
    table = sql[slice(*head.span("table"))]
    return Plain(table, adds, _many(sql, masked, head) if adds else None)


def _many(sql: str, masked: str, head: re.Match[str]) -> Many | None:
    values = _values(masked, head.end())
    if values is None:
        return None
    start, end = values[0].start, values[-1].stop
    arguments = [int(n) for n in _ARGUMENT.findall(masked, start, end)]
    ends = _ENDS.fullmatch(masked, end + 1)
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
    parts = (sql[p.start() : p.end()].strip() for p in _PART.finditer(masked, *span))
    return [part[1:-1] if part.startswith('"') else part.lower() for part in parts]


def _with_columns(sql: str, masked: str, start: int, end: int) -> str:
    """Values whose arguments are columns."""
    parts: list[str] = []
    for argument in _ARGUMENT.finditer(masked, start, end):
        parts += sql[start : argument.start()], f"headgate_many.a{argument[1]}"
        start = argument.end()
    return "".join([*parts, sql[start:end]])
