"""A live runtime and a browser, once for the tests of a module."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from playwright.sync_api import Browser, BrowserContext
from tests import scratch
from tests.console import look
from tests.console.runtime import Runtime, running

from headgate.model.role import Role

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def runtime(worlds_server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runtime]:
    """`headgate up --serve`, with something of everything in its ledger."""
    url = scratch.create(worlds_server, f"console_{next(_NUMBERS)}", "template_world")
    with running(tmp_path_factory.mktemp("console"), url) as live:
        yield live
    scratch.drop(url)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A real Chromium."""
    if look.chromium() is None:
        pytest.skip("these tests need a browser: apt-get install chromium")
    with look.browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def signed_in(runtime: Runtime, browser: Browser) -> Callable[[Role], look.Session]:
    """Sessions by role, each opened once with a link of `headgate console`."""
    return cache(lambda role: look.sign_in(runtime, browser, role))


@pytest.fixture(params=[("phone", "dark"), ("desk", "light")], ids="-".join)
def hands(request: pytest.FixtureRequest, eyes: look.Eyes) -> look.Eyes:
    """A steward who does something: on a phone in the dark, then at a desk in the light."""
    width, theme = request.param
    wide, high = look.WIDTHS[width]
    eyes.page.set_viewport_size({"width": wide, "height": high})
    eyes.page.emulate_media(color_scheme=theme)
    eyes.look, eyes.theme = f"{width}-{theme}", theme
    return eyes


@pytest.fixture(scope="module")
def seat(browser: Browser, signed_in: Callable[[Role], look.Session]) -> Iterator[BrowserContext]:
    """Where the steward sits. To open a browser takes longer than most of what is done in it."""
    with look.seat(browser, signed_in("steward")) as opened:
        yield opened


@pytest.fixture
def eyes(runtime: Runtime, seat: BrowserContext) -> Iterator[look.Eyes]:
    """A steward at the browser, in a tab of their own."""
    with look.eyes(runtime, seat) as opened:
        yield opened
