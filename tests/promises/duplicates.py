"""A change that is told many times is done once, and every telling is counted."""

from __future__ import annotations

import asyncio
import random

from tests.world import World, change

import headgate as hg
from headgate.errors import LedgerUnavailable
from headgate.ledger import inbox
from headgate.ledger.gate import Claim
from headgate.pg import Database

COUNTING = """
import functools, os, pathlib, time
from typing import TypedDict
import headgate as hg

p = hg.Pipeline("p", store={store!r})

class Row(TypedDict):
    id: int

@functools.cache
def all_four_are_here():
    here = pathlib.Path({here!r})
    (here / str(os.getpid())).touch()
    while len(list(here.iterdir())) < 4:
        time.sleep(0.01)  # there is no event between processes that know nothing of each other

@p.rows("item", key="id", schema=Row)
def item(obj):
    all_four_are_here()
    yield obj.json()

@p.apply(independent=True)
async def effect(tx, obj, run):
    tx.later("INSERT INTO effect (id, entry) VALUES ($1, $2)", obj.json()["id"], run.entry)
"""


async def test_twenty_thousand_deliveries_half_of_them_repeated_have_one_effect_each(
    world: World,
) -> None:
    """Half of 20,000 shuffled deliveries are repeats; four worker processes make 10,000 effects."""
    file = world.folder / "counting.py"
    here = world.folder / "here"
    here.mkdir()
    file.write_text(COUNTING.format(store=str(world.lake), here=str(here)))
    await world.db.execute("CREATE TABLE effect (id int, entry bigint)")
    told = [change(f"o{n}", f'{{"id": {n}}}', event=f"e{n}") for n in range(10_000)] * 2
    random.Random(7).shuffle(told)
    at = await world.register(world.pipeline())

    async def deliver(part: list[hg.Envelope]) -> None:
        for n in range(0, len(part), 500):
            await inbox.receive(world.db, at, "test", part[n : n + 500])

    await deliver(told[:4000])
    await asyncio.gather(world.up(file, workers=4), deliver(told[4000::2]), deliver(told[4001::2]))
    if await world.count("headgate.work"):
        await world.up(file, workers=4)

    assert await world.val("SELECT count(DISTINCT worker) FROM headgate.journal") >= 4
    assert await world.val("SELECT count(*) FROM effect") == 10_000
    assert await world.val("SELECT count(DISTINCT id) FROM effect") == 10_000
    assert await world.count("item") == 10_000
    assert await world.outcomes() == {"finalized": 10_000}
    counted = {"received": 20_000, "admitted": 10_000, "duplicate": 10_000, "conflict": 0}
    assert await world.tally() == counted


async def test_a_batch_that_repeats_itself_admits_each_change_once(world: World) -> None:
    """A sender that says the same thing three times in one batch gets one effect."""
    p = world.pipeline()
    a, b = change("a", "1"), change("b", "2")
    receipt = await world.receive(p, a, b, a, a, b)
    assert (receipt.received, receipt.admitted, receipt.duplicates) == (5, 2, 3)
    await world.run(p)
    assert await world.outcomes() == {"finalized": 2}
    counted = {"received": 5, "admitted": 2, "duplicate": 3, "conflict": 0}
    assert await world.tally() == counted


async def test_a_duplicate_of_finished_work_does_nothing(world: World) -> None:
    """The key outlives the work: a repeat that comes long after is still a repeat."""
    p = world.pipeline()
    a = change("a", "1")
    await world.receive(p, a)
    await world.run(p)
    receipt = await world.receive(p, a)
    await world.run(p)
    assert (receipt.admitted, receipt.duplicates, len(receipt.known)) == (0, 1, 1)
    assert await world.outcomes() == {"finalized": 1}
    assert await world.rows("SELECT times, conflicts FROM headgate.redelivery") == [(1, 0)]


async def test_two_connections_that_hear_the_same_admit_it_once(world: World) -> None:
    """Two receivers are told the same hundred changes at the same moment, fifty times over."""
    p = world.pipeline()
    await world.register(p)
    for round_ in range(50):
        told = [change(f"o{n}", "1", event=f"e{n}-{round_}") for n in range(100)]
        shuffled = random.Random(round_).sample(told, 100)
        receipts = await asyncio.gather(world.receive(p, *told), world.receive(p, *shuffled))
        assert sum(r.admitted for r in receipts) == 100
        assert sum(r.duplicates for r in receipts) == 100
    assert await world.count("headgate.entry") == await world.count("headgate.work") == 5000


async def test_of_two_workers_racing_for_one_key_one_gets_it(world: World) -> None:
    """A thousand times, two workers reach for the only entry at once: one of them gets it."""
    p = world.pipeline()
    path = await world.path(p)
    one, other = await world.worker(), await world.worker()
    for batch in range(10):
        held: dict[int, list[Claim]] = {one: [], other: []}
        for n in range(100):
            await world.receive(p, change(f"{batch}-{n}", b"x"))
            first, second = await asyncio.gather(world.claim(path, one), world.claim(path, other))
            assert len(first) + len(second) == 1
            held[one] += first
            held[other] += second
        for claims in held.values():
            await world.finish(path, claims)
    assert await world.outcomes() == {"finalized": 1000}
    assert await world.val("SELECT max(fence) FROM headgate.journal") == 1


async def test_a_lost_reply_is_harmless_to_ask_again(world: World) -> None:
    """The connection breaks while a batch is admitted; delivering it again leaves one of each."""
    p = world.pipeline()
    told = [change(f"o{n}", "1") for n in range(200)]
    async with await Database.open(world.url, max_size=1) as other:
        pid = await other.fetchval("SELECT pg_backend_pid()")
        at = await world.register(p)

        async def cut() -> None:
            await world.db.execute("SELECT pg_terminate_backend($1)", pid)

        lost, _ = await asyncio.gather(
            inbox.receive(other, at, "test", told), cut(), return_exceptions=True
        )
        assert isinstance(lost, (LedgerUnavailable, inbox.Receipt))
        receipt = await inbox.receive(other, at, "test", told)
    assert receipt.received == 200
    assert await world.count("headgate.entry") == 200
    await world.run(p)
    assert await world.outcomes() == {"finalized": 200}


async def test_a_known_key_with_another_payload_is_refused_and_kept_as_evidence(
    world: World,
) -> None:
    """The first result stands; the contradiction is counted, recorded, and told to the sender."""
    p = world.pipeline()
    await world.receive(p, change("a", "first", event="e"))
    await world.run(p)
    before = await world.heads()
    receipt = await world.receive(p, change("a", "second", event="e"))
    await world.run(p)
    assert (receipt.admitted, receipt.duplicates, len(receipt.conflicting)) == (0, 0, 1)
    assert await world.heads() == before
    assert await world.outcomes() == {"finalized": 1}
    assert (await world.tally())["conflict"] == 1
    assert await world.rows("SELECT times, conflicts FROM headgate.redelivery") == [(1, 1)]
    assert await world.count("headgate.conflict") == 1


async def test_a_batch_that_contradicts_itself_keeps_what_it_said_first(world: World) -> None:
    """Two payloads under one key in one batch: the first is done, the second is a conflict."""
    p = world.pipeline()
    told = [
        change("a", "first", event="e"),
        change("b", "other", event="f"),
        change("a", "second", event="e"),
        change("a", "third", event="e"),
        change("a", "first", event="e"),
    ]
    receipt = await world.receive(p, *told)
    await world.run(p)
    assert (receipt.received, receipt.admitted) == (5, 2)
    assert await world.outcomes() == {"finalized": 2}
    kept = await world.val(
        "SELECT data FROM headgate.entry WHERE uri = 'test://a'",
    )
    assert kept == b"first"
    counted = {"received": 5, "admitted": 2, "duplicate": 1, "conflict": 2}
    assert await world.tally() == counted
    assert receipt.duplicates == 1
