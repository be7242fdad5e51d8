"""Opening the ledger to look at it: never makes one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from headgate.errors import UsageError

if TYPE_CHECKING:
    from headgate.pg import Database
    from headgate.settings import Settings

T = TypeVar("T")


@asynccontextmanager
async def opened(settings: Settings, *, check: bool = True) -> AsyncGenerator[Database]:
    """The ledger that these settings name. `UsageError` when there is none yet."""
    from headgate.pg import cluster
    from headgate.runtime.ledger_home import connected

    if settings.embedded and not cluster.data_folder(settings.home / "postgres").is_dir():
        raise UsageError(
            f"there is no ledger in {settings.home} yet",
            hint="Run a pipeline first: headgate up FILE.py. Or name the ledger: --home, or"
            " HEADGATE_DATABASE_URL.",
        )
    async with connected(settings.ledger(), connections=3, initialise=False, check=check) as db:
        yield db


def ask(settings: Settings, question: Callable[[Database], Awaitable[T]]) -> T:
    """Open the ledger, ask one thing, close it."""
    from headgate.runtime.loop import run

    async def go() -> T:
        async with opened(settings) as db:
            return await question(db)

    return run(go)
