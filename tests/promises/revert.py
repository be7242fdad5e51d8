"""What was published can be taken back: through the same gates, once, and back again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypedDict

import pytest
from tests.world import World, change

import headgate as hg
from headgate.errors import UsageError
from headgate.ledger import facts, quarantine, revert
from headgate.model import delta
from headgate.runtime.collect import Collector
from headgate.stores import FileStore, open_store


class Word(TypedDict):
    word: str
    n: int


def words(world: World, **declared: Any) -> hg.Pipeline:
    """A pipeline with rows and an artifact: every word of an object, and the object in capitals."""
    p = world.pipeline(**declared)

    @p.rows("word", key="word", schema=Word)
    def rows(obj: hg.Object) -> Iterator[Word]:
        for n, word in enumerate(obj.text().split()):
            yield {"word": word, "n": n}

    @p.transform
    def capitals(obj: hg.Object) -> dict[str, bytes]:
        return {"capitals.txt": obj.read().upper()}

    return p


async def told(world: World, p: hg.Pipeline, *texts: str) -> None:
    """Versions of one object, one after the other."""
    for minute, text in enumerate(texts, 1):
        await world.receive(p, change("a", text, minute=minute))
        await world.run(p)


async def seen(world: World) -> tuple[list[str], list[str]]:
    """What readers see: words, and the names and digests of the head's files."""
    rows = await world.db.fetch("SELECT word FROM word ORDER BY n, word")
    heads = await facts.heads(world.db, 1, 0, 10)
    files = [f"{f.name} {f.digest}" for h in heads if h.version for f in h.version.files]
    return [r["word"] for r in rows], files


async def head(world: World) -> int:
    return await world.db.fetchval(
        "SELECT entry FROM headgate.publication WHERE successor IS NULL ORDER BY entry DESC LIMIT 1"
    )


async def back(world: World, p: hg.Pipeline, **asked: Any) -> int:
    """Revert what readers see, and let it run."""
    made = await revert.ask(world.db, await head(world), because="it was wrong", **asked)
    await world.run(p)
    return made


async def collect(world: World) -> None:
    """Everything that happened so far was a day ago; what nothing needs for half a day goes."""
    await world.db.execute("UPDATE headgate.object SET touched_at = now() - interval '1 day'")
    await world.db.execute("UPDATE headgate.journal SET at = at - interval '1 day'")
    tuning = replace(world.tuning, retention_days=0.5, grace_seconds=0)
    await Collector(world.db, tuning, open_store).everything()


async def test_a_revert_brings_back_rows_and_files_exactly(world: World) -> None:
    """Readers see what they saw before, as a new version that says what it took back and why."""
    p = words(world)
    await told(world, p, "one two")
    before = await seen(world)
    await told(world, p, "one two", "three")
    assert (await seen(world))[0] == ["three"]

    made = await back(world, p)

    assert await seen(world) == before
    (told_of,) = await facts.of_publications(world.db, [made])
    assert told_of.version is not None
    assert (told_of.version.number, told_of.reverts, told_of.restores) == (3, 3, 1)
    assert (told_of.because, delta.operation(told_of)) == ("it was wrong", "revert")


async def test_reverting_a_revert_works(world: World) -> None:
    """Back, and forth again: each is a publication of its own."""
    p = words(world)
    await told(world, p, "one", "two")
    after = await seen(world)
    await back(world, p)
    assert (await seen(world))[0] == ["one"]
    await back(world, p)
    assert await seen(world) == after
    await back(world, p)
    assert (await seen(world))[0] == ["one"]
    assert await world.db.fetchval("SELECT max(version) FROM headgate.publication") == 5


async def test_reverting_the_first_version_leaves_nothing_and_can_be_undone(world: World) -> None:
    """Where nothing was published before, nothing is left; the revert of that brings it back."""
    p = words(world)  # removed="keep": that is about what sources take away, not about this
    await told(world, p, "one")
    before = await seen(world)
    await back(world, p)
    assert await seen(world) == ([], [])
    await back(world, p)
    assert await seen(world) == before


async def test_an_older_version_is_named_by_its_number(world: World) -> None:
    """`--to 1` goes back over several versions at once."""
    p = words(world)
    await told(world, p, "one", "two", "three")
    await back(world, p, to=1)
    assert (await seen(world))[0] == ["one"]


async def test_a_revert_that_comes_too_late_changes_nothing(world: World) -> None:
    """Something newer was published first: the revert says so and leaves it alone."""
    p = words(world)
    await told(world, p, "one", "two")
    made = await revert.ask(world.db, 2, because="it was wrong")
    # Asked for between the claim and the commit of a newer version, say.
    await world.db.execute("UPDATE headgate.work SET due_at = now() + interval '1 hour'")
    await world.receive(p, change("a", "three", minute=9))
    await world.work(p, max_wait_seconds=0)
    assert (await seen(world))[0] == ["three"]
    await world.db.execute("UPDATE headgate.work SET due_at = now()")
    await world.run(p)
    assert (await seen(world))[0] == ["three"]
    (ended,) = await facts.of_entry(world.db, made)
    assert (ended.outcome, ended.reason) == ("skipped", "stale")


async def test_after_a_revert_new_is_new_and_old_is_old(world: World) -> None:
    """What was taken back does not return by itself; only what is newer wins."""
    p = words(world)
    second = change("a", "two", minute=2, sequence=2)
    await world.receive(p, change("a", "one", minute=1, sequence=1))
    await world.run(p)
    await world.receive(p, second)
    await world.run(p)
    await back(world, p)

    await world.receive(p, second)  # told again
    await world.run(p)
    assert (await seen(world))[0] == ["one"]
    await world.receive(p, change("a", "late", minute=1.5, sequence=1))
    await world.run(p)
    assert (await seen(world))[0] == ["one"]
    await world.receive(p, change("a", "four", minute=4, sequence=4))
    await world.run(p)
    assert (await seen(world))[0] == ["four"]


async def test_a_revert_passes_the_gates(world: World) -> None:
    """A check that the old version would not pass any more keeps it from coming back."""
    p = words(world)
    await told(world, p, "one", "two")

    @p.validate
    def not_one(obj: hg.Object) -> None:
        if obj.text() == "one":
            raise hg.Permanent("one is not allowed any more")

    made = await back(world, p)
    assert (await seen(world))[0] == ["two"]
    rows = await world.db.fetch("SELECT entry, class FROM headgate.quarantine")
    assert [tuple(r) for r in rows] == [(made, "schema")]
    with pytest.raises(UsageError, match=f"by entry {made}"):
        await revert.ask(world.db, await head(world), because="again")
    await quarantine.discard(world.db, [made], because="rightly refused")
    p.validators.clear()
    await back(world, p)
    assert (await seen(world))[0] == ["one"]


async def test_files_come_back_from_the_store_though_their_source_is_gone(world: World) -> None:
    """What came from a folder is kept by its digest: the folder is not asked again."""
    p = words(world, sources=[world.directory()])
    path = world.put("a.txt", "one")
    await world.run(p)
    before = await seen(world)
    world.put("a.txt", "two three")
    await world.run(p)
    path.unlink()
    await world.run(p)
    await back(world, p)
    assert await seen(world) == before


async def test_bytes_that_are_gone_are_said_to_be_gone(world: World) -> None:
    """A revert whose artifact was deleted goes to quarantine and leaves readers what they see."""
    p = words(world)
    await told(world, p, "one", "two")
    (first,) = await facts.of_publications(world.db, [1])
    assert first.version is not None
    (artifact,) = first.version.artifacts
    place = world.lake / "staging" / "sha256" / artifact.digest[:2] / artifact.digest
    kept = place.read_bytes()
    place.unlink()
    await back(world, p)
    assert (await seen(world))[0] == ["two"]
    assert await world.db.fetchval("SELECT reason FROM headgate.quarantine") == "bytes_collected"
    place.write_bytes(kept)  # for the audit at the end


async def test_what_was_collected_cannot_come_back_and_says_when_it_went(world: World) -> None:
    """After the retention a revert is refused, with the day it went; nothing is admitted."""
    p = words(world)
    await told(world, p, "one", "two")
    store = FileStore(world.lake)
    (first,) = await facts.of_publications(world.db, [1])
    assert first.version is not None
    digest = bytes.fromhex(first.version.artifacts[0].digest)
    await collect(world)
    assert not store.has(digest)
    with pytest.raises(UsageError, match=r"'capitals.txt' .* were collected on 20"):
        await revert.plan(world.db, 2)
    with pytest.raises(UsageError, match=r"retention is 0\.5 days"):
        await revert.ask(world.db, 2, because="it was wrong")
    assert await world.db.fetchval("SELECT count(*) FROM headgate.entry") == 2


async def test_retired_bytes_stay_as_long_as_they_are_shown(world: World) -> None:
    """What readers may still have is no garbage, however long ago its source took it away."""
    p = words(world, removed="retire")
    await told(world, p, "one")
    before = await seen(world)
    await world.receive(p, change("a", removed=True, minute=5))
    await world.run(p)
    await collect(world)
    assert await seen(world) == before
    files = [bytes.fromhex(f.split()[1]) for f in before[1] if not f.startswith("data ")]
    assert all(map(FileStore(world.lake).has, files))


async def test_free_sql_without_undo_cannot_be_reverted_and_says_so(world: World) -> None:
    """Headgate does not try what it cannot keep: nothing is admitted."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE tally (n int)")

    @p.apply
    async def tally(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("INSERT INTO tally VALUES ($1)", obj.size)

    await told(world, p, "one")
    with pytest.raises(UsageError, match="has not said how to take it back"):
        await revert.ask(world.db, 1, because="it was wrong")
    assert await world.db.fetchval("SELECT count(*) FROM headgate.entry") == 1


@pytest.mark.parametrize("blocking", [False, True])
async def test_free_sql_is_taken_back_by_its_undo(world: World, blocking: bool) -> None:
    """Replaced, reverted or removed: the sum always is that of what readers see."""
    p = world.pipeline(removed="remove")
    await world.db.execute("CREATE TABLE tally (n int NOT NULL); INSERT INTO tally VALUES (0)")

    def plain_minus(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
        tx.execute("UPDATE tally SET n = n - $1", obj.size)

    async def minus(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("UPDATE tally SET n = n - $1", obj.size)

    @p.apply(undo=plain_minus if blocking else minus)
    async def plus(tx: hg.Transaction, obj: hg.Object) -> None:
        await tx.execute("UPDATE tally SET n = n + $1", obj.size)

    async def total() -> int:
        return await world.db.fetchval("SELECT n FROM tally")

    await told(world, p, "1", "22")
    assert await total() == 2
    await world.receive(p, change("b", "333"))
    await world.run(p)
    assert await total() == 5
    await revert.ask(world.db, 2, because="it was wrong")
    await world.run(p)
    assert await total() == 4
    await world.receive(p, change("b", removed=True, minute=9))
    await world.run(p)
    assert await total() == 1


async def test_what_its_source_takes_away_can_be_retired(world: World) -> None:
    """Readers keep rows and files, and are told that the source has them no more."""
    p = words(world, removed="retire")
    await told(world, p, "one two")
    before = await seen(world)
    await world.receive(p, change("a", removed=True, minute=5))
    await world.run(p)
    assert await seen(world) == before
    (retired,) = await facts.heads(world.db, 1, 0, 10)
    assert retired.version is not None
    assert (retired.version.retired, retired.version.rows) == (True, {"word": 2})
    assert delta.between(retired.before, retired.version) == delta.Delta(), "nothing went"

    await world.receive(p, change("a", "three", minute=7))
    await world.run(p)
    assert (await seen(world))[0] == ["three"]


async def test_asking_twice_is_refused_and_looking_changes_nothing(world: World) -> None:
    """A plan is only a plan; of two operators one reverts and the other is told."""
    p = words(world)
    await told(world, p, "one", "two")
    made = await revert.plan(world.db, 2)
    assert [r.now.name for r in made.delta.replaces] == ["capitals.txt", "data"]
    assert await world.db.fetchval("SELECT count(*) FROM headgate.entry") == 2
    first = await revert.ask(world.db, 2, because="it was wrong")
    with pytest.raises(UsageError, match=f"already, by entry {first}"):
        await revert.ask(world.db, 2, because="it was wrong")
    with pytest.raises(UsageError, match="readers see version 2"):
        await revert.ask(world.db, 1, because="it was wrong")
    with pytest.raises(UsageError, match="published nothing"):
        await revert.ask(world.db, first, because="it was wrong")
    with pytest.raises(UsageError, match="a reason is needed"):
        await revert.ask(world.db, 2, because=" ")
    await world.run(p)
