"""What is no fault and worth knowing: seen in the worlds, and said in a line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .acting import CALLED
from .compare import Spared
from .play import Played
from .state import Record


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reader may want to know. A quiet one is only told when asked for."""

    said: str
    quiet: bool = False


def notes(before: Played, ends: Sequence[Played], spared: Spared) -> list[Note]:
    """All of them, the important ones first."""
    records = before.state.records
    return [
        *_set_aside(before),
        *_calls(ends),
        *_refused(records),
        *_asked(records),
        *_started(records),
        *_own_connections(before),
        *_files(records),
        *(
            Note(
                f"{table}: {', '.join(sorted(c))} come from the server and were not compared", True
            )
            for table, c in spared.columns.items()
        ),
    ]


def _set_aside(before: Played) -> Iterator[Note]:
    for uri, ending in before.state.endings.items():
        if ending.outcome == "quarantined":
            name = uri.rpartition("/")[2]
            raised = [r for r in before.state.records if r["what"] == "raised" and r["uri"] == uri]
            at = f" ({_at(raised[-1])})" if raised and raised[-1]["line"] else ""
            yield Note(f"{name} is set aside: {ending.error or ending.reason}{at}")


def _calls(ends: Sequence[Played]) -> Iterator[Note]:
    """The one window in which a call is made again."""
    again = {
        r["detail"]["name"]
        for end in ends
        if any(point.startswith(CALLED) for point in end.killed)
        for r in end.state.records
        if r["what"] == "call"
    }
    for name in sorted(again):
        yield Note(
            f"run.call({name!r}) is made again, with the same key, if the process dies after the "
            "call and before its record: the other side must know the key"
        )


def _refused(records: Sequence[Record]) -> Iterator[Note]:
    for r in _by_line(r for r in records if r["what"] == "connect" and r["detail"].get("refused")):
        yield Note(f"{_at(r)}: {r['detail']['to']} was not reached: allow it with --network")


def _asked(records: Sequence[Record]) -> Iterator[Note]:
    for r in _by_line(
        r
        for r in records
        if r["what"] == "connect" and not r["in_call"] and r["detail"]["kind"] == "http GET"
    ):
        yield Note(f"{_at(r)}: asks {r['detail']['to']}; its answer may be another one on a retry")


def _started(records: Sequence[Record]) -> Iterator[Note]:
    for r in _by_line(r for r in records if r["what"] == "process"):
        yield Note(f"{_at(r)}: starts {str(r['detail']['command'])[:60]}", True)


def _own_connections(before: Played) -> Iterator[Note]:
    for r in _by_line(r for r in before.state.records if r["what"] == "database"):
        yield Note(f"{_at(r)}: opens a connection of its own", True)


def _files(records: Sequence[Record]) -> Iterator[Note]:
    for r in _by_line(r for r in records if r["what"] == "file" and r["handler"]):
        yield Note(f"{_at(r)}: writes {r['detail']['path']} itself", True)


def _by_line(records: Iterator[Record]) -> list[Record]:
    return list({(r["file"], r["line"]): r for r in records}.values())


def _at(record: Record) -> str:
    return f"{record['file']}:{record['line']}" if record["line"] else "before any handler"
