"""A live runtime and a browser, once for the tests of a module."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from tests import scratch
from tests.console import look
from tests.console.runtime import Runtime, running

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


@pytest.fixture
def eyes(runtime: Runtime, browser: Browser) -> Iterator[look.Eyes]:
    """Somebody at the browser."""
    context = browser.new_context()
    context.set_default_timeout(15_000)
    yield look.Eyes(runtime, context, context.new_page())
    context.close()
