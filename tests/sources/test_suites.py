"""The public suites pass what is right and fail what is wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

import pytest

import headgate as hg
from headgate.errors import ObjectMissing, Unavailable
from headgate.model.envelope import Provider, Refused
from headgate.model.ports import Advance, Delivery
from headgate.testing.sources import (
    FollowedConformance,
    FollowedWorld,
    WiredConformance,
    WiredWorld,
)

_CHANCE = itertools.count(1)


class Journal:
    """A numbered journal that is followed; `fault` says what it does wrong."""

    name = "journal"
    provider: Provider = "http"

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.last = 0
        self.away = False

    def check(self) -> None: ...

    def owns(self, uri: str) -> bool:
        return False

    def fetch(self, envelope: hg.Envelope) -> Iterable[bytes]:
        raise ObjectMissing(envelope.uri)

    async def follow(self, checkpoint: str | None) -> AsyncGenerator[Advance | None]:
        at = int(checkpoint or 0)
        if self.fault == "begins at the end":
            at = self.last
        while True:
            if self.away:
                if self.fault != "hides its outage":
                    raise Unavailable("the journal is away")
            elif at < self.last:
                upto = min(at + 3, self.last)
                told = [self.envelope(n) for n in range(at + 1, upto + 1)]
                if self.fault == "marks too early":
                    yield Advance(told[:1], str(upto))
                    yield Advance(told[1:], str(upto))
                else:
                    yield Advance(told, "0" if self.fault == "never marks" else str(upto))
                at = upto
                continue
            if self.fault != "never quiet":
                yield None
            await asyncio.sleep(0.001)

    def envelope(self, number: int) -> hg.Envelope:
        same = self.fault == "one key for all"
        event = str(next(_CHANCE)) if self.fault == "keys by chance" else str(number)
        return hg.Envelope(
            event_id="1" if same else event,
            source="journal:entry",
            provider="http",
            detector="event",
            uri=f"journal://{1 if same else number}",
            event_time=datetime(2026, 1, 5, tzinfo=UTC),
            received_at=datetime(2026, 1, 5, tzinfo=UTC),
            data=b"x",
        )


class JournalWorld:
    def __init__(self, fault: str = "") -> None:
        self.source = Journal(fault)

    def happen(self, times: int) -> None:
        self.source.last += times

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.source.away = True
        yield
        self.source.away = False


class TestJournal(FollowedConformance):
    @pytest.fixture
    def world(self) -> FollowedWorld:
        return JournalWorld()


class Post:
    """A queue of JSON messages; `fault` says what it does wrong."""

    name = "post"
    provider: Provider = "webhook"
    queue = "post"
    dead_letters: str | None = None
    ack: Literal["admitted", "finalized"] = "admitted"

    def __init__(self, fault: str = "") -> None:
        self.fault = fault

    def check(self) -> None: ...

    def owns(self, uri: str) -> bool:
        return False

    def fetch(self, envelope: hg.Envelope) -> Iterable[bytes]:
        raise ObjectMissing(envelope.uri)

    def read(self, delivery: Delivery, received_at: datetime) -> Sequence[hg.Envelope | Refused]:
        try:
            told = json.loads(delivery.body)
            uri, number = f"post://{told['name']}", str(told["number"])
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            if self.fault == "raises":
                raise
            return [Refused("not_ours", "", str(error), delivery.body)]
        made_of = {"a key by delivery": delivery.handle, "a key by name": "1"}
        return [
            hg.Envelope(
                event_id=made_of.get(self.fault, number),
                source="post:sent",
                provider="webhook",
                detector="event",
                uri=uri,
                event_time=received_at,
                received_at=received_at,
            )
        ]


class PostWorld:
    def __init__(self, fault: str = "") -> None:
        self.source = Post(fault)
        self.sent = 0

    def message(self, name: str) -> Delivery:
        self.sent += 1
        body = json.dumps({"name": name, "number": self.sent}).encode()
        return Delivery(str(self.sent), body, f"handle-{self.sent}")


class TestPost(WiredConformance):
    @pytest.fixture
    def world(self) -> WiredWorld:
        return PostWorld()


def failures(suite: object, world: Callable[[], Any]) -> list[str]:
    """The tests of a suite that a world does not pass."""
    failed: list[str] = []
    for name in [name for name in dir(suite) if name.startswith("test_")]:
        try:
            getattr(suite, name)(world())
        except (Exception, asyncio.CancelledError):
            failed.append(name)
    return failed


@pytest.mark.parametrize(
    "fault",
    [
        "begins at the end",
        "hides its outage",
        "marks too early",
        "never marks",
        "never quiet",
        "one key for all",
        "keys by chance",
    ],
)
def test_a_followed_source_that_does_it_wrong_fails(
    fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever would lose or double something is found before it is used."""
    monkeypatch.setattr("headgate.testing.followed.WITHIN_SECONDS", 0.2)
    assert failures(FollowedConformance(), lambda: JournalWorld(fault))


@pytest.mark.parametrize("fault", ["raises", "a key by delivery", "a key by name"])
def test_a_wired_source_that_does_it_wrong_fails(fault: str) -> None:
    """A source that trusts its queue is found out."""
    assert failures(WiredConformance(), lambda: PostWorld(fault))
