"""Doors for tests: the real application, asked in this process, with every byte in our hands."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI

import headgate as hg
from headgate.errors import Unavailable
from headgate.model.secret import Secret, env
from headgate.pg import Database
from headgate.server.app import make_app
from headgate.server.doors import open_doors

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return self.json["reason"]


Headers = Sequence[tuple[str | bytes, str | bytes]]


async def ask(
    app: FastAPI,
    method: str,
    path: str,
    headers: Headers | Mapping[str, str] = (),
    body: bytes | Iterable[bytes] = b"",
    *,
    client: tuple[str, int] = ("192.0.2.7", 4711),
) -> Answer:
    """One request to the application, byte for byte as given."""
    pairs = list(headers.items()) if isinstance(headers, Mapping) else list(headers)
    raw = [(_raw(k).lower(), _raw(v)) for k, v in pairs]
    chunks = iter([body] if isinstance(body, bytes) else body)
    announced = False
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        nonlocal announced
        if (chunk := next(chunks, None)) is not None:
            return {"type": "http.request", "body": chunk, "more_body": True}
        if not announced:
            announced = True
            return {"type": "http.request", "body": b"", "more_body": False}
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    where, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": where,
        "raw_path": quote(where).encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": raw,
        "client": client,
        "server": ("127.0.0.1", 80),
    }
    await app(scope, receive, send)
    start = next(m for m in sent if m["type"] == "http.response.start")
    content = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    got = {k.decode(): v.decode() for k, v in start["headers"]}
    return Answer(start["status"], got, content)


def _raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("latin-1")


class Dark:
    """A web in which there is nothing; or only what a test put there."""

    def __init__(self, pages: Mapping[str, bytes] | None = None) -> None:
        self.pages = dict(pages or {})
        self.asked: list[str] = []

    async def get(self, url: str, *, trusted: bool = False, most_bytes: int = 1 << 20) -> bytes:
        self.asked.append(url)
        if url not in self.pages:
            raise Unavailable(f"{url} does not answer")
        return self.pages[url]


def secret(value: str) -> Secret:
    """A handle on a secret that is made for this test."""
    name = f"TEST_SECRET_{next(_NUMBERS)}"
    os.environ[name] = value
    return env(name)


def whsec() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def signed(key: str, body: bytes, *, id: str = "msg_1", at: float | None = None) -> dict[str, str]:
    """The headers of a Standard Webhooks call, written down from the specification."""
    seconds = str(int(time.time() if at is None else at))
    raw = base64.b64decode(key.removeprefix("whsec_"))
    mac = hmac.new(raw, f"{id}.{seconds}.".encode() + body, hashlib.sha256).digest()
    return {
        "webhook-id": id,
        "webhook-timestamp": seconds,
        "webhook-signature": "v1," + base64.b64encode(mac).decode(),
    }


def github(key: str, body: bytes, *, id: str | None = None) -> dict[str, str]:
    """The headers of a call of GitHub's kind."""
    mac = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    return {"x-hub-signature-256": f"sha256={mac}"} | ({"x-github-delivery": id} if id else {})


async def app_of(
    db: Database, *pipelines: hg.Pipeline, web: Dark | None = None, rate: float = 1000, **more: Any
) -> FastAPI:
    """The application over the doors of these pipelines."""
    options = {"max_bytes": 1 << 16, "rate_per_second": rate, **more}
    return make_app(await open_doors(db, pipelines, web or Dark(), **options))
