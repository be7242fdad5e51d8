"""The HTTP client that everything uses: limits on all of it, and the guard in front of every hop.

Redirects are followed by hand. Each hop is judged anew: the host the operator wrote is free, any
other passes the guard, and what may be a credential stays behind when the host changes. There are
two pools of connections, so that one which was opened to the operator's host is never used for a
stranger's request to the same place.

No proxies, no netrc and no cookies: with any of them somebody else would decide where we connect.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headgate.errors import (
    ConfigError,
    HeadgateError,
    ObjectMissing,
    Permanent,
    PermissionDenied,
    Unavailable,
)
from headgate.model import trace
from headgate.model.secret import Secret, reveal

from . import loop
from .address import literal
from .decode import Decoder
from .guard import Guard, installed, refused
from .retry_after import delay_of

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

Headers = Mapping[str, "str | Secret"]
_REDIRECTS = (301, 302, 303, 307, 308)
# These say nothing about who we are. Everything else stays behind when the host changes.
_HARMLESS = {
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "last-event-id",
    "range",
    "user-agent",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how much. `read_seconds` is the longest silence, `total_seconds` the whole."""

    connect_seconds: float = 10.0
    read_seconds: float | None = 60.0
    total_seconds: float | None = None
    redirects: int = 10
    header_bytes: int = 16_384
    body_bytes: int | None = None
    connections: int = 64
    most_unpacked_bytes: int = 16 << 30
    most_unpacked_ratio: int = 200


class Answer:
    """What a server answered. Its body is read once, unpacked, within the limits."""

    def __init__(self, response: aiohttp.ClientResponse, limits: Limits) -> None:
        self._response = response
        self._limits = limits
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self.url = shown(str(response.url))
        self.received = 0

    def expect(self) -> None:
        """Raise what a status that is no success means."""
        if not 200 <= self.status < 300:
            raise self.trouble()

    def trouble(self) -> HeadgateError:
        """What the status means for us."""
        said = f"{self.url} answered {self.status} {self._response.reason or ''}".rstrip()
        if self.status in (404, 410):
            return ObjectMissing(said)
        if self.status in (401, 403, 407, 451):
            return PermissionDenied(said)
        if self.status in (408, 425, 429) or self.status >= 500:
            return Unavailable(
                said, upstream=origin(self._response.url), delay_seconds=delay_of(self.headers)
            )
        return Permanent(said, reason="http_status", hint="Open the address by hand and compare.")

    async def raw(self) -> AsyncIterator[bytes]:
        """The body as it is sent, packed or not. One that is cut short raises `Unavailable`."""
        with _troubles(self.url, origin(self._response.url)):
            async for data in self._response.content.iter_any():
                self.received += len(data)
                self.refuse_more_than(self._limits.body_bytes, self.received)
                yield data

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body, unpacked, in pieces."""
        decoder = self.decoder()
        async for data in self.raw():
            for piece in decoder.feed(data):
                yield piece
        decoder.finish()

    def decoder(self) -> Decoder:
        """What takes off this body's `Content-Encoding`."""
        encoding = self.headers.get("Content-Encoding", "")
        return Decoder(
            encoding,
            self.url,
            most_bytes=self._limits.most_unpacked_bytes,
            most_ratio=self._limits.most_unpacked_ratio,
        )

    async def read(self, most_bytes: int) -> bytes:
        """The whole body. Raises `Permanent` when it has more than `most_bytes`."""
        body = bytearray()
        async for piece in self.chunks():
            body += piece
            self.refuse_more_than(most_bytes, len(body))
        return bytes(body)

    def refuse_more_than(self, most_bytes: int | None, size: int) -> None:
        """Raise `Permanent` when the body is larger than it may be."""
        if most_bytes is not None and size > most_bytes:
            said = f"{self.url} has more than {most_bytes:,} bytes"
            hint = "If that is right, raise the limit."
            raise Permanent(said, reason="body_limit", hint=hint)


class Client:
    """Asks. Lives on the event loop it is made on."""

    def __init__(self, limits: Limits | None = None, *, guard: Guard | None = None) -> None:
        need_aiohttp()
        from .connect import session

        self.limits = limits or Limits()
        self._guard = guard or installed()
        self._free = session(self.limits, None)
        self._guarded = session(self.limits, self._guard)

    async def close(self) -> None:
        await self._free.close()
        await self._guarded.close()

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def ask(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Headers | None = None,
        body: bytes | None = None,
        trusted: bool = False,
        limits: Limits | None = None,
    ) -> AsyncGenerator[Answer]:
        """The answer to a request, whatever its status, after redirects.

        `trusted`: the address was written by the operator. It is false for every address that
        came with data. Raises `PermissionDenied` (also `egress_refused`) and `Unavailable`.
        """
        ours = limits or self.limits
        plain = {name: reveal(value) for name, value in (headers or {}).items()}
        if trusted and (span := trace.current()) is not None:
            plain.setdefault(trace.PARENT, span.parent)
        response = await self._follow(_parsed(url), method, plain, body, trusted, ours)
        try:
            yield Answer(response, ours)
        finally:
            # An unread rest cannot be skipped cheaply; a connection can be opened again.
            response.close() if not response.content.at_eof() else response.release()

    async def _follow(
        self,
        url: URL,
        method: str,
        headers: dict[str, str],
        body: bytes | None,
        trusted: bool,
        limits: Limits,
    ) -> aiohttp.ClientResponse:
        chosen = url if trusted else None
        before: URL | None = None
        for _ in range(limits.redirects + 1):
            session = self._session(url, chosen, before)
            response = await _send(session, method, url, headers, body, limits)
            where = response.headers.get("Location")
            if response.status not in _REDIRECTS or not where:
                return response
            response.close()
            if method not in ("GET", "HEAD"):
                said = f"{shown(str(url))} answered {method} with a redirect"
                raise Permanent(said, reason="redirect", hint="Write the address it leads to.")
            before, url = url, _joined(url, where)
            if not same_place(before, url):
                # Nor does the way lead back: from here on strangers choose the path.
                chosen = None
                headers = {n: v for n, v in headers.items() if n.lower() in _HARMLESS}
        said = f"{shown(str(url))} redirects more than {limits.redirects} times"
        raise Permanent(said, reason="redirect", hint="Write the address it should lead to.")

    def _session(self, url: URL, chosen: URL | None, before: URL | None) -> aiohttp.ClientSession:
        """The pool for this hop. Raises `PermissionDenied` for a hop that may not be made."""
        host, port, seen = url.host or "", url.port or 0, shown(str(url))
        if url.scheme not in ("http", "https") or not host:
            raise refused(seen, "it is not a web address")
        if before is None and chosen is not None:
            return self._free
        if url.user is not None or url.password is not None:
            raise refused(seen, "it carries a user name")
        if self._guard.allows(host, port):
            return self._free
        if before is not None and before.scheme == "https" and url.scheme == "http":
            raise refused(seen, "the redirect leads from https to http")
        if chosen is not None and same_place(chosen, url):
            return self._free
        self._check_literal(host, port, seen)
        return self._guarded

    def _check_literal(self, host: str, port: int, seen: str) -> None:
        # aiohttp connects to an address without asking the resolver.
        try:
            address = literal(host.removesuffix("."))
        except ValueError as error:
            raise refused(seen, f"its host {error}") from None
        if address is not None:
            self._guard.check(str(address), port)


async def _send(
    session: aiohttp.ClientSession,
    method: str,
    url: URL,
    headers: Mapping[str, str],
    body: bytes | None,
    limits: Limits,
) -> aiohttp.ClientResponse:
    import aiohttp

    timeout = aiohttp.ClientTimeout(
        total=limits.total_seconds,
        sock_connect=limits.connect_seconds,
        sock_read=limits.read_seconds,
    )
    with _troubles(shown(str(url)), origin(url)):
        return await session.request(
            method, url, headers=headers, data=body, allow_redirects=False, timeout=timeout
        )


@contextmanager
def _troubles(what: str, upstream: str) -> Generator[None]:
    """What the network raises, in our words."""
    import aiohttp

    try:
        yield
    except (aiohttp.InvalidURL, UnicodeError) as error:
        raise refused(what, "it is not a web address") from error
    except TimeoutError as error:
        raise Unavailable(f"{what} did not answer in time", upstream=upstream) from error
    except (aiohttp.ClientError, OSError) as error:
        said = f"{what} cannot be read: {_words(error)}"
        raise Unavailable(said, upstream=upstream) from error


def _words(error: Exception) -> str:
    import aiohttp

    # The text of this one repeats the whole address, and with it what may be a secret.
    said = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
    return said.strip().partition("\n")[0] or type(error).__name__


def need_aiohttp() -> None:
    """Raise `ConfigError` when the extra is not installed."""
    try:
        import aiohttp  # noqa: F401  # pyright: ignore[reportUnusedImport] (is it there?)
    except ImportError as error:
        hint = "in Headgate's checkout: pip install '.[http]'"
        raise ConfigError("reading from the web needs the extra `http`", hint=hint) from error


def shared() -> Client:
    """The client of the background loop, for callers that block. It ends with the process."""
    guard = installed()
    return loop.keep((Client, guard.allowed), lambda: Client(guard=guard))


def shown(url: str) -> str:
    """An address as it may be shown: what may be a secret (user, query) is left out."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    place = parts.netloc.rpartition("@")[2]
    text = f"{parts.scheme}://{place}{parts.path}" + ("?…" if parts.query else "")
    return "".join(c if c.isprintable() else "\ufffd" for c in text)[:500]


def origin(url: URL) -> str:
    """Scheme, host and port: what goes down together."""
    return str(url.origin()) if url.absolute else ""


def same_place(one: URL, other: URL) -> bool:
    """The same server, also when it asks for https instead of http."""
    if one.host != other.host:
        return False
    upgraded = (one.scheme, one.port, other.scheme, other.port) == ("http", 80, "https", 443)
    return upgraded or (one.scheme == other.scheme and one.port == other.port)


def _parsed(url: str) -> URL:
    from yarl import URL

    if "\\" in url or not url.isprintable() or any(c.isspace() for c in url):
        raise refused(shown(url), "it has characters no address has")
    try:
        return URL(url)
    except ValueError:
        raise refused(shown(url), "it is not a web address") from None


def _joined(url: URL, where: str) -> URL:
    """Where a redirect leads. Half an address (`http:/x`) means different things to different
    programs, so it leads nowhere.
    """
    to = _parsed(where)
    if to.scheme and not to.host:
        raise refused(shown(where), "it is not a web address")
    return url.join(to)
