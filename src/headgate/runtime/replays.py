"""Replays beside live work: their inputs become work in portions, when live work leaves room.

A lane whose last claim took all there was has room. The next portion is admitted while the lane
works on the last one. While something else comes in, portions are so small that a live change waits
for a few milliseconds of replayed work at most; otherwise they are as large as any batch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import datetime

from headgate.errors import LedgerUnavailable
from headgate.ledger import replay
from headgate.model.envelope import Envelope
from headgate.model.frozen import Pins, pins
from headgate.model.lookup import Lookup
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Noticed, Polled
from headgate.pg import Database
from headgate.sources.numbered import numbered
from headgate.sources.places import provider_of
from headgate.telemetry.log import get_logger

from . import lookups, station
from .lane import Lane

LOOK_SECONDS = 1.0
AGAIN_SECONDS = 0.05
# A live change waits for no more than so many replayed ones, nor for this share of what the lane
# can hold; and most wait for none, since the lane rests between two portions.
BESIDE_LIVE = 12
BESIDE_LIVE_SHARE = 0.05
REST_SECONDS = 0.05
LIVE_SECONDS = 2.0

log = get_logger("headgate.replay")


def pins_of(declared: Pipeline) -> Pins:
    """What the results of a pipeline depend on, as it is declared and found now."""
    return _pinned(declared, lookups.look(declared.lookups))


def _pinned(declared: Pipeline, found: Mapping[str, Lookup]) -> Pins:
    code, params = declared.code_digest(), declared.params_digest
    return pins(declared.version, code, params, station.declaration(declared, found))


class Replays:
    """The replays of one lane's pipeline."""

    def __init__(self, db: Database, lane: Lane, batch_max: int, wake: Callable[[], None]) -> None:
        self._db = db
        self._wake = wake
        self._batch_max = batch_max
        self._lane = lane
        self.pins = _pinned(lane.path.declared, lane.path.at.lookups).digest
        self._running = False
        self._look_at = self._feed_at = self._live_at = 0.0
        self._live = -1
        self._feeding: asyncio.Task[None] | None = None

    async def feed(self) -> None:
        """Have the next portion admitted, beside what goes on, if there is room for it."""
        now = asyncio.get_running_loop().time()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._running = await replay.running(self._db, self._lane.path.at.pipeline, self.pins)
        if not self._running or now < self._feed_at or not self._lane.drained:
            return
        if self._lane.path.slowed or (self._feeding is not None and not self._feeding.done()):
            return
        live = now - self._live_at <= LIVE_SECONDS
        most = self._portion(live=live)
        if self._lane.in_flight >= (1 if live else most):
            return
        if live:
            self._feed_at = now + REST_SECONDS
            asyncio.get_running_loop().call_later(REST_SECONDS, self._wake)
        self._feeding = asyncio.create_task(self._admit(most))

    def _portion(self, *, live: bool) -> int:
        holds = self._lane.room() + self._lane.in_flight
        if not live:
            return max(1, min(self._batch_max, holds))
        return max(1, min(BESIDE_LIVE, int(holds * BESIDE_LIVE_SHARE)))

    async def _admit(self, most: int) -> None:
        loop = asyncio.get_running_loop()
        try:
            made = await replay.advance(
                self._db, self._lane.path.at, self.pins, most, self._envelope
            )
        except LedgerUnavailable:
            self._look_at = loop.time() + LOOK_SECONDS
            return
        except Exception as error:
            log.warning("a replay cannot go on", why=str(error), hint=getattr(error, "hint", ""))
            self._feed_at = loop.time() + LOOK_SECONDS
            return
        if made is None:
            self._feed_at = loop.time() + AGAIN_SECONDS
            self._look_at = 0.0
            return
        if made.live != self._live:
            self._live_at = loop.time() if self._live >= 0 else 0.0
            self._live = made.live
        if made.admitted == 0:  # its rate says: not yet
            self._feed_at = loop.time() + AGAIN_SECONDS
            loop.call_later(AGAIN_SECONDS, self._wake)

    def _envelope(self, source: str, change: Noticed, generation: int, now: datetime) -> Envelope:
        declared = self._lane.path.declared.sources
        told = next((s for s in declared if s.name == source), None)
        if isinstance(told, Polled):
            return told.envelope(change, generation, now)
        provider = provider_of(change.uri)
        return numbered(change, generation, now, source="replay", provider=provider)

    def close(self) -> None:
        """Stop. A portion is admitted whole or not at all."""
        if self._feeding is not None:
            self._feeding.cancel()
