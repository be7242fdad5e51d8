"""`headgate try` tells what would become of a file, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cli.conftest import Headgate, Said, Zygote, new_database, new_folder

from headgate.pg import Database, Server

FILES = {
    "late.csv": "station,at,mm\noslo-1,yesterday,1\n",
    "empty.csv": "",
    "tables.sql": "CREATE TABLE tally (uri text, n bigint);",
    "typo.sql": "CREATE TABEL tally ();",
    "broken.py": "import headgate\n\nnot python\n",
    "bad.py": """\
import headgate as hg

bad = hg.Pipeline("bad", sources=[hg.Directory("incoming/")])

@bad.transform
def explode(obj: hg.Object, run: hg.Run):
    return {"x": 1 / 0}
""",
    "tide.py": """\
import pathlib
import headgate as hg

tide = hg.Pipeline("tide", sources=[hg.Directory("incoming/")], store="lake/", version="1")

@tide.transform
def shout(obj: hg.Object, run: hg.Run):
    print("a handler prints")
    run.call("post", lambda: "made", undo=lambda: None)
    return hg.Artifact("loud.txt", obj.read().upper(), "text/plain")

@tide.apply
async def tally(tx: hg.Transaction, obj: hg.Object, run: hg.Run) -> None:
    await tx.execute("INSERT INTO tally (uri, n) VALUES ($1, $2)", obj.uri, obj.size)
""",
}


@dataclass(frozen=True)
class Tried:
    """What several tries said, and what was there before and after them."""

    rain: Said
    tide: Said
    tide_without_tables: Said
    bad: Said
    before: set[str]
    after: set[str]


@pytest.fixture(scope="module")
def here(zygote: Zygote, server: Server, open_folder: Path) -> Headgate:
    """A folder with pipelines and samples, on a database that stays empty.

    Scratch folders go to a place of its own: in the machine's one others may be trying too.
    """
    folder, scratch = new_folder(open_folder, "try"), new_folder(open_folder, "scratch")
    scratch.chmod(0o711)
    env = {"HEADGATE_DATABASE_URL": new_database(server), "TMPDIR": str(scratch)}
    headgate = Headgate(zygote, folder, env)
    assert headgate("init").code == 0
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return headgate


@pytest.fixture(scope="module")
def tried(here: Headgate) -> Tried:
    """A good file and two bad ones, and pipelines with effects of every kind."""
    before = _things(here)
    return Tried(
        rain=here("try", "rain.py", "incoming/2026-01-05.csv", "late.csv", "empty.csv", "--json"),
        tide=here("try", "tide.py", "late.csv", "--setup", "tables.sql", "--json"),
        tide_without_tables=here("try", "tide.py", "late.csv"),
        bad=here("try", "bad.py", "late.csv"),
        before=before,
        after=_things(here),
    )


def _things(here: Headgate) -> set[str]:
    """Files of the folder, tables of the database, what is left of scratch folders."""
    files = {str(p) for p in here.folder.rglob("*")}
    scratch = {str(p) for p in Path(here.env["TMPDIR"]).iterdir()}

    async def tables() -> set[str]:
        async with await Database.open(here.env["HEADGATE_DATABASE_URL"]) as db:
            rows = await db.fetch("SELECT schemaname || '.' || tablename AS t FROM pg_tables")
            return {row["t"] for row in rows}

    return files | scratch | asyncio.run(tables())


def test_it_leaves_nothing_behind(tried: Tried) -> None:
    """No file, no table, no store, no scratch server: whether the file would pass or not."""
    assert tried.after - tried.before == set()


def test_rows_and_verdict_for_programs(tried: Tried) -> None:
    """The first rows as they would be stored, how many there are, and the verdict of each file."""
    assert tried.rain.code == 1
    assert tried.rain.json["ok"] is False
    good, late, empty = tried.rain.json["samples"]
    assert [s["verdict"] for s in (good, late, empty)] == ["finalized", "quarantine", "quarantine"]
    (table,) = good["rows"]
    assert (table["table"], table["total"]) == ("reading", 4)
    first = {"station": "oslo-1", "at": "2026-01-05T06:00:00+00:00", "mm": "1.2"}
    assert table["first"][0] == first
    assert [(c["name"], c["passed"]) for c in good["checks"]] == [("has_rows", True)]
    assert [(c["passed"], c["reason"]) for c in empty["checks"]] == [(False, "validation")]


def test_a_file_that_would_be_quarantined_says_where_and_why(tried: Tried) -> None:
    """Class, reason, the row and the field; and the line of the handler that raised it."""
    _, late, empty = tried.rain.json["samples"]
    assert (late["class"], late["reason"]) == ("schema", "schema")
    assert "row 1: at" in late["error"]
    assert (empty["class"], empty["reason"]) == ("schema", "validation")
    assert "rain.py:" in empty["at"]
    assert 'raise hg.Permanent("empty file")' in empty["at"]


def test_a_handler_that_fails_is_shown_by_its_line(tried: Tried) -> None:
    """A plain bug is found without reading a log."""
    assert tried.bad.code == 1
    assert "ZeroDivisionError" in tried.bad.out
    assert 'bad.py:7: return {"x": 1 / 0}' in tried.bad.out
    assert "Nothing was committed." in tried.bad.err


def test_artifacts_are_listed_and_prints_do_not_spoil_the_json(tried: Tried) -> None:
    """Name, size, digest and media type; what the handler prints goes to stderr."""
    assert tried.tide.code == 0, tried.tide.err
    (sample,) = tried.tide.json["samples"]
    (artifact,) = sample["artifacts"]
    assert artifact["name"] == "loud.txt"
    assert artifact["media_type"] == "text/plain"
    assert artifact["size"] == sample["size"] == len(FILES["late.csv"])
    assert len(artifact["digest"]) == 64
    assert "a handler prints" in tried.tide.err


def test_foreign_calls_are_named_and_taken_back(tried: Tried) -> None:
    """What went out of the machine is said, and its undo was called."""
    (sample,) = tried.tide.json["samples"]
    assert sample["calls"] == sample["undone"] == ["post"]


def test_a_table_of_yours_that_is_not_there_is_named(tried: Tried) -> None:
    """Your own database is never used for a try: the missing table is named, with the way out."""
    assert tried.tide_without_tables.code == 1
    assert 'relation "tally" does not exist' in tried.tide_without_tables.out
    assert "tide.py:14" in tried.tide_without_tables.out
    assert "--setup" in tried.tide_without_tables.err


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["rain.py", "nowhere.csv"], ["nowhere.csv"]),
        (["rain.py", "incoming"], ["incoming"]),
        (["nowhere.py", "late.csv"], ["nowhere.py"]),
        (["broken.py", "late.csv"], ["broken.py", "line 3"]),
        (["rain.py", "late.csv", "--pipeline", "snow"], ["It has: rain"]),
        (["tide.py", "late.csv", "--setup", "typo.sql"], ["setup", "TABEL"]),
    ],
)
def test_what_cannot_be_tried_is_named(here: Headgate, args: list[str], named: list[str]) -> None:
    """A file that is not there, a folder, a file that does not import: exit 2, with its name."""
    said = here("try", *args)
    assert said.code == 2
    assert all(word in said.err for word in named), said.err
    assert "Traceback" not in said.err
