"""Contracts as they are declared: told apart, refused with the way out, known by their content."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import dataframely as dy
import pandera.polars as pa
import polars as pl
import pytest

from headgate.errors import PipelineError
from headgate.model.object import Object
from headgate.model.pipeline import Pipeline
from headgate.model.validation.faults import Faults
from headgate.model.validation.json_schema import FORMATS, JsonSchema

DRAFT = "https://json-schema.org/draft/2020-12/schema"
OBJECT: dict[str, Any] = {"type": "object", "properties": {"mm": {"minimum": 0}}}


class Rain(dy.Schema):
    mm = dy.Float64(min=0)


class Model(pa.DataFrameModel):
    mm: float = pa.Field(ge=0)


def refusal(*given: Any, **said: Any) -> tuple[str, str]:
    with pytest.raises(PipelineError) as refused:
        Pipeline("rain").validate(*given, **said)
    return str(refused.value), refused.value.hint


@pytest.mark.parametrize(
    ("given", "said", "hint"),
    [
        (({"type": "object"},), "a dict is no check", "hg.JsonSchema({...})"),
        (("schema.json",), "a str is no check", 'hg.JsonSchema("schema.json")'),
        ((dy.Collection,), "of dataframely is no check", "use a function"),
        ((pa.Column(float),), "this Column of pandera is no check", "use a function"),
    ],
)
def test_what_is_no_check_is_refused_with_what_is(given: Any, said: str, hint: str):
    """Where it is declared, with the form to write."""
    text, way_out = refusal(*given)
    assert text.startswith("rain.validate: ")
    assert said in text
    assert hint in way_out


def test_options_that_make_no_sense_are_refused():
    """`read` is for data frames, a name is text, and two contracts need two names."""
    assert "leave it out" in refusal(JsonSchema(OBJECT), read=pl.read_csv)[1]
    assert "leave it out" in refusal(lambda obj: None, read=pl.read_csv)[1]
    assert 'name="orders"' in refusal(JsonSchema(OBJECT), name=5)[1]
    assert "function of a file's path" in refusal(Rain, read="csv")[1]
    p = Pipeline("rain")
    p.validate(JsonSchema(OBJECT))
    with pytest.raises(PipelineError, match="two checks are called 'json_schema'") as refused:
        p.validate(JsonSchema({"type": "array"}))
    assert refused.value.hint == "give one of them name=…"
    p.validate(JsonSchema({"type": "array"}), name="list")
    assert [s.name for s in p.validators] == ["json_schema", "list"]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (5, "hg.JsonSchema of a int"),
        ("nowhere.json", "No such file"),
        ("broken.json", "is no JSON"),
        ("list.json", "a list is no schema"),
        ({"type": "objekt"}, "/type: 'objekt' is not valid"),
        ({"$schema": "https://example.org/mine"}, "is no draft that is known"),
        ({"$ref": "#/$defs/nowhere"}, "$ref '#/$defs/nowhere' leads nowhere"),
        ({"items": {"$ref": "https://example.org/a.json"}}, "leads nowhere"),
        ({"minimum": object()}, "not JSON serializable"),
    ],
)
def test_what_is_no_json_schema_is_refused(
    schema: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """At import, not with the first object; nothing is fetched."""
    monkeypatch.chdir(tmp_path)
    Path("broken.json").write_text("{")
    Path("list.json").write_text("[]")
    with pytest.raises(PipelineError) as refused:
        JsonSchema(schema)
    assert said in str(refused.value)
    assert refused.value.hint
    with pytest.raises(PipelineError, match="each='row'"):
        JsonSchema(OBJECT, each="row")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": DRAFT},
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}},
        {"$id": "https://a.example/x", "$ref": "y", "$defs": {"y": {"$id": "y"}}},
        {"properties": {"$ref": {"type": "string"}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {}},
         "$ref": "#/definitions/a"},
    ],
)  # fmt: skip
def test_references_inside_a_schema_are_followed(schema: dict[str, Any]):
    """By pointer, by id, and to the drafts themselves."""
    assert JsonSchema(schema).name == "json_schema"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_that_is_promised_is_checked(name: str):
    """No format is left out because a library is not there."""
    good = {"date": "2026-01-05", "date-time": "2026-01-05T06:00:00Z", "time": "06:00:00Z"}
    wrong = {"regex": "(", "uri-reference": "\\\\a"}
    schema = JsonSchema({"format": name})
    for value, passed in ((good.get(name), True), (wrong.get(name, "no such thing"), False)):
        if value is not None:
            (check,) = schema.examine(an_object(json.dumps(value)), "x")
            assert check.passed is passed, (name, value)


def an_object(text: str) -> Object:
    return Object(
        uri="test://a",
        digest=b"",
        size=len(text),
        body=text.encode(),
        envelope=lambda: pytest.fail("nobody asks"),
    )


def digest(check: Any, **said: Any) -> bytes:
    p = Pipeline("rain")
    p.validate(check, name="x", **said)
    return p.code_digest()


def test_a_contract_is_known_by_its_content(tmp_path: Path):
    """Another place or layout is no other contract; another bound is, and so is another unit."""
    file = tmp_path / "rain.json"
    file.write_text(json.dumps(dict(reversed(OBJECT.items())), indent=3))
    assert digest(JsonSchema(OBJECT)) == digest(JsonSchema(file))
    other = {**OBJECT, "properties": {"mm": {"minimum": 1}}}
    assert digest(JsonSchema(OBJECT)) != digest(JsonSchema(other))
    assert digest(JsonSchema(OBJECT)) != digest(JsonSchema(OBJECT, each="line"))

    def column(limit: int, rule: Any) -> pa.DataFrameSchema:
        return pa.DataFrameSchema({"mm": pa.Column(float, [pa.Check.ge(limit), pa.Check(rule)])})

    def odd(data: Any) -> Any:
        return data.lazyframe.select(pl.col(data.key) != 3)

    def even(data: Any) -> Any:
        return data.lazyframe.select(pl.col(data.key) != 4)

    assert digest(column(0, odd)) == digest(column(0, odd))
    assert len({digest(c) for c in (column(0, odd), column(1, odd), column(0, even), Rain)}) == 4


def test_a_mapping_that_changes_later_changes_nothing():
    """What was declared is what is checked, and what the digest says."""
    schema = {"type": "object"}
    made = JsonSchema(schema)
    before = digest(made)
    schema["type"] = "array"
    assert digest(made) == before


SCRIPT = """
import sys
from headgate.model.pipeline import Pipeline
from headgate.model.validation.json_schema import JsonSchema
p = Pipeline("rain")
p.validate(lambda obj: True)
assert not {"jsonschema", "polars", "pandera", "dataframely"} & set(sys.modules)
p.validate(JsonSchema({"enum": ["a", "b"]}))
assert not {"polars", "pandera", "dataframely"} & set(sys.modules)
import dataframely as dy, pandera.polars as pa
class Rain(dy.Schema):
    mm = dy.Float64(min=0, check=lambda col: col != 3)
p.validate(Rain)
column = pa.Column(float, pa.Check(lambda d: d), metadata={"a": {1, 2}})
p.validate(pa.DataFrameSchema({"mm": column}))
print(p.code_digest().hex())
"""


def test_contracts_are_the_same_in_every_process_and_cost_nothing_unused():
    """Restarting is not deploying, and a library that is not used is not imported."""
    seen = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_faults_are_the_same_in_any_order():
    """Of more rules than are kept, the same ones are kept, with true counts."""
    found = [
        (f"/{a}", f"rule {b}", f"{n}") for a, b, n in itertools.product("abcdefgh", "xyz", "12")
    ]
    said = set[str]()
    for seed in range(20):
        random.Random(seed).shuffle(found)
        faults = Faults()
        for fault in found:
            faults.add(*fault)
        said.add(faults.text())
    (text,) = said
    assert text.startswith("/a: rule x (2 times), as in: 1; /a: rule y (2 times)")
    assert text.endswith("; and 15 more")
