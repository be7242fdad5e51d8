"""Who reads, and what is left of a document for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from headgate.pg import Database
from headgate.server.doors import Serving, ledger
from headgate.server.tokens import vouched


@dataclass(frozen=True, slots=True)
class Reader:
    """One request of somebody who may read. `pipelines` is what they are limited to; None: all."""

    serving: Serving
    sees_restricted: bool
    pipelines: frozenset[str] | None

    @asynccontextmanager
    async def look(self) -> AsyncGenerator[Database]:
        """The ledger, to be asked. Only so many ask at once: calls to be taken in need it too."""
        async with self.serving.readers, ledger():
            yield self.serving.db

    def sees(self, pipeline: str) -> bool:
        """Is this pipeline one of theirs?"""
        return self.pipelines is None or pipeline in self.pipelines

    def of(self, asked: Iterable[str] | None) -> list[str] | None:
        """The pipelines that an answer is about: those asked for that they see. None: all."""
        if asked is None:
            return None if self.pipelines is None else sorted(self.pipelines)
        return sorted(name for name in set(asked) if self.sees(name))


async def reader(request: Request) -> Reader:
    """A dependency: who reads. Raises `Refusal`."""
    await vouched(request, "read")
    return Reader(request.app.state.serving, True, None)


Reading = Annotated[Reader, Depends(reader)]
