"""Public schemas and shapes, to validate records against without a network.

They are not a part of the project: they lie beside its checkout, in `../shared/schemas`. Where they
are not, tests that need them are skipped and say so; our own shapes are checked all the same.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared" / "schemas"
SHAPES = Path(__file__).with_name("shapes")
NEEDED = pytest.mark.skipif(
    not SHARED.is_dir(),
    reason=f"NOT VALIDATED: there are no public schemas in {SHARED}; CI has them",
)


@cache
def schema(name: str) -> dict[str, Any]:
    """A public JSON Schema."""
    return json.loads((SHARED / name).read_text())


@cache
def ours(name: str) -> dict[str, Any]:
    """A JSON Schema of our own."""
    return json.loads((ROOT / "schemas" / name).read_text())
