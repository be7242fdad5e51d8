"""Governed recovery: a decision is taken back, a key runs again, a line of the journal is reverted.

Each by somebody, with a reason, through the same gates: nothing is ever applied beside the old.
"""

from __future__ import annotations

from typing import Any, TypedDict

import pytest
from tests.world import World, change

import headgate as hg
from headgate.catalog.run import files
from headgate.errors import UsageError
from headgate.ledger import facts, history, quarantine, reset, revert
from headgate.ledger.entries import entries as listed


class Word(TypedDict):
    word: str


async def refused(world: World, *names: str) -> hg.Pipeline:
    """Files that were set aside, with their bytes in the store."""
    p = world.pipeline(sources=[world.directory()])

    @p.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("not today", reason="refused")

    for name in names:
        world.put(name, f"text of {name}")
    await world.run(p)
    assert await world.count("headgate.quarantine") == len(names)
    return p


async def test_a_discard_can_be_taken_back_exactly(world: World) -> None:
    """It is in quarantine as it was, to the last failure; nothing ran meanwhile."""
    await refused(world, "a", "b")
    before = await world.rows("SELECT * FROM headgate.quarantine ORDER BY entry")
    entries = [row[0] for row in before]
    assert await quarantine.discard(world.db, entries, because="test files") == entries
    assert (await history.overview(world.db)).pipelines[0].discarded == 2
    back = await quarantine.undiscard(world.db, entries, because="they were none", actor="anna")
    assert back == entries
    assert await world.rows("SELECT * FROM headgate.quarantine ORDER BY entry") == before
    figures = (await history.overview(world.db)).pipelines[0]
    assert (figures.discarded, figures.quarantined) == (0, 2)
    assert (await listed(world.db, status="rolled_back")).rows == []
    said = [s.text for s in await history.explain(world.db, entries[0])]
    assert any("anna took the discard back" in text for text in said), said
    assert [k for (k,) in await world.rows("SELECT kind FROM headgate.rollback_registry")].count(
        "discard"
    ) == 2
    assert await quarantine.undiscard(world.db, entries, because="again") == []


async def test_what_was_taken_back_runs_when_it_is_released(world: World) -> None:
    """Discarded, taken back, discarded once more, taken back, released: it has one effect."""
    await refused(world, "a")
    (entry,) = [e for (e,) in await world.rows("SELECT entry FROM headgate.quarantine")]
    for _ in range(2):
        await quarantine.discard(world.db, [entry], because="no")
        await world.audit()
        await quarantine.undiscard(world.db, [entry], because="yes")
        await world.audit()
    await world.release(entry)
    p = world.pipeline(sources=[world.directory()])
    await world.run(p)
    assert (await history.find(world.db, str(entry)))[0].status == "finalized"


async def test_taking_back_needs_a_reason(world: World) -> None:
    with pytest.raises(UsageError, match="a reason is needed"):
        await quarantine.undiscard(world.db, [1], because="")


async def test_undiscarded_entries_have_one_run_file_for_their_attempt(world: World) -> None:
    """The change feed of a catalog tells an attempt once, however often somebody thinks again."""
    p = world.pipeline(dataset="d")

    @p.validate
    def refuse(obj: hg.Object) -> None:
        raise hg.Permanent("not today", reason="refused")

    await world.receive(p, change("a", "1"))
    await world.run(p)
    await quarantine.discard(world.db, [1], because="no")
    await quarantine.undiscard(world.db, [1], because="yes")
    pages = await facts.page(world.db, [1], 0, 100)
    assert [(f.entry, f.error) for f in pages] == [(1, "not today")]
    assert [(f.run, f.error) for f in await facts.of_entry(world.db, 1)] == [("1-1", "not today")]


def versioned(world: World, version: str, **declared: Any) -> hg.Pipeline:
    """Code that writes its version into everything it makes."""
    p = world.pipeline(version=version, **declared)

    @p.rows("word", key="word", schema=Word)
    def rows(obj: hg.Object) -> Any:
        for word in obj.text().split():
            yield {"word": f"{word}-{version}"}

    @p.transform
    def file(obj: hg.Object) -> dict[str, bytes]:
        return {"out.txt": f"{obj.text()} by {version}".encode()}

    return p


async def test_a_finalized_key_runs_again_and_supersedes_what_it_did(world: World) -> None:
    """New code over the bytes of then: its rows and files take the place of the old ones."""
    world.put("a", "one two")
    await world.run(versioned(world, "1", sources=[world.directory()]))
    p = versioned(world, "2", sources=[world.directory()])
    await world.run(p)
    assert await world.table("word", "word") == [("one-1",), ("two-1",)], "a deploy runs nothing"
    world.put("a", "one two")  # the same bytes: told again or not, nothing happens
    await world.run(p)
    runs = await reset.reset(world.db, 1, because="version 1 was wrong", actor="anna")
    await world.run(p)
    assert await world.table("word", "word") == [("one-2",), ("two-2",)]
    (told,) = await facts.of_publications(world.db, [runs])
    assert told.version is not None
    assert (told.version.number, told.because, told.actor) == (2, "version 1 was wrong", "anna")
    assert [f.name for f in told.version.files] == ["data", "out.txt"]
    assert told.before is not None
    assert told.version.files[0] == told.before.files[0]
    assert told.version.files[1].digest != told.before.files[1].digest
    kinds = await world.rows("SELECT kind, actor, reverts FROM headgate.rollback_registry")
    assert kinds == [("reset", "anna", 1)]
    said = [s.text for s in await history.explain(world.db, runs)]
    assert any("runs the change of publication 1 again and takes its place" in t for t in said)
    made = await revert.ask(world.db, runs, because="version 1 was right")
    await world.run(p)
    assert (await history.find(world.db, str(made)))[0].status == "finalized"
    assert await world.val("SELECT max(version) FROM headgate.publication") == 3


async def test_the_catalog_tells_a_reset_as_what_it_is(world: World) -> None:
    """The item is described anew, its records are whole, and the summary says who asked and why."""
    p = versioned(world, "1", dataset="d")
    await world.receive(p, change("a", "one"))
    await world.run(p)
    q = versioned(world, "2", dataset="d")

    @q.item
    def described(item: dict[str, Any]) -> None:
        item["properties"]["title"] = "described by version 2"

    runs = await reset.reset(world.db, 1, because="version 1 was wrong", actor="anna")
    await world.run(q)
    (told,) = await facts.of_publications(world.db, [runs])
    assert told.item is not None
    assert told.item.document()["properties"]["title"] == "described by version 2"
    said = files(told)["summary.md"].decode()
    assert "Runs the change of publication 1 again, asked for by `anna`" in said


async def test_free_sql_is_taken_back_before_it_runs_again(world: World) -> None:
    """With `undo` the sum stays right; without it a reset is refused, and nothing happens."""
    await world.db.execute("CREATE TABLE total (n int); INSERT INTO total VALUES (0)")

    def minus(tx: Any, obj: hg.Object) -> None:
        tx.execute("UPDATE total SET n = n - $1::int", len(obj.text()))

    def plus(tx: Any, obj: hg.Object) -> None:
        tx.execute("UPDATE total SET n = n + $1::int", len(obj.text()))

    careless = world.pipeline()
    careless.apply(plus)
    await world.receive(careless, change("a", "12345"))
    await world.run(careless)
    with pytest.raises(UsageError, match="has not said how to take it back"):
        await reset.reset(world.db, 1, because="again")
    careful = world.pipeline()
    careful.apply(undo=minus)(plus)
    await world.register(careful)
    await reset.reset(world.db, 1, because="again")
    await world.run(careful)
    assert await world.val("SELECT n FROM total") == 5
    assert await world.val("SELECT count(*) FROM headgate.publication") == 2


async def test_what_was_replaced_is_not_run_again(world: World) -> None:
    """A head never goes back: neither when it is asked for, nor when something comes in between."""
    p = versioned(world, "1")
    await world.receive(p, change("a", "one", minute=1))
    await world.run(p)
    again = await reset.reset(world.db, 1, because="again")
    with pytest.raises(UsageError, match="is being reverted already"):
        await reset.reset(world.db, 1, because="and again")
    path, worker = await world.path(p), await world.worker()
    (held,) = await world.claim(path, worker)
    assert held.id == again
    await world.receive(p, change("b", "x"))
    await world.finish(path, [held])
    await world.receive(p, change("a", "two", minute=2))
    await world.run(p)
    with pytest.raises(UsageError, match="readers see version 3"):
        await reset.reset(world.db, 1, because="once more")
    assert await world.table("word", "word") == [("two-1",), ("x-1",)]


async def test_a_waiting_entry_is_tried_at_once_with_fresh_attempts(world: World) -> None:
    """Its next try was an hour away and its last but one: now it has all of them."""
    plan = hg.RetryPlan("upstream-event", 3, 86400, 3600, 3600, "equal")
    p = world.pipeline(retry=plan)
    works: list[bool] = []

    @p.transform
    def flaky(obj: hg.Object) -> None:
        if not works:
            raise hg.Retryable("not yet")

    await world.receive(p, change("a", "1"))
    await world.run(p, max_wait_seconds=1)
    assert (await history.find(world.db, "1"))[0].status == "waiting"
    assert await reset.plan(world.db, 1) == "retry"
    assert await reset.reset(world.db, 1, because="it is back") == 1
    assert await world.val("SELECT attempts FROM headgate.work") == 0
    works.append(True)
    await world.run(p, max_wait_seconds=1)
    assert (await history.find(world.db, "1"))[0].status == "finalized"


async def test_a_skipped_entry_asks_the_gates_again_and_takes_their_answer(world: World) -> None:
    """It was stale and is stale: a reset lets nothing past a gate."""
    p = versioned(world, "1")
    await world.receive(p, change("a", "new", minute=2))
    await world.run(p)
    await world.receive(p, change("a", "old", minute=1))
    await world.run(p)
    assert (await history.overview(world.db)).pipelines[0].skipped == {"stale": 1}
    assert await reset.reset(world.db, 2, because="look again", actor="anna") == 2
    assert (await history.overview(world.db)).pipelines[0].skipped == {"stale": 0}
    with pytest.raises(UsageError, match="waits for its first attempt"):
        await reset.reset(world.db, 2, because="again")
    await world.run(p)
    assert (await history.find(world.db, "2"))[0].reason == "stale"
    assert await world.table("word", "word") == [("new-1",)]
    assert (await history.overview(world.db)).pipelines[0].skipped == {"stale": 1}
    said = [s.text for s in await history.explain(world.db, 2)]
    assert any("anna had the gates asked again" in text for text in said), said


async def test_what_needs_another_decision_is_told_which(world: World) -> None:
    """Quarantined, discarded, unknown: refused, with the command that fits."""
    await refused(world, "a", "b")
    with pytest.raises(UsageError, match="is in quarantine") as told:
        await reset.reset(world.db, 1, because="x")
    assert "quarantine release 1" in told.value.hint
    await quarantine.discard(world.db, [2], because="x")
    with pytest.raises(UsageError, match="was discarded") as told:
        await reset.reset(world.db, 2, because="x")
    assert "quarantine undiscard 2" in told.value.hint
    with pytest.raises(UsageError, match="there is no entry 9"):
        await reset.reset(world.db, 9, because="x")
    with pytest.raises(UsageError, match="a reason is needed"):
        await reset.reset(world.db, 1, because=" ")


async def test_a_line_of_the_journal_leads_to_its_entry(world: World) -> None:
    """`wal_pointer` of the registry and of `idempotency_log` can be pasted as it is."""
    p = versioned(world, "1")
    await world.receive(p, change("a", "one", minute=1), change("b", "x"))
    await world.run(p)
    for entry, pointer in await world.rows(
        "SELECT entry, wal_pointer FROM headgate.idempotency_log"
    ):
        for text in (pointer, f"journal {pointer}"):
            assert [e.entry for e in await history.find(world.db, text)] == [entry]
            assert await history.at_pointer(world.db, text) == (entry, "finalized")
    assert await history.find(world.db, "999/1") == []
