"""The live channel of the console, `/live`: what moves on its pages, as server-sent events.

    flow      a pipeline's figures: a `StreamNow` of ledger/flow.py, as JSON. One for each pipeline
              when the stream begins, then at most once a second for those whose figures changed.
    change    a change has ended: `cursor`, `entry`, `run`, `pipeline`, `dataset`, `outcome`,
              `reason`, `source_uri`, `version`, `removed`, `at`. Of many in a second, the last 20.
    redrive   a plan moved: `id`, `state`, `held`, `waits`, `pipelines`, `total`, `released`,
              `passed`, `failed`, `gone`, `live`, `left`, `left_seconds`, `ended_why`.
    replay    a replay moved: `id`, `pipeline`, `mode`, `state`, `inputs`, `done`,
              `per_second_so_far`, `eta_seconds`.
    ledger    `{"away": "…"}` when the ledger is away, `{"away": ""}` when it is back.

Data is JSON on one line, never HTML. Nothing is promised but what is true now: whoever must see
every change follows `/v1/changes/stream`. One look a second serves all pages that are open.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Request, Response

from headgate.errors import LedgerUnavailable
from headgate.ledger import flow, redrive, replays
from headgate.ledger.changes import Change
from headgate.model.redrive import HELD
from headgate.model.role import Principal
from headgate.pg import Database
from headgate.telemetry.log import get_logger

from .access import REFUSALS, needs
from .doors import Serving
from .feed import HEARTBEAT_SECONDS, MEDIA_TYPE, STREAM_SECONDS, EventStream, Feed, comment, event
from .problem import documented

log = get_logger("headgate.serve")
router = APIRouter()

TICK_SECONDS = 1.0
CHANGES_MOST = 20
PLANS_MOST = 20
# These go on by themselves while nothing happens.
_CLOCKS = ("lag_seconds", "oldest_seconds")


@dataclass(frozen=True, slots=True)
class Seen:
    """Something on the pages, as it was told last: by which look, about whom."""

    look: int
    pipelines: frozenset[str]
    compared: bytes
    told: bytes


class Live:
    """What the pages show, looked at once a second for all of them."""

    def __init__(self, serving: Serving, feed: Feed) -> None:
        self.feed = feed
        self._db = serving.db
        self._seen: dict[str, Seen] = {}
        self._look = 0
        self._readers = 0
        self._looking: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()

    async def follow(self, by: Principal) -> AsyncGenerator[bytes]:
        """What they may see of it, as it moves; then a heartbeat now and then."""
        loop = asyncio.get_running_loop()
        ends, silent = loop.time() + STREAM_SECONDS, loop.time()
        place, look, away = self.feed.lately(None, 0)[1], 0, ""
        yield b"retry: 2000\n" + comment("what moves")
        with self.feed.reading(), self._reading():
            while loop.time() < ends and not self.feed.closed:
                moved = self._moved
                told, look = list(self._since(look, by)), self._look
                changes, place = self.feed.lately(place, CHANGES_MOST)
                told += [as_event(c, by.sees_restricted) for c in changes if by.sees(c.pipeline)]
                if self.feed.away != away:
                    away = self.feed.away
                    told.append(event("ledger", None, orjson.dumps({"away": away})))
                if told:
                    silent = loop.time()
                    yield b"".join(told)
                elif loop.time() - silent >= HEARTBEAT_SECONDS:
                    silent = loop.time()
                    yield comment("nothing new")
                with suppress(TimeoutError):
                    async with asyncio.timeout(2 * TICK_SECONDS):
                        await moved.wait()

    def _since(self, look: int, by: Principal) -> Iterator[bytes]:
        for seen in self._seen.values():
            if seen.look > look and all(by.sees(name) for name in seen.pipelines):
                yield seen.told

    @contextmanager
    def _reading(self) -> Generator[None]:
        self._readers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._keep_looking())
        try:
            yield
        finally:
            self._readers -= 1
            if not self._readers:
                self._looking.cancel()
                self._looking = None
                self._seen.clear()

    async def _keep_looking(self) -> None:
        while True:
            try:
                await self._look_once()
            except LedgerUnavailable:
                pass  # the feed says so
            except Exception as error:
                log.error("the live channel failed", why=f"{type(error).__name__}: {error}")
            moved, self._moved = self._moved, asyncio.Event()
            moved.set()
            await asyncio.sleep(TICK_SECONDS)

    async def _look_once(self) -> None:
        """See what is another than at the last look."""
        found = [shown async for shown in _shown(self._db)]
        self._look += 1
        for kind, name, pipelines, document in found:
            steady = {k: v for k, v in document.items() if k not in _CLOCKS}
            compared, before = orjson.dumps(steady), self._seen.get(f"{kind} {name}")
            if before is None or before.compared != compared:
                told = event(kind, None, orjson.dumps(document))
                seen = Seen(self._look, frozenset(pipelines), compared, told)
                self._seen[f"{kind} {name}"] = seen


async def _shown(db: Database) -> AsyncGenerator[tuple[str, str, Iterable[str], dict[str, Any]]]:
    """What is on the pages: kind, name, whose, and what is said of it."""
    for stream in await flow.now(db):
        yield "flow", stream.pipeline, [stream.pipeline], asdict(stream)
    for plan in await redrive.redrives(db, limit=PLANS_MOST):
        yield "redrive", str(plan.id), plan.pipelines, _plan(plan)
    for one in await replays.replays(db, limit=PLANS_MOST):
        yield "replay", str(one.id), [one.pipeline], _replay(one)


def _plan(plan: redrive.Redrive) -> dict[str, Any]:
    p = plan.progress
    return {
        "id": plan.id,
        "state": plan.state,
        "held": plan.held,
        "waits": None if plan.held is None else HELD[plan.held],
        "pipelines": plan.pipelines,
        "total": p.total,
        "released": p.released,
        "passed": p.passed,
        "failed": p.failed,
        "gone": p.gone,
        "live": p.live,
        "left": p.left,
        "left_seconds": plan.left_seconds,
        "ended_why": plan.ended_why,
    }


def _replay(one: replays.Standing) -> dict[str, Any]:
    return {
        "id": one.id,
        "pipeline": one.pipeline,
        "mode": one.mode,
        "state": one.state,
        "inputs": one.inputs,
        "done": one.done,
        "per_second_so_far": one.per_second_so_far,
        "eta_seconds": one.eta_seconds,
    }


def as_event(change: Change, sees_restricted: bool) -> bytes:
    """A change as the pages show it."""
    hidden = not sees_restricted and change.access not in (None, "public")
    document = {
        "cursor": str(change.cursor),
        "entry": change.entry,
        "run": change.run,
        "pipeline": change.pipeline,
        "dataset": change.dataset,
        "outcome": change.outcome,
        "reason": change.reason,
        "source_uri": "restricted" if hidden else change.source_uri,
        "version": change.version,
        "removed": change.removed,
        "at": change.at,
    }
    return event("change", change.cursor, orjson.dumps(document))


@router.get(
    "/live",
    summary="What moves on the console's pages, as server-sent events",
    response_class=EventStream,
    responses={
        200: {
            "description": "Events `flow`, `change`, `redrive`, `replay`, `ledger`.",
            "content": {MEDIA_TYPE: {"schema": {"type": "string"}}},
        },
        **documented(*REFUSALS, "too_many_requests"),
    },
)
async def live(request: Request, by: Annotated[Principal, Depends(needs("viewer"))]) -> Response:
    """For pages that are open. It says what is true now; nothing is repeated for who was away."""
    channel: Live = request.app.state.live
    channel.feed.admit()
    return EventStream(channel.follow(by))
