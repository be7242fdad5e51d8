"""A stranger does not choose which machine we talk to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence

import pytest
from tests.net.attempts import ELSEWHERE, LOOPBACK
from tests.net.webs import Asked, Web, say, speaking

from headgate.errors import ConfigError, PermissionDenied, Unavailable
from headgate.net.guard import Guard
from headgate.net.http import Client, Limits

QUICK = Limits(connect_seconds=1.0, read_seconds=2.0)


async def secret(_: Asked, writer: asyncio.StreamWriter) -> None:
    say(writer, "200 OK", b"secret")


@pytest.fixture(scope="module")
def canary() -> Iterator[Web]:
    """On IPv4 and, where there is one, on IPv6 loopback."""
    with speaking(secret) as here:
        yield here


async def ask(guard: Guard, url: str, *, trusted: bool = False) -> bytes:
    async with Client(QUICK, guard=guard) as client, client.ask(url, trusted=trusted) as answer:
        answer.expect()
        return await answer.read(1000)


async def redirected(guard: Guard, url: str) -> bytes:
    """The operator's own server sends us on to `url`."""

    async def send_on(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "302 Found", Location=url)

    with speaking(send_on) as here:
        return await ask(guard, f"{here.url}/start", trusted=True)


def ways(attempts: list[str]) -> list[tuple[str, str]]:
    """Each in data and in a redirect; what no header can hold, in data alone."""
    return [
        (attempt, way)
        for attempt in attempts
        for way in ("data", "redirect")
        if way == "data" or not {"\n", "\0"} & set(attempt)
    ]


@pytest.mark.parametrize(("attempt", "way"), ways(LOOPBACK))
async def test_no_spelling_of_loopback_gets_through(canary: Web, attempt: str, way: str) -> None:
    """However an address of ours is written, in data or in a redirect: nothing is sent there."""
    # Its port is an ordinary one here, so that it is the address that is refused.
    guard = Guard(ports={80, 443, canary.port})
    url = attempt.replace("{port}", str(canary.port))
    heard = len(canary.asked)
    with pytest.raises((PermissionDenied, Unavailable)) as refusal:
        await (ask(guard, url) if way == "data" else redirected(guard, url))
    assert len(canary.asked) == heard
    if isinstance(refusal.value, Unavailable):
        # A name of somebody else's that does not exist; none of ours may be looked up and found.
        assert "resolved" in str(refusal.value) or "no address" in str(refusal.value)
    else:
        assert refusal.value.reason == "egress_refused"
        assert "HEADGATE_EGRESS_ALLOW" in refusal.value.hint


@pytest.mark.parametrize(("attempt", "way"), ways(ELSEWHERE))
async def test_nothing_leaves_for_an_address_that_is_not_public(attempt: str, way: str) -> None:
    """Metadata services, private networks, tunnels, other schemes and odd ports are refused."""
    with pytest.raises(PermissionDenied) as refusal:
        await (ask(Guard(), attempt) if way == "data" else redirected(Guard(), attempt))
    assert refusal.value.reason == "egress_refused"


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/", "http://localhost:{port}/"])
async def test_the_canary_hears_what_the_operator_asks(canary: Web, url: str) -> None:
    """A host that is written in pipeline code is asked, private or not: the canary is alive."""
    assert await ask(Guard(), url.replace("{port}", str(canary.port)), trusted=True) == b"secret"


@pytest.mark.parametrize(
    "allow", ["localhost", "LOCALHOST:{port}", "127.0.0.0/8", "127.0.0.1:{port}, ::1", ".localhost"]
)
async def test_the_operators_list_opens_what_it_names(canary: Web, allow: str) -> None:
    """A host, a suffix, an address or a network on `egress_allow` can be reached."""
    host = "a.localhost" if allow == ".localhost" else "localhost"

    async def lookup(name: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    guard = Guard(allow.replace("{port}", str(canary.port)), lookup=lookup)
    if allow == ".localhost":
        assert await guard.resolve(host, canary.port) == ["127.0.0.1"]
    else:
        assert await ask(guard, f"http://{host}:{canary.port}/") == b"secret"


@pytest.mark.parametrize("allow", ["127.0.0.1:1", "notlocalhost", ".ocalhost", "10.0.0.0/8"])
async def test_the_list_opens_nothing_else(canary: Web, allow: str) -> None:
    """Another port, a longer name, a part of a name, another network: still refused."""
    with pytest.raises(PermissionDenied):
        await ask(Guard(allow, ports={canary.port}), f"http://localhost:{canary.port}/")


@pytest.mark.parametrize("entry", ["*", "http://x/", "10.0.0.1/8", "a b:0", "x:99999", "1.2.3"])
def test_a_list_that_cannot_be_read_is_refused(entry: str) -> None:
    """A mistake in `egress_allow` is an error at start, not a hole."""
    with pytest.raises(ConfigError, match="egress_allow"):
        Guard([entry])


async def test_a_name_that_changes_its_address_is_asked_once(canary: Web) -> None:
    """DNS rebinding: public when it is checked, loopback when it is used. It is not used twice."""
    asked: list[str] = []

    async def rebinding(name: str, port: int) -> Sequence[str]:
        asked.append(name)
        return ["192.0.2.1"] if len(asked) == 1 else ["127.0.0.1"]

    # A documentation address stands for the public one: allowed here, and nobody answers there.
    guard = Guard("192.0.2.1/32", ports={canary.port}, lookup=rebinding)
    heard = len(canary.asked)
    with pytest.raises(Unavailable):
        await ask(guard, f"http://rebind.example:{canary.port}/")
    assert asked == ["rebind.example"]
    with pytest.raises(PermissionDenied):
        await ask(guard, f"http://rebind.example:{canary.port}/")
    assert len(canary.asked) == heard


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
        ["2607:f8b0::1", "::1"],
        ["::ffff:127.0.0.1"],
        ["64:ff9b::7f00:1"],
        ["fe80::1%2"],
        ["2607:f8b0::1%2"],
        ["169.254.169.254"],
        ["not an address"],
    ],
)
async def test_one_bad_address_of_a_name_spoils_it(canary: Web, addresses: list[str]) -> None:
    """A name that has a public and a private address is refused, in whatever order they come."""

    async def lookup(name: str, port: int) -> Sequence[str]:
        return addresses

    heard = len(canary.asked)
    guard = Guard(ports={canary.port}, lookup=lookup)
    with pytest.raises(PermissionDenied):
        await ask(guard, f"http://mixed.example:{canary.port}/")
    assert len(canary.asked) == heard


async def test_the_connection_goes_to_the_address_that_was_checked(canary: Web) -> None:
    """The name is kept for the server (`Host`), the address is the checked one."""

    async def lookup(name: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    guard = Guard("127.0.0.1", lookup=lookup)
    assert await ask(guard, f"http://files.example:{canary.port}/") == b"secret"
    assert canary.asked[-1].headers["host"] == f"files.example:{canary.port}"


async def test_a_connection_of_the_operators_is_not_lent_to_a_stranger(canary: Web) -> None:
    """A kept connection to a private host is not used when data names the same host."""

    async def stay(_: Asked, writer: asyncio.StreamWriter) -> None:
        say(writer, "200 OK", b"x", Connection="keep-alive")
        await writer.drain()
        await asyncio.sleep(5)

    with speaking(stay) as here:
        guard = Guard(ports={here.port})
        async with Client(QUICK, guard=guard) as client:
            async with client.ask(here.url, trusted=True) as answer:
                assert await answer.read(10) == b"x"
            with pytest.raises(PermissionDenied):
                async with client.ask(here.url):
                    pass
        assert len(here.asked) == 1


@pytest.mark.parametrize(
    "public",
    ["8.8.8.8", "1.1.1.1", "2607:f8b0:4005:805::200e", "64:ff9b::8.8.8.8", "192.0.1.1"],
)
async def test_public_addresses_pass(public: str) -> None:
    """The guard is no wall around the internet."""
    host = f"[{public}]" if ":" in public else public
    assert await Guard().resolve(host, 443) == [public]


async def test_a_name_that_does_not_exist_is_an_outage() -> None:
    """A name server may be down; that is no refusal."""

    async def lookup(name: str, port: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_AGAIN, "try again")

    with pytest.raises(Unavailable, match="cannot be resolved"):
        await Guard(lookup=lookup).resolve("files.example", 443)


def test_there_are_enough_attempts() -> None:
    """At least a hundred and fifty ways in, all different."""
    assert len({*LOOPBACK, *ELSEWHERE}) == len(LOOPBACK) + len(ELSEWHERE) >= 150


async def test_without_the_guard_many_of_them_get_through(canary: Web) -> None:
    """The attempts are real: asked as if the operator had written them, the canary hears dozens."""
    heard = len(canary.asked)
    urls = [attempt.replace("{port}", str(canary.port)) for attempt in LOOPBACK]
    asking = (ask(Guard(), url, trusted=True) for url in urls)
    await asyncio.gather(*asking, return_exceptions=True)
    assert len(canary.asked) - heard >= 20
