"""Where the operations of this process are remembered: one pool, on the background loop.

It is opened by the first operation and closed with the process. A forked child opens its own.

An operation needs a ledger that everybody shares: with a private one on each machine, work would
run once per machine. So without an address it is refused, except where nobody else could be meant:
under pytest, and in `headgate try`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from headgate.errors import ConfigError
from headgate.net import loop
from headgate.operations.desk import Desk
from headgate.operations.keeper import Keeper
from headgate.pg import Database

if TYPE_CHECKING:
    from headgate.ledger.operation import Held
    from headgate.model.operation import Named
    from headgate.settings import Settings
    from headgate.telemetry.otlp import Exporter

CONNECTIONS = 32
# Set by `headgate try`: the scratch database of a rehearsal, which is used instead of any other.
TRYING = "HEADGATE_TRYING"


class ProcessHome:
    """The ledger of this process' operations."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.assumed = settings.assumed()
        self._exporter: Exporter | None = None
        self._stack = AsyncExitStack()
        self._opening = asyncio.Lock()
        self._db: Database | None = None
        self._keeper: Keeper | None = None
        self._desk: Desk | None = None

    async def database(self) -> Database:
        if self._db is None:
            from headgate.runtime.ledger_home import connected

            async with self._opening:
                if self._db is None:
                    self._show()
                    ledger = connected(self._settings.ledger(), connections=CONNECTIONS)
                    self._db = await self._stack.enter_async_context(ledger)
        return self._db

    async def keeper(self) -> Keeper:
        if self._keeper is None:
            self._keeper = Keeper(await self.database())
        return self._keeper

    async def desk(self) -> Desk:
        if self._desk is None:
            self._desk = Desk(await self.database())
        return self._desk

    def opened(self) -> tuple[Desk, Keeper] | None:
        """Desk and keeper at once; None until the first operation opened the ledger."""
        if self._desk is None or self._keeper is None:
            return None
        return self._desk, self._keeper

    def _show(self) -> None:
        """Send metrics to the collector, unless somebody in this process hears them already."""
        from headgate.model import signal

        s = self._settings
        if not s.otlp_endpoint or signal.heard():
            return
        from headgate.telemetry.metrics import Metrics
        from headgate.telemetry.otlp import Exporter

        metrics = Metrics(s.env)
        self._exporter = Exporter(s.otlp_endpoint, metrics, s.env)
        signal.listen(metrics.hear)

    async def close(self) -> None:
        await self._stack.aclose()
        if self._exporter is not None:
            await asyncio.to_thread(self._exporter.close)

    async def escalate(self, named: Named, key: str, held: Held) -> None:
        """Tell the incident hook, if there is one. The caller waits: its process may end next."""
        from headgate.runtime.incident import Hook

        s = self._settings
        hook = Hook(s.incident_hook, s.incident_seconds, s.env)
        await hook.escalated(
            await self.database(),
            named.pipeline,
            named.task,
            dataset=named.dataset,
            operation=named.operation,
            key=key,
            held_by=held.holder,
            lease_seconds_left=round(held.left_seconds, 1),
        )


_known: dict[tuple[str | None, str | None], tuple[loop.Background, ProcessHome]] = {}


def home() -> ProcessHome:
    """The home of this process. Raises `ConfigError` without a database that is shared.

    Settings are read when the environment names another ledger than before, not for each operation.
    """
    told = os.environ.get("HEADGATE_DATABASE_URL"), os.environ.get(TRYING)
    ours = loop.background()
    known = _known.get(told)
    if known is None or known[0] is not ours:  # a forked child opens its own
        known = _known[told] = ours, _open()
    return known[1]


def _open() -> ProcessHome:
    from headgate.settings import Settings

    trying = os.environ.get(TRYING)
    scratch = {"database_url": trying, "schema": "headgate", "pooler": False}
    settings = Settings.load(scratch if trying else None)
    if settings.embedded and not _nobody_else():
        raise ConfigError(
            "an operation needs a database that all its callers share, and none is set",
            hint="Set HEADGATE_DATABASE_URL=postgresql://user@host/name, or database_url in"
            " headgate.toml. A private server here would let the work run once per machine.",
        )
    where = (settings.database_url, settings.schema, settings.home, settings.pooler)
    return loop.keep(("operations", where), lambda: ProcessHome(settings))


def _nobody_else() -> bool:
    return "pytest" in sys.modules or "PYTEST_CURRENT_TEST" in os.environ
