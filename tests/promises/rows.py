"""Declared rows: what is in the table is what the current objects say, whatever came in between."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec
import pydantic
import pytest
from tests.world import World, change

import headgate as hg
from headgate.errors import LedgerRefused


class Reading(TypedDict):
    station: str
    mm: Decimal | None


def readings(world: World, **declared: Any) -> hg.Pipeline:
    """A pipeline whose objects are CSV files of readings."""
    columns: dict[str, Any] = {"schema": declared.pop("schema", Reading)}
    if "new_columns" in declared:
        columns["new_columns"] = declared.pop("new_columns")
    p = world.pipeline(**declared)

    @p.rows("reading", key="station", **columns)
    def rows(obj: hg.Object) -> Iterator[dict[str, Any]]:
        yield from csv.DictReader(obj.lines())

    return p


def sheet(*rows: str, header: str = "station,mm") -> str:
    return "\n".join([header, *rows])


async def test_a_row_key_twice_in_one_object_is_one_row(world: World) -> None:
    """An object that names a row twice means what it said last, also thousands of rows apart."""
    p = readings(world)
    await world.receive(p, change("a", sheet("S,1", "T,2", "S,3")))
    far = ["S,1", *(f"x{n},0" for n in range(2500)), "S,9"]
    await world.receive(p, change("far", sheet(*far).replace("S,", "Far,")))
    await world.run(p)
    wanted = [("Far", Decimal(9)), ("S", Decimal(3)), ("T", Decimal(2))]
    found = await world.rows("SELECT station, mm FROM reading WHERE station !~ '^x' ORDER BY 1")
    assert found == wanted


async def test_a_row_key_of_two_objects_in_one_batch_is_the_later_events(world: World) -> None:
    """Two objects of one batch name the same row: event time decides, not the order of arrival."""
    p = readings(world)
    await world.receive(p, change("new", sheet("S,2"), minute=5), change("old", sheet("S,1")))
    await world.receive(p, change("older", sheet("S,0"), minute=-5))
    path = await world.path(p)
    claims = await world.claim(path, await world.worker(), 10)
    await world.finish(path, claims)
    assert len(claims) == 3
    assert await world.table("reading", "station", "mm") == [("S", Decimal(2))]


async def test_an_older_event_does_not_overwrite_a_newer_row(world: World) -> None:
    """Another object's row is newer: the older event leaves it alone and still brings its own."""
    p = readings(world)
    await world.receive(p, change("new", sheet("S,2"), minute=5))
    await world.run(p)
    await world.receive(p, change("old", sheet("S,1", "T,1")))
    await world.run(p)
    assert await world.table("reading", "station", "mm") == [("S", Decimal(2)), ("T", Decimal(1))]


async def test_a_new_version_replaces_the_rows_of_the_one_before(world: World) -> None:
    """A row that the new version does not have is gone; the others are what it says now."""
    p = readings(world)
    await world.receive(p, change("a", sheet("S,1", "T,1", "U,1")))
    await world.receive(p, change("b", sheet("V,1")))
    await world.run(p)
    await world.receive(p, change("a", sheet("S,1", "T,2"), minute=1))
    await world.run(p)
    assert await world.table("reading", "station", "mm") == [
        ("S", Decimal(1)),
        ("T", Decimal(2)),
        ("V", Decimal(1)),
    ]


async def test_a_row_that_another_object_took_over_survives(world: World) -> None:
    """The object's new version drops a row that a newer object has written since: it stays."""
    p = readings(world)
    await world.receive(p, change("a", sheet("S,1", "T,1")))
    await world.run(p)
    await world.receive(p, change("b", sheet("S,7"), minute=1))
    await world.run(p)
    await world.receive(p, change("a", sheet("T,1"), minute=2))
    await world.run(p)
    assert await world.table("reading", "station", "mm") == [("S", Decimal(7)), ("T", Decimal(1))]


async def test_an_object_without_rows_takes_its_old_ones_back(world: World) -> None:
    """A new version that yields nothing means that there is nothing."""
    p = readings(world)
    await world.receive(p, change("a", sheet("S,1")))
    await world.run(p)
    await world.receive(p, change("a", sheet(), minute=1))
    await world.run(p)
    assert await world.table("reading", "station", "mm") == []
    assert await world.outcomes() == {"finalized": 2}


@dataclass
class AsDataclass:
    station: str
    at: datetime
    n: int
    mm: Decimal | None = None
    good: bool = True


class AsTypedDict(TypedDict):
    station: str
    at: datetime
    n: int
    mm: Decimal | None
    good: bool


class AsModel(pydantic.BaseModel):
    station: str
    at: datetime
    n: int
    mm: Decimal | None = None
    good: bool = True


@pytest.mark.parametrize("schema", [AsDataclass, AsTypedDict, AsModel])
async def test_the_table_is_made_from_the_schema_and_text_is_coerced(
    world: World, schema: type
) -> None:
    """Nobody wrote a CREATE TABLE, and a CSV's text arrives as times, numbers, truth values."""
    p = readings(world, schema=schema)
    header = "station,at,n,mm,good"
    told = sheet("S,2026-01-01T00:00:00,7,1.50,true", "T,2026-01-02,8,,false", header=header)
    await world.receive(p, change("a", told))
    await world.run(p)
    assert await world.quarantined() == []
    assert await world.table("reading", "station", "at", "n", "mm", "good") == [
        ("S", datetime(2026, 1, 1, tzinfo=UTC), 7, Decimal("1.50"), True),
        ("T", datetime(2026, 1, 2, tzinfo=UTC), 8, None, False),
    ]


async def test_a_table_that_is_not_ours_is_refused_with_the_way_out(world: World) -> None:
    """The table exists without our columns: the error has the SQL to run, and it works."""
    await world.db.execute("CREATE TABLE reading (station text, mm numeric)")
    await world.db.execute("INSERT INTO reading VALUES ('mine', 1)")
    p = readings(world)
    for missing in ("_headgate_entry", "unique index"):
        with pytest.raises(LedgerRefused, match=missing) as refused:
            await world.run(p)
        sql = refused.value.hint.removeprefix("run: ")
        assert "ALTER TABLE" in sql
        await world.db.execute(sql)
    await world.receive(p, change("a", sheet("S,1")))
    await world.run(p)
    assert await world.table("reading", "station", "mm") == [
        ("S", Decimal(1)),
        ("mine", Decimal(1)),
    ]


@pytest.mark.parametrize("new_columns", ["quarantine", "add", "ignore"])
async def test_a_column_that_the_schema_has_not(
    world: World, new_columns: Literal["quarantine", "add", "ignore"]
) -> None:
    """A new column is set aside with its name, added as text, or left out, as declared."""
    p = readings(world, new_columns=new_columns)
    told = sheet("S,1,warm", header="station,mm,note")
    await world.receive(p, change("a", told), change("b", sheet("T,2")))
    await world.run(p)
    if new_columns == "quarantine":
        ((classed, reason, error),) = await world.quarantined()
        assert (classed, reason) == ("schema", "new_column")
        assert "'note'" in error
        assert await world.table("reading", "station") == [("T",)]
    else:
        assert await world.quarantined() == []
        assert await world.table("reading", "station") == [("S",), ("T",)]
    if new_columns == "add":
        assert dict(await world.table("reading", "station", "note")) == {"S": "warm", "T": None}
        # The next process has never seen the column being added.
        again = readings(world, new_columns="add")
        await world.receive(again, change("c", sheet("U,3,cold", header="station,mm,note")))
        await world.run(again)
        assert ("U", "cold") in await world.table("reading", "station", "note")


async def test_a_bad_cell_is_named_and_costs_nobody_else(world: World) -> None:
    """The quarantined error names table, row and field, and the neighbours are published."""
    p = readings(world)
    told = [change(f"o{n}", sheet(f"S{n},{n}")) for n in range(50)]
    told[20] = change("bad", sheet("X,1", "Y,wet"))
    await world.receive(p, *told)
    await world.run(p)
    ((classed, _, error),) = await world.quarantined()
    assert classed == "schema"
    assert "reading: row 2: mm:" in error
    assert "'wet'" in error
    assert await world.count("reading") == 49


async def test_a_constraint_of_the_users_own_costs_only_the_entry_that_breaks_it(
    world: World,
) -> None:
    """The table has a CHECK; of 200 objects in one batch three violate it, and 197 are there."""
    p = readings(world)
    await world.path(p)
    await world.db.execute("ALTER TABLE reading ADD CHECK (mm >= 0)")
    bad = {7, 8, 150}
    told = [change(f"o{n}", sheet(f"S{n},{-n if n in bad else n}")) for n in range(200)]
    await world.receive(p, *told)
    await world.run(p)
    assert await world.count("reading") == 197
    aside = await world.quarantined()
    assert [reason for _, reason, _ in aside] == ["refused_by_database"] * 3
    assert all("reading_mm_check" in error for _, _, error in aside)
    ended = await world.outcomes()
    assert ended["finalized"] == 197
    assert (
        await world.val("SELECT max(attempt) FROM headgate.journal WHERE outcome = 'finalized'")
        == 1
    )


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux's /proc")
async def test_a_large_object_needs_little_memory(world: World) -> None:
    """200,000 rows and an artifact of the same file pass through; memory hardly grows."""
    p = world.pipeline(sources=[world.directory()])

    @p.rows("reading", key="station", schema=Reading)
    def rows(obj: hg.Object) -> Iterator[dict[str, Any]]:
        yield from csv.DictReader(obj.lines())

    @p.transform
    def copy(obj: hg.Object) -> dict[str, Any]:
        return {"copy.csv": obj.open()}

    padding = "0" * 200
    with (world.folder / "large").open("w") as file:
        file.write("station,mm\n")
        file.writelines(f"S{n}-{padding},{n}\n" for n in range(200_000))
    (world.folder / "large").rename(world.incoming / "large.csv")
    before = _memory_mib("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    await world.run(p)
    grown_mib = _memory_mib("VmHWM") - before
    assert await world.count("reading") == 200_000
    (artifacts,) = await world.rows("SELECT artifacts->0->>'name' FROM headgate.publication")
    assert artifacts == ("copy.csv",)
    assert grown_mib < 40, "the file has 42 MiB, its rows more"


def _memory_mib(what: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


async def test_rows_may_be_an_arrow_stream(world: World) -> None:
    """Anything with an Arrow stream is rows, whole or in pieces."""
    pyarrow = pytest.importorskip("pyarrow")
    p = world.pipeline()

    @p.rows("reading", key="station", schema=Reading)
    def whole(obj: hg.Object) -> Any:
        return pyarrow.table({"station": ["S", "T"], "mm": [Decimal("1.5"), None]})

    @p.rows("piece", key="station", schema=Reading)
    def pieces(obj: hg.Object) -> Any:
        for n in range(3):
            yield pyarrow.table({"station": [f"S{n}"], "mm": [Decimal(n)]})

    await world.receive(p, change("a", "x"))
    await world.run(p)
    assert await world.quarantined() == []
    assert await world.table("reading", "station", "mm") == [("S", Decimal("1.5")), ("T", None)]
    assert await world.table("piece", "station") == [("S0",), ("S1",), ("S2",)]


async def test_rows_may_come_from_async_handlers(world: World) -> None:
    """An async generator, or a coroutine that returns rows, is as good as a plain one."""
    p = world.pipeline()

    @p.rows("reading", key="station", schema=Reading)
    async def generated(obj: hg.Object) -> AsyncIterator[dict[str, Any]]:
        for n in range(2500):
            yield {"station": f"S{n}", "mm": n}

    @p.rows("returned", key="station", schema=Reading)
    async def returned(obj: hg.Object, run: hg.Run) -> list[dict[str, Any]]:
        return [{"station": run.pipeline, "mm": None}]

    await world.receive(p, change("a", "x"), change("b", "y"))
    await world.run(p)
    assert await world.quarantined() == []
    assert await world.count("reading") == 2500
    assert await world.table("returned", "station") == [("p",)]


async def test_two_tables_of_one_object_change_together(world: World) -> None:
    """One table refuses a row: nothing of the object is in the other one either."""
    p = world.pipeline()

    @p.rows("one", key="station", schema=Reading)
    def one(obj: hg.Object) -> Any:
        return [{"station": obj.text(), "mm": 1}]

    @p.rows("two", key="station", schema=Reading)
    def two(obj: hg.Object) -> Any:
        return [{"station": obj.text(), "mm": 1}]

    await world.path(p)
    await world.db.execute("ALTER TABLE two ADD CHECK (station <> 'bad')")
    await world.receive(p, change("a", "good"), change("b", "bad"))
    await world.run(p)
    assert await world.table("one", "station") == [("good",)]
    assert await world.table("two", "station") == [("good",)]


async def test_the_journal_says_how_many_rows_a_message_made(world: World) -> None:
    """Also of what came inside its message, of which there is nothing else to say."""
    p = readings(world)
    path, worker = await world.path(p), await world.worker()
    together = [change("a", sheet("U,3")), change("b", sheet())]
    for told in ([change("lone", sheet("S,1", "T,2"))], together):
        await world.receive(p, *told)
        await world.finish(path, await world.claim(path, worker, len(told)))
    said = await world.rows(
        "SELECT e.uri, convert_from(j.doc, 'UTF8')::json -> 'rows' ->> 'reading'"
        " FROM headgate.journal j JOIN headgate.entry e ON e.id = j.entry ORDER BY e.uri"
    )
    assert said == [("test://a", "1"), ("test://b", "0"), ("test://lone", "2")]


@pytest.mark.parametrize("at", [datetime.min, datetime.max], ids=["first", "last"])
async def test_a_sender_without_a_clock_is_served(world: World, at: datetime) -> None:
    """Some say the year 1 where they know no time."""
    p = readings(world)
    told = change("a", sheet("S,1")), change("b", sheet("T,2"))
    for n in (1, 2):  # alone, and together
        odd = [msgspec.structs.replace(e, event_time=at.replace(tzinfo=UTC)) for e in told[n - 1 :]]
        await world.receive(p, *odd)
        await world.run(p)
    await world.receive(p, *told)
    await world.run(p)
    assert await world.table("reading", "station") == [("S",), ("T",)]
    assert set(await world.outcomes()) == {"finalized"}


async def test_rows_that_were_there_before_headgate_give_way_to_files(world: World):
    """A table that is taken over: what a file says replaces what nobody can account for."""
    pipeline = world.pipeline()

    @pipeline.rows("reading", key="station", schema=TypedDict("Row", {"station": str, "mm": int}))
    def readings(obj: hg.Object):
        return [{"station": "a", "mm": 2}]

    await world.db.execute(
        "CREATE TABLE reading (station text PRIMARY KEY, mm bigint, _headgate_entry bigint,"
        " _headgate_at timestamptz)"
    )
    await world.db.execute("INSERT INTO reading VALUES ('a', 1), ('b', 1)")
    await world.receive(pipeline, change("x"))
    await world.run(pipeline)
    assert await world.table("reading", "station", "mm") == [("a", 2), ("b", 1)]
