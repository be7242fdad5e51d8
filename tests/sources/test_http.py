"""Web addresses as a source: conditional requests, patience, resumed bodies, nothing mixed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.net.webs import Asked, Web, say, speaking

import headgate as hg
from headgate.errors import (
    ConfigError,
    ObjectChanged,
    ObjectMissing,
    Permanent,
    PermissionDenied,
    PipelineError,
    Unavailable,
)
from headgate.model.envelope import Envelope
from headgate.model.ports import Known, Noticed
from headgate.net.guard import Guard, install
from headgate.sources import Http

NOW = datetime(2024, 5, 1, 12, 0, 0, 5, tzinfo=UTC)
BODY = bytes(range(256)) * 4096  # a megabyte
Speak = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


class Site:
    """What one server says, path by path; what it was asked is in `web.asked`."""

    def __init__(self) -> None:
        self.says: dict[str, tuple[str, bytes, dict[str, str]]] = {}

    def set(self, path: str, status: str, body: bytes = b"", **headers: str) -> None:
        self.says[path] = status, body, headers

    async def speak(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        status, body, headers = self.says[asked.path]
        tag, since = headers.get("ETag"), headers.get("Last_Modified")
        if (tag and asked.headers.get("if-none-match") == tag) or (
            since and not tag and asked.headers.get("if-modified-since") == since
        ):
            return say(writer, "304 Not Modified")
        say(writer, status, body, **headers)


def remember(changes: list[Noticed], known: dict[str, Known] | None = None) -> dict[str, Known]:
    """What the ledger knows once these changes are admitted."""
    told = {c.uri: Known(c.hint, c.expected + 1, c.kind == "removed") for c in changes}
    return {**(known or {}), **told}


def envelope(source: Http, web: Web, path: str = "/a") -> Envelope:
    change = Noticed(web.url + path, "created", "sha256:x", "strong", NOW, 0)
    return source.envelope(change, 1, NOW)


def test_validators_become_hints_and_conditions() -> None:
    """Each kind of version is remembered as it was told, and asked about in its own words."""
    site = Site()
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    site.set("/strong", "200 OK", b"s", ETag='"abc"', Last_Modified=date, Content_Type="a/b; c=d")
    site.set("/weak", "200 OK", b"w", ETag='W/"abc"')
    site.set("/dated", "200 OK", b"d", Last_Modified=date)
    site.set("/none", "200 OK", b"n")
    with speaking(site.speak) as web:
        source = Http([web.url + path for path in site.says], name="site")
        changes = source.scan({}, NOW).changes
        found = {c.uri.removeprefix(web.url): (c.hint, c.strength, c.size) for c in changes}
        assert found == {
            "/strong": ('etag:"abc"', "strong", 1),
            "/weak": ('etag:W/"abc"', "weak", 1),
            "/dated": (f"modified:{date}", "weak", 1),
            "/none": (f"sha256:{hashlib.sha256(b'n').hexdigest()}", "strong", 1),
        }
        strong, _, _, none = (source.envelope(c, 1, NOW) for c in changes)
        assert (strong.etag, strong.clock, strong.content_type) == ('"abc"', "object", "a/b")
        assert strong.event_time == datetime(2015, 10, 21, 7, 28, tzinfo=UTC)
        assert (none.etag, none.clock, none.event_time) == (None, "received", NOW)
        web.asked.clear()
        assert source.scan(remember(changes), NOW).changes == []
    asked = {a.path: a.headers for a in web.asked}
    assert asked["/strong"]["if-none-match"] == '"abc"'
    assert asked["/weak"]["if-none-match"] == 'W/"abc"'
    assert asked["/dated"]["if-modified-since"] == date
    assert not {"if-none-match", "if-modified-since"} & set(asked["/none"])
    assert len(web.asked) == 4


def test_a_thousand_unchanged_resources_cost_one_request_each() -> None:
    """A poll asks each address once, conditionally, and tells nothing: no ledger write follows."""

    async def unchanged(asked: Asked, writer: asyncio.StreamWriter) -> None:
        assert asked.headers["if-none-match"] == '"1"'
        say(writer, "304 Not Modified")

    with speaking(unchanged) as web:
        urls = [f"{web.url}/{n}" for n in range(1000)]
        source = Http(urls, name="many", parallel=32)
        known = {url: Known('etag:"1"', 1) for url in urls}
        scan = source.scan(known, NOW)
    assert (scan.changes, scan.unsettled) == ([], 0)
    assert sorted(a.path for a in web.asked) == sorted(f"/{n}" for n in range(1000))
    assert {a.method for a in web.asked} == {"GET"}


def test_no_more_than_some_are_asked_at_once() -> None:
    """`parallel` is a bound."""
    now, most = 0, 0

    async def slow(asked: Asked, writer: asyncio.StreamWriter) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1
        say(writer, "200 OK", ETag='"1"')

    with speaking(slow) as web:
        Http([f"{web.url}/{n}" for n in range(20)], name="many", parallel=3).scan({}, NOW)
    assert most == 3


def test_a_server_that_ignores_conditions_is_compared_by_what_it_says() -> None:
    """200 with the version we know, even weakened by a proxy, is no change."""

    async def stubborn(asked: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "200 OK", b"x" * 100, ETag='W/"abc"')

    with speaking(stubborn) as web:
        source = Http(web.url)
        assert source.scan({web.url: Known('etag:"abc"', 1)}, NOW).changes == []
        assert len(source.scan({web.url: Known('etag:"abd"', 1)}, NOW).changes) == 1


def test_a_resource_that_may_change_twice_in_a_second_is_looked_at() -> None:
    """Last-Modified tells seconds. While it is that fresh the bytes are compared, not the date."""
    site = Site()
    at = "Wed, 21 Oct 2015 07:28:00 GMT"
    with speaking(site.speak) as web:
        source, url = Http(f"{web.url}/a"), f"{web.url}/a"
        site.set("/a", "200 OK", b"first", Last_Modified=at, Date=at)
        known = remember(source.scan({}, NOW).changes)
        assert known[url].hint.startswith("sha256:")
        site.set("/a", "200 OK", b"second", Last_Modified=at, Date=at)
        (change,) = source.scan(known, NOW).changes
        known = remember([change])
        # Later the date can be relied on: the bytes are read once more, and then no more.
        site.set("/a", "200 OK", b"second", Last_Modified=at, Date="Wed, 21 Oct 2015 07:29:00 GMT")
        assert source.scan(known, NOW).changes == []
        assert source.scan(known, NOW).changes == []
        assert web.asked[-1].headers["if-modified-since"] == at


def test_404_is_believed_when_it_is_seen_twice() -> None:
    """A deployment that blinks deletes nothing; what stays away is told once as removed."""
    site = Site()
    with speaking(site.speak) as web:
        source, url = Http(f"{web.url}/a"), f"{web.url}/a"
        site.set("/a", "200 OK", b"1", ETag='"1"')
        known = remember(source.scan({}, NOW).changes)
        for _ in range(2):
            site.set("/a", "404 Not Found")
            scan = source.scan(known, NOW)
            assert (scan.changes, scan.unsettled) == ([], 1)
            site.set("/a", "200 OK", b"1", ETag='"1"')
            scan = source.scan(known, NOW)
            assert (scan.changes, scan.unsettled) == ([], 0)
        site.set("/a", "404 Not Found")
        assert source.scan(known, NOW).changes == []
        (gone,) = source.scan(known, NOW).changes
        assert (gone.kind, gone.uri, gone.expected) == ("removed", url, 1)
        known = remember([gone])
        assert source.scan(known, NOW).changes == []
        assert source.scan(known, NOW).unsettled == 0


def test_410_is_believed_at_once() -> None:
    """A server that says "gone" means it."""
    site = Site()
    with speaking(site.speak) as web:
        source = Http(f"{web.url}/a")
        site.set("/a", "200 OK", b"1", ETag='"1"')
        known = remember(source.scan({}, NOW).changes)
        site.set("/a", "410 Gone")
        assert [c.kind for c in source.scan(known, NOW).changes] == ["removed"]


def test_one_that_fails_costs_its_neighbours_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The others are told; the trouble is said once, and again only when it is over."""
    site = Site()
    site.set("/good", "200 OK", b"1", ETag='"1"')
    site.set("/bad", "500 Oops")
    site.set("/shut", "403 Forbidden")
    site.set("/none", "404 Not Found")
    caplog.set_level(logging.INFO, "headgate.sources.http")
    with speaking(site.speak) as web:
        source = Http([web.url + path for path in site.says], name="site")
        known = remember(source.scan({}, NOW).changes)
        assert set(known) == {f"{web.url}/good"}
        assert source.scan(known, NOW).changes == []
        said = [r.getMessage() for r in caplog.records]
        assert len(said) == 3, said
        site.set("/bad", "200 OK", b"1", ETag='"1"')
        assert [c.uri for c in source.scan(known, NOW).changes] == [f"{web.url}/bad"]
        assert "can be read again" in caplog.records[-1].getMessage()
        site.set("/good", "500 Oops")
        for path in ("/bad", "/none"):
            site.set(path, "503 Away", Retry_After="30")
        with pytest.raises(Unavailable, match="and 3 more"):
            source.scan(known, NOW)


def test_a_server_that_asks_for_patience_gets_it() -> None:
    """After Retry-After nothing is sent to that host before its time, by no later look either."""
    site = Site()
    site.set("/a", "429 Too Many Requests", Retry_After="60")
    with speaking(site.speak) as web:
        source = Http(f"{web.url}/a")
        with pytest.raises(Unavailable) as error:
            source.scan({}, NOW)
        assert error.value.delay_seconds == 60
        for later in (1, 59):
            with pytest.raises(Unavailable, match="left alone") as error:
                source.scan({}, NOW + timedelta(seconds=later))
            assert error.value.delay_seconds == 60 - later
        assert len(web.asked) == 1
        site.set("/a", "200 OK", b"1")
        assert len(source.scan({}, NOW + timedelta(seconds=60)).changes) == 1
        site.set("/a", "503 Away", Retry_After="60")
        asked = len(web.asked)
        for said in ("503", "left alone"):
            with pytest.raises(Unavailable, match=said):
                list(source.fetch(envelope(source, web)))
        assert len(web.asked) == asked + 1


def test_redirects_keep_the_address_that_was_written() -> None:
    """What is behind a redirect is told and read under the address in the pipeline."""
    site = Site()
    site.set("/a", "301 Moved", Location="/b")
    site.set("/b", "200 OK", b"1", ETag='"1"')
    with speaking(site.speak) as web:
        source = Http(f"{web.url}/a")
        (change,) = source.scan({}, NOW).changes
        assert (change.uri, change.hint) == (f"{web.url}/a", 'etag:"1"')
        assert b"".join(source.fetch(source.envelope(change, 1, NOW))) == b"1"


def test_a_redirect_into_the_network_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    """A server cannot use us to look at its neighbours; the operator reads why."""
    inside = Site()
    with speaking(inside.speak) as other:
        site = Site()
        site.set("/a", "302 Found", Location=f"{other.url}/secret")
        with speaking(site.speak) as web:
            source = Http(f"{web.url}/a")
            with pytest.raises(Unavailable, match="loopback") as error:
                source.scan({}, NOW)
            assert "HEADGATE_EGRESS_ALLOW" in error.value.hint
            with pytest.raises(PermissionDenied, match="loopback"):
                list(source.fetch(envelope(source, web)))
    assert not other.asked


def test_a_redirect_that_is_allowed_is_followed() -> None:
    """What the operator put on the list is reached, from the moment it is there."""
    inside = Site()
    inside.set("/x", "200 OK", b"1", ETag='"1"')
    site = Site()
    with speaking(inside.speak) as other, speaking(site.speak) as web:
        site.set("/a", "302 Found", Location=f"{other.url}/x")
        source = Http(f"{web.url}/a")
        with pytest.raises(Unavailable):
            source.scan({}, NOW)
        install(Guard(f"127.0.0.1:{other.port}"))
        try:
            assert [c.hint for c in source.scan({}, NOW).changes] == ['etag:"1"']
        finally:
            install(Guard())


class Cutting:
    """A server that hangs up after `cut` bytes, as often as it likes, and knows ranges."""

    def __init__(self, *, cuts: int, tags: list[str], ranges: bool = True) -> None:
        self.cuts, self.tags, self.ranges = cuts, tags, ranges

    async def speak(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        tag = self.tags.pop(0) if len(self.tags) > 1 else self.tags[0]
        start, status, headers = 0, "200 OK", {"ETag": tag} if tag else {}
        if self.ranges and asked.headers.get("if-range") == tag != "":
            start = int(asked.headers["range"].removeprefix("bytes=").removesuffix("-"))
            status = "206 Partial Content"
            headers["Content_Range"] = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
        left = BODY[start:]
        body = left
        if self.cuts:
            self.cuts -= 1
            body = left[:300_000]
        say(writer, status, body, Content_Length=str(len(left)), **headers)


def test_a_body_that_was_cut_goes_on_where_it_stopped() -> None:
    """Cut three times, every byte is there once, and none was sent twice."""
    server = Cutting(cuts=3, tags=['"v1"'])
    with speaking(server.speak) as web:
        source = Http(f"{web.url}/a")
        assert b"".join(source.fetch(envelope(source, web))) == BODY
    assert [a.headers.get("range") for a in web.asked] == [
        None,
        "bytes=300000-",
        "bytes=600000-",
        "bytes=900000-",
    ]


def test_a_server_without_ranges_sends_the_same_version_again() -> None:
    """It begins anew under the same strong tag: what we have already is skipped."""
    with speaking(Cutting(cuts=2, tags=['"v1"'], ranges=False).speak) as web:
        source = Http(f"{web.url}/a")
        assert b"".join(source.fetch(envelope(source, web))) == BODY


def test_two_versions_are_never_mixed() -> None:
    """Another tag after the cut: the attempt fails and begins anew."""
    for ranges in (True, False):
        with speaking(Cutting(cuts=1, tags=['"v1"', '"v2"'], ranges=ranges).speak) as web:
            source = Http(f"{web.url}/a")
            with pytest.raises(ObjectChanged):
                list(source.fetch(envelope(source, web)))


@pytest.mark.parametrize("tag", ["", 'W/"v1"', "unquoted"])
def test_without_a_strong_tag_nothing_is_resumed(tag: str) -> None:
    """No tag, or a weak one, does not promise the same bytes."""
    with speaking(Cutting(cuts=1, tags=[tag]).speak) as web:
        source = Http(f"{web.url}/a")
        with pytest.raises(Unavailable):
            list(source.fetch(envelope(source, web)))
    assert len(web.asked) == 1


def test_a_range_that_was_not_asked_for_is_refused() -> None:
    """A server that answers with other bytes than it was asked for is not believed."""

    async def confused(asked: Asked, writer: asyncio.StreamWriter) -> None:
        if "range" not in asked.headers:
            return say(writer, "200 OK", b"12345", Content_Length="10", ETag='"1"')
        say(writer, "206 Partial Content", b"12345", ETag='"1"', Content_Range="bytes 0-4/10")

    with speaking(confused) as web:
        source = Http(f"{web.url}/a")
        with pytest.raises(ObjectChanged, match="another range"):
            list(source.fetch(envelope(source, web)))


def test_a_packed_body_is_resumed_packed() -> None:
    """The range counts the bytes as they are sent; what comes out is whole."""
    packed = gzip.compress(BODY)

    async def speak(asked: Asked, writer: asyncio.StreamWriter) -> None:
        start = int(asked.headers.get("range", "bytes=0-")[6:-1])
        sent = {"ETag": '"1"', "Content_Encoding": "gzip"}
        if not start:
            half = packed[: len(packed) // 2]
            return say(writer, "200 OK", half, Content_Length=str(len(packed)), **sent)
        place = f"bytes {start}-{len(packed) - 1}/{len(packed)}"
        say(writer, "206 Partial Content", packed[start:], Content_Range=place, **sent)

    with speaking(speak) as web:
        source = Http(f"{web.url}/a", headers={"Accept-Encoding": "gzip"})
        assert b"".join(source.fetch(envelope(source, web))) == BODY
    assert {a.headers["accept-encoding"] for a in web.asked} == {"gzip"}
    assert len(web.asked) == 2


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ("404 Not Found", ObjectMissing),
        ("401 Unauthorized", PermissionDenied),
        ("503 Away", Unavailable),
        ("418 Teapot", Permanent),
    ],
)
def test_what_cannot_be_read_says_why(status: str, kind: type[Exception]) -> None:
    """The error decides whether it is tried again."""
    site = Site()
    site.set("/a", status)
    with speaking(site.speak) as web:
        source = Http(f"{web.url}/a")
        with pytest.raises(kind):
            list(source.fetch(envelope(source, web)))


def test_a_reading_that_is_given_up_lets_go() -> None:
    """A handler that stops early holds no connection."""
    site = Site()
    site.set("/a", "200 OK", BODY)
    with speaking(site.speak) as web:
        source = Http(f"{web.url}/a")
        chunks = source.fetch(envelope(source, web))
        assert next(chunks)
        chunks.close()  # type: ignore[attr-defined]
        assert b"".join(source.fetch(envelope(source, web))) == BODY


def test_a_body_larger_than_it_may_be_is_refused() -> None:
    """`max_bytes` holds for the look and for the reading."""
    site = Site()
    site.set("/a", "200 OK", BODY)
    with speaking(site.speak) as web:
        source = Http(f"{web.url}/a", max_bytes=1000)
        with pytest.raises(Unavailable, match="more than 1,000 bytes"):
            source.scan({}, NOW)
        with pytest.raises(Permanent, match="more than 1,000 bytes"):
            list(source.fetch(envelope(source, web)))


def test_headers_and_secrets_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token goes with every request and is read anew for each; its absence is found at start."""
    site = Site()
    site.set("/a", "200 OK", b"1", ETag='"1"')
    with speaking(site.speak) as web:
        token = hg.env("FEED_TOKEN", prefix="Bearer ")
        source = Http(f"{web.url}/a", headers={"Authorization": token})
        with pytest.raises(ConfigError, match="FEED_TOKEN"):
            source.check()
        for value in ("one", "two"):
            monkeypatch.setenv("FEED_TOKEN", value)
            source.check()
            source.scan({}, NOW)
            assert web.asked[-1].headers["authorization"] == f"Bearer {value}"


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("ftp://files.example/a", {}),
        ("files.example/a", {}),
        ("http:///a", {}),
        ("http://user:hush@files.example/a", {}),
        ("http://files.example/a b", {}),
        ("http://files.example/a#b", {}),
        ("http://files.example:port/", {}),
        ("http://files.example/" + "x" * 2000, {}),
        ([], {}),
        (["http://a.example/", "http://a.example/"], {"name": "twice"}),
        (["http://a.example/", "http://b.example/"], {}),
        ("http://a.example/", {"every": 0}),
        ("http://a.example/", {"parallel": 0}),
        ("http://a.example/", {"headers": {"X:": "y"}}),
        ("http://a.example/", {"headers": {"X": "y\r\nZ: z"}}),
    ],
)
def test_a_mistake_is_found_when_it_is_written(
    url: str | list[str], options: dict[str, Any]
) -> None:
    """A declaration that cannot work fails at import, and shows no password."""
    with pytest.raises(PipelineError) as error:
        Http(url, **options)
    assert "hush" not in str(error.value)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without aiohttp a web source can be declared, and its check says what to install."""
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    for source in (Http("http://a.example/"), hg.ServerSentEvents("http://a.example/")):
        with pytest.raises(ConfigError) as error:
            source.check()
        assert error.value.hint == "in Headgate's checkout: pip install '.[http]'"
