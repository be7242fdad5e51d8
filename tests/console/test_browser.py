"""Each page in a real browser, on a live runtime."""

from __future__ import annotations

import pytest
from tests.console.look import Eyes

PAGES = [
    "/",
    "/pipelines",
    "/pipelines/rain",
    "/datasets",
    "/datasets/soil",
    "/datasets/soil/north",
    "/activity",
]


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_fit_for_everybody(eyes: Eyes, path: str) -> None:
    """On a phone and a desk, in the light and in the dark: WCAG 2.1 AA, nothing cut off."""
    eyes.inspect(path)
