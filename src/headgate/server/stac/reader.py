"""Who reads, and the one snapshot that an answer is read in.

A viewer, or whoever sits on this machine, reads what is declared public; a steward everything. Who
is limited to pipelines reads what those published. The same rule for documents and bytes, asked
anew for each.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from headgate.ledger.search import Look, look
from headgate.model.role import Principal
from headgate.server.access import needs
from headgate.server.doors import Serving, ledger
from headgate.server.names import HOST

ROOT = "/stac"


@dataclass(frozen=True, slots=True)
class Reader:
    """One request of somebody who may read. `base` is where this API is, as they see it."""

    serving: Serving
    principal: Principal
    base: str

    @property
    def restricted(self) -> bool:
        """Is what they read for them, and not for whoever asks after them?"""
        return self.principal.sees_restricted or self.principal.pipelines is not None

    @asynccontextmanager
    async def look(self) -> AsyncGenerator[Look]:
        """The snapshot. Only so many are open at once: calls to be taken in need the ledger too."""
        by = self.principal
        snapshot = look(self.serving.db, restricted=by.sees_restricted, pipelines=by.pipelines)
        async with self.serving.readers, ledger(), snapshot as seen:
            yield seen


async def reader(
    request: Request, by: Annotated[Principal, Depends(needs("viewer", here=True))]
) -> Reader:
    """A dependency: who reads."""
    return Reader(request.app.state.serving, by, address(request) + ROOT)


def address(request: Request) -> str:
    """Where the caller reached us. What it says of that itself is believed if it can be a host."""
    serving: Serving = request.app.state.serving
    if serving.url:
        return serving.url
    said = request.headers.getlist("host")
    if len(said) == 1 and HOST.fullmatch(said[0]):
        return f"http://{said[0]}"
    host, port = request.scope.get("server") or ("localhost", None)
    return f"http://{host}:{port}" if port else f"http://{host}"
