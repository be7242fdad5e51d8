"""Declared rows: text becomes what the schema says, or the row and the field are named."""

import copy
import csv
import dataclasses
import enum
import io
import math
import types
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal, NotRequired, TypedDict
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict

from headgate.errors import PipelineError, SchemaError
from headgate.model.rows import CHUNK, Encoder, NewColumns, declare


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal | None


class Colour(enum.Enum):
    RED = "red"


class Everything(TypedDict):
    k: str
    yes: bool
    n: int
    f: float
    d: Decimal
    at: datetime
    day: date
    clock: time
    took: timedelta
    u: UUID
    raw: bytes
    j: dict[str, Any]
    l: list[Decimal]  # noqa: E741
    c: Colour
    which: Literal["a", "b"]
    maybe: NotRequired[int | None]


FILLED: dict[str, Any] = {
    "k": "a", "yes": True, "n": 1, "f": 1.5, "d": Decimal("1.10"), "at": datetime(2026, 5, 1),
    "day": date(2026, 5, 1), "clock": time(1, 2, 3), "took": timedelta(days=-1, microseconds=1),
    "u": UUID(int=1), "raw": b"\0\xff", "j": {"a": [1]}, "l": [Decimal("1.10")], "c": Colour.RED,
    "which": "a", "maybe": None,
}  # fmt: skip


def encoded(rows: Any, schema: Any = Reading, new: NewColumns = "quarantine", key: str = ""):
    """All rows that come out, parsed again, and the columns that are new."""
    first = key or next(iter(schema.__annotations__))
    chunks = list(Encoder(declare("t", key=first, schema=schema, new_columns=new)).encode(rows))
    out = [row for _, text, _ in chunks for row in orjson.loads(text)]
    assert len(out) == sum(n for n, _, _ in chunks)
    return out, frozenset[str]().union(*(added for _, _, added in chunks))


def one(row: Any, schema: Any = Reading, **more: Any) -> dict[str, Any]:
    return encoded([row], schema, **more)[0][0]


def refused(rows: Any, schema: Any = Reading, **more: Any) -> str:
    with pytest.raises(SchemaError) as error:
        encoded(rows, schema, **more)
    return str(error.value)


def test_a_csv_file_becomes_typed_rows():
    """Text from a CSV is read as the schema says; an empty cell is no value."""
    text = "station,at,mm\r\n A ,2026-05-01T12:00:00,1.10\r\nB,2026-05-01 12:00+02:00,\r\n"
    rows, added = encoded(csv.DictReader(io.StringIO(text, newline="")))
    assert rows == [
        {"station": " A ", "at": "2026-05-01T12:00:00+00:00", "mm": "1.10"},
        {"station": "B", "at": "2026-05-01T12:00:00+02:00", "mm": None},
    ]
    assert not added


def test_every_type_is_written_so_that_postgres_reads_it_back():
    """Bytes in hex, intervals in words, decimals exactly, times with their zone."""
    assert one(FILLED, Everything) == {
        "k": "a", "yes": True, "n": 1, "f": 1.5, "d": "1.10", "at": "2026-05-01T00:00:00+00:00",
        "day": "2026-05-01", "clock": "01:02:03", "u": "00000000-0000-0000-0000-000000000001",
        "took": "-1 days 0 seconds 1 microseconds", "raw": "\\x00ff", "j": {"a": [1]},
        "l": ["1.10"], "c": "red", "which": "a", "maybe": None,
    }  # fmt: skip


def test_every_type_is_read_from_text():
    """As a CSV has it."""
    written = {
        "k": "a", "yes": "true", "n": "1", "f": "1.5", "d": "1.10", "at": "2026-05-01T00:00:00Z",
        "day": "2026-05-01", "clock": "01:02:03", "took": "-P1DT0.000001S", "raw": "\0",
        "u": "00000000-0000-0000-0000-000000000001", "j": {"a": [1]}, "l": ["1.10"], "c": "red",
        "which": "a", "maybe": "",
    }  # fmt: skip
    out = one(written, Everything)
    same = one({**FILLED, "raw": b"\0", "took": timedelta(days=-1, microseconds=-1)}, Everything)
    assert out == same


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_keeps_every_digit(value: Decimal):
    """Money does not pass through a float, nor lose its trailing zeros."""
    out = one({"station": "a", "at": datetime(2026, 1, 1), "mm": str(value)})["mm"]
    assert Decimal(out).as_tuple() == value.as_tuple()


@given(st.datetimes(), st.integers(-23 * 60, 23 * 60))
def test_a_time_without_a_zone_is_utc_and_one_with_it_keeps_its_instant(
    naive: datetime, minutes: int
):
    """The zone of the server or of this machine never decides."""
    out = one({"station": "a", "at": naive, "mm": None})["at"]
    assert datetime.fromisoformat(out) == naive.replace(tzinfo=UTC)
    aware = naive.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    assert datetime.fromisoformat(one({"station": "a", "at": aware, "mm": None})["at"]) == aware


class Number(TypedDict):
    n: int
    f: float | None
    j: NotRequired[list[float]]


@pytest.mark.parametrize(
    ("value", "said"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf")]
)
def test_a_float_that_json_has_no_word_for_is_not_lost(value: float, said: str):
    """NaN and infinity are values of a double precision column; null would be another one."""
    assert one({"n": 1, "f": value}, Number)["f"] == said
    assert one({"n": 1, "f": said}, Number)["f"] == said
    assert refused([{"n": 1, "f": 1, "j": [value]}], Number) == (
        "t: row 1: j: NaN and Infinity cannot be stored inside JSON"
    )


@given(st.integers(-(2**70), 2**70))
def test_an_integer_that_does_not_fit_is_refused_where_it_stands(n: int):
    """Found before the commit, where no row has a number any more."""
    if -(2**63) <= n < 2**63:
        assert one({"n": str(n), "f": None}, Number)["n"] == n
    else:
        said = refused([{"n": 0, "f": None}, {"n": str(n), "f": None}], Number)
        assert said == "t: row 2: n: the integer does not fit into 64 bits"


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\0b", "text cannot hold the character NUL"), ("a\ud800", "surrogates not allowed")],
)
def test_text_that_postgres_cannot_hold_is_refused_where_it_stands(text: str, said: str):
    """One bad cell names itself; it does not fail the whole commit."""
    good = {"station": "a", "at": datetime(2026, 1, 1), "mm": None}
    message = refused([good, {**good, "station": text}])
    assert message.startswith("t: row 2: station: ")
    assert said in message


@given(st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0")))
def test_any_other_text_passes_unchanged(text: str):
    """Also one that looks like an escape of NUL."""
    for written in (text, text + "\\u0000", "\\\\u0000"):
        assert (
            one({"station": written, "at": datetime(2026, 1, 1), "mm": None})["station"] == written
        )


def test_a_number_of_rows_is_named_from_the_first_row_of_the_object():
    """Also in the second chunk: row and field, what was wrong, and what stood there."""
    rows = [{"station": "a", "at": "2026-05-01", "mm": "1"} for _ in range(CHUNK + 5)]
    rows[CHUNK + 2]["mm"] = "wet"
    said = refused(rows)
    assert said.startswith("t: row 1003: mm: Input should be a valid decimal")
    assert said.endswith("got 'wet'")
    rows[CHUNK + 3]["at"] = "yesterday"
    assert refused(rows).endswith("got 'wet' (and 1 more)")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"station": "a", "mm": "1"}, "t: row 1: at: Field required"),
        ({"station": None, "at": "2026-05-01", "mm": "1"}, "t: row 1: station: Input should be a"),
        ({"station": "a", "at": "", "mm": "1"}, "t: row 1: at: "),
        (("a", "b"), "t: row 1: Input should be a valid dictionary"),
        ("a,b", "t: row 1: Input should be a valid dictionary"),
        (None, "t: row 1: Input should be a valid dictionary"),
    ],
)
def test_a_row_that_is_none_is_named(row: Any, said: str):
    """A missing field, an empty one, or something that is no row at all."""
    assert refused([row]).startswith(said)


@pytest.mark.parametrize("rows", [None, 5, "a,b", b"a,b", {"station": "a"}, object()])
def test_what_is_not_rows_at_all_is_refused(rows: Any):
    """A handler that returns its text or one row hears what it should yield."""
    assert refused(rows) == (f"a rows handler yields rows; it returned a {type(rows).__name__}")


class Sparse(TypedDict):
    k: int | None
    v: NotRequired[int]


def test_a_row_without_its_key_is_refused():
    """Whether the key is missing, empty or null, before Postgres would say so."""
    assert refused([{"k": 1}, {"k": None}], Sparse) == "t: row 2: k: the column may not be empty"
    assert refused([{"v": 1}], Sparse).startswith("t: row 1: k: Field required")
    assert refused([{"k": 1}], Sparse, key="v").startswith("t: row 1: v: Field required")
    assert one({"k": 1}, Sparse) == {"k": 1}


@pytest.mark.parametrize("n", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK])
def test_rows_travel_in_chunks_and_none_is_lost(n: int):
    """999, 1000, 1001: every row once, in order, at most a thousand together."""
    table = declare("t", key="n", schema=Number)
    chunks = list(Encoder(table).encode({"n": i, "f": None} for i in range(n)))
    assert [c for c, _, _ in chunks] == [CHUNK] * (n // CHUNK) + [n % CHUNK] * (n % CHUNK > 0)
    assert [r["n"] for _, text, _ in chunks for r in orjson.loads(text)] == list(range(n))


def test_rows_are_taken_as_they_are_needed():
    """A generator over a huge file is not read into memory first."""
    taken = 0

    def rows():
        nonlocal taken
        while True:
            taken += 1
            yield {"n": taken, "f": None}

    next(iter(Encoder(declare("t", key="n", schema=Number)).encode(rows())))
    assert taken == CHUNK


def test_a_handlers_own_rows_are_not_touched():
    """What was yielded may be yielded again."""
    rows: list[dict[str, Any]] = [
        {"station": "a", "at": "2026-05-01", "mm": "", "new": 1},
        {"station": "b", "at": datetime(2026, 1, 1), "mm": Decimal(1)},
    ]
    before = copy.deepcopy(rows)
    first = encoded(rows, new="add")
    assert rows == before
    assert encoded(rows, new="add") == first


GOOD = {"station": "a", "at": "2026-05-01", "mm": "1"}


def test_a_new_column_is_quarantined_unless_told_otherwise():
    """Named with its row; the hint says what can be done."""
    with pytest.raises(SchemaError) as error:
        encoded([GOOD, {**GOOD, "wind": "3"}])
    assert str(error.value) == "t: row 2 has column 'wind', which the schema has not"
    assert error.value.reason == "new_column"
    assert 'new_columns="add"' in error.value.hint


def test_a_new_column_is_added_as_text():
    """In the rows that have it, and reported so that the table can grow."""
    rows, added = encoded([GOOD, {**GOOD, "wind": 3, "note": None}], new="add")
    assert rows[1]["wind"] == "3"
    assert rows[1]["note"] is None
    assert "wind" not in rows[0]
    assert added == {"wind", "note"}


def test_a_new_column_is_ignored_when_told_so():
    """Whatever it is called."""
    rows, added = encoded([{**GOOD, "wind": 3, "a b": 4, None: ["x"]}], new="ignore")
    assert rows[0].keys() == GOOD.keys()
    assert not added


@pytest.mark.parametrize("policy", ["quarantine", "add"])
def test_more_cells_than_the_header_are_never_guessed(policy: NewColumns):
    """A comma too many in a CSV is found, in its row."""
    text = "station,at,mm\na,2026-05-01,1\nb,2026-05-01,1,5\n"
    said = refused(csv.DictReader(io.StringIO(text)), new=policy)
    assert said == "t: row 2 has more cells than the header"


@pytest.mark.parametrize("name", ["a b", "", "x" * 64, 'a"b', "_headgate_entry", "größe", 5])
def test_a_name_that_cannot_be_a_column_is_not_added(name: Any):
    """Also ours: a file cannot claim to be another entry's row."""
    assert refused([{**GOOD, name: 1}], new="add") == (
        f"t: row 1 has {name!r}, which cannot be a column"
    )


def test_any_mapping_is_a_row():
    """And hides no column from the policy for being no dict."""
    frozen = types.MappingProxyType(GOOD)
    assert one(frozen) == one(GOOD)
    assert "wind" in refused([types.MappingProxyType({**GOOD, "wind": 1})])


@dataclasses.dataclass(frozen=True)
class Record:
    k: str
    at: datetime
    n: int = 3


class Model(BaseModel):
    model_config = ConfigDict(frozen=True)
    k: str
    at: datetime
    n: int = 3


@pytest.mark.parametrize("schema", [Record, Model])
def test_dataclasses_and_models_take_instances_and_dictionaries(schema: Any):
    """With their defaults; text is coerced either way."""
    expected = {"k": "a", "at": "2026-05-01T00:00:00+00:00", "n": 3}
    assert one(schema(k="a", at=datetime(2026, 5, 1)), schema) == expected
    assert one({"k": "a", "at": "2026-05-01T00:00:00"}, schema) == expected
    assert refused([{"k": "a", "at": "x"}], schema).startswith("t: row 1: at: ")
    assert "'z'" in refused([{"k": "a", "at": "2026-05-01", "z": 1}], schema)


def test_an_instance_is_checked_like_a_dictionary():
    """A dataclass does not look at what it is given; we do."""
    filled: Any = Record
    assert one(filled("a", "2026-05-01T00:00:00", "4"), Record) == {
        "k": "a", "at": "2026-05-01T00:00:00+00:00", "n": 4,
    }  # fmt: skip
    assert refused([filled("a", "then", 1)], Record).startswith("t: row 1: at: ")
    unchecked = Model.model_construct(k="a", at="then", n=1)
    assert refused([unchecked], Model).startswith("t: rows 1…: ")


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    k: str


def test_what_a_model_holds_beyond_its_fields_is_a_new_column():
    """extra="allow" is no way around the policy."""
    row: Any = Open(k="a", wind=3)  # pyright: ignore[reportCallIssue]
    assert refused([row], Open) == "t: row 1 has column 'wind', which the schema has not"
    assert encoded([row], Open, new="add") == ([{"k": "a", "wind": "3"}], {"wind"})


class Odd(TypedDict):
    k: str
    by_year: dict[int, Decimal]
    tags: set[str]


def test_structure_becomes_json():
    """Numbers as names, sets in an order that does not change."""
    out = one({"k": "a", "by_year": {2026: "1.10"}, "tags": {"b", "a"}}, Odd)
    assert out == {"k": "a", "by_year": {"2026": "1.10"}, "tags": ["a", "b"]}


def test_an_arrow_table_is_rows():
    """A table, a reader, a batch, or a generator of them, across chunk boundaries."""
    pa: Any = pytest.importorskip("pyarrow")
    n = CHUNK + 1
    table = pa.table(
        {
            "station": [f"s{i}" for i in range(n)],
            "at": pa.array([datetime(2026, 5, 1)] * n, pa.timestamp("us")),
            "mm": pa.array([Decimal("1.10"), None] * (n // 2) + [None], pa.decimal128(9, 2)),
        }
    )
    rows, _ = encoded(table)
    assert len(rows) == n
    assert rows[0] == {"station": "s0", "at": "2026-05-01T00:00:00+00:00", "mm": "1.10"}
    assert rows[-1] == {"station": f"s{n - 1}", "at": "2026-05-01T00:00:00+00:00", "mm": None}
    assert encoded(table.to_reader(max_chunksize=7))[0] == rows
    assert encoded(batch for batch in table.to_batches(max_chunksize=700))[0] == rows
    assert encoded(iter([table.slice(0, 5), GOOD, table.slice(5)]))[0][6:] == rows[5:]


def test_an_arrow_column_the_schema_has_not_is_noticed():
    """Types and columns of a stream are checked like any row's."""
    pa: Any = pytest.importorskip("pyarrow")
    wide = pa.table({"n": [1, 2], "f": [1.0, None], "z": ["a", "b"]})
    assert refused(wide, Number) == "t: row 1 has column 'z', which the schema has not"
    assert "row 2: n: " in refused(pa.table({"n": ["1", "x"], "f": [1.0, 2.0]}), Number)


def test_encoding_is_fast_enough_for_large_files():
    """A file of a million rows is minutes of Postgres, not of Python."""
    rows = [{"station": "a", "at": "2026-05-01T12:00:00", "mm": "1.5"} for _ in range(5 * CHUNK)]
    encoder = Encoder(declare("t", key="station", schema=Reading))
    best = min(_seconds(lambda: list(encoder.encode(rows))) for _ in range(5))
    assert len(rows) / best > 50_000  # a quarter of what a slow, idle core does


def _seconds(work: Any) -> float:
    import time as clock

    began = clock.process_time()
    work()
    return clock.process_time() - began


def test_digits_alone_are_no_time():
    """20240501 would be read as seconds since 1970: nothing is guessed."""
    table = declare("t", key="at", schema=TypedDict("Row", {"at": datetime}))
    with pytest.raises(SchemaError, match=r"t: row 1: at: '20240501' is no ISO 8601 time"):
        list(Encoder(table).encode([{"at": "20240501"}]))


@pytest.mark.parametrize("name", ["headgate.entry", "pg_catalog.pg_class"])
def test_rows_cannot_go_into_the_ledger_itself(name: str):
    """A pipeline writes tables of its own."""
    with pytest.raises(PipelineError, match="is not yours"):
        declare(name, key="at", schema=TypedDict("Row", {"at": datetime}))
