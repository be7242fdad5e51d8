"""Web servers on loopback, each in a thread of its own, that say what a test tells them to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answering = Callable[[web.Request], Awaitable[web.StreamResponse]]
Speaking = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Asked:
    """A request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Web:
    """A server that heard something, and where it is."""

    port: int = 0
    asked: list[Asked] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def _in_thread(start: Callable[[], Awaitable[Callable[[], Awaitable[Any]]]]) -> Iterator[None]:
    """Start a server on a loop in a thread; end it the way it says."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def begin() -> Callable[[], Awaitable[Any]]:
        return await start()

    async def finish() -> None:
        await stop()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    stop = asyncio.run_coroutine_threadsafe(begin(), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(finish(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@contextmanager
def serving(answer: Answering) -> Iterator[Web]:
    """An aiohttp server whose every request is answered by `answer`."""
    here = Web()

    async def handle(request: web.Request) -> web.StreamResponse:
        here.asked.append(Asked(request.method, request.path_qs, _lower(request.headers)))
        return await answer(request)

    async def start() -> Callable[[], Awaitable[Any]]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        here.port = runner.addresses[0][1]
        return runner.cleanup

    with _in_thread(start):
        yield here


@contextmanager
def speaking(
    speak: Speaking, host: str | list[str] = "127.0.0.1", ssl: Any = None
) -> Iterator[Web]:
    """A server that says byte for byte what `speak` writes; it hangs up afterwards."""
    here = Web()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ", 2)
            pairs = [line.split(":", 1) for line in head[1:] if line]
            asked = Asked(method, path, {n.lower(): v.strip() for n, v in pairs})
            here.asked.append(asked)
            await speak(asked, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def start() -> Callable[[], Awaitable[Any]]:
        server = await asyncio.start_server(talk, host, 0, ssl=ssl)
        here.port = server.sockets[0].getsockname()[1]

        async def stop() -> None:
            server.close()

        return stop

    with _in_thread(start):
        yield here


def say(writer: asyncio.StreamWriter, status: str, body: bytes = b"", **headers: str) -> None:
    """A whole answer. `Content_Length=""` leaves the length out."""
    named = {"Content-Length": str(len(body)), "Connection": "close"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in named.items() if value]
    writer.write("\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body)


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
