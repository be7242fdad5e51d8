"""Who reads, and the one snapshot that an answer is read in.

Without a token, and only on this machine: what is declared public. With a token of the scope
`read`: everything. The same rule for documents and bytes, asked anew for each.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from fastapi import Request

from headgate.ledger.search import Look, look
from headgate.server.doors import Serving, ledger
from headgate.server.tokens import vouched

ROOT = "/stac"
_HOST = re.compile(
    r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?"
)


@dataclass(frozen=True, slots=True)
class Reader:
    """One request of somebody who may read. `base` is where this API is, as they see it."""

    serving: Serving
    restricted: bool
    base: str

    @asynccontextmanager
    async def look(self) -> AsyncGenerator[Look]:
        """The snapshot. Only so many are open at once: calls to be taken in need the ledger too."""
        snapshot = look(self.serving.db, restricted=self.restricted)
        async with self.serving.readers, ledger(), snapshot as seen:
            yield seen


async def reader(request: Request) -> Reader:
    """A dependency: who reads. Raises `Refusal`."""
    serving: Serving = request.app.state.serving
    by_token = await vouched(request, "read", here=True)
    return Reader(serving, by_token, address(request) + ROOT)


def address(request: Request) -> str:
    """Where the caller reached us. What it says of that itself is believed if it can be a host."""
    serving: Serving = request.app.state.serving
    if serving.url:
        return serving.url
    said = request.headers.getlist("host")
    if len(said) == 1 and _HOST.fullmatch(said[0]):
        return f"http://{said[0]}"
    host, port = request.scope.get("server") or ("localhost", None)
    return f"http://{host}:{port}" if port else f"http://{host}"
