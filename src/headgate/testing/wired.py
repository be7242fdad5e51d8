"""What every wired source must do with the messages of its queue.

class TestMyEvents(WiredConformance):
    @pytest.fixture
    def world(self):
        return MyMessages()           # see `WiredWorld`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from headgate.model.envelope import Envelope, Refused
from headgate.model.identity import change_key, fingerprint
from headgate.model.ports import Delivery, Wired

RECEIVED_AT = datetime(2024, 5, 1, 12, tzinfo=UTC)
# What may lie in a queue: nothing, no text, no JSON, JSON of another kind, JSON made to hurt.
JUNK = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"null",
    b"true",
    b"17",
    b'"text"',
    b"[]",
    b"{}",
    b"[{}]",
    b'{"Records": null}',
    b'{"Records": [null, 1, [], {}]}',
    b'{"a": NaN}',
    b'{"a": 1e400}',
    b'{"a": ' + b"9" * 5000 + b"}",
    b"[" * 10_000,
    b'{"a": "\\ud800"}',
    b'{"a": 1, "a": 2}',
)


class WiredWorld(Protocol):
    """The sender of a wired source."""

    @property
    def source(self) -> Wired:
        """The source under test."""
        ...

    def message(self, name: str) -> Delivery:
        """A delivery that tells of a new object; each call is a message of its own."""
        ...


def read(source: Wired, delivery: Delivery, later: int = 0) -> list[Envelope]:
    """What a delivery of the world tells; it is all readable."""
    told = source.read(delivery, RECEIVED_AT + timedelta(seconds=later))
    assert all(isinstance(one, Envelope) for one in told), told
    return [one for one in told if isinstance(one, Envelope)]


def known_by(told: Sequence[Envelope]) -> list[tuple[bytes, int]]:
    """What the ledger knows deliveries by: their key, and what a repetition must repeat."""
    return [(change_key(envelope), fingerprint(envelope)) for envelope in told]


class WiredConformance:
    """Subclass it, name it `Test…`, and give it a fixture `world`."""

    def test_a_message_tells_of_its_object(self, world: WiredWorld) -> None:
        """It becomes at least one envelope, that says when we heard."""
        assert world.source.name
        assert world.source.queue
        told = read(world.source, world.message("a.csv"))
        assert told
        assert {envelope.received_at for envelope in told} == {RECEIVED_AT}

    def test_the_same_message_again_is_the_same_change(self, world: WiredWorld) -> None:
        """A queue delivers at least once: another delivery has the same keys."""
        delivery = world.message("a.csv")
        again = replace(delivery, handle=f"{delivery.handle}-again", times=delivery.times + 1)
        first = known_by(read(world.source, delivery))
        assert known_by(read(world.source, again, later=60)) == first

    def test_another_message_is_another_change(self, world: WiredWorld) -> None:
        """Of another object, and of the same one once more."""
        messages = [world.message(name) for name in ("a.csv", "b.csv", "a.csv")]
        keys = {key for message in messages for key in known_by(read(world.source, message))}
        assert len(keys) >= 3

    def test_whatever_is_in_the_queue_is_read_or_refused(self, world: WiredWorld) -> None:
        """No message raises, and what cannot be read keeps its bytes and has a reason."""
        whole = world.message("a.csv")
        halves = [whole.body[:n] for n in range(0, len(whole.body), max(len(whole.body) // 50, 1))]
        for body in (*JUNK, *halves):
            for one in world.source.read(replace(whole, body=body), RECEIVED_AT):
                if isinstance(one, Refused):
                    assert one.reason
                    assert isinstance(one.raw, bytes)
