"""Who reads, and what is left of a document for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from headgate.model.role import Principal
from headgate.pg import Database
from headgate.server.access import needs
from headgate.server.doors import Serving, ledger


@dataclass(frozen=True, slots=True)
class Reader:
    """One request of somebody who may read."""

    serving: Serving
    principal: Principal

    @asynccontextmanager
    async def look(self) -> AsyncGenerator[Database]:
        """The ledger, to be asked. Only so many ask at once: calls to be taken in need it too."""
        async with self.serving.readers, ledger():
            yield self.serving.db

    @property
    def sees_restricted(self) -> bool:
        return self.principal.sees_restricted

    def sees(self, pipeline: str) -> bool:
        """Is this pipeline one of theirs?"""
        return self.principal.sees(pipeline)

    def of(self, asked: Iterable[str] | None) -> list[str] | None:
        """The pipelines that an answer is about: those asked for that they see. None: all."""
        if asked is None:
            limited = self.principal.pipelines
            return None if limited is None else sorted(limited)
        return sorted(name for name in set(asked) if self.sees(name))


async def reader(request: Request, by: Annotated[Principal, Depends(needs("viewer"))]) -> Reader:
    """A dependency: who reads."""
    return Reader(request.app.state.serving, by)


Reading = Annotated[Reader, Depends(reader)]
