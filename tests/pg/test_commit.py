"""The end of a transaction is always known, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.pg.processes import eventually, is_serving, kill, server_pid
from tests.pg.proxy import Fault, Proxy, proxy

from headgate import errors
from headgate.pg import Database, Link, Server, driver, embedded

XID = "SELECT pg_current_xact_id()::text::bigint"


async def insert(db: Database, *, xid: bool = True) -> Link:
    async with db.transaction() as link:
        if xid:
            link.xid = await link.fetchval(XID)
        await link.execute("INSERT INTO public.effect VALUES (1)")
    return link


async def world(between: Proxy, direct: str) -> tuple[Database, Database]:
    """A database seen through the proxy, and the same one seen directly."""
    truth = await Database.open(direct)
    await truth.execute("CREATE TABLE IF NOT EXISTS public.effect (n int)")
    db = await Database.open(between.url)
    db.outcome_grace_seconds = 0.1
    return db, truth


async def effects(db: Database) -> int:
    return await db.fetchval("SELECT count(*) FROM public.effect")


def test_a_commit_whose_answer_was_lost_is_known_to_be_committed(url: str) -> None:
    """The network eats the server's answer: the caller goes on as if nothing had happened."""

    async def scenario() -> None:
        async with proxy(url) as between:
            db, truth = await world(between, url)
            between.fault = "lose_reply"
            link = await insert(db)
            assert link.committed is True
            assert between.commits == 1, "COMMIT was sent again"
            assert await effects(truth) == 1
            await db.close()
            await truth.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("fault", ["lose_commit", "hang_up_quietly"])
def test_a_commit_that_never_arrived_is_known_to_be_undone(url: str, fault: Fault) -> None:
    """The connection breaks before COMMIT gets through, cleanly or with the server left waiting:
    the caller is told that nothing was applied and may run again.
    """

    async def scenario() -> None:
        async with proxy(url) as between:
            db, truth = await world(between, url)
            between.fault = fault
            with pytest.raises(errors.LedgerUnavailable, match="nothing was applied") as caught:
                await insert(db)
            assert caught.value.reason == "ledger_unavailable"
            assert await effects(truth) == 0
            await insert(db)
            assert await effects(truth) == 1
            await db.close()
            await truth.close()

    asyncio.run(scenario())


def test_without_a_transaction_id_the_end_is_called_unknown(url: str) -> None:
    """A caller who did not note the id is not told a comfortable lie."""

    async def scenario() -> None:
        async with proxy(url) as between:
            db, truth = await world(between, url)
            between.fault = "lose_reply"
            with pytest.raises(errors.LedgerUnavailable) as caught:
                await insert(db, xid=False)
            assert caught.value.reason == "commit_unknown"
            await db.close()
            await truth.close()

    asyncio.run(scenario())


def test_a_server_killed_during_commit_is_asked_when_it_is_back(stopped_home: Path) -> None:
    """kill -9 of the server with COMMIT under way: the caller waits for it and learns the truth."""

    async def scenario(server: Server) -> None:
        data = stopped_home / "postgres" / "data"
        async with proxy(server.url) as between:
            db, truth = await world(between, server.url)
            await truth.close()
            between.fault = "lose_commit"
            between.may_connect.clear()
            waiting = asyncio.ensure_future(insert(db))
            await between.seen.wait()
            pid = server_pid(data)
            kill(pid)
            eventually(lambda: is_serving(data) and server_pid(data) != pid)
            between.may_connect.set()
            with pytest.raises(errors.LedgerUnavailable, match="nothing was applied"):
                await waiting
            await db.close()

    with embedded.start(stopped_home) as server:
        asyncio.run(scenario(server))


def test_a_strangers_transaction_with_our_number_is_not_taken_for_ours(stopped_home: Path) -> None:
    """After a crash Postgres may give our transaction's number to another one, which commits:
    with a proof of our own rows, that is not mistaken for our success.
    """

    async def lost(db: Database) -> None:
        async with db.transaction() as link:
            link.xid = await link.fetchval(XID)
            link.proof = ("SELECT EXISTS (SELECT FROM public.effect WHERE n = $1)", (77,))

    async def scenario(server: Server) -> None:
        data = stopped_home / "postgres" / "data"
        async with proxy(server.url) as between:
            db, truth = await world(between, server.url)
            await truth.close()
            between.fault = "lose_commit"
            between.may_connect.clear()
            waiting = asyncio.ensure_future(lost(db))
            await between.seen.wait()
            pid = server_pid(data)
            kill(pid)
            eventually(lambda: is_serving(data) and server_pid(data) != pid)
            async with await Database.open(server.url) as others:
                for _ in range(20):
                    await insert(others)
            between.may_connect.set()
            with pytest.raises(errors.LedgerUnavailable, match="nothing was applied"):
                await waiting
            await db.close()

    with embedded.start(stopped_home) as server:
        asyncio.run(scenario(server))


def test_a_task_cancelled_during_commit_still_finds_out(url: str) -> None:
    """Cancelling a worker in the very moment of COMMIT does not leave it in doubt."""

    async def scenario() -> None:
        async with proxy(url) as between:
            db, truth = await world(between, url)
            seen: list[Link] = []

            async def work() -> None:
                async with db.transaction() as link:
                    seen.append(link)
                    await link.execute("INSERT INTO public.effect VALUES (1)")

            between.fault = "hold_reply"
            task = asyncio.ensure_future(work())
            await between.seen.wait()
            task.cancel()
            await asyncio.sleep(0)
            between.release.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert seen[0].committed is True
            assert await effects(truth) == 1
            await db.close()
            await truth.close()

    asyncio.run(scenario())


def test_a_cancelled_transaction_rolls_back(url: str) -> None:
    """A worker cancelled in the middle of a statement leaves nothing, and its connection works."""

    async def scenario() -> None:
        async with await Database.open(url, max_size=1) as db:
            await db.execute("CREATE TABLE public.effect (n int)")
            started = asyncio.Event()

            async def work() -> None:
                async with db.transaction() as link:
                    await link.execute("INSERT INTO public.effect VALUES (1)")
                    started.set()
                    await link.execute("SELECT pg_sleep(60)")

            task = asyncio.ensure_future(work())
            await started.wait()
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await effects(db) == 0

    asyncio.run(scenario())


def test_a_swallowed_failure_is_not_reported_as_committed(url: str) -> None:
    """Code that ignores a failed statement does not make the transaction look successful."""

    async def scenario() -> None:
        async with await Database.open(url) as db:
            await db.execute("CREATE TABLE public.effect (n int)")

            async def careless() -> None:
                async with db.transaction() as link:
                    await link.execute("INSERT INTO public.effect VALUES (1)")
                    with pytest.raises(driver.PostgresError):
                        await link.execute("SELECT 1/0")

            with pytest.raises(driver.TransactionFailed):
                await careless()
            assert await effects(db) == 0

    asyncio.run(scenario())


def test_a_connection_lost_before_commit_means_nothing_was_applied(url: str) -> None:
    """An administrator ends the session in the middle: retry, nothing was applied."""

    async def scenario() -> None:
        async with await Database.open(url) as db, await Database.open(url) as admin:
            await db.execute("CREATE TABLE public.effect (n int)")

            async def interrupted() -> None:
                async with db.transaction() as link:
                    await link.execute("INSERT INTO public.effect VALUES (1)")
                    pid = await link.fetchval("SELECT pg_backend_pid()")
                    await admin.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
                    while not link.closed:  # noqa: ASYNC110
                        await asyncio.sleep(0.001)

            with pytest.raises(errors.LedgerUnavailable) as caught:
                await interrupted()
            assert caught.value.reason == "ledger_unavailable"
            assert await effects(db) == 0

    asyncio.run(scenario())
