"""Free SQL: handlers that run statements of their own in the finalize transaction (C4.2).

They share one transaction, in chunks behind savepoints. A handler that fails costs its chunk a
rerun, not the batch; the others lose nothing but time. Measured, a savepoint for each entry is
half as fast, and rolling the whole batch back collapses at one percent of poison.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from headgate.errors import DeadlineExceeded, EffectRefused, LedgerUnavailable
from headgate.model.pipeline import ApplyStep
from headgate.pg import Link, driver
from headgate.pg.link import is_away

from .run import in_thread, mishap
from .settlement import Settlement
from .transaction import BlockingTx, Tx

CHUNK = 32
# The whole transaction is run again, and nobody is charged.
_NOBODYS_FAULT = (driver.Deadlock, driver.SerializationFailed)
# What a handler raises by itself may look alike: a refused connection to somewhere else, say.
_DRIVERS = (driver.PostgresError, driver.InterfaceError, driver.InternalClientError)

Deferred = tuple[str, tuple[Any, ...]]
Write = Callable[[Link, Sequence[Settlement]], Awaitable[None]]


class _Culprit(Exception):
    """One entry's handler failed; the chunk is undone and run again without it."""

    def __init__(self, settlement: Settlement, error: BaseException) -> None:
        self.settlement = settlement
        self.error = error


async def apply(
    link: Link,
    steps: Sequence[ApplyStep],
    settlements: Sequence[Settlement],
    write_rows: Write,
    limit_seconds: float,
) -> list[tuple[Settlement, BaseException]]:
    """Run every handler for every entry, rows first; the entries that failed, undone, with why."""
    failed: list[tuple[Settlement, BaseException]] = []
    for at in range(0, len(settlements), CHUNK):
        chunk = list(settlements[at : at + CHUNK])
        one_by_one = False
        await link.execute("SAVEPOINT headgate_chunk")
        while chunk:
            try:
                await write_rows(link, chunk)
                await _chunk(link, steps, chunk, limit_seconds, one_by_one)
                break
            except _Culprit as culprit:
                failed.append((culprit.settlement, culprit.error))
                chunk.remove(culprit.settlement)
            except _Unclear:
                one_by_one = True
            await link.execute("ROLLBACK TO headgate_chunk")
        await link.execute("RELEASE headgate_chunk")
    return failed


class _Unclear(Exception):
    """A deferred statement failed, and it is not known whose: run them entry by entry."""


async def _chunk(
    link: Link,
    steps: Sequence[ApplyStep],
    chunk: Sequence[Settlement],
    limit_seconds: float,
    one_by_one: bool,
) -> None:
    deferred: list[Deferred] = []
    for settlement in chunk:
        tx, limit = Tx(link.raw), asyncio.timeout(limit_seconds)
        try:
            async with limit:
                await _entry(steps, tx, settlement)
                if one_by_one:
                    await _flush(link, tx.deferred)
        except _NOBODYS_FAULT:
            raise
        except BaseException as raised:
            error = mishap(raised)
            _wait_out(link, tx.failed or error)
            # The handler may also raise a TimeoutError of its own.
            if limit.expired():
                late = DeadlineExceeded(f"apply ran longer than {limit_seconds:g} s")
                raise _Culprit(settlement, late) from None
            raise _Culprit(settlement, error) from error
        if not one_by_one:
            deferred += tx.deferred
    try:
        await _flush(link, deferred)
    except _NOBODYS_FAULT:
        raise
    except (driver.PostgresError, driver.InterfaceError, ValueError, TypeError) as error:
        _wait_out(link, error)
        raise _Unclear from error


def _wait_out(link: Link, error: BaseException) -> None:
    """Raise `LedgerUnavailable` when it was Postgres that failed: no entry is charged for that."""
    if link.closed or (isinstance(error, _DRIVERS) and is_away(error)):
        raise LedgerUnavailable(
            f"Postgres went away while apply ran: {error}", upstream="postgres"
        ) from error


async def _entry(steps: Sequence[ApplyStep], tx: Tx, settlement: Settlement) -> None:
    try:
        for step in steps:
            await _call(step, tx, settlement)
            if tx.failed is not None:
                raise tx.failed
    finally:
        await tx.end()


async def _flush(link: Link, deferred: Sequence[Deferred]) -> None:
    # Neighbours with the same text travel together; the order of statements stays as it was said.
    at = 0
    while at < len(deferred):
        sql, end = deferred[at][0], at
        while end < len(deferred) and deferred[end][0] == sql:
            end += 1
        await link.raw.executemany(sql, [args for _, args in deferred[at:end]])
        at = end


async def _call(step: ApplyStep, tx: Tx, settlement: Settlement) -> None:
    if settlement.given is None:
        raise EffectRefused(
            f"{settlement.claim.uri} was removed; what {step.step.name} did cannot be taken back",
            hint="Undo it by hand, then: headgate quarantine discard ENTRY --because ...",
        )
    obj, run = settlement.given
    with run.inside_apply():
        if step.step.is_async:
            args: tuple[Any, ...] = (tx, obj, run)
            await step.step.function(*args[: step.step.takes])
        else:
            blocking = BlockingTx(tx, asyncio.get_running_loop())
            args = (blocking, obj, run)
            await in_thread(step.step.function, *args[: step.step.takes])
