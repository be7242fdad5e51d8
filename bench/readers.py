"""What 200 readers of the change feed cost ingestion, and how soon they see a change.

The common job runs at full speed without them and with them, in turn, until it ran with them for a
minute; each time in an empty database. The server and all readers are on this machine too, and take
their share of its cores. Then changes come at a steady pace, and each reader's delay is from the
commit to the bytes in its hands. Every reader checks that it sees the feed in order, and nothing
twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from time import time
from typing import Any

from headgate.ledger import token as tokens
from headgate.ledger.changes import BEGINNING, Cursor
from headgate.pg import Database
from headgate.runtime import loop
from headgate.server import listen
from headgate.server.app import make_app
from headgate.server.doors import open_doors

from . import gate, latency, processes
from .job import events, ids
from .latency import percentile
from .processes import SERVER, Failed
from .result import Figure
from .server import Place

READERS = 200
SECONDS = 60.0
START_SECONDS = 60.0
STEADY_SECONDS = 20.0
DELAY_EVERY = 10


class _Nowhere:
    async def get(self, url: str, *, trusted: bool = False, most_bytes: int = 1 << 20) -> bytes:
        raise NotImplementedError


async def _serve(url: str, out: Any) -> None:
    async with await Database.open(url, max_size=8) as db:
        serving = await open_doors(db, [], _Nowhere(), max_bytes=1 << 16, rate_per_second=1e6)
        token = (await tokens.make(db, "bench", "viewer", 3600)).token
        listening = listen.bind("127.0.0.1", 0)
        out.put((listening.getsockname()[1], token))
        await listen.serve(make_app(serving), listening, asyncio.Event())


def server(url: str, out: Any) -> None:
    """The serving process, until it is ended."""
    loop.run(lambda: _serve(url, out))


@dataclass(slots=True)
class Seen:
    """What one reader saw."""

    changes: int = 0
    last: Cursor = BEGINNING
    delays: list[float] = field(default_factory=list[float])


async def _read(port: int, token: str, seen: Seen) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    head = f"GET /v1/changes/stream HTTP/1.0\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\n\n")
    rest = b""
    while data := await reader.read(1 << 20):
        whole, _, rest = (rest + data).rpartition(b"\n\n")
        told = _EVENT.findall(whole)
        for id in told:
            place = Cursor.parse(id.decode())
            if place <= seen.last:
                raise Failed(f"{place} was told after {seen.last}")
            seen.last = place
        if told and not seen.changes % DELAY_EVERY:
            seen.delays.append(time() - _moment(whole))
        seen.changes += len(told)


_EVENT = re.compile(rb"^id: (\S+)\nevent: change$", re.MULTILINE)
_AT = re.compile(rb'"at":"([^"]+)"')


def _moment(events: bytes) -> float:
    """When the first of them was committed."""
    found = _AT.search(events)
    assert found is not None
    return datetime.fromisoformat(found[1].decode()).timestamp()


async def _follow(port: int, token: str, many: int, over: Any, expected: Any, out: Any) -> None:
    seen = [Seen() for _ in range(many)]
    following = [asyncio.create_task(_read(port, token, one)) for one in seen]
    await asyncio.sleep(1)
    out.put("reading")
    patience = None
    while not over.is_set() or min(s.changes for s in seen) < expected.value:
        for task in following:
            if task.done():
                task.result()
                raise Failed("a stream ended")
        if over.is_set():
            patience = patience or time() + START_SECONDS
            if time() > patience:
                break
        await asyncio.sleep(0.2)
    delays = sorted(delay for one in seen for delay in one.delays)
    out.put((min(s.changes for s in seen), max(s.changes for s in seen), delays))


def readers(port: int, token: str, many: int, over: Any, expected: Any, out: Any) -> None:
    """The reading process: until it is over, and everybody has seen what is expected."""
    try:
        loop.run(lambda: _follow(port, token, many, over, expected, out))
    except BaseException as error:
        out.put(f"{type(error).__name__}: {error}")
        raise


@contextmanager
def followed(url: str, many: int) -> Iterator[Callable[[int], tuple[int, int, list[float]]]]:
    """A server, and so many who follow it. Handed out is how to end it: what they saw.

    It waits until everybody has seen so many changes, or for a minute.
    """
    out, place, over = SERVER.Queue(), SERVER.Queue(), SERVER.Event()
    expected = SERVER.Value("q", 0)
    serving = SERVER.Process(target=server, args=(url, place), daemon=True)
    serving.start()
    port, token = place.get(timeout=START_SECONDS)
    reading = SERVER.Process(
        target=readers, args=(port, token, many, over, expected, out), daemon=True
    )
    reading.start()

    def end(changes: int) -> tuple[int, int, list[float]]:
        expected.value = changes
        over.set()
        told = out.get(timeout=2 * START_SECONDS)
        if isinstance(told, str):
            raise Failed(f"a reader failed: {told}")
        return told

    try:
        if (begun := out.get(timeout=START_SECONDS)) != "reading":
            raise Failed(f"a reader failed: {begun}")
        yield end
    finally:
        for child in (reading, serving):
            child.kill()
            child.join()


def _alone(place: Place, n: int) -> float:
    out = gate.end_to_end(loop.run(place.fresh), "rows", place.folder, n)
    return n / out.seconds


def _with_readers(place: Place, n: int, many: int) -> tuple[float, float, int]:
    """Deliveries a second, how long it took, and how many changes the slowest reader saw."""
    url = loop.run(place.fresh)
    loop.run(lambda: gate.prepare(url, "rows", place.folder))
    with followed(url, many) as end:
        done = gate.through(url, "rows", place.folder, n)
        least, _, _ = end(0)
    if done.count.lost or done.count.double:
        raise Failed("the job is not valid")
    return n / done.seconds, done.seconds, least


def cost(place: Place, n: int, many: int = READERS, seconds: float = SECONDS) -> Figure:
    """The share of the job's pace that readers take: each go beside those before and after it."""
    alone, costs, paces, told = [_alone(place, n)], list[float](), list[float](), list[float]()
    passed = 0.0
    while passed < seconds:
        pace, took, least = _with_readers(place, n, many)
        alone.append(_alone(place, n))
        costs.append(1 - pace / ((alone[-2] + alone[-1]) / 2))
        paces.append(pace)
        told.append(least / took)
        passed += took
    how = (
        f"declared rows at full speed, {many} readers of /v1/changes/stream, {passed:.0f} s in "
        f"{len(costs)} goes: {median(paces):.0f} deliveries/s, {median(alone):.0f} without them; "
        f"each reader saw {min(told):.0f} changes/s or more"
    )
    return Figure("readers_cost", round(max(0.0, median(costs)), 3), "×", how)


def delay(place: Place, n: int, many: int = READERS) -> list[Figure]:
    """How soon readers see a change, at a steady pace."""
    url = loop.run(place.fresh)
    loop.run(lambda: gate.prepare(url, "rows", place.folder))
    with followed(url, many) as end:
        mains: dict[str, tuple[processes.Main, tuple[object, ...]]] = {
            "receiver": (latency.receiver, (url, place.folder, n)),
            "worker": (latency.worker, (url, place.folder)),
        }
        processes.run(mains, gate.TIMEOUT_SECONDS)
        new = len(ids(events(n, "l")))
        least, most, delays = end(new)
    if (least, most) != (new, new):
        raise Failed(f"readers saw {least} to {most} of {new} changes")
    how = f"{many} readers, {new} changes, {latency.PER_SECOND:g} a second; commit to reader"
    return [
        Figure(f"readers_delay_p{share}", round(percentile(delays, share / 100) * 1e3), "ms", how)
        for share in (50, 95)
    ]


def figures(place: Place, n: int) -> list[Figure]:
    """Both."""
    steady = round(min(n, STEADY_SECONDS * latency.PER_SECOND))
    return [cost(place, n), *delay(place, steady)]
