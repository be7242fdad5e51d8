"""What a run took of energy: measured, kept with it, and told with what it rests on."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, TypedDict

import pytest
from tests.world import World, change

import headgate as hg
from headgate.catalog import openlineage, operation
from headgate.ledger import facts
from headgate.ledger import operation as ledger
from headgate.model.signal import listen

BUSY_SECONDS = 1.0  # well over what a worker takes for itself


class Row(TypedDict):
    id: int


def burn(seconds: float) -> None:
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def facet(world: World, entry: int) -> dict[str, Any] | None:
    (run,) = await facts.of_entry(world.db, entry)
    _, ended = openlineage.events(run)
    return ended["run"]["facets"].get("headgate_energy")


async def test_a_run_is_charged_what_its_handler_took(world: World) -> None:
    """The one that computes pays for itself, not its neighbour; waiting costs next to nothing."""
    p = world.pipeline()

    @p.transform
    def handle(obj: hg.Object) -> None:
        if obj.uri.endswith("busy"):
            burn(BUSY_SECONDS)
        else:
            time.sleep(BUSY_SECONDS)

    heard: dict[str, float] = {}

    def add(s: Any, value: float, labels: dict[str, str]) -> None:
        heard[s.name] = heard.get(s.name, 0) + value

    stop = listen(add)
    try:
        await world.receive(p, change("busy", b"1"), change("idle", b"1"))
        await world.run(
            p,
            energy=True,
            energy_core_watts=10.0,
            energy_overhead=1.5,
            energy_grid_grams=360.0,
        )
    finally:
        stop()
    names = dict(await world.rows("SELECT uri, id FROM headgate.entry"))
    busy = await facet(world, names["test://busy"])
    idle = await facet(world, names["test://idle"])
    assert busy is not None
    assert idle is not None
    assert busy["cpuSeconds"] >= BUSY_SECONDS
    assert idle["cpuSeconds"] < busy["cpuSeconds"]
    assert busy["joules"] == pytest.approx(busy["cpuSeconds"] * 15, rel=1e-4)
    assert busy["gramsCO2e"] == pytest.approx(busy["joules"] / 10_000, rel=1e-4)
    assumed = (busy["coreWatts"], busy["overhead"], busy["gridGramsPerKWh"])
    assert assumed == (10.0, 1.5, 360.0)
    total = busy["cpuSeconds"] + idle["cpuSeconds"]
    assert heard["headgate_cpu_seconds_total"] == pytest.approx(total, abs=1e-4)
    assert heard["headgate_energy_joules_total"] == pytest.approx(total * 15, abs=1e-2)
    assert heard["headgate_carbon_grams_total"] == pytest.approx(total * 15 / 10_000, abs=1e-5)


async def test_many_quick_runs_share_what_their_worker_took(world: World) -> None:
    """Rows and their counts are told as before, and every run has its share."""
    p = world.pipeline()

    @p.rows("item", key="id", schema=Row)
    def item(obj: hg.Object) -> Any:
        yield obj.json()

    await world.receive(p, *(change(f"o{n}", json.dumps({"id": n})) for n in range(500)))
    await world.work(p, workers=1, energy=True)
    docs = [json.loads(d) for (d,) in await world.rows("SELECT doc FROM headgate.journal")]
    assert len(docs) == 500
    assert all(doc["rows"] == {"item": 1} for doc in docs)
    shares = [doc["energy"][0] for doc in docs]
    assert all(0 < share < 0.1 for share in shares)
    assert all(doc["energy"][1:] == [5.0, 1.3, 450.0] for doc in docs)


async def test_off_means_that_nothing_is_said(world: World) -> None:
    """By default no run has the facet and no journal line a word about it."""
    p = world.pipeline()
    p.transform(lambda obj: None)
    await world.receive(p, change("a", b"1"))
    await world.run(p)
    assert await facet(world, 1) is None
    assert await world.val("SELECT doc FROM headgate.journal") is None


async def test_an_operation_says_what_its_caller_took(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In its journal and its lineage, with the same assumptions."""
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)
    monkeypatch.setenv("HEADGATE_ENERGY", "true")

    def load() -> str:
        with hg.operation("load", key={"day": "1"}, dataset="sales", version="1") as op:
            burn(BUSY_SECONDS)
            op.result = 1
        return op.key

    key = await asyncio.to_thread(load)
    row = await ledger.find(world.db, key)
    assert row is not None
    _, ended = operation.events(await ledger.facts(world.db, row))
    said = ended["run"]["facets"]["headgate_energy"]
    assert BUSY_SECONDS <= said["cpuSeconds"] < 5
    assert said["coreWatts"] == 5.0
