"""The client: every limit holds, every status has one meaning, credentials stay at home."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from tests.net.webs import Asked, Speaking, Web, say, speaking

from headgate.errors import (
    HeadgateError,
    ObjectMissing,
    Permanent,
    PermissionDenied,
    SchemaError,
    Unavailable,
)
from headgate.model.secret import env
from headgate.net.guard import Guard
from headgate.net.http import Answer, Client, Headers, Limits
from headgate.net.retry_after import LONGEST_SECONDS, delay_of

QUICK = Limits(connect_seconds=1.0, read_seconds=1.0)


def answering(status: str, body: bytes = b"", **headers: str) -> Speaking:
    async def speak(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, status, body, **headers)

    return speak


async def read(url: str, limits: Limits = QUICK, guard: Guard | None = None) -> bytes:
    async with Client(limits, guard=guard) as client, client.ask(url, trusted=True) as answer:
        answer.expect()
        return await answer.read(1 << 30)


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        ("404 Not Found", ObjectMissing, "missing_object"),
        ("410 Gone", ObjectMissing, "missing_object"),
        ("401 Unauthorized", PermissionDenied, "permission"),
        ("403 Forbidden", PermissionDenied, "permission"),
        ("429 Too Many Requests", Unavailable, "unavailable"),
        ("408 Request Timeout", Unavailable, "unavailable"),
        ("500 Internal Server Error", Unavailable, "unavailable"),
        ("503 Service Unavailable", Unavailable, "unavailable"),
        ("400 Bad Request", Permanent, "http_status"),
        ("304 Not Modified", Permanent, "http_status"),
    ],
)
async def test_a_status_is_a_fate(status: str, kind: type[HeadgateError], reason: str) -> None:
    """What a server answers decides what happens to the entry."""
    with speaking(answering(status)) as web, pytest.raises(kind) as error:
        await read(f"{web.url}/a?token=hush")
    assert error.value.reason == reason
    assert status.partition(" ")[0] in str(error.value)
    assert "hush" not in str(error.value)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    """Nobody listens, nobody answers in time, nobody finishes: all of it is an outage."""
    with speaking(answering("200 OK")) as web:
        url = web.url
    with pytest.raises(Unavailable):
        await read(url)

    async def silence(_: Asked, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    with speaking(silence) as web, pytest.raises(Unavailable, match="in time"):
        await read(web.url, Limits(read_seconds=0.2))

    async def cut(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "200 OK", b"half", Content_Length="8")

    with speaking(cut) as web, pytest.raises(Unavailable, match="cannot be read"):
        await read(web.url)

    async def drip(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "200 OK", Content_Length="1000")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    with speaking(drip) as web, pytest.raises(Unavailable, match="in time"):
        await read(web.url, Limits(total_seconds=0.4))


@pytest.mark.parametrize(
    "headers",
    [
        {"X": "y" * 40_000},
        {f"X-{n}": "y" for n in range(1000)},
    ],
)
async def test_headers_have_a_limit(headers: dict[str, str]) -> None:
    """A header without end, or without number, does not fill our memory."""
    with speaking(answering("200 OK", b"", **headers)) as web, pytest.raises(Unavailable):
        await read(web.url)


async def test_a_body_has_a_limit() -> None:
    """A body larger than it may be is refused while it is read, told or not told."""
    for length in ("5000", ""):
        with speaking(answering("200 OK", b"x" * 5000, Content_Length=length)) as web:
            with pytest.raises(Permanent) as error:
                await read(web.url, Limits(body_bytes=4999))
            assert error.value.reason == "body_limit"
            assert len(await read(web.url, Limits(body_bytes=5000))) == 5000


def deflated(body: bytes, wbits: int) -> bytes:
    packer = zlib.compressobj(wbits=wbits)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("GZIP", lambda body: gzip.compress(body[:3]) + gzip.compress(body[3:])),
        ("deflate", zlib.compress),
        ("deflate", lambda body: deflated(body, -15)),
        ("identity", bytes),
    ],
)
async def test_packed_bodies_are_unpacked(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """gzip in one or several members, deflate with and without its frame."""
    body = b"station,mm\n" * 10_000
    with speaking(answering("200 OK", pack(body), Content_Encoding=encoding)) as web:
        assert await read(web.url) == body
    with speaking(answering("200 OK", b"", Content_Encoding=encoding)) as web:
        assert await read(web.url) == b""


BOMB = b"\0" * (64 << 20)


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_a_bomb_is_defused(encoding: str, pack: Callable[[bytes], bytes]) -> None:
    """Sixty kilobytes that unpack to sixty megabytes end as an error, long before that."""
    packed = pack(BOMB)
    assert len(packed) < 100_000
    bomb = answering("200 OK", packed, Content_Encoding=encoding)
    with speaking(bomb) as web, pytest.raises(Permanent) as error:
        await read(web.url)
    assert error.value.reason == "decompression_limit"
    small = answering("200 OK", pack(b"x" * 5000), Content_Encoding=encoding)
    with speaking(small) as web, pytest.raises(Permanent) as error:
        await read(web.url, Limits(most_unpacked_bytes=4999))
    assert error.value.reason == "decompression_limit"


@pytest.mark.parametrize(
    ("encoding", "body", "kind"),
    [
        ("br", b"\x8b\x03\x80abc\x03", SchemaError),
        ("zstd", b"x", SchemaError),
        ("gzip, gzip", gzip.compress(gzip.compress(b"x")), SchemaError),
        ("gzip", b"not packed at all", SchemaError),
        ("gzip", gzip.compress(b"x") + b"garbage", SchemaError),
        ("deflate", zlib.compress(b"x") + b"garbage", SchemaError),
        ("gzip", gzip.compress(b"x" * 1000)[:-9], Unavailable),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_an_error(
    encoding: str, body: bytes, kind: type[HeadgateError]
) -> None:
    """What was not asked for (brotli bombs too), is damaged or cut is never handed on as data."""
    packed = answering("200 OK", body, Content_Encoding=encoding)
    with speaking(packed) as web, pytest.raises(kind):
        await read(web.url)


def test_retry_after_is_read_in_both_forms() -> None:
    """Seconds, or a date by the server's own clock; nonsense asks for nothing."""
    then = datetime(2020, 1, 1, tzinfo=UTC)
    date = {"Date": format_datetime(then, usegmt=True)}
    later = format_datetime(then + timedelta(seconds=90), usegmt=True)
    assert delay_of({"Retry-After": "120"}) == 120
    assert delay_of({"Retry-After": later, **date}) == 90
    assert delay_of({"Retry-After": later}) == 0
    assert delay_of({"Retry-After": "9" * 400}) == LONGEST_SECONDS
    for nonsense in ("", "soon", "-5", "1.5", "²", "Wed, 99 Xyz 2020"):
        assert delay_of({"Retry-After": nonsense, **date}) is None


async def test_a_throttled_answer_carries_its_delay() -> None:
    """429 with Retry-After: the error knows when to come back."""
    with speaking(answering("429 Too Many Requests", Retry_After="7")) as web:
        with pytest.raises(Unavailable) as error:
            await read(web.url)
        assert (error.value.delay_seconds, error.value.upstream) == (7, web.url)


async def follow(first: Web, headers: Headers, guard: Guard) -> Answer:
    async with (
        Client(QUICK, guard=guard) as client,
        client.ask(first.url, headers=headers, trusted=True) as answer,
    ):
        return answer


async def test_credentials_stay_behind_when_the_host_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A redirect within the host keeps the token; one to another host gets what is harmless."""
    monkeypatch.setenv("FEED_TOKEN", "hush")
    headers: Headers = {
        "Authorization": env("FEED_TOKEN", prefix="Bearer "),
        "X-Api-Key": "hush",
        "Cookie": "session=hush",
        "Accept": "text/csv",
    }
    with speaking(answering("200 OK")) as other:

        async def send_on(asked: Asked, writer: asyncio.StreamWriter) -> None:
            to = "/within" if asked.path == "/" else f"{other.url}/x"
            say(writer, "302 Found", Location=to)

        with speaking(send_on) as first:
            answer = await follow(first, headers, Guard("127.0.0.1"))
        assert answer.status == 200
    assert [asked.path for asked in first.asked] == ["/", "/within"]
    assert all(asked.headers["authorization"] == "Bearer hush" for asked in first.asked)
    assert "hush" not in str(other.asked[0])
    assert other.asked[0].headers["accept"] == "text/csv"


async def test_redirects_end() -> None:
    """A circle of redirects is an error, not a hang."""
    circle = answering("302 Found", Location="/again")
    with speaking(circle) as web, pytest.raises(Permanent, match="redirects more than 10 times"):
        await read(web.url)
    assert len(web.asked) == 11


async def test_a_redirect_to_another_port_of_the_operators_host_is_guarded() -> None:
    """Only the server the operator named is free, not everything that runs beside it."""
    with (
        speaking(answering("200 OK")) as beside,
        speaking(answering("302 Found", Location=beside.url)) as web,
        pytest.raises(PermissionDenied) as error,
    ):
        await read(web.url)
    assert error.value.reason == "egress_refused"
    assert not beside.asked


async def test_a_post_is_not_sent_on() -> None:
    """A redirect does not carry a body to a place nobody named."""
    with speaking(answering("307 Temporary Redirect", Location="/x")) as web:
        async with Client(QUICK) as client:
            with pytest.raises(Permanent, match="redirect"):
                async with client.ask(web.url, method="POST", body=b"x", trusted=True):
                    pass
    assert len(web.asked) == 1


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a proxy nobody could say which address is reached."""
    with speaking(answering("200 OK", b"direct")) as web, speaking(answering("200 OK")) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert await read(web.url) == b"direct"
    assert not proxy.asked
