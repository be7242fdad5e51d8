"""A source of the user's own: what a function says, compared; what goes wrong, named."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

import headgate as hg
from headgate.errors import ObjectMissing, PipelineError, Unavailable
from headgate.model.ports import Known, Noticed, Polled
from headgate.sources.own import OwnSource, SourceFunction
from headgate.testing.sources import SourceConformance, World

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Shelf:
    """Objects in a dictionary, and a function that lists them."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[int, bytes]] = {}
        self.closed = False
        self.numbers = 0
        shelf = hg.Pipeline("shelf")

        @shelf.source(every="1h", complete=True, shrink_limit=1)
        def things() -> Iterator[hg.Change]:
            if self.closed:
                raise ConnectionError("closed")
            for name, (version, content) in self.objects.items():
                yield hg.Change(f"shelf://{name}", version=version, size=len(content))

        @things.fetch
        def read(change: hg.Change) -> Iterator[bytes]:
            try:
                content = self.objects[change.uri.removeprefix("shelf://")][1]
            except KeyError:
                raise ObjectMissing(change.uri) from None
            yield content

        self.source = things.source
        things.source.prefix = "shelf://"

    def put(self, name: str, content: bytes) -> str:
        self.numbers += 1
        self.objects[name] = (self.numbers, content)
        return f"shelf://{name}"

    def remove(self, name: str) -> None:
        del self.objects[name]

    def now(self) -> datetime:
        return NOW

    @contextmanager
    def outage(self) -> Iterator[None]:
        self.closed = True
        yield
        self.closed = False


class TestOwnSource(SourceConformance):
    @pytest.fixture
    def world(self) -> World:
        return Shelf()


def own(function: Callable[[], Any], **declared: Any) -> OwnSource:
    return hg.Pipeline("p").source(**{"every": "1h", **declared})(function).source


def look(source: OwnSource, **known: str) -> list[Noticed]:
    """One look, where these uris are known in these versions."""
    return source.scan({uri: Known(hint, 1) for uri, hint in known.items()}, NOW).changes


def test_all_kinds_of_functions_may_list() -> None:
    """Plain or async, yielding or returning."""

    async def coroutine() -> list[hg.Change]:
        await asyncio.sleep(0)
        return [hg.Change("a")]

    async def generator() -> AsyncIterator[hg.Change]:
        yield hg.Change("a")

    def plain() -> Iterator[hg.Change]:
        yield hg.Change("a")

    for function in (coroutine, generator, plain, lambda: [hg.Change("a")]):
        source = own(function, name="s")
        assert isinstance(source, Polled)
        assert [noticed.uri for noticed in look(source)] == ["a"]


def test_a_decorated_function_is_still_a_function() -> None:
    """It can be called and tested on its own, and has its name and its doc."""

    @hg.Pipeline("p").source(every="6h")
    def stations() -> list[hg.Change]:
        """All stations."""
        return [hg.Change("a")]

    assert isinstance(stations, SourceFunction)
    assert stations() == [hg.Change("a")]
    assert stations.__doc__ == "All stations."
    assert stations.source.name == "stations"
    assert stations.source.every_seconds == 6 * 3600


def test_what_is_compared() -> None:
    """The version; else the bytes; else the time; and without any of them each look is a change."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    said = [
        hg.Change("version", version=7, event_time=at),
        hg.Change("data", data=b"1"),
        hg.Change("time", event_time=at, size=3),
        hg.Change("nothing"),
    ]
    source = own(lambda: said, name="s")
    first = look(source)
    assert [n.strength for n in first] == ["strong", "weak", "weak", "none"]
    again = source.scan({n.uri: Known(n.hint, 1) for n in first}, NOW).changes
    assert [(n.uri, n.expected) for n in again] == [("nothing", 1)]
    assert [n.event_time for n in first] == [at, NOW, at, NOW]
    envelope = source.envelope(first[1], 1, NOW)
    assert (envelope.data, envelope.size, envelope.clock) == (b"1", 1, "received")


def test_only_what_is_called_removed_is_removed() -> None:
    """Silence says nothing; a removal of what was never there says nothing either."""
    source = own(lambda: [hg.Change("b", kind="removed"), hg.Change("x", kind="removed")], name="s")
    (gone,) = look(source, a="1", b="1")
    assert (gone.uri, gone.kind, gone.expected) == ("b", "removed", 1)


def test_a_complete_list_leaves_out_what_is_gone() -> None:
    """With complete=True, what is not said is gone."""
    source = own(lambda: [hg.Change("a", version=1)], name="s", complete=True)
    (gone,) = look(source, a="1", b="1")
    assert (gone.uri, gone.kind) == ("b", "removed")


def test_a_list_that_shrinks_too_much_deletes_nothing() -> None:
    """Neither an empty answer nor the loss of more than half of many is believed at once."""
    empty = own(list, name="s", complete=True)
    with pytest.raises(Unavailable, match=r"lost 3 of 3 objects .* nothing is taken for deleted"):
        look(empty, a="1", b="1", c="1")
    many = {f"u{n}": "1" for n in range(20)}
    left = [hg.Change(f"u{n}", version=1) for n in range(9)]
    with pytest.raises(Unavailable, match="lost 11 of 20 objects"):
        look(own(lambda: left, name="s", complete=True), **many)
    believed = own(lambda: left, name="s", complete=True, shrink_limit=0.6)
    assert len(look(believed, **many)) == 11
    assert len(look(own(list, name="s", complete=True, shrink_limit=1), a="1", b="1")) == 2


def failing() -> Iterator[hg.Change]:
    yield hg.Change("a")
    raise ValueError("no such station")


def yields_text() -> Iterator[Any]:
    yield "a.csv"


def wrong_change() -> Iterator[hg.Change]:
    yield hg.Change("a", event_time=datetime(2026, 1, 1))


def says_two_things() -> list[hg.Change]:
    return [hg.Change("a", version=1), hg.Change("a", version=2)]


def exits() -> list[hg.Change]:
    raise SystemExit(3)


def line(function: Callable[..., Any], after: int) -> str:
    return f"(test_own.py:{function.__code__.co_firstlineno + after})"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (failing, [line(failing, 2), "ValueError: no such station"]),
        (yields_text, [line(yields_text, 1), "gave a str", "yield hg.Change"]),
        (wrong_change, [line(wrong_change, 1), "event_time", "with a time zone"]),
        (says_two_things, [line(says_two_things, 0), "two different things of a"]),
        (exits, [line(exits, 1), "SystemExit: 3"]),
        (lambda: None, ["returned nothing", "return a list"]),
        (lambda: hg.Change("a"), ["returned a Change", "return a list"]),
    ],
)
def test_what_goes_wrong_is_named_and_deletes_nothing(
    function: Callable[..., Any], said: list[str]
) -> None:
    """The scan fails as a whole, with the source, the file and the line."""
    source = own(function, name="mine", complete=True)
    with pytest.raises(Unavailable) as failed:
        look(source, b="1")
    for part in ["source mine", *said, "nothing is taken for deleted"]:
        assert part in str(failed.value)


def test_a_function_that_is_unavailable_says_so_itself() -> None:
    """What the user calls unavailable is passed on."""

    def function() -> list[hg.Change]:
        raise hg.Unavailable("the API is in maintenance")

    with pytest.raises(Unavailable, match=r"^the API is in maintenance$"):
        look(own(function))


def test_a_function_that_takes_too_long_is_not_called_twice() -> None:
    """It is waited for no longer than its deadline, and called again when it has come back."""
    calls, back = threading.Semaphore(0), threading.Event()
    ended: list[threading.Thread] = []

    def function() -> list[hg.Change]:
        calls.release()
        ended.append(threading.current_thread())
        back.wait(20)
        return [hg.Change("a")]

    source = own(function, deadline=0.01)
    source._list._deadline_seconds = -0.9  # with the second that ending takes
    with pytest.raises(Unavailable, match="ran longer than its deadline"):
        look(source)
    with pytest.raises(Unavailable, match="not called again"):
        look(source)
    assert calls.acquire(timeout=1)
    assert not calls.acquire(blocking=False), "it was called twice"
    back.set()
    ended[0].join(10)
    source._list._deadline_seconds = 10
    assert [noticed.uri for noticed in look(source)] == ["a"]


def test_an_async_function_is_ended_at_its_deadline() -> None:
    """It is cancelled, so nothing of it runs on."""
    cancelled = threading.Event()

    async def function() -> list[hg.Change]:
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return []

    with pytest.raises(Unavailable, match=r"ran longer than its deadline of 0\.05 s"):
        look(own(function, deadline=0.05))
    assert cancelled.is_set()


@pytest.mark.parametrize(
    ("given", "bytes_"),
    [
        (lambda change: b"abc", b"abc"),
        (lambda change: [b"a", bytearray(b"b"), memoryview(b"c")], b"abc"),
        (lambda change: iter([b"ab", b"", b"c"]), b"abc"),
    ],
)
def test_a_reader_returns_or_yields_bytes(given: Callable[..., Any], bytes_: bytes) -> None:
    """Whatever it gives, the object is those bytes."""
    assert b"".join(read_by(given)) == bytes_


def test_a_reader_may_be_async_and_knows_what_it_reads() -> None:
    """It gets the change as it was said, on the loop's own thread too."""
    asked: list[hg.Change] = []

    async def reader(change: hg.Change) -> bytes:
        await asyncio.sleep(0)
        asked.append(change)
        return b"x"

    async def on_a_loop() -> bytes:
        return b"".join(read_by(reader))

    assert asyncio.run(on_a_loop()) == b"x"
    (change,) = asked
    assert (change.uri, change.version, change.item) == ("own://a", "3", "station 1")


@pytest.mark.parametrize("given", ["text", 3, None, [b"a", "b"]])
def test_a_reader_that_gives_no_bytes_is_a_mistake(given: object) -> None:
    """Trying again cannot help: the entry waits for the reader to be repaired."""
    with pytest.raises(hg.Permanent, match="the reader of source s gave a"):
        read_by(lambda change: given)


def read_by(reader: Callable[..., Any]) -> list[bytes]:
    p = hg.Pipeline("p")
    said = p.source(every="1h", name="s")(
        lambda: [hg.Change("own://a", version=3, item="station 1")]
    )
    said.fetch(reader)
    (noticed,) = look(said.source)
    return list(said.source.fetch(said.source.envelope(noticed, 1, NOW)))


def test_readers_share_the_uris_as_declared(tmp_path: Any) -> None:
    """What another source reads is read by that; two readers of everything are refused."""
    p = hg.Pipeline("p", sources=[hg.Directory(tmp_path)])
    rest = p.source(every="1h", name="rest")(list)
    mine = p.source(every="1h", name="mine", owns="mine://")(list)
    third = p.source(every="1h", name="third")(list)
    rest.fetch(lambda change: b"")
    mine.fetch(lambda change: b"")

    def reads(uri: str) -> list[str]:
        return [s.name for s in p.sources if s.owns(uri)]

    assert reads("mine://1") == ["mine"]
    assert reads("other://1") == ["rest"]
    assert reads((tmp_path / "a.csv").as_uri()) == [p.sources[0].name]
    with pytest.raises(PipelineError, match="two readers"):
        third.fetch(lambda change: b"")


@pytest.mark.parametrize(
    "declare",
    [
        lambda p: p.source(every=0)(list),
        lambda p: p.source(every="1h", deadline=0)(list),
        lambda p: p.source(every="1h", shrink_limit=2)(list),
        lambda p: p.source(every="1h")(lambda known: []),
        lambda p: (p.source(every="1h", name="s")(list), p.source(every="1h", name="s")(list)),
        lambda p: p.source(every="1h", owns="a://")(list).source.check(),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(declare: Callable[..., Any]) -> None:
    """With the right way in the message."""
    with pytest.raises(PipelineError) as refused:
        declare(hg.Pipeline("p"))
    assert refused.value.hint


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"uri": ""}, "uri"),
        ({"uri": "a\0"}, "uri"),
        ({"uri": "a" * 2001}, "uri"),
        ({"version": 1.5}, "version"),
        ({"version": True}, "version"),
        ({"event_time": datetime(2026, 1, 1)}, "event_time"),
        ({"event_time": "2026-01-01"}, "event_time"),
        ({"kind": "deleted"}, "kind"),
        ({"size": -1}, "size"),
        ({"item": 3}, "item"),
        ({"data": "text"}, "data"),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_where_it_is_made(
    wrong: dict[str, Any], field: str
) -> None:
    """The message names the field and says what to give."""
    with pytest.raises(PipelineError, match=field) as refused:
        hg.Change(**{"uri": "a", **wrong})
    assert refused.value.hint
