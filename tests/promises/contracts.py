"""Checked before anything is made of it: what a check says is kept, and what fails is not shown."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypedDict

import dataframely as dy
import pandera.polars as pa
import polars as pl
import pytest
from tests.world import World, change

import headgate as hg
from headgate.ledger import facts
from headgate.model import signal
from headgate.model.facts import Check, Facts

STATION = {
    "title": "stations",
    "type": "object",
    "required": ["station", "mm"],
    "properties": {
        "station": {"type": "string"},
        "mm": {"type": "number", "minimum": 0},
        "at": {"type": "string", "format": "date-time"},
    },
}


class Rain(TypedDict):
    station: str
    mm: float


class Readings(dy.Schema):
    station = dy.String(primary_key=True)
    mm = dy.Float64(min=0)

    @dy.rule()
    def not_three(cls) -> pl.Expr:
        return pl.col("mm") != 3


class Checked(pa.DataFrameModel):
    station: str = pa.Field(unique=True)
    mm: float = pa.Field(ge=0, coerce=True)


async def ended(world: World, p: hg.Pipeline, **objects: bytes | str) -> dict[str, Facts]:
    """How these objects ended, by name; a `_` in a name is a dot."""
    named = {name.replace("_", "."): data for name, data in objects.items()}
    await world.receive(p, *(change(name, data) for name, data in named.items()))
    await world.run(p)
    return {f.envelope.uri.rpartition("/")[2]: f for f in await facts.page(world.db, [1], 0, 100)}


async def one(world: World, data: bytes | str, *checks: Any, **given: Any) -> Facts:
    """What becomes of one object that is held against these checks."""
    p = world.pipeline(**{"dataset": "soil", **given})
    for check in checks:
        p.validate(check)

    @p.transform
    def copy(obj: hg.Object) -> dict[str, bytes]:
        return {"copy": obj.read()}

    return (await ended(world, p, a=data))["a"]


def lines(*rows: Any) -> str:
    return "".join(f"{json.dumps(row)}\n" for row in rows)


async def test_every_check_leaves_what_it_said(world: World) -> None:
    """Who reads a publication sees what it was checked by: functions, counts, several in one."""

    def silent(obj: hg.Object) -> None: ...
    def says_yes(obj: hg.Object) -> bool:
        return obj.size > 0

    def counts(obj: hg.Object, run: hg.Run) -> hg.Check:
        return hg.Check("rows", True, examined=3, failed=0)

    def several(obj: hg.Object) -> Iterator[hg.Check]:
        yield hg.Check("bounds", True, examined=1)
        yield hg.Check("bounds", True, examined=2)
        yield hg.Check("names", True, text="all known")

    found = await one(world, b"x", silent, says_yes, counts, several)
    assert found.outcome == "finalized"
    here = "test_every_check_leaves_what_it_said.<locals>"
    assert found.checks == (
        Check(f"{here}.silent", True),
        Check(f"{here}.says_yes", True),
        Check("rows", True, examined=3, failed=0),
        Check("bounds", True, examined=3),
        Check("names", True, text="all known"),
    )


async def test_a_check_that_says_no_publishes_nothing(world: World) -> None:
    """Nothing is promoted, and the failure is told as fully as a publication would be."""

    def no(obj: hg.Object) -> bool:
        return False

    def few(obj: hg.Object) -> hg.Check:
        return hg.Check("few", False, reason="out_of_range", examined=4, failed=1)

    def each(obj: hg.Object) -> Iterator[hg.Check]:
        for n in range(4):
            yield hg.Check("each", n != 2, examined=1, failed=int(n == 2))

    found = await one(world, b"x", few, no, each, version="7")
    assert (found.outcome, found.error_class, found.reason) == (
        "quarantined", "schema", "out_of_range",
    )  # fmt: skip
    assert found.error == "few: 1 of 4 failed"
    assert [(c.reason, c.text) for c in found.checks] == [
        ("out_of_range", "1 of 4 failed"),
        ("validation", "it said no"),
        ("validation", "1 of 4 failed"),
    ]
    assert (found.version, found.pipeline_version) == (None, "7")
    assert found.content is not None
    assert await world.count("headgate.publication") == 0


async def test_what_a_check_raises_ends_as_before_and_all_checks_are_asked(world: World) -> None:
    """A check that raises does not keep a reader from knowing what the others say."""

    def cut(obj: hg.Object) -> None:
        raise hg.Permanent("password=hunter2 is cut off", reason="cut_off")

    def breaks(obj: hg.Object) -> None:
        raise KeyError("mm")

    def counts(obj: hg.Object) -> hg.Check:
        return hg.Check("rows", True, examined=3)

    found = await one(world, b"x", cut, breaks, counts)
    assert (found.outcome, found.reason, found.error) == (
        "quarantined", "cut_off", "password=*** is cut off",
    )  # fmt: skip
    assert [(c.passed, c.reason) for c in found.checks] == [
        (False, "cut_off"), (False, "validation"), (True, None),
    ]  # fmt: skip
    assert "hunter2" not in str(found.checks)


async def test_what_may_pass_later_is_tried_again(world: World) -> None:
    """A check that could not be made is retried, and passes when it can be made."""
    asked: list[int] = []
    p = world.pipeline(dataset="soil")

    @p.validate
    def lookup(obj: hg.Object, run: hg.Run) -> None:
        asked.append(run.attempt)
        if len(asked) == 1:
            raise hg.Unavailable("the list of stations is away")

    await world.receive(p, change("a", b"x"))
    await world.run(p)
    first, second = await facts.of_entry(world.db, 1)
    assert (first.outcome, first.reason, second.outcome) == ("waiting", "unavailable", "finalized")
    assert [(c.passed, c.reason) for c in (*first.checks, *second.checks)] == [
        (False, "unavailable"), (True, None),
    ]  # fmt: skip


async def test_what_cannot_pass_is_not_tried_again_for_the_sake_of_another_check(
    world: World,
) -> None:
    """In whichever order they were declared: a check that says no decides."""

    def away(obj: hg.Object) -> None:
        raise hg.Unavailable("away")

    def no(obj: hg.Object) -> bool:
        return False

    found = await one(world, b"x", away, no)
    assert (found.outcome, found.reason) == ("quarantined", "validation")
    assert [c.reason for c in found.checks] == ["unavailable", "validation"]


async def test_async_checks_say_as_much(world: World) -> None:
    """Coroutines and async generators, beside a contract, on the event loop."""

    async def says_yes(obj: hg.Object) -> bool:
        return True

    async def several(obj: hg.Object) -> AsyncIterator[hg.Check]:
        yield hg.Check("a", True, examined=1)
        yield hg.Check("b", False, reason="too_few", examined=2, failed=2)

    async def nothing(obj: hg.Object) -> AsyncIterator[hg.Check]:
        return
        yield

    schema = hg.JsonSchema(STATION, each="line")
    text = lines({"station": "oslo", "mm": 1})
    found = await one(world, text, says_yes, several, nothing, schema)
    assert (found.outcome, found.reason) == ("quarantined", "too_few")
    assert [(c.passed, c.examined) for c in found.checks] == [
        (True, None), (True, 1), (False, 2), (True, None), (True, 1),
    ]  # fmt: skip


async def test_what_is_no_outcome_does_not_pass(world: World) -> None:
    """A check that gives something else is broken: better set aside than silently passed."""
    wrong: dict[str, Any] = {
        "a": 5,
        "b": "yes",
        "c": {"ok": True},
        "d": [[True]],
        "e": hg.Check("x", False, reason="Not So"),
        "f": hg.Check("x", True, examined=-1),
        "g": [hg.Check(f"{n}", True) for n in range(101)],
    }
    p = world.pipeline()
    p.validate(lambda obj: wrong[obj.name])
    found = await ended(world, p, **dict.fromkeys(wrong, "x"))
    assert {f.reason for f in found.values()} == {"validation"}
    assert all("TypeError" in str(found[name].error) for name in wrong)


async def test_a_json_schema_counts_lines_whatever_their_order(world: World) -> None:
    """How many lines, how many failed, by which rule at which place; shuffled, the same words."""
    rows: list[Any] = [{"station": f"s{n}", "mm": n} for n in range(40)]
    rows += [{"station": 1, "mm": -2}, {"mm": -1}, {"station": "x", "mm": 1, "at": "noon"}]
    said = set[tuple[Check, ...]]()
    p = world.pipeline(dataset="soil")
    p.validate(hg.JsonSchema(STATION, each="line"))
    shuffled = dict[str, str]()
    for name in "abc":
        random.Random(name).shuffle(rows)
        shuffled[name] = "\n\n".join(json.dumps(row) for row in rows) + "\n{oops\n"
    for found in (await ended(world, p, **shuffled)).values():
        assert (found.outcome, found.reason) == ("quarantined", "contract")
        said.add(found.checks)
    ((check,),) = said
    assert (check.name, check.kind, check.examined, check.failed) == (
        "stations", "json_schema", 44, 4,
    )  # fmt: skip
    assert check.text is not None
    assert "/mm: minimum (2 times), as in: -1 is less than the minimum of 0" in check.text
    assert "/: required, as in: 'station' is a required property" in check.text
    assert "/at: format" in check.text
    assert "not_json" in check.text


async def test_a_json_schema_counts_features(world: World) -> None:
    """GeoJSON is checked feature by feature."""
    wet, dry = ({"type": "Feature", "properties": {"mm": mm}} for mm in (1, -1))
    objects: dict[str, tuple[Any, tuple[int | None, int | None, str | None]]] = {
        "one": (wet, (1, 0, None)),
        "none": ({"type": "FeatureCollection", "features": []}, (0, 0, None)),
        "two": ({"type": "FeatureCollection", "features": [wet, dry]}, (2, 1, "contract")),
        "point": ({"type": "Point"}, (None, None, "not_geojson")),
    }
    p = world.pipeline(dataset="soil")
    feature = {"properties": {"properties": {"properties": {"mm": {"minimum": 0}}}}}
    p.validate(hg.JsonSchema(feature, each="feature"))
    texts = {name: json.dumps(document) for name, (document, _) in objects.items()}
    for name, found in (await ended(world, p, cut="{", **texts)).items():
        (check,) = found.checks
        wanted = objects[name][1] if name in objects else (None, None, "not_json")
        assert (check.examined, check.failed, check.reason) == wanted
        assert (found.outcome == "finalized") is (found.reason is None) is check.passed


async def test_a_json_schema_from_a_file_is_told_by_its_content(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which contract a publication met can be proved later, wherever its file lay."""
    monkeypatch.chdir(world.folder)
    Path("orders.schema.json").write_text(json.dumps(STATION))
    found = await one(world, '{"station": "x", "mm": 1}', hg.JsonSchema("orders.schema.json"))
    assert found.checks == (Check("orders", True, "json_schema", examined=1, failed=0),)
    (contract,) = found.declared["contracts"]
    assert contract["digest"].startswith("sha256:")
    p = world.pipeline("q")
    p.validate(hg.JsonSchema(dict(reversed(STATION.items()))), name="orders")
    assert p.declared()["contracts"] == [contract]


GOOD = "station,mm\noslo,1\nbern,2.5\n"
BAD = "station,mm\noslo,1\noslo,2\nrome,-1\nbern,3\n"


@pytest.mark.parametrize("read", [None, pl.read_csv, pl.scan_csv])
async def test_a_dataframely_schema_counts_rows(world: World, read: Any) -> None:
    """Each rule by name, with how many rows break it; read as said, or by the file's ending."""
    p = world.pipeline(dataset="soil")
    p.validate(Readings, read=read)
    found = await ended(world, p, good_csv=GOOD, bad_csv=BAD)
    good, bad = found["good.csv"], found["bad.csv"]
    assert good.checks == (Check("Readings", True, "dataframely", examined=2, failed=0),)
    (check,) = bad.checks
    assert (check.reason, check.examined, check.failed) == ("contract", 4, 4)
    assert check.text == "4 of 4 rows failed: primary_key (2 times); not_three; mm: min"
    assert (bad.outcome, bad.error_class) == ("quarantined", "schema")


async def test_a_pandera_model_counts_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checks are made whatever the environment of the machine says."""
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "False")
    p = world.pipeline(dataset="soil")
    p.validate(Checked, read=pl.scan_csv)
    schema = pa.DataFrameSchema({"mm": pa.Column(float, pa.Check.lt(100))}, name="small")
    p.validate(schema, read=lambda path: pl.read_csv(path, schema_overrides={"mm": pl.Float64}))
    found = await ended(world, p, a=GOOD, b=BAD, c="town,mm\noslo,1\n")
    said = [found[name].checks for name in "abc"]
    assert [[(c.name, c.passed, c.examined, c.failed) for c in checks] for checks in said] == [
        [("Checked", True, 2, 0), ("small", True, 2, 0)],
        [("Checked", False, 4, 3), ("small", True, 4, 0)],
        [("Checked", False, 1, 1), ("small", True, 1, 0)],
    ]
    text = str(said[1][0].text)
    assert "station: field_uniqueness (2 times), as in: oslo" in text
    assert "mm: greater_than_or_equal_to(0), as in: -1.0" in text
    assert "column_in_dataframe" in str(said[2][0].text)


async def test_what_is_no_table_is_told_so(world: World) -> None:
    """An object that cannot be read is set aside with a reason of its own."""
    p = world.pipeline()
    p.validate(Readings)
    found = await ended(world, p, a_parquet=b"no parquet", b_tif=b"II*")
    assert [f.reason for f in found.values()] == ["not_table", "not_table"]


async def test_checks_of_every_kind_judge_one_object(world: World) -> None:
    """The first that failed gives the verdict, and what every other said is there."""

    def small(obj: hg.Object) -> bool:
        return obj.size < 10_000

    p = world.pipeline(dataset="soil")
    p.validate(small, name="small")
    p.validate(hg.JsonSchema(STATION, each="line"))
    p.validate(Readings)
    p.validate(Checked, read=pl.read_ndjson)
    rows = [{"station": "oslo", "mm": -1.0}, {"station": "bern", "mm": 1.0}]
    found = (await ended(world, p, a_ndjson=lines(*rows)))["a.ndjson"]
    assert (found.outcome, found.reason) == ("quarantined", "contract")
    assert str(found.error).startswith("stations: 1 of 2 lines failed: /mm: minimum, as in: -1.0")
    assert [(c.name, c.kind, c.examined, c.failed) for c in found.checks] == [
        ("small", "python", None, None),
        ("stations", "json_schema", 2, 1),
        ("Readings", "dataframely", 2, 1),
        ("Checked", "pandera", 2, 1),
    ]


async def test_a_pipeline_without_a_dataset_keeps_only_what_there_is_to_tell(world: World) -> None:
    """A function that returns nothing costs no word in the journal; a failure tells of all."""
    p = world.pipeline()

    @p.validate
    def first(obj: hg.Object) -> None: ...

    @p.validate
    def second(obj: hg.Object) -> hg.Check | None:
        return hg.Check("size", False, examined=1, failed=1) if obj.size > 1 else None

    found = await ended(world, p, a=b"1", b=b"12")
    quiet, told = found["a"], found["b"]
    assert quiet.checks == ()
    doc = await world.val("SELECT doc FROM headgate.journal WHERE entry = $1", quiet.entry)
    assert doc is None
    assert [(c.name.rpartition(".")[2], c.passed) for c in told.checks] == [
        ("first", True), ("size", False),
    ]  # fmt: skip


async def test_outcomes_are_counted_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Metrics count each declared check once for each attempt, and the log says which failed."""
    p = world.pipeline()

    def names(obj: hg.Object) -> Iterator[hg.Check]:
        for n in range(obj.size):
            yield hg.Check(f"row {n}", False, reason="unknown", text="token=abcdefgh")

    p.validate(names, name="names")
    p.validate(lambda obj: True, name="always")
    counted = Counter[tuple[str, str, str]]()

    def hear(heard: signal.Signal, value: float, labels: dict[str, str]) -> None:
        if heard is signal.CHECKS:
            counted[(labels["pipeline"], labels["check"], labels["outcome"])] += int(value)

    stop = signal.listen(hear)
    try:
        await ended(world, p, a=b"", b=b"12", c=b"1")
    finally:
        stop()
    assert counted == {
        ("p", "names", "passed"): 1,
        ("p", "names", "failed"): 2,
        ("p", "always", "passed"): 3,
    }
    assert "checks failed" in caplog.text
    assert "row 0: unknown (" in caplog.text
    assert "abcdefgh" not in caplog.text


async def test_texts_are_masked_and_bounded(world: World) -> None:
    """Failing examples are data: what looks like a secret is not kept, and nor is a megabyte."""
    text = lines({"station": "password=hunter2 " + "x" * 100_000, "mm": "api_key=abcdef"})
    schema = hg.JsonSchema(
        {"properties": {"station": False, "mm": {"type": "number"}}}, each="line"
    )
    found = await one(world, text, schema)
    (check,) = found.checks
    assert check.text is not None
    assert len(check.text) <= 500
    assert "hunter2" not in str(found)
    assert "abcdef" not in str(found)


async def test_large_lines_need_little_memory(world: World) -> None:
    """Lines are read one by one: the checked file may be larger than memory."""
    import tracemalloc

    p = world.pipeline(dataset="soil", sources=[world.directory()])
    p.validate(hg.JsonSchema(STATION, each="line"))
    row = json.dumps({"station": "x" * 200_000, "mm": 1}) + "\n"
    world.put("large.ndjson", row * 200)
    tracemalloc.start()
    try:
        await world.run(p)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    ((found,),) = [await facts.of_entry(world.db, 1)]
    (check,) = found.checks
    assert (check.passed, check.examined) == (True, 200)
    assert most < 20_000_000
