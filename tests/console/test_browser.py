"""Each page in a real browser, on a live runtime."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser
from tests.console import look
from tests.console.look import Eyes
from tests.console.runtime import Runtime

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


def test_a_stranger_sees_the_page_to_sign_in(
    runtime: Runtime, browser: Browser, eyes: Eyes
) -> None:
    """It is fit for everybody too; a wrong token is told so, with the way out."""
    with look.seat(browser, None) as seat, look.eyes(runtime, seat) as stranger:
        stranger.inspect("/login?next=/pipelines", "login")
        stranger.page.get_by_label("Token").fill("hg_wrong")
        stranger.page.get_by_role("button", name="Sign in").click()
        with look.pictured(stranger.page, "login-refused"):
            assert stranger.page.get_by_role("alert").is_visible()


def test_what_is_not_there_has_a_page(eyes: Eyes) -> None:
    """404 with a way back, and nothing that axe would mind."""
    eyes.page.goto(f"{eyes.runtime.url}/pipelines/nowhere")
    with look.pictured(eyes.page, "error"):
        assert eyes.page.get_by_role("heading", level=1).is_visible()
        look.assert_accessible(eyes.page)
    eyes.page.get_by_role("link", name="See what happens now").click()
    assert eyes.page.get_by_role("heading", name="Now", exact=True).is_visible()
