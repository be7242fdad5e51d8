"""The page about envelopes says what the model and the parsers say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

from headgate.model.parse import PROVIDERS, Reason, azure, eventbridge, s3
from headgate.model.schema import DERIVED, FIELDS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "envelope.md").read_text()


def table(title: str) -> dict[str, str]:
    """Name and text of each row below a heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE)
    assert found, title
    return dict(re.findall(r"^\| `(\w+)` \| (.+) \|$", found[1], re.MULTILINE))


def test_every_field_is_on_the_page_in_the_words_of_the_schema() -> None:
    """Who reads the page and who reads the schema read the same."""
    assert table("Fields") == FIELDS | DERIVED


def test_every_reason_is_on_the_page() -> None:
    """Whatever may stand in the quarantine can be looked up, and nothing else is listed."""
    assert list(table("Reasons")) == list(get_args(Reason))


def test_every_provider_is_on_the_page() -> None:
    assert list(table("Providers")) == list(PROVIDERS)


def test_what_is_ignored_is_on_the_page() -> None:
    """An operator who misses an event finds out why."""
    told = {name for name in s3.OTHER if not name.startswith(("Bucket", "Scanner"))}
    assert not [name for name in told if f"`{name}`" not in PAGE]
    assert eventbridge.OTHER
    assert azure.OTHER
