"""A proxy in front of SQS that does what networks and queues do on their worst day, by seed.

It duplicates, shuffles and delays what is received, loses acknowledgements (some never arrive, of
others only the answer is lost, some succeed in part) and cuts connections before or after the
request got through. Whatever it does is possible with the real thing.
"""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientSession, TCPConnector, web

TARGET = "X-Amz-Target"


@dataclass(frozen=True, slots=True)
class Odds:
    """How often each of it happens."""

    again: float = 0.0
    shuffle: float = 0.0
    delay: float = 0.0
    lose_ack: float = 0.0
    half_ack: float = 0.0
    cut_before: float = 0.0
    cut_after: float = 0.0


WORST = Odds(
    again=0.3, shuffle=0.5, delay=0.1, lose_ack=0.2, half_ack=0.2, cut_before=0.03, cut_after=0.05
)
# A FIFO queue never shuffles, and nobody but itself repeats what it said.
WORST_FIFO = Odds(delay=0.1, lose_ack=0.2, half_ack=0.2, cut_before=0.03, cut_after=0.05)

Hook = Callable[[str, str], None]


class Anomaly:
    """Stands at `endpoint`. `odds` may be changed at any time; `did` counts what it did.

    `hook(action, when)` is called before a request is handed on and after it was answered.
    """

    def __init__(self, target: str, odds: Odds, seed: int) -> None:
        self.endpoint = ""
        self.odds = odds
        self.did: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.bodies: deque[tuple[str, bytes]] = deque(maxlen=100)
        self.hook: Hook = lambda action, when: None
        self._target = target
        self._dice = random.Random(seed)
        self._heard: deque[dict[str, Any]] = deque(maxlen=200)
        self._session: ClientSession

    def _happens(self, what: str) -> bool:
        happens = self._dice.random() < getattr(self.odds, what)
        self.did[what] += happens
        return happens

    async def start(self) -> web.AppRunner:
        self._session = ClientSession(connector=TCPConnector(limit=0), auto_decompress=False)
        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{rest:.*}", self._serve)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    async def stop(self, runner: web.AppRunner) -> None:
        await self._session.close()
        await runner.cleanup()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        action = request.headers.get(TARGET, "").rpartition(".")[2]
        self.asked[action] += 1
        self.bodies.append((action, body))
        if self._happens("delay"):
            await asyncio.sleep(self._dice.random() / 10)
        if self._happens("cut_before"):
            return _cut(request)
        self.hook(action, "before")
        if action == "DeleteMessageBatch":
            status, answer = await self._delete(request, json.loads(body))
        else:
            status, answer = await self._forward(request, body)
        self.hook(action, "after")
        if self._happens("cut_after"):
            return _cut(request)
        if action == "ReceiveMessage" and status == 200:
            answer = self._garble(json.loads(answer))
        return web.Response(body=answer, status=status, content_type="application/x-amz-json-1.0")

    async def _delete(self, request: web.Request, asked: dict[str, Any]) -> tuple[int, bytes]:
        entries = asked["Entries"]
        if self._happens("lose_ack"):
            return 200, _successful(entries)
        if not self._happens("half_ack"):
            return await self._forward(request, json.dumps(asked).encode())
        kept = [e for e in entries if self._dice.random() < 0.5]
        gone = [e for e in entries if e not in kept]
        if gone:
            await self._forward(request, json.dumps(asked | {"Entries": gone}).encode())
        failed = [{"Id": e["Id"], "Code": "InternalError", "SenderFault": False} for e in kept]
        done = [{"Id": e["Id"]} for e in gone]
        return 200, json.dumps({"Successful": done, "Failed": failed}).encode()

    def _garble(self, answer: dict[str, Any]) -> bytes:
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        fresh = list(messages)
        if messages and self._heard and self._happens("again"):
            messages = [*messages, self._dice.choice(self._heard)]
        if messages and self._happens("shuffle"):
            self._dice.shuffle(messages)
        self._heard += fresh
        return json.dumps({"Messages": messages} if messages else {}).encode()

    async def _forward(self, request: web.Request, body: bytes) -> tuple[int, bytes]:
        headers = {k: v for k, v in request.headers.items() if k.lower() != "content-length"}
        url = f"{self._target}{request.path_qs}"
        async with self._session.request(request.method, url, data=body, headers=headers) as got:
            return got.status, await got.read()


def _successful(entries: list[dict[str, Any]]) -> bytes:
    return json.dumps({"Successful": [{"Id": e["Id"]} for e in entries], "Failed": []}).encode()


def _cut(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@contextmanager
def anomaly(target: str, odds: Odds, seed: int = 1) -> Iterator[Anomaly]:
    """A proxy to the emulator at `target`, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    between = Anomaly(target, odds, seed)
    runner = asyncio.run_coroutine_threadsafe(between.start(), loop).result()
    try:
        yield between
    finally:
        asyncio.run_coroutine_threadsafe(between.stop(runner), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
