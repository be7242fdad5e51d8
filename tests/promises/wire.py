"""A wire between clients and the server that loses the reply to a statement, and then behaves."""

from __future__ import annotations

import asyncio
import re
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

COMMIT = b"Q\x00\x00\x00\x0bCOMMIT\x00"
_PARSE = re.compile(rb"P....([^\0]*)\0([^\0]*)\0", re.DOTALL)


class Wire:
    """Stands at `url`. `lose` names the statement whose next reply that says something is lost."""

    def __init__(self, target: str, url: str) -> None:
        self.url = url
        self.lose: bytes | None = None
        self.lost = 0
        self._target = target

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await asyncio.open_unix_connection(self._target)
        except OSError:
            writer.close()
            return
        down = asyncio.ensure_future(_pump(up_reader, writer))
        names: dict[bytes, bytes] = {}
        recent = b""
        with suppress(ConnectionError):
            while data := await reader.read(1 << 20):
                names |= {name: sql for name, sql in _PARSE.findall(data) if name}
                recent = self._statement(data, names) or recent
                if self.lose is not None and self._is_it(data, recent):
                    down.cancel()
                    await asyncio.wait([down])
                    up_writer.write(data)
                    reply = await up_reader.read(1 << 20)
                    if b"SELECT 0\0" not in reply:  # the server has done it
                        self.lose = None
                        self.lost += 1
                        break
                    writer.write(reply)
                    down = asyncio.ensure_future(_pump(up_reader, writer))
                    continue
                up_writer.write(data)
        down.cancel()
        writer.close()
        up_writer.close()

    def _statement(self, data: bytes, names: dict[bytes, bytes]) -> bytes:
        """The prepared statement that is run here."""
        bound = re.match(rb"B....[^\0]*\0([^\0]+)\0", data, re.DOTALL)
        return names.get(bound[1], b"") if bound else b""

    def _is_it(self, data: bytes, recent: bytes) -> bool:
        assert self.lose is not None
        if self.lose == b"finalize":  # the COMMIT that follows what is last in a finalize
            return COMMIT in data and b"headgate.seal" in recent
        return self.lose in recent and data[:1] == b"B"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 20):
            writer.write(data)
        writer.close()


@contextmanager
def wire(url: str) -> Iterator[Wire]:
    """A wire to the server at `url`, in a thread of its own."""
    (folder,) = parse_qs(urlsplit(url).query)["host"]
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    with tempfile.TemporaryDirectory(prefix="hgw-", dir="/tmp") as own:
        between = Wire(f"{folder}/.s.PGSQL.5432", url.replace(folder, own))
        starting = asyncio.start_unix_server(between.serve, Path(own, ".s.PGSQL.5432"))
        listener = asyncio.run_coroutine_threadsafe(starting, loop).result()
        try:
            yield between
        finally:
            loop.call_soon_threadsafe(listener.close)
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
