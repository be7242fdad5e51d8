"""A server with streams, and readers who follow them with a bare socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI

from headgate.server import listen


@asynccontextmanager
async def served(app: FastAPI) -> AsyncGenerator[int]:
    """The application on a port of this machine, until the block ends."""
    listening = listen.bind("127.0.0.1", 0)
    # So that who does not read is noticed by us, and not only by the kernel's buffers.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    stopping = asyncio.Event()
    serving = asyncio.create_task(listen.serve(app, listening, stopping))
    try:
        yield listening.getsockname()[1]
    finally:
        stopping.set()
        await serving
        listening.close()


@dataclass
class Reader:
    """Somebody who follows. `events` are what was told; `last` is the last id."""

    port: int
    token: str
    path: str = "/v1/changes/stream"
    last: str | None = None
    events: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    comments: list[str] = field(default_factory=list[str])
    _writer: asyncio.StreamWriter | None = None

    async def open(self, **stream: Any) -> asyncio.StreamReader:
        """Connect, and read the head of the answer."""
        where = {} if "sock" in stream else {"host": "127.0.0.1", "port": self.port}
        reader, writer = await asyncio.open_connection(**where, **stream)
        self._writer = writer
        resume = f"Last-Event-ID: {self.last}\r\n" if self.last else ""
        head = f"GET {self.path} HTTP/1.0\r\nHost: 127.0.0.1:{self.port}\r\n{resume}"
        writer.write(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in answer.split(b"\r\n")[0], answer
        assert b"text/event-stream" in answer
        return reader

    async def read(self, reader: asyncio.StreamReader, blocks: int) -> bool:
        """Take in so many blocks; False when the stream has ended."""
        for _ in range(blocks):
            try:
                block = (await reader.readuntil(b"\n\n")).decode()
            except (asyncio.IncompleteReadError, ConnectionError):
                return False
            fields = [line.partition(": ")[::2] for line in block.strip().split("\n")]
            said = {name: value for name, value in fields if name}
            self.comments += [value for name, value in fields if not name]
            self.last = said.get("id", self.last)
            if "data" in said:
                self.events.append((said["event"], json.loads(said["data"])))
        return True

    def told(self, name: str = "change") -> list[Any]:
        return [data for event, data in self.events if event == name]

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.transport.abort()
