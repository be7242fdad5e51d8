"""A proxy between client and server that does something to one COMMIT and then behaves."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"

Fault = Literal["lose_reply", "lose_commit", "hang_up_quietly", "hold_reply"]


class Proxy:
    """Stands at `url`; `fault` names what happens to the next COMMIT."""

    def __init__(self, target: str, url: str) -> None:
        self.target = target
        self.url = url
        self.fault: Fault | None = None
        self.seen = asyncio.Event()  # a COMMIT was met
        self.release = asyncio.Event()  # "hold_reply" goes on
        self.may_connect = asyncio.Event()
        self.may_connect.set()
        self.abandoned: list[asyncio.StreamWriter] = []  # half-open connections, kept alive
        self.commits = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self.may_connect.wait()
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.close()
            return
        down = asyncio.ensure_future(self._pump(up_reader, writer))
        try:
            while data := await reader.read(65536):
                self.commits += COMMIT in data
                fault = self.fault if COMMIT in data else None
                if fault is None:
                    up_writer.write(data)
                    continue
                self.fault = None
                down.cancel()
                await asyncio.wait([down])
                if fault != "hold_reply":
                    await self._break(fault, data, up_reader, up_writer)
                    self.seen.set()
                    return
                up_writer.write(data)
                reply = await up_reader.read(65536)
                self.seen.set()
                await self.release.wait()
                writer.write(reply)
                down = asyncio.ensure_future(self._pump(up_reader, writer))
        except ConnectionError:
            pass
        finally:
            down.cancel()
            writer.close()
            if up_writer not in self.abandoned:
                up_writer.close()

    async def _break(
        self,
        fault: Fault,
        data: bytes,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> None:
        if fault == "lose_reply":
            up_writer.write(data)
            await up_reader.read(65536)
        elif fault == "hang_up_quietly":
            self.abandoned.append(up_writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
            writer.close()


@asynccontextmanager
async def proxy(url: str) -> AsyncGenerator[Proxy]:
    """A proxy in front of the server at `url`."""
    (folder,) = parse_qs(urlsplit(url).query)["host"]
    with tempfile.TemporaryDirectory(prefix="hgp-", dir="/tmp") as own:
        between = Proxy(f"{folder}/.s.PGSQL.5432", url.replace(folder, own))
        path = Path(own, ".s.PGSQL.5432")
        listener = await asyncio.start_unix_server(between.serve, path)
        try:
            yield between
        finally:
            listener.close()
            for writer in between.abandoned:
                writer.close()
