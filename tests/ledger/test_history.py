"""What the ledger tells about itself: in figures, entry by entry, and why, with proof."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from tests.verify.world import Copy, World, standing

from headgate.errors import UsageError
from headgate.ledger import history
from headgate.ledger import worker as workers
from headgate.ledger.entries import entries

T = TypeVar("T")


@pytest.fixture(scope="module")
def copies() -> Iterator[Copy]:
    with standing() as made:
        yield made


@pytest.fixture
def ask(copies: Copy) -> Callable[[Callable[[World], Awaitable[T]]], T]:
    """Run a question against a copy of the world."""

    def run(question: Callable[[World], Awaitable[T]]) -> T:
        async def go() -> T:
            async with copies() as world:
                return await question(world)

        return asyncio.run(go())

    return run


Ask = Callable[[Callable[[World], Awaitable[None]]], None]


def test_the_overview_adds_up(ask: Ask) -> None:
    """Every entry is counted once, under the state it is in."""

    async def question(world: World) -> None:
        seen = await history.overview(world.db)
        (rain,) = seen.pipelines
        assert rain.pipeline == "rain"
        assert rain.entries == len(world.entries)
        assert rain.skipped == {"unchanged": 1, "stale": 1}
        assert rain.finalized == 5
        assert (rain.quarantined, rain.waiting, rain.discarded) == (2, 2, 1)
        assert (rain.duplicates, rain.conflicts) == (2, 1)
        assert rain.received == rain.entries + rain.duplicates + rain.conflicts
        ended = rain.finalized + sum(rain.skipped.values()) + rain.discarded
        live = rain.ready + rain.claimed + rain.waiting + rain.quarantined
        assert ended + live == rain.entries
        assert rain.last_settled_at is not None
        assert seen.workers_alive == 0
        await workers.register(world.db, "someone", 60)
        assert (await history.overview(world.db)).workers_alive == 1

    ask(question)


def test_entries_are_listed_by_page_and_by_what_one_looks_for(ask: Ask) -> None:
    """Newest first; by state, by uri, page after page without a gap."""

    async def question(world: World) -> None:
        everything = (await entries(world.db, limit=100)).rows
        ids = [e.entry for e in everything]
        assert ids == sorted(world.entries.values(), reverse=True)
        first = await entries(world.db, limit=5)
        assert first.more
        second = await entries(world.db, limit=100, before=first.before)
        assert not second.more
        assert [e.entry for e in first.rows + second.rows] == ids
        for status, names in {
            "waiting": {"slow1", "late1"},
            "quarantined": {"bad1", "again1"},
            "skipped": {"c2", "event2"},
            "finalized": {"a1", "a2", "b1", "c1", "event1"},
            "rolled_back": {"junk1"},
            "claimed": set[str](),
            "received": set[str](),
        }.items():
            found = (await entries(world.db, status=status)).rows
            assert {e.entry for e in found} == {world.entry(n) for n in names}, status
            assert all(e.status == status for e in found)
        a = (await entries(world.db, uri_like="%/a.csv", pipelines=["rain"])).rows
        assert [e.version for e in a] == [2, 1]
        assert not (await entries(world.db, pipelines=["none"])).rows
        with pytest.raises(UsageError, match="promoted"):
            await entries(world.db, status="promoted")
        # Whoever may look at a few only is told where to go on.
        found, place = list[int](), None
        while True:
            page = await entries(world.db, status="rolled_back", limit=1, before=place, effort=1)
            found += [e.entry for e in page.rows]
            if not page.more:
                break
            place = page.before
        assert found == [world.entry("junk1")]

    ask(question)


def test_an_entry_is_found_by_whatever_one_has(ask: Ask) -> None:
    """By id, by key, by the beginning of a key, by uri, or by the path of its file."""

    async def question(world: World) -> None:
        b = world.entry("b1")
        (known,) = await history.find(world.db, str(b))
        for text in (known.key, known.key[:8], known.key.upper(), known.uri):
            assert [e.entry for e in await history.find(world.db, text)] == [b], text
        path = str(world.folder / "incoming" / "b.csv")
        original = known.uri.removeprefix("file://")
        assert path != original  # the store was copied, the uris still name where files were
        assert [e.entry for e in await history.find(world.db, original)] == [b]
        a = await history.find(world.db, known.uri.replace("b.csv", "a.csv"))
        assert [e.entry for e in a] == [world.entry("a2"), world.entry("a1")]
        assert await history.find(world.db, "ffffffff") == []
        assert await history.find(world.db, "99999999999999999999") == []
        await world.db.execute(
            "UPDATE headgate.entry SET key = overlay(key PLACING $1 FROM 1)",
            b"\x12\x34\x56\x78",
        )
        with pytest.raises(UsageError, match="several keys"):
            await history.find(world.db, "12345678")

    ask(question)


def test_a_life_tells_every_attempt_with_its_place_in_the_order(ask: Ask) -> None:
    """What was tried, by whom, under which fence, in which commit, and who decided what."""

    async def question(world: World) -> None:
        again = await history.life(world.db, world.entry("again1"))
        assert again is not None
        assert [line.outcome for line in again.lines] == ["quarantined", "received", "quarantined"]
        commits = [line.commit or 0 for line in again.lines]
        assert commits == sorted(commits)
        assert [line.fence for line in again.lines] == [1, 1, 2]
        assert [line.worker for line in again.lines] == ["inline", None, "inline"]
        assert again.lines[0].steps[0] == ("claimed", 0)
        assert again.quarantine is not None
        assert again.quarantine.classed == "schema"
        assert [(a.verb, a.because) for a in again.actions] == [("release", "try again")]
        assert again.deployment is not None
        assert again.deployment.version == "1"

        a = await history.life(world.db, world.entry("a2"))
        assert a is not None
        assert a.publication is not None
        assert a.publication.predecessor == world.entry("a1")
        assert [x["name"] for x in a.publication.artifacts] == ["copy.csv", "second.csv"]
        event = await history.life(world.db, world.entry("event1"))
        assert event is not None
        assert (event.told_again, event.conflicts, len(event.conflict_rows)) == (2, 1, 1)
        assert event.occurrence == ("event", "new")
        assert await history.life(world.db, 999) is None

    ask(question)


_SAID = {
    "a1": ["generation 1", "published version 1", "Version 2 of its uri replaced it"],
    "a2": ["generation 2", "published version 2 of its uri, after version 1", "readers see now"],
    "c2": ["skipped it", "its bytes are those of publication {c1}, sha256"],
    "event1": ["event id, new", "told again once", "another payload: refused", "readers see now"],
    "event2": ["skipped it", "publication {event1} is newer", "with event time 2026-01-01 12:00"],
    "slow1": ["failed with retryable: not yet", "It is retried at"],
    "bad1": ["failed with schema", "rolled back and set aside", "in quarantine as schema"],
    "junk1": ["tester discarded it", "because: not needed"],
    "again1": ["tester released it to run again", "because: try again", "in quarantine"],
}


@pytest.mark.parametrize("name", _SAID)
def test_the_explanation_says_why_and_proves_it(ask: Ask, name: str) -> None:
    """Each sentence about an entry names rows, and these rows exist."""

    async def question(world: World) -> None:
        said = await history.explain(world.db, world.entry(name))
        text = "\n".join(s.text for s in said)
        for part in _SAID[name]:
            assert part.format(**world.entries) in text, text
        for statement in said:
            assert statement.proof, statement.text
            for proof in statement.proof:
                assert await _is_there(world, proof), proof

    ask(question)


def test_nothing_is_said_of_an_entry_that_is_not_there(ask: Ask) -> None:
    """No row, no sentence."""

    async def question(world: World) -> None:
        assert await history.explain(world.db, 999) == []

    ask(question)


async def _is_there(world: World, proof: str) -> bool:
    table, _, key = proof.partition(" ")
    assert re.fullmatch("[a-z]+", table)
    if table == "journal":
        batch, n = map(int, key.split("/"))
        sql = "SELECT count(*) FROM headgate.journal WHERE batch = $1 AND n = $2"
        return bool(await world.db.fetchval(sql, batch, n))
    column = {"commit": "pos", "publication": "entry", "quarantine": "entry", "redelivery": "entry"}
    sql = f"SELECT count(*) FROM headgate.{table} WHERE {column.get(table, 'id')} = $1"
    return bool(await world.db.fetchval(sql, int(key)))
