"""How a door asks for keys: guarded, without redirects, and one kind of trouble."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from headgate.errors import Unavailable
from headgate.net.http import Client
from headgate.server.web import GuardedWeb

ANSWERS = {
    b"/keys": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
    b"/moved": b"HTTP/1.1 302 Found\r\nLocation: /keys\r\nContent-Length: 0\r\n\r\n",
    b"/gone": b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
    b"/long": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + b"x" * 100,
}


@asynccontextmanager
async def issuer() -> AsyncGenerator[str]:
    """A server on loopback, whose address we are given."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWERS[head.split()[1]])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def test_keys_are_read_where_the_operator_wrote() -> None:
    """A redirect, an error or a page without end is no key."""
    async with issuer() as url, Client() as client:
        web = GuardedWeb(client)
        assert await web.get(f"{url}/keys", trusted=True) == b"{}"
        for path in ("/moved", "/gone"):
            with pytest.raises(Unavailable):
                await web.get(url + path, trusted=True)
        with pytest.raises(Unavailable):
            await web.get(f"{url}/long", trusted=True, most_bytes=10)


async def test_an_address_from_a_message_does_not_lead_inside() -> None:
    """What a sender names is guarded: loopback, link-local and private addresses are not asked."""
    async with issuer() as url, Client() as client:
        web = GuardedWeb(client)
        for address in (
            f"{url}/keys",
            "https://169.254.169.254/",
            "https://10.0.0.1/",
            "file:///x",
        ):
            with pytest.raises(Unavailable, match="not asked"):
                await web.get(address)
