"""Everything that can be shown, turned on in the processes of a run, as `headgate up` does it.

Children count, trace, meter and log; what they say travels over a pipe to a supervisor, which sends
it by OTLP to a collector that reads it and forgets it. All of them share the machine with the work.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection, wait
from typing import Any

from headgate.model import signal, trace
from headgate.runtime.child import SIGNALS_EVERY_SECONDS
from headgate.telemetry import relay
from headgate.telemetry.log import configure
from headgate.telemetry.metrics import Metrics
from headgate.telemetry.otlp import Exporter
from headgate.telemetry.relay import Collector
from headgate.telemetry.spans import Gathered

from .processes import Report, Together


@contextmanager
def showing(line: Connection | None) -> Generator[None]:
    """All signals, spans and lines of this process, for the block."""
    if line is None:
        yield
        return
    collector, spans = Collector(), Gathered()
    stops = [signal.listen(collector.hear), trace.export_to(spans.hear)]
    configure("json", "info", stream=open(os.devnull, "w"))  # noqa: SIM115 (as long as the process)

    def flush() -> None:
        for told in spans.drain():
            line.send_bytes(b"s" + told)
        if (told := collector.drain()) is not None:
            line.send_bytes(b"m" + told)

    async def tell() -> None:
        while True:
            await asyncio.sleep(SIGNALS_EVERY_SECONDS)
            flush()

    telling = asyncio.get_running_loop().create_task(tell())
    try:
        yield
    finally:
        telling.cancel()
        for stop in stops:
            stop()
        flush()
        line.close()


def supervisor(together: Together, lines: list[Connection], endpoint: str) -> Report:
    """The process that exports, until nobody is left to say anything."""
    metrics = Metrics("bench")
    exporter = Exporter(endpoint, metrics, "bench")
    together.begin()
    told = 0
    while lines:
        for line in wait(lines):
            assert isinstance(line, Connection)
            try:
                said = line.recv_bytes()
            except EOFError:
                lines.remove(line)
                continue
            told += 1
            if said[:1] == b"s":
                exporter.take(said[1:])
            else:
                relay.apply(said[1:], metrics)
    exporter.close()
    sums = metrics.tally.snapshot().numbers
    dropped = sum(n for (name, _), n in sums.items() if name == signal.DROPPED.name)
    return {"lines": told, "dropped": dropped}


class _Forgets(BaseHTTPRequestHandler):
    received = 0

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        self.rfile.read(size)
        _Forgets.received += size
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def sink(ports: Connection, stop: Any) -> None:
    """A collector that reads and forgets, in a process of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Forgets) as server:
        server.timeout = 0.2
        ports.send(server.server_port)
        while not stop.is_set():
            server.handle_request()
        ports.send(_Forgets.received)
