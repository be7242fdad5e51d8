"""A cloud that misbehaves: a proxy on loopback that answers some requests itself, or not at all."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "transfer-encoding", "content-length"}


class Faults:
    """`rule` is asked about each request: None lets it pass, a pair is the answer it gets instead.

    `hold` answers nothing until the test is over; `cut` passes half of the answer's body.
    """

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.rule: Callable[[str, str], tuple[int, str] | str | None] = lambda method, path: None
        self.asked: list[tuple[str, str]] = []
        self.held = Event()
        self.over = Event()


@contextmanager
def faults(target: str) -> Iterator[Faults]:
    """A proxy before `target`."""
    there = urlsplit(target).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            state.asked.append((self.command, self.path))
            what = state.rule(self.command, self.path)
            if what == "hold":
                state.held.set()
                state.over.wait()
                self.close_connection = True
            elif isinstance(what, tuple):
                self.reply(what[0], {"Content-Type": "application/xml"}, what[1].encode())
            else:
                self.forward(body, cut=what == "cut")

        def forward(self, body: bytes, cut: bool) -> None:
            upstream = http.client.HTTPConnection(there, timeout=60)
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
            upstream.request(self.command, self.path, body, headers)
            got = upstream.getresponse()
            said = {k: v for k, v in got.getheaders() if k.lower() not in HOP_BY_HOP}
            length = int(got.getheader("Content-Length") or 0)
            self.reply(got.status, said, got.read(), length=length, cut=cut)
            upstream.close()

        def reply(
            self,
            status: int,
            headers: dict[str, str],
            body: bytes,
            length: int = 0,
            cut: bool = False,
        ) -> None:
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body) or length))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = cut

        def log_message(self, format: str, *args: object) -> None:
            pass

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state = Faults(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        state.over.set()
        server.shutdown()
        server.server_close()
        thread.join()


def refusal(code: str, message: str = "No.", extra: str = "") -> str:
    """What S3 says when it refuses."""
    return f"<Error><Code>{code}</Code><Message>{message}</Message>{extra}</Error>"
