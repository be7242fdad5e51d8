"""Looking at the files beside the data: what there is, a run's files, and making them anew."""

from __future__ import annotations

import json
import shutil

import pytest
from tests.cli.conftest import Headgate

PIPELINE = """
import headgate as hg

folder = hg.Directory("incoming", settle=0)
soil = hg.Pipeline("soil", sources=[folder], store="lake", dataset="soil")


@soil.validate
def good(obj):
    if obj.read() == b"bad":
        raise hg.Permanent("bad")
"""


@pytest.fixture
def catalogued(headgate: Headgate) -> Headgate:
    """A ledger with one publication, one failure and their files."""
    (headgate.folder / "incoming").mkdir()
    (headgate.folder / "soil.py").write_text(PIPELINE)
    (headgate.folder / "incoming" / "a.csv").write_text("good")
    (headgate.folder / "incoming" / "b.csv").write_text("bad")
    assert headgate("up", "soil.py", "--until-idle").code == 0
    return headgate


def test_a_catalog_is_shown_compared_and_made_anew(catalogued: Headgate) -> None:
    """What is damaged is named, a rebuild repairs it, and then there is nothing to say."""
    (store,) = catalogued("catalog", "show", "--json").json["stores"]
    assert store["lines"] == 0
    assert store["collections"] == [{"collection": "soil", "title": "", "objects": 1}]
    assert "as the ledger is" in catalogued("catalog", "show").out
    lake = catalogued.folder / "lake"
    (lake / "stac" / "soil" / "collection.json").write_text("{}")
    (lake / "prov" / "stray").write_text("")
    dry = catalogued("catalog", "rebuild", "--dry-run", "--json")
    assert dry.code == 1
    (told,) = dry.json["stores"]
    assert told["differing"] == ["stac/soil/collection.json"]
    assert told["stray"] == ["prov/stray"]
    assert (lake / "prov" / "stray").exists()
    assert catalogued("catalog", "rebuild", "--runs").code == 0
    again = catalogued("catalog", "rebuild", "--runs", "--dry-run")
    assert again.code == 0
    assert "as it should be" in again.out
    assert catalogued("catalog", "rebuild", "--pipeline", "snow").code == 2


def test_a_catalog_moves_when_up_starts(catalogued: Headgate) -> None:
    """Nothing is written to the old folders by then; where files are is shown."""
    lake = catalogued.folder / "lake"
    for old in ("stac", "catalog", "prov", "runs"):
        shutil.rmtree(lake / old)
    assert catalogued("up", "soil.py", "--until-idle", HEADGATE_LAYOUT="kfm").code == 0
    assert (lake / "data/stac/catalog.json").exists()
    assert (lake / "mcp/runs/change-detection").exists()
    assert not any((lake / old).exists() for old in ("stac", "catalog", "prov", "runs"))
    assert catalogued("catalog", "show", "--json").json["stores"][0]["layout"] == "kfm"
    said = catalogued("up", "soil.py", "--until-idle", HEADGATE_LAYOUT="runs=stac/runs")
    assert said.code == 2
    assert "layout cannot be" in said.err


def test_a_runs_files_are_shown_on_demand(catalogued: Headgate) -> None:
    """Of a run that failed, too: the names, one file, or all of them in a folder."""
    for entry in (1, 2):
        assert "summary.md" in catalogued("run", "show", f"{entry}").out
        shown = catalogued("run", "show", f"{entry}-1", "qa.json")
        assert shown.out == (catalogued.folder / f"lake/runs/{entry}-1/qa.json").read_text()
    every = catalogued("run", "show", "1-1", "--json").json["files"]
    assert json.loads(every["run_manifest.json"])["entry"] == 1
    assert catalogued("run", "show", "1", "--to", "all").code == 0
    assert {f.name for f in (catalogued.folder / "all").iterdir()} == every.keys()
    for wrong in (["9"], ["1-7"], ["x"], ["1", "nothing.json"]):
        said = catalogued("run", "show", *wrong)
        assert said.code == 2
        assert said.err
