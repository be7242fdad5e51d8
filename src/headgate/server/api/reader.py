"""Who reads, and what is left of a document for them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import orjson
from fastapi import Depends, Request

from headgate.model.role import Principal
from headgate.pg import Database
from headgate.server.access import needs
from headgate.server.doors import Serving, ledger
from headgate.server.redact import Eyes, eyes, redacted

from .answers import render


@dataclass(frozen=True, slots=True)
class Look:
    """The ledger, and what its reader may see of it."""

    db: Database
    eyes: Eyes

    def shown(self, pipeline: str | None, document: Any) -> Any:
        """A document about something of this pipeline, as they may read it."""
        return hidden(document) if self.eyes.hides(pipeline) else document

    async def searched(self, pipelines: list[str] | None, uri: str | None) -> list[str] | None:
        """Of these pipelines (None: all), those in which they may look for a uri."""
        return await self.eyes.searched(self.db, pipelines, uri)


@dataclass(frozen=True, slots=True)
class Reader:
    """One request of somebody who may read."""

    serving: Serving
    principal: Principal

    @asynccontextmanager
    async def look(self) -> AsyncGenerator[Look]:
        """The ledger, to be asked. Only so many ask at once: calls to be taken in need it too."""
        async with self.serving.readers, ledger():
            yield Look(self.serving.db, await eyes(self.serving.db, self.principal))

    @property
    def sees_restricted(self) -> bool:
        return self.principal.sees_restricted

    def sees(self, *pipelines: str) -> bool:
        """Are these pipelines theirs, all of them?"""
        return all(self.principal.sees(name) for name in pipelines)

    def of(self, asked: Iterable[str] | None) -> list[str] | None:
        """The pipelines that an answer is about: those asked for that they see. None: all."""
        if asked is None:
            limited = self.principal.pipelines
            return None if limited is None else sorted(limited)
        return sorted(name for name in set(asked) if self.sees(name))


def hidden(document: Any) -> Any:
    """What is left of a document for who may not read what is restricted."""
    return redacted(orjson.loads(render(document)))


async def reader(request: Request, by: Annotated[Principal, Depends(needs("viewer"))]) -> Reader:
    """A dependency: who reads."""
    return Reader(request.app.state.serving, by)


Reading = Annotated[Reader, Depends(reader)]
