"""Schemas of records: generated, and up to date."""

from __future__ import annotations

import json

import jsonschema
import pytest
from tests.catalog import public

from headgate.catalog.schema import schemas

ROOT = public.ROOT / "schemas"


def test_the_files_are_what_the_records_say() -> None:
    """After a change: python -m headgate.catalog.schema"""
    on_disk = {
        str(path.relative_to(ROOT)) for path in ROOT.rglob("*.json") if path.parent.name != "events"
    }
    assert on_disk == set(schemas())
    for name, content in schemas().items():
        assert (ROOT / name).read_bytes() == content, f"schemas/{name} is out of date"


@pytest.mark.parametrize("name", sorted(schemas()))
def test_each_is_a_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(schemas()[name]))
