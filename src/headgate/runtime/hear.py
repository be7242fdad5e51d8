"""Hear: one listener for each source of a pipeline, by the way the source tells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from headgate.ledger.inbox import Registered
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Followed, Polled, Wired
from headgate.pg import Database

from .dead_letters import DeadLetters
from .drain import Drain
from .follow import Follower
from .intake import Quiet
from .tuning import Tuning
from .watch import Watcher


class Listener(Protocol):
    """Hears one source, for ever. `quiet` says whether it had anything to tell lately."""

    quiet: Quiet

    async def run(self, told: Callable[[], None] = ...) -> None: ...


def listeners(
    db: Database, pipeline: Pipeline, to: Registered, tuning: Tuning
) -> Sequence[Listener]:
    """A listener for each source that has to be listened to."""
    heard: list[Listener] = []
    for source in pipeline.sources:
        if isinstance(source, Polled):
            heard.append(Watcher(db, to, source))
        elif isinstance(source, Followed):
            heard.append(Follower(db, to, source))
        elif isinstance(source, Wired):
            heard.append(Drain(db, to, source, tuning))
            if source.dead_letters is not None:
                heard.append(DeadLetters(db, to, source, source.dead_letters))
    return heard
