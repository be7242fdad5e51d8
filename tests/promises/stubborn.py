"""Stubborn handlers: whatever one does to its thread or task, only its own entry pays for it."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any

import pytest
from tests.world import World, change

import headgate as hg

INSERT = "INSERT INTO effect (name) VALUES ($1)"
ONCE = hg.RetryPlan("upstream-event", 1, 60, 0.01, 0.02, "full")
NEIGHBOURS = 40


class Farewell(BaseException):
    """What some libraries raise to get past every `except Exception`."""


def leave(how: str) -> None:
    match how:
        case "SystemExit":
            sys.exit(3)
        case "CancelledError":
            raise asyncio.CancelledError
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "Farewell":
            raise Farewell("so long")
        case _:
            pass


async def deliver(world: World, p: hg.Pipeline, bad: str) -> None:
    """One entry that misbehaves, amid others that do not."""
    good = [change(f"o{n}", f"good {n}") for n in range(NEIGHBOURS)]
    await world.receive(p, *good[:7], change("x", bad), *good[7:])


async def settled(world: World) -> tuple[str, str, str]:
    """Every neighbour is finalized; what became of the other one."""
    assert (await world.outcomes())["finalized"] == NEIGHBOURS
    ((classed, reason, error),) = await world.quarantined()
    return classed, reason, error


@pytest.mark.parametrize("how", ["SystemExit", "CancelledError", "KeyboardInterrupt", "Farewell"])
async def test_a_plain_handler_that_would_end_its_thread_is_retried_up_to_the_cap(
    world: World, how: str
) -> None:
    """sys.exit() in a handler costs its entry three attempts, and no thread of the worker."""
    p = world.pipeline()

    @p.transform
    def stubborn(obj: hg.Object, run: hg.Run) -> None:
        # A call to the outside is never made on the loop's own thread.
        run.call("outside", lambda: None)
        leave(obj.text())

    await deliver(world, p, how)
    await world.run(p, concurrency=2)
    classed, reason, error = await settled(world)
    assert (classed, reason) == ("exhausted", how)
    assert how != "SystemExit" or error == "the handler called sys.exit(3)"
    assert (await world.outcomes())[f"waiting:{how}"] == 2


@pytest.mark.parametrize("how", ["SystemExit", "CancelledError", "Farewell"])
async def test_an_async_handler_that_would_end_its_task_is_retried_up_to_the_cap(
    world: World, how: str
) -> None:
    """The same on the event loop: the worker goes on, the entry is charged."""
    p = world.pipeline()

    @p.transform
    async def stubborn(obj: hg.Object) -> None:
        await asyncio.sleep(0)
        leave(obj.text())

    await deliver(world, p, how)
    await world.run(p, concurrency=2)
    classed, reason, _ = await settled(world)
    assert (classed, reason) == ("exhausted", how)
    assert (await world.outcomes())[f"waiting:{how}"] == 2


async def test_awaiting_something_that_was_cancelled_is_an_ordinary_failure(world: World) -> None:
    """A cancelled future is the handler's own affair, and not a reason to end the worker."""
    p = world.pipeline()

    @p.transform
    async def stubborn(obj: hg.Object) -> None:
        if obj.text() == "bad":
            waited_for = asyncio.ensure_future(asyncio.sleep(30))
            asyncio.get_running_loop().call_soon(waited_for.cancel)
            await waited_for

    await deliver(world, p, "bad")
    await world.run(p, concurrency=1)
    assert (await settled(world))[1] == "CancelledError"


async def test_a_handler_that_cancels_its_own_task_is_set_aside(world: World) -> None:
    """It gives its slot back, so that the next entry can have it."""
    p = world.pipeline()

    @p.transform
    async def stubborn(obj: hg.Object) -> None:
        if obj.text() == "bad":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(30)

    await deliver(world, p, "bad")
    await world.run(p, concurrency=1)
    assert (await settled(world))[1] == "CancelledError"


@pytest.mark.parametrize("how", ["SystemExit", "CancelledError", "Farewell"])
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_free_sql_that_would_end_the_committer_is_undone(
    world: World, kind: str, how: str
) -> None:
    """sys.exit() inside of apply fails its entry; its neighbours are committed once."""
    p = world.pipeline()
    await world.db.execute("CREATE TABLE effect (name text)")

    if kind == "plain":

        @p.apply
        def plain(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
            tx.execute(INSERT, obj.text())
            leave(obj.text())

    else:

        @p.apply
        async def awaited(tx: hg.Transaction, obj: hg.Object) -> None:
            await tx.execute(INSERT, obj.text())
            leave(obj.text())

    await deliver(world, p, how)
    await world.run(p)
    assert (await settled(world))[:2] == ("exhausted", how)
    assert await world.count("effect") == NEIGHBOURS


async def test_an_undo_that_exits_is_a_call_that_could_not_be_undone(world: World) -> None:
    """The entry is in quarantine already; the worker says so and goes on."""
    p = world.pipeline()
    tried: list[int] = []

    def undo() -> None:
        tried.append(1)
        sys.exit("no way back")

    @p.transform
    def stubborn(obj: hg.Object, run: hg.Run) -> None:
        if obj.text() == "bad":
            run.call("outside", lambda: None, undo=undo)
            raise hg.Permanent("after all, no", reason="poison")

    await deliver(world, p, "bad")
    await world.run(p)
    assert (await settled(world))[1] == "poison"
    assert tried == [1]


@pytest.mark.parametrize("name", ["half \ud800", "nul \0", 7])
async def test_an_artifact_whose_name_cannot_be_stored_is_refused(world: World, name: Any) -> None:
    """It is quarantined with its reason at once, and what was made beside it is published."""
    p = world.pipeline()

    @p.transform
    def stubborn(obj: hg.Object) -> hg.Artifact:
        return hg.Artifact(name if obj.text() == "bad" else "fine", obj.read())

    await deliver(world, p, "bad")
    await world.run(p)
    classed, reason, error = await settled(world)
    assert (classed, reason) == ("permanent", "effect_refused")
    assert "cannot be stored" in error


@pytest.mark.parametrize("kind", ["plain", "in a thread", "async"])
async def test_an_error_that_cannot_be_judged_sets_its_entry_aside(world: World, kind: str) -> None:
    """An error whose reason is no text has no fate of its own: a person decides."""
    p = world.pipeline()
    unnamed: Any = 7

    def fail(obj: hg.Object) -> None:
        if obj.text() == "bad":
            raise hg.Permanent("poison", reason=unnamed)

    if kind != "async":

        @p.transform
        def plain(obj: hg.Object, run: hg.Run) -> None:
            if kind == "in a thread":
                run.call("outside", lambda: None)
            fail(obj)

    else:

        @p.transform
        async def awaited(obj: hg.Object) -> None:
            fail(obj)

    await deliver(world, p, "bad")
    await world.run(p, concurrency=1)
    assert (await settled(world))[0] == "permanent"


async def test_free_sql_that_hangs_keeps_nobody_from_a_thread(world: World) -> None:
    """More handlers hang than a pool has threads; those after them are run all the same."""
    p = world.pipeline(retry=ONCE)
    await world.db.execute("CREATE TABLE effect (name text)")
    let_go = threading.Event()

    @p.apply
    def stubborn(tx: hg.BlockingTransaction, obj: hg.Object) -> None:
        if obj.text() == "hang":
            let_go.wait(100)
        tx.execute(INSERT, obj.text())

    hanging = [change(f"x{n}", "hang") for n in range(40)]
    await world.receive(p, *hanging, *(change(f"o{n}", "good") for n in range(3)))
    try:
        await world.run(p, apply_seconds=0.05)
    finally:
        let_go.set()
    assert await world.rows("SELECT name FROM effect") == [("good",)] * 3
    assert {reason for _, reason, _ in await world.quarantined()} == {"deadline_exceeded"}


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("kind", ["validate", "transform"])
async def test_a_plain_handler_may_run_a_loop_of_its_own(world: World, kind: str) -> None:
    """`asyncio.run` inside a plain handler works however quick the handler is, at the first try."""
    p = world.pipeline()

    def awaiting(obj: hg.Object) -> dict[str, bytes] | None:
        async def body() -> bytes:
            return obj.read()

        copy = asyncio.run(body())
        return {"copy": copy} if kind == "transform" else None

    (p.validate if kind == "validate" else p.transform)(awaiting)
    for n in range(5):  # it is called in another way once it is known to be quick
        await world.receive(p, *(change(f"{n}-{k}", f"{n}-{k}") for k in range(40)))
        await world.run(p)
    assert await world.outcomes() == {"finalized": 200}
