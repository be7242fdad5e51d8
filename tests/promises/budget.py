"""A pipeline that fails too often slows down, says so once, and recovers by itself."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from tests.world import World, change

import headgate as hg
from headgate.errors import UsageError
from headgate.ledger import budget, inbox
from headgate.model.signal import listen
from headgate.runtime.prove.acting import _release
from headgate.runtime.prove.failing import REASON
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning

PLAN = hg.RetryPlan("upstream-event", 2, 3600, 0.001, 0.002, "full")


def failing(world: World, **declared: Any) -> hg.Pipeline:
    p = world.pipeline(**{"retry": PLAN, **declared})

    @p.transform
    def fail(obj: hg.Object, run: hg.Run) -> dict[str, bytes]:
        raise RuntimeError("password=hunter2 is wrong")

    return p


async def exhausted(world: World, entries: int, **declared: Any) -> hg.Pipeline:
    p = failing(world, **declared)
    await world.receive(p, *[change(f"{n}") for n in range(entries)])
    await world.run(p)
    return p


async def test_a_spent_budget_slows_retries_to_the_cap(world: World):
    """After twenty failures in a row the next retry waits as long as the plan ever waits."""
    await exhausted(world, 15)
    assert await budget.weigh(world.db, 0.05, 600)
    plan = hg.RetryPlan("upstream-event", 9, 3600, 0.001, 600, "full")
    p = failing(world, retry=plan)
    await world.receive(p, change("slow"))
    await world.run(p, max_wait_seconds=1)
    due = await world.val("SELECT due_at - clock_timestamp() FROM headgate.work")
    assert due > timedelta(seconds=250)


async def test_a_few_failures_spend_nothing(world: World):
    """Less than the share, or too few to tell: everything goes on as it was."""
    await exhausted(world, 5)
    assert await budget.weigh(world.db, 0.05, 600) == []
    good = world.pipeline("good")
    await world.receive(good, *[change(f"{n}") for n in range(600)])
    await world.run(good)
    assert await budget.weigh(world.db, 0.05, 600) == []


async def test_the_turn_is_seen_once_and_recovers_by_itself(world: World):
    """Two supervisors look, one of them says it; when the failures are old it is over."""
    await exhausted(world, 15)
    (turn,) = await budget.weigh(world.db, 0.05, 600)
    assert (turn.pipeline, turn.failed, turn.attempts) == ("p", 30, 30)
    assert await budget.weigh(world.db, 0.05, 600) == []
    await world.db.execute("UPDATE headgate.failure SET minute = minute - interval '1 hour'")
    (turn,) = await budget.weigh(world.db, 0.05, 600)
    assert turn.spent_at is None
    assert await budget.spent(world.db) == frozenset()


async def test_a_redrive_waits_for_the_budget_or_for_a_reason(world: World):
    """A few entries may be tried; more are refused until somebody says why they should run."""
    p = await exhausted(world, 30)
    await budget.weigh(world.db, 0.05, 600)
    aside = [row[0] for row in await world.rows("SELECT entry FROM headgate.quarantine")]
    with pytest.raises(UsageError, match="error budget of p is spent") as refused:
        await world.release(*aside)
    assert "headgate budget override p" in refused.value.hint
    assert await world.count("headgate.quarantine") == 30
    assert len(await world.release(*aside[:10])) == 10
    with pytest.raises(UsageError, match="reason"):
        await budget.override(world.db, "p", 60, because=" ")
    await budget.override(world.db, "p", 60, because="handler repaired", actor="tester")
    assert len(await world.release(*aside[10:])) == 20
    assert ("tester", "handler repaired") in await world.rows(
        "SELECT actor, because FROM headgate.action WHERE verb LIKE 'override%'"
    )
    await world.run(p)


async def test_prove_goes_on_where_all_of_many_samples_failed(world: World):
    """What it made fail spends the budget, and is released all the same."""
    p = world.pipeline()

    @p.transform
    def fail(obj: hg.Object) -> dict[str, bytes]:
        raise hg.Permanent("on purpose", reason=REASON)

    await world.receive(p, *[change(f"{n}") for n in range(25)])
    await world.run(p)
    assert await budget.weigh(world.db, 0.05, 600)
    assert len(await world.quarantined()) == 25
    await _release(world.db)
    assert await world.quarantined() == []


async def test_what_is_not_spent_cannot_be_overridden(world: World):
    """A mistyped name is no decision."""
    with pytest.raises(UsageError, match="'nobody'"):
        await budget.override(world.db, "nobody", 60, because="x")


async def test_the_hook_is_told_once_in_a_while_with_nothing_secret(world: World, tmp_path: Path):
    """One call for thirty entries, masked; the next ones wait for the pause to pass."""
    told = tmp_path / "told.jsonl"
    script = tmp_path / "hook.py"
    script.write_text(
        "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')", encoding="utf-8"
    )
    hook = f"{sys.executable} {script} {told}"
    await exhausted(world, 30)
    sweepers = [Sweeper(world.db, Tuning(incident_hook=hook, env="test")) for _ in range(2)]
    for sweeper in sweepers:
        await sweeper.sweep()
    said = [json.loads(line) for line in told.read_text().splitlines()]
    assert sorted(one["incident"] for one in said) == ["error_budget_spent", "exhausted"]
    (one,) = [one for one in said if one["incident"] == "exhausted"]
    assert (one["pipeline"], one["reason"], one["entries"]) == ("p", "RuntimeError", 30)
    assert (one["classed"], one["env"]) == ("exhausted", "test")
    assert "hunter2" not in told.read_text()
    await exhausted(world, 1)
    await sweepers[0].sweep()
    assert len(told.read_text().splitlines()) == 2, "it was told a moment ago"


async def test_the_quarantine_is_measured_by_pipeline_and_class(world: World):
    """Both gauges count what waits for a decision, and say nought when nothing does."""
    heard: dict[tuple[str, ...], float] = {}
    stop = listen(lambda s, value, labels: heard.update({(s.name, *labels.values()): value}))
    try:
        await exhausted(world, 3)
        await Sweeper(world.db, Tuning()).sweep()
        assert heard["dead_letter_count", "test"] == 3
        assert heard["headgate_quarantine_entries", "p", "exhausted"] == 3
        assert heard["headgate_quarantine_entries", "p", "schema"] == 0
        await world.release(1, 2, 3)
        await Sweeper(world.db, Tuning()).sweep()
        assert heard["dead_letter_count", "test"] == 0
        assert heard["headgate_quarantine_entries", "p", "exhausted"] == 0
    finally:
        stop()


async def test_the_quarantine_is_measured_by_the_source_that_told(world: World):
    """Where a pipeline has several sources, and where several pipelines have one of a name."""
    heard: dict[tuple[str, ...], float] = {}
    stop = listen(lambda s, value, labels: heard.update({(s.name, *labels.values()): value}))
    one = world.directory(name="one")
    both = world.pipeline("both", sources=[one, world.directory(name="two")])
    alone = world.pipeline("alone", sources=[one])
    for p in (both, alone):
        p.transform(lambda obj: 1 / 0)
    try:
        at = await world.register(both)
        for source, n in (("one", 2), ("two", 1)):
            told = [change(f"{source}{k}", b"1") for k in range(n)]
            await inbox.receive(world.db, at, source, told)
        await inbox.receive(world.db, await world.register(alone), "one", [change("x", b"1")])
        await world.work(both, alone, workers=1)
        sweeper = Sweeper(world.db, Tuning())
        await sweeper.sweep()
        assert heard["dead_letter_count", "one"] == 3
        assert heard["dead_letter_count", "two"] == 1
        ids = await world.rows("SELECT id FROM headgate.entry WHERE uri LIKE '%two%'")
        await world.release(*(id for (id,) in ids))
        await sweeper.sweep()
        assert heard["dead_letter_count", "one"] == 3
        assert heard["dead_letter_count", "two"] == 0
    finally:
        stop()


async def test_a_hook_that_fails_is_called_again(world: World):
    """A web address that answers 500 was not told."""
    answers = [500, 200]
    bodies: list[bytes] = []

    class Pager(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(answers[len(bodies) - 1])
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Pager)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        await exhausted(world, 3)
        address = f"http://127.0.0.1:{server.server_port}/"
        sweeper = Sweeper(world.db, Tuning(incident_hook=address))
        for _ in range(3):
            await sweeper.sweep()
    finally:
        server.shutdown()
        server.server_close()
    assert len(bodies) == 2
    assert json.loads(bodies[1])["entries"] == 3
