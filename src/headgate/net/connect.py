"""Connections that go where the guard let them: its answers are the resolver's answers.

The last word is spoken when a socket is made. It sees the very address that is connected to,
however it came about: by name, by number, or by a way that a later version of the library may find.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from headgate._version import __version__

from .guard import Guard

if TYPE_CHECKING:
    from .http import Limits


class GuardedResolver(AbstractResolver):
    """Resolves once, and only to what may be reached."""

    def __init__(self, guard: Guard) -> None:
        self._guard = guard

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._guard.resolve(host, port)
        ]

    async def close(self) -> None: ...


def session(limits: Limits, guard: Guard | None) -> aiohttp.ClientSession:
    """A pool of connections: behind the guard, or free for what the operator wrote."""
    if guard is None:
        connector = aiohttp.TCPConnector(limit=limits.connections, ttl_dns_cache=10)
    else:
        connector = aiohttp.TCPConnector(
            limit=limits.connections,
            resolver=GuardedResolver(guard),
            use_dns_cache=False,
            socket_factory=_checked(guard),
        )
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        max_line_size=limits.header_bytes,
        max_field_size=limits.header_bytes,
        headers={"User-Agent": f"headgate/{__version__}", "Accept-Encoding": "identity"},
    )


def _checked(guard: Guard) -> Any:
    def make(info: tuple[Any, ...]) -> socket.socket:
        family, kind, proto, _, place = info
        guard.check(str(place[0]), int(place[1]))
        return socket.socket(family=family, type=kind, proto=proto)

    return make
