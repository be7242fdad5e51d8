"""The change feed: every end of a change, once, in the order of commits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.world import World, change

import headgate as hg
from headgate.errors import UsageError
from headgate.ledger import quarantine
from headgate.ledger.changes import BEGINNING, Change, Cursor, changes, latest, since
from headgate.ledger.changes import change as change_at
from headgate.pg import Database


async def _all(db: Database, limit: int, **asked: object) -> list[Change]:
    """Every page, one after the other."""
    read: list[Change] = []
    place: Cursor | None = None
    while True:
        page = await changes(db, place, limit, **asked)  # pyright: ignore[reportArgumentType]
        read += page.changes
        if not page.more:
            return read
        assert page.cursor != place
        place = page.cursor


async def test_a_change_says_what_came_and_what_became_of_it(world: World):
    """What seed 1 asks for is there, and where each thing is proven."""
    p = world.pipeline("soil", dataset="soil")

    @p.validate
    def whole(obj):
        assert obj.read() != b"bad", "it is bad"

    await world.receive(p, change("a", b"1"))
    await world.run(p)
    await world.receive(p, change("a", b"2", minute=1), change("b", b"bad"))
    await world.run(p)
    first, *rest = (await changes(world.db)).changes
    assert first.change_event_id == str(first.cursor)
    assert (first.outcome, first.version, first.dataset, first.access) == (
        "finalized", 1, "soil", "public",
    )  # fmt: skip
    assert first.object_identity.sha256 is not None
    assert first.published_at == first.at
    assert (first.qa_summary.checks, first.qa_summary.passed) == (1, 1)
    assert first.delta_manifest_ref == f"{first.store}/runs/{first.run}/delta_manifest.json"
    assert first.prov_ref == f"{first.store}/prov/{first.run}.prov.jsonld"
    assert first.openlineage_ref == f"{first.store}/runs/{first.run}/openlineage.ndjson"
    told = {c.source_uri + c.outcome: c for c in rest}
    assert told["test://afinalized"].predecessor == first.entry
    bad = told["test://bquarantined"]
    assert bad.error is not None
    assert "it is bad" in bad.error
    assert bad.qa_summary.failed
    assert bad.published_at is None
    assert bad.delta_manifest_ref is None
    assert await change_at(world.db, bad.cursor) == bad
    assert await change_at(world.db, Cursor(bad.cursor.position, 99)) is None
    assert await change_at(world.db, Cursor(99, 1)) is None


async def test_pages_of_any_size_tell_the_same_both_ways(world: World):
    """A page ends in the middle of a commit, and the next one goes on right there."""
    p, q = world.pipeline("p"), world.pipeline("q")
    for minute in range(3):
        await world.receive(p, *[change(f"a{n}", f"{minute}", minute=minute) for n in range(5)])
        await world.receive(q, *[change(f"b{n}", f"{minute}", minute=minute) for n in range(2)])
        await world.run(p, q)
    everything = await _all(world.db, 100)
    assert len(everything) == 21
    assert [c.cursor for c in everything] == sorted({c.cursor for c in everything})
    for limit in (1, 2, 7):
        assert await _all(world.db, limit) == everything
        assert await _all(world.db, limit, newest_first=True) == everything[::-1]
    of_q = [c for c in everything if c.pipeline == "q"]
    assert await _all(world.db, 1, pipelines=["q"]) == of_q
    assert await _all(world.db, 1, pipelines=["q"], newest_first=True) == of_q[::-1]
    assert await _all(world.db, 4, pipelines=["q", "p"]) == everything
    assert await _all(world.db, 4, pipelines=[]) == []
    assert await _all(world.db, 1, uri_prefix="test://b") == of_q
    assert await _all(world.db, 5, outcome=["skipped"]) == []


async def test_a_decision_is_a_change_and_a_retry_is_none(world: World):
    """What a person discarded or took back is told, too."""
    p = world.pipeline()

    @p.validate
    def never(obj):
        raise ValueError("no")

    await world.receive(p, change("a", b"1"))
    await world.run(p)
    (aside,) = (await changes(world.db)).changes
    await quarantine.discard(world.db, [aside.entry], because="a test")
    await quarantine.undiscard(world.db, [aside.entry], because="another test")
    told = (await changes(world.db)).changes
    assert [c.outcome for c in told] == ["quarantined", "rolled_back", "quarantined"]
    assert [c.outcome for c in await _all(world.db, 1, outcome=["rolled_back"])] == ["rolled_back"]


async def test_the_feed_begins_where_it_is_asked_to(world: World):
    """At its end there is nothing; at a moment there is what came since."""
    p = world.pipeline()
    assert await latest(world.db) == BEGINNING
    await world.receive(p, change("a", b"1"))
    await world.run(p)
    end = await latest(world.db)
    assert (await changes(world.db, end)).changes == []
    (old,) = (await changes(world.db)).changes
    for n in range(5):
        await world.receive(p, change(f"b{n}", b"1"))
        await world.run(p)
    assert len((await changes(world.db, end)).changes) == 5
    assert await since(world.db, old.at - timedelta(days=1)) == BEGINNING
    assert await since(world.db, datetime.now(UTC) + timedelta(days=1)) == await latest(world.db)
    third = (await changes(world.db, end)).changes[2]
    assert (await changes(world.db, await since(world.db, third.at))).changes[0] == third
    assert Cursor.parse(str(third.cursor)) == third.cursor
    for wrong in ("", "x", "1", "1-", "-1-2", "1-2-3", "9" * 30 + "-1"):
        with pytest.raises(UsageError):
            Cursor.parse(wrong)


async def test_a_stricter_label_of_today_counts_for_yesterday(world: World):
    """What became restricted is not public because it was published before."""
    p = world.pipeline("soil", dataset=hg.Dataset("soil"))
    await world.receive(p, change("a", b"1"))
    await world.run(p)
    assert [c.access for c in (await changes(world.db)).changes] == ["public"]
    stricter = world.pipeline("soil", dataset=hg.Dataset("soil", access="restricted"))
    await world.receive(stricter, change("b", b"1"))
    await world.run(stricter)
    assert [c.access for c in (await changes(world.db)).changes] == ["restricted"] * 2
