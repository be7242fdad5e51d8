"""How a transaction ended when the answer to COMMIT was lost.

Sending COMMIT again is never right: the first one may have worked. The server knows, so we ask it
by the transaction's id until it answers, over as many connections as that takes.

Two things make the answer less simple than it looks. A backend whose client vanished may hold
the transaction open for as long as TCP lets it: it is ended, which also settles the question.
And after a crash Postgres hands out again the ids that had not reached the disk, so "committed"
may speak of a stranger's transaction: a `proof` query, true only if our own rows are there,
tells them apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from headgate.pg import driver
from headgate.pg.driver import Connection
from headgate.pg.link import is_away, localize

Outcome = Literal["committed", "aborted", "unknown"]
Connect = Callable[[], Awaitable[Connection]]

DEADLINE_SECONDS = 600.0
GRACE_SECONDS = 5.0  # how long a transaction may still be in progress before its backend is ended

_STATUS = "SELECT pg_is_in_recovery(), pg_xact_status($1::text::xid8)"
_END_BACKEND = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
 WHERE backend_xid = $1::text::xid8::xid AND usename = current_user
"""


async def find_out(
    connect: Connect,
    xid: int,
    proof: tuple[str, tuple[Any, ...]] | None,
    schema: str,
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
    grace_seconds: float = GRACE_SECONDS,
) -> Outcome:
    """Ask until the end is known; "unknown" only when the deadline passed without an answer."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    pause = 0.02
    while loop.time() - began < deadline_seconds:
        try:
            connection = await connect()
            try:
                end_it = loop.time() - began > grace_seconds
                answer = await _ask(connection, xid, proof, schema, end_backend=end_it)
            finally:
                connection.terminate()
        except Exception as error:
            # A login that is refused while the server comes up is also only a matter of time.
            if not (is_away(error) or isinstance(error, (TimeoutError, driver.PostgresError))):
                raise
            answer = None
        if answer is not None:
            return answer
        await asyncio.sleep(pause)
        pause = min(pause * 2, 2.0)
    return "unknown"


async def _ask(
    connection: Connection,
    xid: int,
    proof: tuple[str, tuple[Any, ...]] | None,
    schema: str,
    *,
    end_backend: bool,
) -> Outcome | None:
    """One question over one connection; None means ask again."""
    try:
        row = await connection.fetchrow(_STATUS, str(xid), timeout=30)
    except driver.InvalidParameter:
        # "transaction ID is in the future": it never reached the disk before a crash.
        return "aborted"
    if row is None or row[0]:
        return None  # a standby that is about to be promoted: its answer may still change
    match row[1]:
        case "aborted":
            return "aborted"
        case "committed":
            if proof is None:
                return "committed"
            sql, args = proof
            ours = await connection.fetchval(localize(sql, schema), *args, timeout=30)
            return "committed" if ours else "aborted"
        case "in progress":
            if end_backend:
                await connection.execute(_END_BACKEND, str(xid), timeout=30)
            return None
        case _:  # null: so long ago that the server forgot
            return "unknown"
