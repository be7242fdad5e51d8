"""What is different between the end of a world and the end of the reference.

A difference names the thing, what was expected and what was there. Why it is so, `finding` asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any, Literal

import orjson

from .acting import CALLED
from .play import Played
from .state import File, Record, State

What = Literal["outcome", "rows", "artifact", "file", "call", "connect", "trouble"]
# Asking somebody is no effect.
_ASKING = frozenset({"http GET", "http HEAD", "http OPTIONS"})


@dataclass(frozen=True, slots=True)
class Spared:
    """What is not compared: columns, by table, that the server makes up; what the user said."""

    columns: Mapping[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    ignored: tuple[str, ...] = ()

    def spares(self, name: str) -> bool:
        """Is it a file or an address that may differ, by the user's own word?"""
        return any(fnmatch(name, pattern) for pattern in self.ignored)


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as it was in the reference world."""

    what: What
    thing: str
    said: str
    uri: str | None = None
    columns: tuple[str, ...] = ()
    record: Record | None = None  # who did it, where that is known

    @property
    def signature(self) -> tuple[str, ...]:
        """Two differences with one signature have one cause, most likely."""
        return (self.what, self.thing, *self.columns)


def differences(before: Played, after: Played, spared: Spared) -> list[Difference]:
    """Everything that differs, in the order in which a reader wants to know it."""
    if after.trouble:
        return [Difference("trouble", after.world.name, after.trouble)]
    a, b = before.state, after.state
    return [
        *(d for d in _files(a, b) if not spared.spares(d.thing)),
        *(d for d in _connects(a, b) if not spared.spares(_to(d))),
        *_rows(a, b, spared.columns),
        *_calls(a, b, after),
        *_endings(a, b),
    ]


def _endings(a: State, b: State) -> Iterator[Difference]:
    for uri, expected in a.endings.items():
        got = b.endings.get(uri)
        if got is None:
            yield Difference("outcome", "entry", f"was never admitted: {uri}", uri)
            continue
        if (got.outcome, got.reason) != (expected.outcome, expected.reason):
            said = f"{_ending(got.outcome, got.error or got.reason)}, {expected.outcome} expected"
            raised = [r for r in b.records if r["what"] == "raised" and r["uri"] == uri]
            yield Difference("outcome", uri, said, uri, record=raised[-1] if raised else None)
            continue
        wanted, made = dict(expected.artifacts), dict(got.artifacts)
        for name in sorted(wanted.keys() | made.keys()):
            if wanted.get(name) != made.get(name):
                yield Difference("artifact", name, _artifact(name, wanted, made), uri)


def _ending(outcome: str, why: str) -> str:
    return f"{outcome} ({why})" if why else outcome


def _artifact(name: str, wanted: Mapping[str, str], made: Mapping[str, str]) -> str:
    if name not in made:
        return f"artifact {name}: not there, 1 expected"
    if name not in wanted:
        return f"artifact {name}: there, and not expected"
    return f"artifact {name}: other bytes than expected"


def _rows(a: State, b: State, made_up: Mapping[str, frozenset[str]]) -> Iterator[Difference]:
    for table in sorted(a.rows.keys() | b.rows.keys()):
        masked = made_up.get(table, frozenset())
        wanted = _without(a.rows.get(table, Counter()), masked)
        made = _without(b.rows.get(table, Counter()), masked)
        if wanted == made:
            continue
        lost, new = list((wanted - made).elements()), list((made - wanted).elements())
        total, expected = made.total(), wanted.total()
        columns = _columns(lost, new)
        if total != expected:
            said = f"table {table}: {_many(total, 'row')}, {expected} expected"
        else:
            of = f" in {', '.join(columns)}" if columns else ""
            said = f"table {table}: {_many(len(new), 'row')} with other values{of}"
            said += _shown(lost, new, columns)
        yield Difference("rows", table, said, columns=columns)


def _without(rows: Counter[str], masked: frozenset[str]) -> Counter[str]:
    if not masked:
        return rows
    left: Counter[str] = Counter()
    for row, times in rows.items():
        kept = {k: v for k, v in _read(row).items() if k not in masked}
        left[orjson.dumps(kept).decode()] += times
    return left


def _columns(lost: list[str], new: list[str]) -> tuple[str, ...]:
    """In which columns rows differ, where one stands for another."""
    if len(lost) != len(new):
        return ()
    pairs = zip(map(_read, sorted(lost)), map(_read, sorted(new)), strict=True)
    return tuple(sorted({c for x, y in pairs for c in x.keys() | y.keys() if x.get(c) != y.get(c)}))


def _shown(lost: list[str], new: list[str], columns: tuple[str, ...]) -> str:
    if len(columns) != 1 or not lost:
        return ""
    x, y = _read(sorted(lost)[0])[columns[0]], _read(sorted(new)[0])[columns[0]]
    return f" ({_short(y)}, {_short(x)} expected)"


def _short(value: Any) -> str:
    said = value if isinstance(value, str) else orjson.dumps(value).decode()
    return said if len(said) <= 40 else said[:39] + "…"


def _read(row: str) -> dict[str, Any]:
    return orjson.loads(row)


def _files(a: State, b: State) -> Iterator[Difference]:
    for path in sorted(a.files.keys() | b.files.keys()):
        wanted, made = a.files.get(path), b.files.get(path)
        if wanted == made:
            continue
        writers = [r for r in b.records if r["what"] == "file" and r["detail"]["path"] == path]
        # A foreign call is made again in one window only, and says so.
        if writers and all(r["in_call"] for r in writers):
            continue
        started = [r for r in b.records if r["what"] == "process"]
        record = next(iter([*reversed(writers), *reversed(started)]), None)
        yield Difference("file", path, _file(path, wanted, made), record=record)


def _file(path: str, wanted: File | None, made: File | None) -> str:
    if made is None:
        return f"{path}: not there, and expected"
    if wanted is None:
        return f"{path}: there, and not expected"
    if made.lines is not None and wanted.lines is not None and made.lines != wanted.lines:
        return f"{path}: {_many(made.lines, 'line')}, {wanted.lines} expected"
    if made.text is not None and wanted.text is not None and made.lines == 1:
        return f"{path}: says {_short(made.text.strip())}, {_short(wanted.text.strip())} expected"
    if made.lines is not None and _sorted(made) == _sorted(wanted):
        return f"{path}: the same lines in another order"
    return f"{path}: other content than expected"


def _sorted(file: File | None) -> list[str]:
    return sorted(file.text.splitlines()) if file and file.text is not None else []


def _connects(a: State, b: State) -> Iterator[Difference]:
    def told(r: Record) -> bool:
        return r["what"] == "connect" and not r["in_call"] and r["detail"]["kind"] not in _ASKING

    yield from _more(a, b, told, _connected)


def _to(difference: Difference) -> str:
    return difference.record["detail"]["to"] if difference.record else ""


def _connected(record: Record, times: int, expected: int) -> Difference:
    kind, to = record["detail"]["kind"], record["detail"]["to"]
    done = {"smtp": "an e-mail was sent", "socket": "a connection was opened"}.get(
        kind, f"{kind.removeprefix('http ')} was sent"
    )
    said = f"{done} to {to}: {_times(times)} for one sample, {_times(expected)} expected"
    return Difference("connect", kind, said, record["uri"], record=record)


def _calls(a: State, b: State, after: Played) -> Iterator[Difference]:
    if after.world.failing == "aside":
        return  # a call that was undone is made again
    spared = sum(point.startswith(CALLED) for point in after.killed)
    for found in _more(a, b, lambda r: r["what"] == "call", _called):
        if spared:
            spared -= 1
            continue
        yield found


def _called(record: Record, times: int, expected: int) -> Difference:
    name = record["detail"]["name"]
    said = f"run.call({name!r}): made {_times(times)} for one sample, {_times(expected)} expected"
    return Difference("call", name, said, record["uri"], record=record)


def _more(
    a: State,
    b: State,
    told: Callable[[Record], bool],
    difference: Callable[[Record, int, int], Difference],
) -> Iterator[Difference]:
    """What was done more often for a sample than it is in the reference."""

    def key(r: Record) -> tuple[Any, ...]:
        named = r["detail"].get("name") or r["detail"].get("kind")
        return r["uri"], r["file"], r["line"], named

    expected = Counter(key(r) for r in a.records if told(r))
    got = [r for r in b.records if told(r)]
    last = {key(r): r for r in got}
    for at, times in Counter(map(key, got)).items():
        if times > expected[at]:
            yield difference(last[at], times, expected[at])


def made_up(a: State, b: State, declared: frozenset[str]) -> dict[str, frozenset[str]]:
    """Columns of undeclared tables that differ between two runs under the same conditions.

    SQL of an `apply` handler may say now(): it is said once, whatever happens before.
    """
    return {
        d.thing: frozenset(d.columns)
        for d in _rows(a, b, {})
        if d.columns and d.thing not in declared
    }


def _many(number: int, one: str) -> str:
    return f"{number:,} {one}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")
