"""kill -9 between a queue and the ledger, and a ledger that is away: one effect, none lost."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.aws.anomaly import Anomaly, Odds, anomaly
from tests.aws.emulator import Aws
from tests.aws.mail import Mail
from tests.pg.processes import keeper_pid, kill, server_pid
from tests.promises.processes import is_called
from tests.promises.queue import counting, draining, make_table, quiet, seen, short_polls
from tests.world import World, until

import headgate as hg
from headgate.pg import embedded
from headgate.runtime.drain import Drain
from headgate.runtime.ledger_home import Ledger, connected
from headgate.runtime.supervise import up

PIPELINE = """
import headgate as hg

p = hg.Pipeline("p", sources=[hg.S3Events(queue={queue!r})], store={lake!r})

@p.apply
async def note(tx, obj):
    tx.later("INSERT INTO seen (uri) VALUES ($1)", obj.uri)
"""
# `make test-queue` keeps the ledger away for half a minute.
OUTAGE_SECONDS = float(os.environ.get("HEADGATE_TEST_OUTAGE_SECONDS", "3"))
KEYS = [f"{n}.csv" for n in range(60)]
__all__ = ["short_polls"]  # a fixture


class Killer:
    """Kills whoever drains the queue, once at each of these moments as the proxy sees them."""

    def __init__(self, between: Anomaly, moments: list[tuple[str, str]]) -> None:
        self.left = moments
        between.hook = self.see

    def see(self, action: str, when: str) -> None:
        if self.left and self.left[0] == (action, when) and (pid := _watching()):
            self.left.pop(0)
            os.kill(pid, signal.SIGKILL)


def _watching() -> int | None:
    """The child of this process that hears the sources."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            watches = is_called(folder, "watch")
        except OSError:
            continue
        if int(parent) == os.getpid() and watches:
            return int(folder.name)
    return None


@pytest.mark.parametrize("point", ["before:receive#2", "after:receive#2"])
async def test_a_kill_anywhere_from_receive_to_acknowledge_leaves_one_effect(
    world: World, aws: Aws, monkeypatch: pytest.MonkeyPatch, point: str
):
    """Received, about to commit, committed, acknowledged or about to be: the next one finishes."""
    mail = Mail(aws, hidden_seconds=1, topic=False)
    await make_table(world)
    file = world.folder / "p.py"
    file.write_text(PIPELINE.format(queue=mail.queue, lake=str(world.lake)))
    with anomaly(aws.endpoint, Odds()) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", between.endpoint)
        killer = Killer(
            between,
            [
                ("ReceiveMessage", "after"),
                ("DeleteMessageBatch", "before"),
                ("DeleteMessageBatch", "after"),
            ],
        )
        told: list[str] = []
        # Several acknowledgements are on their way at once: a kill before one of them may let all
        # of them pass, and then there is nothing left to be killed at.
        while killer.left:
            assert len(told) < 10 * len(KEYS)
            more = [f"{len(told)}-{key}" for key in KEYS]
            await asyncio.to_thread(mail.put_many, more)
            await up(
                [str(file)],
                Ledger(world.url, world.folder / "home"),
                replace(world.tuning, workers=1),
                until_idle=True,
                log_to=("json", "error"),
                crash_at="" if told else point,
            )
            told += more
    assert await seen(world) == set(told)
    assert await world.outcomes() == {"finalized": len(told)}
    assert mail.left() == mail.dead() == 0


async def test_two_runtimes_on_one_queue_do_not_double_the_work(world: World, aws: Aws):
    """Whoever a message comes to, what it tells is admitted once; each has processes of its own."""
    mail = Mail(aws, topic=False)
    await asyncio.to_thread(mail.put_many, KEYS)
    for key in KEYS[:20]:
        mail.put(key, key.encode())  # told again
    await make_table(world)
    file = world.folder / "p.py"
    file.write_text(PIPELINE.format(queue=mail.queue, lake=str(world.lake)))
    tuning = replace(world.tuning, workers=1)
    both = [
        up([str(file)], Ledger(world.url, world.folder / home), tuning, until_idle=True)
        for home in ("one", "other")
    ]
    await asyncio.gather(*both)
    assert await seen(world) == set(KEYS)
    outcomes = await world.outcomes()
    assert outcomes["finalized"] >= len(KEYS)
    assert (await world.tally())["received"] == len(KEYS) + 20
    assert mail.left() == 0


async def test_nothing_is_acknowledged_while_the_ledger_is_away(
    new_place: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    """Postgres is stopped for some seconds: messages wait, and arrive as soon as it is back."""
    mail = Mail(aws, hidden_seconds=300, topic=False)
    with embedded.start(new_place / "home") as server, anomaly(aws.endpoint, Odds()) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SQS", between.endpoint)
        async with connected(Ledger(server.url, new_place / "home")):
            pass
        world = World(server.url, new_place)
        await world.open()
        await make_table(world)
        source = hg.S3Events(queue=mail.queue)
        p = counting(world, source)
        one = Drain(world.db, await world.register(p), source, world.tuning)
        async with draining(one):
            await until(lambda: quiet(one), seconds=30)
            keeper = keeper_pid(new_place / "home")
            os.kill(keeper, signal.SIGSTOP)
            kill(server_pid(new_place / "home" / "postgres" / "data"))
            acked = between.asked["DeleteMessageBatch"]
            try:
                await asyncio.to_thread(mail.put_many, KEYS)
                await asyncio.sleep(OUTAGE_SECONDS)
                assert between.asked["DeleteMessageBatch"] == acked
                assert mail.left() == len(KEYS)
                assert one.quiet.failing
            finally:
                os.kill(keeper, signal.SIGCONT)
            # Far sooner than the queue would show again what somebody had left lying.
            await until(lambda: quiet(one), seconds=60)
        await world.work(p, workers=1)
        assert await seen(world) == set(KEYS)
        assert await world.tally() == {
            "received": len(KEYS), "admitted": len(KEYS), "duplicate": 0, "conflict": 0
        }  # fmt: skip
        assert mail.left() == 0
        await world.audit()
        await world.close()
