"""The reference pages say what the code says."""

from pathlib import Path

import pytest

from headgate.settings import DECLARED, variable
from headgate.settings import reference as settings_page
from headgate.telemetry import reference as signals_page

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize(
    ("name", "expected", "module"),
    [
        ("settings.md", settings_page.reference_markdown(), "headgate.settings"),
        ("signals.md", signals_page.reference_markdown(), "headgate.telemetry.reference"),
    ],
)
def test_the_reference_page_is_up_to_date(name: str, expected: str, module: str) -> None:
    """A setting or a signal that changes changes on its page, in the same commit."""
    assert (REFERENCE / name).read_text() == expected, (
        f"docs/reference/{name} is out of date; run: "
        f".venv/bin/python -m {module} > docs/reference/{name}"
    )


def test_every_setting_has_its_variable_on_the_page() -> None:
    """Nothing that can be set is left out."""
    page = (REFERENCE / "settings.md").read_text()
    assert not [name for name in DECLARED if variable(name) not in page or f"`{name}`" not in page]
