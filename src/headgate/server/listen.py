"""Listening: the socket, how patient we are with whoever connects, and how it ends."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from headgate.errors import UsageError

HEAD_SECONDS = 10.0
IDLE_SECONDS = 15
DRAIN_SECONDS = 10
STALLED_SECONDS = 60.0
CONNECTIONS = 1000
HEAD_BYTES = 32_768


class Patient(H11Protocol):
    """HTTP with an end to waiting: for the head of a request, and for who does not read.

    uvicorn itself waits for ever for somebody who connects and says nothing, or says it slowly,
    or asks for much and takes nothing of it.
    """

    _overdue: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first one
        if cycle is None or cycle.response_complete:
            self._wait_for_head()
        else:
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait_for_head(self) -> None:
        if self._overdue is None:
            self._overdue = self.loop.call_later(HEAD_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None


def bind(host: str, port: int) -> socket.socket:
    """A listening socket. Raises `UsageError` when there cannot be one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(512)
        listening.setblocking(False)
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        raise UsageError(
            f"nothing can be served on {host} port {port}: {error.strerror or error}",
            hint="Stop who uses it, or set another port: HEADGATE_SERVE_PORT."
            if taken
            else "Set another host: HEADGATE_SERVE_HOST.",
        ) from error
    return listening


def address(listening: socket.socket) -> str:
    """Where it can be reached."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def is_loopback(host: str) -> bool:
    """Is this address reached from this machine alone?"""
    if host == "localhost":
        return True
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


async def serve(app: FastAPI, listening: socket.socket, stopping: asyncio.Event) -> None:
    """Answer until told to stop; then finish what was begun."""
    config = uvicorn.Config(
        app,
        http=Patient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        # What a proxy says about the caller is not believed: see names.py.
        proxy_headers=False,
        server_header=False,
        date_header=True,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
        limit_concurrency=CONNECTIONS,
        h11_max_incomplete_event_size=HEAD_BYTES,
    )
    server = _Quiet(config)
    answering = asyncio.create_task(server.serve(sockets=[listening]))
    stopped = asyncio.create_task(stopping.wait())
    await asyncio.wait({answering, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    app.state.feed.close()  # who follows would be waited for
    server.should_exit = True
    await answering


class _Quiet(uvicorn.Server):
    """uvicorn's server, which leaves signals to whoever started it."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
