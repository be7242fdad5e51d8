"""Following over HTTP: each change once and in order, through kills, stalls and outages."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from pathlib import Path

import pytest
from tests.pg.processes import kill, server_pid
from tests.server.doors import app_of
from tests.server.streaming import Reader, served
from tests.world import TUNING, World, change, until

import headgate as hg
from headgate.ledger import FUNCTIONS, MIGRATIONS, inbox
from headgate.ledger import token as tokens
from headgate.ledger.changes import changes
from headgate.pg import Database, embedded, migrate
from headgate.runtime import inline, station
from headgate.server import feed

WRITERS, EACH = 3, 40


async def _until_all(reader: Reader, many: int, *, hangs_up_after: int = 10**9) -> None:
    """Follow until so many changes were told; hang up after every few blocks and come back."""
    while len(reader.told()) < many:
        stream = await reader.open()
        while await reader.read(stream, 1) and len(reader.told()) < many:
            hangs_up_after -= 1
            if hangs_up_after == 0:
                hangs_up_after = 7
                break
        reader.hang_up()


async def test_a_reader_who_is_cut_off_again_and_again_sees_each_change_once(world: World):
    """Three writers commit at once. Whoever comes back with the last id misses nothing."""
    pipelines = [world.pipeline(f"p{n}", dataset="soil") for n in range(WRITERS)]
    for p in pipelines:
        await world.receive(p, *[change(f"{p.name}-{n}", b"1") for n in range(EACH)])
    token = (await tokens.make(world.db, "test", "steward", 60)).token
    async with served(await app_of(world.db)) as port:
        steady, wild = (Reader(port, token, last="0-0") for _ in range(2))
        picky = Reader(port, token, "/v1/changes/stream?pipeline=p1", last="0-0")
        following = [
            asyncio.create_task(_until_all(steady, WRITERS * EACH)),
            asyncio.create_task(_until_all(wild, WRITERS * EACH, hangs_up_after=3)),
            asyncio.create_task(_until_all(picky, EACH, hangs_up_after=5)),
        ]
        await world.work(*pipelines, workers=3, batch_max=4)
        await asyncio.gather(*following)
    truth = [c.change_event_id for c in (await changes(world.db, limit=1000)).changes]
    assert len(truth) == WRITERS * EACH
    assert [c["change_event_id"] for c in steady.told()] == truth
    assert [c["change_event_id"] for c in wild.told()] == truth
    assert len(picky.told()) == EACH
    assert [c["cursor"] for c in picky.told()] == [c for c in truth if c in _ids(picky)]
    await world.run(*pipelines)  # their files, for the audit


def _ids(reader: Reader) -> set[str]:
    return {c["cursor"] for c in reader.told()}


async def test_who_does_not_read_is_let_go_and_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    """A reader takes nothing of a long past. Others follow meanwhile, and it can come back."""
    monkeypatch.setattr("headgate.server.listen.STALLED_SECONDS", 0.5)
    p = world.pipeline()
    long = "x" * 1500
    await world.receive(p, *[change(f"{long}{n}", b"1") for n in range(900)])
    await world.run(p)
    token = (await tokens.make(world.db, "test", "steward", 60)).token
    app = await app_of(world.db)
    streams: feed.Feed = app.state.feed
    async with served(app) as port:
        stalled, quick = (Reader(port, token, last="0-0") for _ in range(2))
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.connect(("127.0.0.1", port))
        await stalled.open(limit=1024, sock=small)
        await _until_all(quick, 900)
        await until(lambda: _nobody(streams))
        # What was on its way is lost with the connection; the last id that was seen is not.
        stalled.hang_up()
        await _until_all(stalled, 900)
    assert stalled.told() == quick.told()


async def _nobody(streams: feed.Feed) -> bool:
    return streams.readers == 0


async def test_a_stream_outlives_an_outage_of_the_ledger(new_place: Path):
    """kill -9 of Postgres: the stream stays, says so, and goes on with what comes after."""
    with embedded.start(new_place / "home") as server:
        async with await Database.open(server.url) as db:
            await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
            p = hg.Pipeline("p", store=str(new_place / "lake"))
            at = await station.register(db, p)
            token = (await tokens.make(db, "test", "steward", 60)).token
            async with served(await app_of(db)) as port:
                reader = Reader(port, token)
                stream = await reader.open()
                assert await reader.read(stream, 1)
                # Nobody starts it again for a while.
                keeper = int((new_place / "home" / "postgres" / "keeper.lock").read_text())
                os.kill(keeper, signal.SIGSTOP)
                try:
                    kill(server_pid(new_place / "home" / "postgres" / "data"))
                    assert await reader.read(stream, 1)
                finally:
                    os.kill(keeper, signal.SIGCONT)
                assert "the ledger is away" in reader.comments[-1]
                assert await reader.read(stream, 1)
                assert "the ledger is back" in reader.comments[-1]
                await inbox.receive(db, at, "test", [change("a", b"1")])
                await inline.run(db, [p], TUNING, until_idle=True)
                assert await reader.read(stream, 1)
                (told,) = reader.told()
                assert told["source_uri"] == "test://a"


async def test_streams_end_when_the_server_does(world: World):
    """Nobody who follows keeps the server from stopping."""
    token = (await tokens.make(world.db, "test", "steward", 60)).token
    loop = asyncio.get_running_loop()
    async with served(await app_of(world.db)) as port:
        reader = Reader(port, token)
        stream = await reader.open()
        assert await reader.read(stream, 1)
        began = loop.time()
    assert loop.time() - began < 5
    assert not await reader.read(stream, 1)
