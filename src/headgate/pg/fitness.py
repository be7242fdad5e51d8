"""Is this server fit to keep a ledger? What it says about itself decides, before anything runs."""

from __future__ import annotations

from headgate import errors
from headgate.pg.link import Link

OLDEST_MAJOR = 14

_SETTINGS = """
SELECT current_setting('server_version_num')::int / 10000 AS major,
       current_setting('fsync') AS fsync,
       current_setting('full_page_writes') AS full_page_writes,
       current_setting('synchronous_commit') AS synchronous_commit,
       pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only') = 'on' AS read_only
"""


async def require(link: Link, place: str, *, allow_unsafe: bool = False) -> None:
    """`LedgerRefused` for a server that is too old, cannot be written, or forgets what it said.

    `allow_unsafe` waives only the last: a server that loses commits in a crash.
    """
    row = await link.fetchrow(_SETTINGS)
    assert row is not None, "a SELECT without FROM has one row"
    if row["major"] < OLDEST_MAJOR:
        raise errors.LedgerRefused(
            f"{place} runs PostgreSQL {row['major']}; Headgate needs {OLDEST_MAJOR} or newer",
            hint="Upgrade the server.",
        )
    if row["standby"]:
        raise errors.LedgerRefused(
            f"{place} is a standby: it cannot be written",
            hint="Use the primary's address, or target_session_attrs=read-write with all of them.",
        )
    if row["read_only"]:
        raise errors.LedgerRefused(
            f"{place} gives this user only read-only transactions",
            hint="Look for default_transaction_read_only on the server, database and role.",
        )
    off = [
        name for name in ("fsync", "full_page_writes", "synchronous_commit") if row[name] == "off"
    ]
    if off and not allow_unsafe:
        raise errors.LedgerRefused(
            f"{place} runs with {', '.join(f'{name}=off' for name in off)}:"
            " a crash would lose work that was reported as done",
            hint=f"Turn on {' and '.join(off)}, or use another server.",
        )
