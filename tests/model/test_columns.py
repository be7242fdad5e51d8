"""A schema's fields become columns of the right type, or the author hears which one cannot."""

import dataclasses
import enum
import re
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    ClassVar,
    Generic,
    Literal,
    NewType,
    NotRequired,
    Optional,
    Required,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID

import pytest
import typing_extensions
from pydantic import AwareDatetime, BaseModel, Field, PrivateAttr

from headgate.errors import PipelineError
from headgate.model.rows import Table, declare

T = TypeVar("T")
Station = NewType("Station", str)
Alias = typing_extensions.TypeAliasType("Alias", int | None)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Inner(BaseModel):
    a: int


@dataclasses.dataclass
class Point:
    x: float


class InnerDict(typing_extensions.TypedDict):
    a: int


def columns(table: Table) -> dict[str, tuple[str, bool]]:
    return {c.name: (c.type, c.nullable) for c in table.columns}


def column(hint: Any) -> tuple[str, bool]:
    make: Any = typing_extensions.TypedDict
    return columns(declare("t", key="k", schema=make("Schema", {"k": str, "v": hint})))["v"]


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (str, "text"), (bool, "boolean"), (int, "bigint"), (float, "double precision"),
        (Decimal, "numeric"), (datetime, "timestamptz"), (AwareDatetime, "timestamptz"),
        (date, "date"), (time, "time"), (timedelta, "interval"), (UUID, "uuid"),
        (bytes, "bytea"), (dict, "jsonb"), (list, "jsonb"), (dict[str, list[Decimal]], "jsonb"),
        (list[dict[str, int | None]], "jsonb"), (tuple[int, str], "jsonb"), (set[str], "jsonb"),
        (Inner, "jsonb"), (list[Inner], "jsonb"), (Point, "jsonb"), (InnerDict, "jsonb"),
        (Colour, "text"), (Level, "bigint"), (Mixed, "text"), (Literal["a", "b"], "text"),
        (Literal[1, 2], "bigint"), (Literal[1, "b"], "text"), (Literal[True], "boolean"),
        (Literal[Colour.RED], "text"), (Station, "text"),
        (Annotated[int, Field(ge=0)], "bigint"), (Annotated[Annotated[str, 1], 2], "text"),
    ],
)  # fmt: skip
def test_a_type_becomes_the_column_that_holds_it(hint: Any, kind: str):
    """A bool is not a number, a datetime not a date, and what has structure is JSON."""
    assert column(hint) == (kind, False)


@pytest.mark.parametrize(
    ("hint", "kind"),
    [
        (int | None, "bigint"),
        (Optional[Decimal], "numeric"),  # noqa: UP045
        (Union[None, date], "date"),  # noqa: UP007
        (Annotated[int | None, Field(ge=0)], "bigint"),
        (NotRequired[int], "bigint"),
        (NotRequired[Annotated[float, 1]], "double precision"),
        (Annotated[NotRequired[int], 1], "bigint"),
        (typing_extensions.ReadOnly[NotRequired[str]], "text"),
        (Literal["a", None], "text"),
        (list[int] | None, "jsonb"),
        (Alias, "bigint"),
    ],
)
def test_what_may_be_missing_may_be_null(hint: Any, kind: str):
    """Optional, NotRequired and a Literal with None, in whatever order they are wrapped."""
    assert column(hint) == (kind, True)


class Loose(TypedDict, total=False):
    k: Required[str]
    v: int


class Written(TypedDict):
    k: "str"
    v: "NotRequired[int]"
    w: "Required[int | None]"


def test_a_typed_dict_that_need_not_be_complete_has_nullable_columns():
    """total=False, and annotations that were text when the class was made."""
    assert columns(declare("t", key="k", schema=Loose)) == {
        "k": ("text", False),
        "v": ("bigint", True),
    }
    assert columns(declare("t", key="k", schema=Written)) == {
        "k": ("text", False),
        "v": ("bigint", True),
        "w": ("bigint", True),
    }


class Model(BaseModel):
    version: ClassVar[int] = 1
    _cache: int = PrivateAttr(default=0)
    k: str
    v: Annotated[int, Field(ge=0)] = 3
    w: datetime | None = None


class Box(BaseModel, Generic[T]):
    k: str
    v: T


@dataclasses.dataclass
class Record:
    version: ClassVar[int] = 1
    k: str
    v: "int" = 3
    w: datetime | None = None


def test_models_and_dataclasses_have_the_columns_of_their_fields():
    """Class variables and private attributes are none; a default is not a null."""
    expected = {"k": ("text", False), "v": ("bigint", False), "w": ("timestamptz", True)}
    assert columns(declare("t", key="k", schema=Model)) == expected
    assert columns(declare("t", key="k", schema=Record)) == expected
    assert columns(declare("t", key="k", schema=Box[Decimal]))["v"] == ("numeric", False)


class Reading(TypedDict):
    station: str
    at: datetime | None
    mm: NotRequired[Decimal]


def test_a_key_is_never_null_whatever_its_type_says():
    """A row without its key could be neither found nor replaced."""
    table = declare("weather.reading", key=("station", "at", "mm"), schema=Reading)
    assert (table.schema, table.name, table.label) == ("weather", "reading", "weather.reading")
    assert table.key == ("station", "at", "mm")
    assert not any(c.nullable for c in table.columns)


class Undefined(TypedDict):
    k: "Nowhere"  # noqa: F821  # pyright: ignore[reportUndefinedVariable]


class Empty(TypedDict):
    pass


class Ours(TypedDict):
    _headgate_entry: int


class Either(TypedDict):
    k: int | str


class Anything(TypedDict):
    k: Any


Umlaut: Any = TypedDict("Umlaut", {"größe": int})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": "a.b.c"}, "not a table name"),
        ({"table": ""}, "not a table name"),
        ({"table": "reading; DROP TABLE x"}, "not a table name"),
        ({"table": 'a"b'}, "not a table name"),
        ({"table": "x" * 64}, "not a table name"),
        ({"key": "statoin"}, "'statoin' is not in Reading.*its columns are at, mm, station"),
        ({"key": ()}, "one or more different columns"),
        ({"key": ("at", "at")}, "one or more different columns"),
        ({"schema": dict}, "must be a TypedDict, a dataclass or a pydantic model"),
        ({"schema": Record("a")}, "must be a TypedDict, a dataclass or a pydantic model"),
        ({"schema": {"k": str}}, "must be a TypedDict, a dataclass or a pydantic model"),
        ({"schema": None}, "must be a TypedDict, a dataclass or a pydantic model"),
        ({"schema": Undefined}, "Undefined: name 'Nowhere' is not defined"),
        ({"schema": Empty}, "Empty has no fields"),
        ({"schema": Ours}, "'_headgate_entry' cannot be a column.*are ours"),
        ({"schema": Umlaut}, "'größe' cannot be a column.*letters, digits and _"),
        ({"schema": Either}, r"no column type for k: int \| str.*use str, int"),
        ({"schema": Anything}, "no column type for k: typing.Any.*use str, int"),
        ({"new_columns": "drop"}, "new_columns='drop'.*\"quarantine\", \"add\" or \"ignore\""),
    ],
)  # fmt: skip
def test_a_declaration_that_cannot_work_is_refused_with_the_way_out(
    given: dict[str, Any], said: str
):
    """When the file is imported, and in words that name the table and the field."""
    right: dict[str, Any] = {"table": "reading", "key": "station", "schema": Reading}
    everything = {**right, **given}
    with pytest.raises(PipelineError) as refused:
        declare(everything.pop("table"), **everything)
    message = f"{refused.value} {refused.value.hint}"
    assert message.startswith(f"rows({given.get('table', 'reading')!r})")
    assert re.search(said, message), message
