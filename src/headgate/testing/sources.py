"""What every source must do. One suite for each way of telling, for ours and for yours:

import pytest
from headgate.testing.sources import SourceConformance

class TestMySource(SourceConformance):
    @pytest.fixture
    def world(self, tmp_path):
        return MyWorld(tmp_path)          # see `World`

`SourceConformance` is for polled sources, `FollowedConformance` for followed and `WiredConformance`
for wired ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

from headgate.errors import ObjectMissing, Unavailable
from headgate.model.envelope import Envelope
from headgate.model.identity import change_key
from headgate.model.ports import Known, Listable, Noticed, Polled

from .expect import raised
from .followed import FollowedConformance, FollowedWorld
from .wired import WiredConformance, WiredWorld

__all__ = [
    "FollowedConformance",
    "FollowedWorld",
    "Memory",
    "SourceConformance",
    "WiredConformance",
    "WiredWorld",
    "World",
]

RECEIVED_AT = datetime(2024, 5, 1, 12, tzinfo=UTC)


class World(Protocol):
    """The other side of a source: what is there, and how to change it. It starts empty."""

    @property
    def source(self) -> Polled:
        """The source under test; always the same one."""
        ...

    def put(self, name: str, content: bytes) -> str:
        """Make or replace an object; its uri. It counts as finished at once."""
        ...

    def remove(self, name: str) -> None:
        """Take an object away."""
        ...

    def now(self) -> datetime:
        """A time at which everything that was put has settled."""
        ...

    def outage(self) -> AbstractContextManager[None]:
        """While it lasts, the source cannot list what it has."""
        ...


class Memory:
    """What the ledger remembers, played by a dictionary: numbers changes by compare-and-swap."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.known: dict[str, Known] = {}

    def scan(self) -> list[Noticed]:
        """Look, and admit everything that was noticed."""
        changes = self.world.source.scan(dict(self.known), self.world.now()).changes
        for change in changes:
            assert self.generation(change.uri) == change.expected
            removed = change.kind == "removed"
            self.known[change.uri] = Known(change.hint, change.expected + 1, removed)
        return changes

    def generation(self, uri: str) -> int:
        """How often the uri has changed so far."""
        known = self.known.get(uri)
        return known.generation if known is not None else 0

    def envelopes(self) -> list[Envelope]:
        """Look, and turn what was admitted into envelopes."""
        source = self.world.source
        return [source.envelope(c, self.generation(c.uri), RECEIVED_AT) for c in self.scan()]


def told(changes: Sequence[Noticed]) -> set[tuple[str, str]]:
    """What was said about which uri."""
    assert len({change.uri for change in changes}) == len(changes)
    return {(change.kind, change.uri) for change in changes}


class SourceConformance:
    """Subclass it, name it `Test…`, and give it a fixture `world`."""

    def test_a_working_source_passes_its_own_check(self, world: World) -> None:
        """A source that is declared well has nothing to complain about, and a name and a pace."""
        world.source.check()
        assert world.source.name
        assert world.source.every_seconds > 0

    def test_an_object_is_told_once(self, world: World) -> None:
        """What appears is told; what stays as it is, is not told again."""
        memory = Memory(world)
        assert memory.scan() == []
        uris = {world.put("a.csv", b"1"), world.put("deep/b.csv", b"2")}
        assert told(memory.scan()) == {("created", uri) for uri in uris}
        assert memory.scan() == []

    def test_looking_twice_without_admitting_says_the_same(self, world: World) -> None:
        """A scan whose changes were never committed loses nothing: the next one says them again."""
        world.put("a.csv", b"1")
        world.put("b.csv", b"2")
        now = world.now()
        first = world.source.scan({}, now).changes
        assert len(first) == 2
        assert world.source.scan({}, now).changes == first

    def test_each_change_of_a_uri_is_a_change_of_its_own(self, world: World) -> None:
        """A → B → A is three changes with three keys."""
        memory, keys = Memory(world), set[bytes]()
        for content in (b"A", b"BB", b"A"):
            world.put("a.csv", content)
            (envelope,) = memory.envelopes()
            keys.add(change_key(envelope))
            assert b"".join(world.source.fetch(envelope)) == content
        assert len(keys) == 3

    def test_what_vanished_is_told_once_and_may_return(self, world: World) -> None:
        """A removed object is told as removed, once; when it returns it is new again."""
        memory = Memory(world)
        uri, other = world.put("a.csv", b"1"), world.put("b.csv", b"2")
        memory.scan()
        world.remove("a.csv")
        assert told(memory.scan()) == {("removed", uri)}
        assert memory.scan() == []
        world.put("a.csv", b"1")
        assert told(memory.scan()) == {("created", uri)}
        assert memory.generation(uri) == 3
        assert memory.generation(other) == 1

    def test_a_whole_listing_says_what_a_first_look_would(self, world: World) -> None:
        """Where a source can be listed: all of it, as if nothing were known; or an error."""
        source = world.source
        if not isinstance(source, Listable):
            return
        assert list(source.everything(world.now())) == []
        uris = {world.put("a.csv", b"1"), world.put("deep/b.csv", b"2")}
        now = world.now()
        shown = [one.change for one in source.everything(now)]
        assert {change.uri for change in shown} == uris
        looked = source.scan({}, now).changes
        assert sorted(shown, key=lambda c: c.uri) == sorted(looked, key=lambda c: c.uri)
        assert all(source.covers(uri) is not False for uri in uris)
        assert not source.covers("s3://elsewhere/a.csv")
        with world.outage():
            raised(Unavailable, lambda: list(source.everything(world.now())))

    def test_an_outage_deletes_nothing(self, world: World) -> None:
        """A source that cannot be listed is unavailable; afterwards everything is still there."""
        memory = Memory(world)
        world.put("a.csv", b"1")
        memory.scan()
        with world.outage():
            raised(Unavailable, lambda: world.source.scan(memory.known, world.now()))
        assert memory.scan() == []

    def test_envelopes_say_where_they_come_from(self, world: World) -> None:
        """Uri, kind, time and generation are in the envelope, for arrivals and for removals."""
        memory = Memory(world)
        uri = world.put("a.csv", b"12345")
        (created,) = memory.envelopes()
        assert (created.uri, created.kind, created.size) == (uri, "created", 5)
        assert created.received_at == RECEIVED_AT
        world.remove("a.csv")
        (removed,) = memory.envelopes()
        assert (removed.uri, removed.kind, removed.generation) == (uri, "removed", 2)
        assert created.event_id != removed.event_id
        assert (created.sequence or "") < (removed.sequence or "")

    def test_a_source_reads_its_own_objects_and_no_others(self, world: World) -> None:
        """`owns` is true of what it told us about, and not of what lies elsewhere."""
        world.put("a.csv", b"1")
        (envelope,) = Memory(world).envelopes()
        assert world.source.owns(envelope.uri)
        for uri in ("s3://elsewhere/a.csv", "file:///elsewhere/a.csv", "a.csv", ""):
            assert not world.source.owns(uri)

    def test_bytes_come_in_chunks_as_they_are_now(self, world: World) -> None:
        """A large object is streamed, and every chunk may be held on to."""
        content = b"".join(n.to_bytes(4, "big") * 1000 for n in range(700))
        world.put("large.bin", content)
        (envelope,) = Memory(world).envelopes()
        chunks = list(world.source.fetch(envelope))
        assert max(map(len, chunks)) <= 1 << 20
        assert b"".join(chunks) == content

    def test_a_missing_object_is_missing(self, world: World) -> None:
        """An object that went between the telling and the reading is `ObjectMissing`."""
        world.put("a.csv", b"1")
        (envelope,) = Memory(world).envelopes()
        world.remove("a.csv")
        raised(ObjectMissing, lambda: list(world.source.fetch(envelope)))
