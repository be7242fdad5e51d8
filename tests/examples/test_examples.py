"""The examples do what their pages say."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.world import World

from headgate.ledger import facts
from headgate.runtime import inline
from headgate.runtime.load import load

EXAMPLES = Path(__file__).parents[2] / "examples"


class Example:
    """A copy of an example's folder, run as its page says, on the ledger of a world."""

    def __init__(self, name: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = world.folder / name
        shutil.copytree(EXAMPLES / name, self.folder)
        monkeypatch.chdir(self.folder)
        monkeypatch.setattr(sys, "path", [*sys.path])
        self.page = (EXAMPLES / name / "README.md").read_text()
        self._world = world

    def up(self) -> str:
        """`headgate up pipeline.py --until-idle`; the lines it says that are on the page."""
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")}
        said = subprocess.run(
            [sys.executable, "-m", "headgate", "up", "pipeline.py", "--until-idle"],
            env={
                **clean,
                "HEADGATE_DATABASE_URL": self._world.url,
                "HEADGATE_HOME": str(self.folder / ".headgate"),
                "HEADGATE_WORKERS": "1",
            },
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert said.returncode == 0, said.stderr
        lines = (said.stdout + said.stderr).splitlines(keepends=True)
        return "".join(line for line in lines if line in self.page)

    async def again(self) -> None:
        """The same in this process, which is quicker."""
        pipelines = load("pipeline.py")
        await inline.run(self._world.db, pipelines, self._world.tuning, until_idle=True)


def test_every_example_is_run_here() -> None:
    """A folder with a pipeline that no test runs would rot."""
    here = Path(__file__).parent
    tests = "".join(file.read_text() for file in here.glob("*.py"))
    names = [pipeline.parent.name for pipeline in EXAMPLES.glob("*/pipeline.py")]
    assert names
    assert not [name for name in names if f'"{name}"' not in tests]


async def test_directory(world: World, monkeypatch: pytest.MonkeyPatch):
    """Two files: one becomes rows, one is set aside; again, nothing is done twice."""
    example = Example("directory", world, monkeypatch)
    said = example.up()
    assert "rain            2   2" in said
    assert "1 × rain: schema" in said
    await example.again()
    assert await world.count("reading") == 3
    fixed = "station,at,mm\noslo-1,2026-01-06T12:00:00Z,3.4\n"
    (example.folder / "incoming/broken.csv").write_text(fixed)
    await example.again()
    assert await world.count("reading") == 4


async def test_contracts(world: World, monkeypatch: pytest.MonkeyPatch):
    """One file meets its contract, one does not; what every check said of both is kept."""
    example = Example("contracts", world, monkeypatch)
    said = example.up()
    assert "soil            2   2" in said
    assert "1 × soil: contract" in said
    assert await world.count("soil_reading") == 2
    told = {f.envelope.uri[-14:]: f.checks for f in await facts.page(world.db, [1], 0, 100)}
    assert [(c.name, c.examined, c.failed) for c in told["tuesday.ndjson"]] == [
        ("soil", 3, 3),
        ("plots", 3, 1),
    ]
    assert all(c.passed for c in told["/monday.ndjson"])


async def test_own_source(world: World, monkeypatch: pytest.MonkeyPatch):
    """What the function lists is read once per revision; what it no longer lists is gone."""
    example = Example("own-source", world, monkeypatch)
    assert "weather         3   3" in example.up()
    catalogue = example.folder / "stations/catalogue.json"
    catalogue.write_text(json.dumps({"oslo": 2, "bern": 4}))
    (example.folder / "stations/oslo.json").write_text('{"name": "Oslo", "height": 95}')
    await example.again()
    assert await world.table("station", "name", "height") == [("Bern", 553), ("Oslo", 95)]


async def test_schedule(world: World, monkeypatch: pytest.MonkeyPatch):
    """A first start runs nothing; a quarter of an hour later, three periods are made up for."""
    example = Example("schedule", world, monkeypatch)
    await example.again()
    assert await world.count("headgate.entry") == 0
    away = datetime.now(UTC) - timedelta(minutes=15)
    await world.db.execute("UPDATE headgate.mark SET checkpoint = $1", away.isoformat())
    example.up()
    await example.again()
    minutes = await world.rows("SELECT minutes, until - since FROM report ORDER BY until")
    assert minutes == [(5, timedelta(minutes=5))] * len(minutes)
    assert len(minutes) in (3, 4)  # one more may have ended meanwhile


async def test_catalog(world: World, monkeypatch: pytest.MonkeyPatch):
    """Two fields are found where they lie; one that is moved is the same item elsewhere."""
    example = Example("catalog", world, monkeypatch)
    assert "soil            2   2" in example.up()
    south = "SELECT item FROM headgate.item WHERE bbox && box '(7,46),(8,46.93)'"
    assert south in example.page
    assert await world.rows(south) == [("south",)]
    north = example.folder / "fields/north.geojson"
    north.write_text(north.read_text().replace("46.9", "46.8"))
    await example.again()
    assert sorted(await world.rows(south)) == [("north",), ("south",)]
    assert await world.count("headgate.publication") == 3
