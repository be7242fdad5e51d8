"""The files beside the data: whatever happens meanwhile, they end up as the ledger is."""

from __future__ import annotations

import json
from pathlib import Path

from tests.world import World, change

import headgate as hg


def files(lake: Path) -> dict[str, bytes]:
    """Every file of the catalog, by name."""
    folders = ("stac", "catalog", "prov", "runs")
    found = [f for folder in folders for f in (lake / folder).rglob("*") if f.is_file()]
    return {str(f.relative_to(lake)): f.read_bytes() for f in found}


async def test_a(world: World) -> None:
    p = world.pipeline(dataset="soil", sources=[world.directory()])

    @p.transform
    def upper(obj: hg.Object) -> dict[str, bytes]:
        return {"upper.txt": obj.read().upper()}

    world.put("a.csv", b"one")
    world.put("b.csv", b"two")
    await world.run(p)
    world.put("a.csv", b"three")
    await world.run(p)
    f = files(world.lake)
    for n in sorted(f): print(n, len(f[n]))
    print(json.dumps(json.loads(f["stac/soil/collection.json"]), indent=1))
    assert 0
