"""run.call: a step outside Postgres is made once, with one key, and taken back when it must be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.world import World, change

import headgate as hg
from headgate.ledger import worker as workers

KINDS = ["plain", "async"]


def handler(
    p: hg.Pipeline, kind: str, steps: list[tuple[str, Any, Any]], then: Callable[..., None]
):
    """A transform that makes some calls and then does something else."""
    if kind == "plain":

        @p.transform
        def plain(obj: hg.Object, run: hg.Run) -> None:
            then(run, [run.call(name, fn, undo=undo) for name, fn, undo in steps])

    else:

        @p.transform
        async def awaited(obj: hg.Object, run: hg.Run) -> None:
            then(run, [await run.call(name, fn, undo=undo) for name, fn, undo in steps])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_finished_call_is_not_made_again_on_retry(world: World, kind: str) -> None:
    """The attempt fails after the call: the next one gets the stored answer, the same way."""
    p = world.pipeline()
    made: list[str] = []
    answers: list[Any] = []

    def charge(key: str) -> Any:
        made.append(key)
        return {"receipt": len(made), "parts": (1, 2)}

    def then(run: hg.Run, answered: list[Any]) -> None:
        answers.extend(answered)
        if run.attempt < 3:
            raise RuntimeError("after the call")

    handler(p, kind, [("charge", charge, None)], then)
    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert len(made) == 1
    assert answers == [{"receipt": 1, "parts": [1, 2]}] * 3
    assert (await world.outcomes())["finalized"] == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_an_unfinished_call_is_made_again_under_the_same_key(world: World, kind: str) -> None:
    """The call itself fails: whoever is on the other side sees the same key twice."""
    p = world.pipeline()
    keys: list[str] = []

    def charge(key: str) -> str:
        keys.append(key)
        if len(keys) == 1:
            raise ConnectionError("no answer")
        return "paid"

    handler(p, kind, [("charge", charge, None)], lambda run, answers: None)
    await world.receive(p, change("a", "x"), change("b", "x"))
    await world.run(p)
    assert (await world.outcomes())["finalized"] == 2
    assert len(keys) == 3
    assert len(set(keys)) == 2, "one key per entry and step"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_may_take_no_key_or_be_a_coroutine(world: World, kind: str) -> None:
    """What takes no argument gets none; a coroutine function is awaited in an async handler."""
    p = world.pipeline()
    got: list[Any] = []

    async def slow(key: str) -> int:
        await asyncio.sleep(0)
        return 2

    steps: list[tuple[str, Any, Any]] = [("plain", lambda: 1, None)]
    if kind == "async":
        steps.append(("slow", slow, None))
    handler(p, kind, steps, lambda run, answers: got.extend(answers))
    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert got == ([1, 2] if kind == "async" else [1])
    assert (await world.outcomes()) == {"finalized": 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_entry_that_is_quarantined_takes_its_calls_back(world: World, kind: str) -> None:
    """The last call is undone first, with its key, and the ledger says so."""
    p = world.pipeline()
    log: list[tuple[str, str]] = []

    def step(name: str) -> tuple[str, Any, Any]:
        def do(key: str) -> None:
            log.append((f"do {name}", key))

        def undo(key: str) -> None:
            log.append((f"undo {name}", key))

        return name, do, undo

    def then(run: hg.Run, answers: list[Any]) -> None:
        raise hg.Permanent("no good")

    handler(p, kind, [step("one"), step("two")], then)
    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert [what for what, _ in log] == ["do one", "do two", "undo two", "undo one"]
    assert log[0][1] == log[3][1]
    told = await world.rows("SELECT name, done, undone IS NOT NULL FROM headgate.call ORDER BY 1")
    assert told == [("one", None, True), ("two", None, True)]

    p.transforms.clear()
    handler(p, kind, [step("one"), step("two")], lambda run, answers: None)
    await world.release(await world.val("SELECT entry FROM headgate.quarantine"))
    await world.run(p)
    assert [what for what, _ in log[4:]] == ["do one", "do two"], "undone: made again"
    assert log[4][1] == log[0][1], "under the same key"


async def test_a_quarantine_that_apply_decides_takes_calls_back_too(world: World) -> None:
    """The calls were made, and then the SQL failed for good."""
    p = world.pipeline()
    log: list[str] = []

    @p.transform
    def call(obj: hg.Object, run: hg.Run) -> None:
        run.call("one", lambda: log.append("do"), undo=lambda: log.append("undo"))

    @p.apply
    async def fail(tx: hg.Transaction, obj: hg.Object) -> None:
        raise hg.Permanent("no good")

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert len(await world.quarantined()) == 1
    assert log == ["do", "undo"]


async def test_an_undo_that_fails_is_told_and_stops_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """The other side refuses to take it back: the entry is quarantined, the others go on."""
    p = world.pipeline()
    log: list[str] = []

    def refuse() -> None:
        raise ConnectionError("closed on Sundays")

    @p.transform
    def call(obj: hg.Object, run: hg.Run) -> None:
        run.call("first", lambda: None, undo=lambda: log.append("undo first"))
        run.call("second", lambda: None, undo=refuse)
        if obj.text() == "bad":
            raise hg.Permanent("no good")

    await world.receive(p, *(change(f"o{n}", "good") for n in range(5)), change("x", "bad"))
    await world.run(p)
    assert (await world.outcomes())["finalized"] == 5
    assert len(await world.quarantined()) == 1
    assert log == ["undo first"]
    assert "closed on Sundays" in caplog.text
    told = await world.rows(
        "SELECT c.name, c.done IS NOT NULL FROM headgate.call c"
        " JOIN headgate.quarantine q ON q.entry = c.entry ORDER BY 1"
    )
    assert told == [("first", False), ("second", True)], "what was not undone is not made again"


async def test_a_worker_that_lost_its_lease_takes_no_call_back(world: World) -> None:
    """It was slow, another one finished the entry; its own failure changes nothing any more."""
    p = world.pipeline()
    log: list[str] = []
    fail = True

    @p.transform
    def call(obj: hg.Object, run: hg.Run) -> None:
        run.call("one", lambda: log.append("do"), undo=lambda: log.append("undo"))
        if fail:
            raise hg.Permanent("too late")

    path = await world.path(p)
    await world.receive(p, change("a", "x"))
    slow = await world.worker()
    (claim,) = await world.claim(path, slow)
    attempt = path.begin(claim)
    await asyncio.to_thread(path.prepare, attempt)
    await workers.bury(world.db, slow, "stopped", running=(), innocent=True)
    fail = False
    await world.run(p)
    await path.settle([attempt])
    assert log == ["do"]
    assert await world.outcomes() == {"received:stopped": 1, "finalized": 1, "fenced:fenced": 1}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_cannot_be_stored_is_a_clear_error(world: World, kind: str) -> None:
    """The call answers with something that is no JSON: quarantined, and the error says which."""
    p = world.pipeline()
    handler(p, kind, [("charge", object, None)], lambda run, answers: None)
    await world.receive(p, change("a", "x"))
    await world.run(p)
    ((classed, reason, error),) = await world.quarantined()
    assert (classed, reason) == ("permanent", "effect_refused")
    assert "'charge'" in error
