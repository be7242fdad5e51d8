"""`headgate try` tells what would become of a file, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from tests.cli.conftest import Headgate

from headgate.pg import Database

APPLIES = """
import headgate as hg

tide = hg.Pipeline("tide", sources=[hg.Directory("incoming/")], store="lake/", version="1")

@tide.transform
def shout(obj: hg.Object, run: hg.Run):
    print("a handler prints")
    return hg.Artifact("loud.txt", obj.read().upper(), "text/plain")

@tide.apply
async def tally(tx: hg.Transaction, obj: hg.Object, run: hg.Run) -> None:
    await tx.execute("INSERT INTO tally (uri, n) VALUES ($1, $2)", obj.uri, obj.size)
"""
BROKEN = """
import headgate as hg

bad = hg.Pipeline("bad", sources=[hg.Directory("incoming/")])

@bad.transform
def explode(obj: hg.Object, run: hg.Run):
    return {"x": 1 / 0}
"""


@pytest.fixture
def here(headgate: Headgate) -> Headgate:
    """A folder with pipelines and samples, on a database that stays empty."""
    assert headgate("init").code == 0
    for name, text in {"tide.py": APPLIES, "bad.py": BROKEN, "empty.csv": ""}.items():
        (headgate.folder / name).write_text(text)
    (headgate.folder / "late.csv").write_text("station,at,mm\noslo-1,yesterday,1\n")
    (headgate.folder / "tables.sql").write_text("CREATE TABLE tally (uri text, n bigint);")
    return headgate


def _files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def _tables(url: str) -> int:
    async def count() -> int:
        async with await Database.open(url) as db:
            return await db.fetchval(
                "SELECT count(*) FROM pg_class WHERE relnamespace IN ('public'::regnamespace,"
                " coalesce(to_regnamespace('headgate'), 'public'::regnamespace))"
            )

    return asyncio.run(count())


def _scratch() -> set[str]:
    return {p.name for p in Path(tempfile.gettempdir()).glob("headgate-try-*")}


def test_it_leaves_nothing_behind(here: Headgate) -> None:
    """No file, no table, no store, no scratch server: whether the file would pass or not."""
    files, scratch = _files(here.folder), _scratch()
    assert here("try", "rain.py", "incoming/2026-01-05.csv").code == 0
    assert here("try", "rain.py", "late.csv").code == 1
    assert here("try", "tide.py", "late.csv", "--setup", "tables.sql").code == 0
    assert _files(here.folder) == files
    assert _tables(here.env["HEADGATE_DATABASE_URL"]) == 0
    assert _scratch() <= scratch


def test_rows_and_verdict_for_programs(here: Headgate) -> None:
    """The JSON has the first rows as they would be stored, how many there are, and the verdict."""
    said = here("try", "rain.py", "incoming/2026-01-05.csv", "--rows", "1", "--json")
    assert said.code == 0
    assert said.json["ok"] is True
    (sample,) = said.json["samples"]
    assert sample["verdict"] == "finalized"
    (table,) = sample["rows"]
    assert (table["table"], table["total"]) == ("reading", 4)
    assert table["first"] == [{"station": "oslo-1", "at": "2026-01-05T06:00:00+00:00", "mm": "1.2"}]


def test_a_file_that_would_be_quarantined_says_where_and_why(here: Headgate) -> None:
    """Class, reason, the row and the field; and the line of the handler that raised it."""
    late = here("try", "rain.py", "late.csv")
    assert late.code == 1
    assert "would be quarantined: class schema, reason schema" in late.out
    assert "row 1: at" in late.out
    empty = here("try", "rain.py", "empty.csv", "--json")
    assert empty.code == 1
    (sample,) = empty.json["samples"]
    assert (sample["class"], sample["reason"]) == ("schema", "validation")
    assert "rain.py:" in sample["at"]
    assert 'raise hg.Permanent("empty file")' in sample["at"]


def test_a_handler_that_fails_is_shown_by_its_line(here: Headgate) -> None:
    """A plain bug is found without reading a log."""
    said = here("try", "bad.py", "late.csv")
    assert said.code == 1
    assert "ZeroDivisionError" in said.out
    assert 'bad.py:8: return {"x": 1 / 0}' in said.out


def test_artifacts_are_listed_and_prints_do_not_spoil_the_json(here: Headgate) -> None:
    """Name, size, digest and media type; what the handler prints goes to stderr."""
    said = here("try", "tide.py", "late.csv", "--setup", "tables.sql", "--json")
    assert said.code == 0, said.err
    (sample,) = said.json["samples"]
    (artifact,) = sample["artifacts"]
    assert artifact["name"] == "loud.txt"
    assert artifact["media_type"] == "text/plain"
    assert artifact["size"] == sample["size"] == 33
    assert len(artifact["digest"]) == 64
    assert "a handler prints" in said.err


def test_a_table_of_yours_that_is_not_there_is_named(here: Headgate) -> None:
    """Your own database is never used for a try, so it says which table is missing and the way out."""
    said = here("try", "tide.py", "late.csv")
    assert said.code == 1
    assert 'relation "tally" does not exist' in said.out
    assert "--setup" in said.err


def test_setup_that_does_not_run_is_your_mistake(here: Headgate) -> None:
    """Broken SQL in --setup is named before anything is tried."""
    (here.folder / "tables.sql").write_text("CREATE TABEL tally ();")
    said = here("try", "tide.py", "late.csv", "--setup", "tables.sql")
    assert said.code == 2
    assert "setup" in said.err
    assert "TABEL" in said.err


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["rain.py", "nowhere.csv"], "nowhere.csv"),
        (["rain.py", "incoming"], "incoming"),
        (["nowhere.py", "late.csv"], "nowhere.py"),
        (["tables.sql", "late.csv"], "tables.sql"),
        (["rain.py", "late.csv", "--pipeline", "snow"], "It has: rain"),
    ],
)
def test_what_cannot_be_tried_is_named(here: Headgate, args: list[str], named: str) -> None:
    """A file that is not there, a folder, a file that is no pipeline: exit 2, with its name."""
    said = here("try", *args)
    assert said.code == 2
    assert named in said.err
    assert "Traceback" not in said.err


def test_a_pipeline_that_does_not_import_is_named_with_its_line(here: Headgate) -> None:
    """File and line, as an editor can jump to."""
    (here.folder / "rain.py").write_text("import headgate\n\nnot python\n")
    said = here("try", "rain.py", "late.csv")
    assert said.code == 2
    assert "rain.py" in said.err
    assert "line 3" in said.err
