"""Looking at pages with a real browser: at two widths, in both themes, with axe."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, BrowserContext, Page, StorageState, sync_playwright
from tests.console.runtime import Runtime

from headgate.model.role import Role

Session = StorageState
PICTURES = Path(__file__).parents[2] / "build" / "screenshots"
WIDTHS = {"phone": (360, 740), "desk": (1280, 860)}
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]
ARGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def chromium() -> str | None:
    """The browser of this machine."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser for the tests of one module.

    Playwright's loop counts as running in this thread for as long as it is open, so the tests that
    use it are plain functions.
    """
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium(), args=ARGS)
        try:
            yield opened
        finally:
            opened.close()


def sign_in(runtime: Runtime, browser: Browser, role: Role) -> Session:
    """Sign in as people do: by the link that `headgate console` prints, and its button."""
    link = re.search(r"https?://\S+", runtime.run("console", "--role", role))
    assert link is not None
    context = browser.new_context()
    page = context.new_page()
    page.goto(link[0])
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(runtime.url + "/")
    session = context.storage_state()
    context.close()
    return session


@contextmanager
def seat(browser: Browser, session: Session | None) -> Iterator[BrowserContext]:
    """A browser of their own for somebody with this session; None is a stranger."""
    context = browser.new_context(storage_state=session)
    context.set_default_timeout(15_000)
    try:
        yield context
    finally:
        context.close()


@contextmanager
def eyes(runtime: Runtime, seat: BrowserContext) -> Iterator[Eyes]:
    """Whoever sits there opens a new tab."""
    page = seat.new_page()
    try:
        yield Eyes(runtime, seat, page)
    finally:
        page.close()


@dataclass
class Eyes:
    """Somebody who is signed in and looks at pages. Whatever the browser complains of is kept."""

    runtime: Runtime
    context: BrowserContext
    page: Page
    look: str = ""
    theme: Theme = "light"
    complaints: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        self.page.on(
            "console",
            lambda said: (
                self.complaints.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def go(self, path: str) -> Page:
        """Open a page, and see that it is one."""
        answer = self.page.goto(self.runtime.url + path, wait_until="load")
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status}"
        return self.page

    def inspect(self, path: str, name: str = "") -> None:
        """Open a page at each width and in each theme: axe finds nothing, the browser complains of
        nothing, nothing is wider than the screen. A picture is kept of what is not so.
        """
        name = name or re.sub(r"\W+", "-", path).strip("-") or "now"
        before = self.page.viewport_size
        assert before is not None
        for width, (wide, high) in WIDTHS.items():
            self.page.set_viewport_size({"width": wide, "height": high})
            self.go(path)
            with pictured(self.page, f"{name}-{width}"):
                assert self.overflow() <= 0, f"{path} is {self.overflow()} px too wide at {wide}"
            for theme in THEMES:
                self.page.emulate_media(color_scheme=theme)
                with pictured(self.page, f"{name}-{width}-{theme}"):
                    # The second theme differs in its colours only.
                    assert_accessible(self.page, only_colours=theme != THEMES[0])
        self.page.emulate_media(color_scheme=self.theme)
        self.page.set_viewport_size(before)
        assert self.complaints == []

    def overflow(self) -> int:
        """By how many pixels the page is wider than the screen."""
        return self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )


@contextmanager
def pictured(page: Page, name: str) -> Iterator[None]:
    """A picture of the page if it is not as it should be; of every page if the environment says so.

    To draw one takes a browser without a screen as long as half of what axe does.
    """
    kept = "PICTURES" in os.environ
    try:
        yield
    except BaseException:
        kept = True
        raise
    finally:
        if kept:
            page.screenshot(path=PICTURES / f"{name}.png", full_page=True)


def assert_accessible(page: Page, *, only_colours: bool = False) -> None:
    """axe finds nothing. It is put in by the debugger, which no policy of the page holds back."""
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE_SCRIPT)
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if only_colours:
        options["runOnly"] = {"type": "rule", "values": ["color-contrast"]}
    else:
        options["runOnly"] = {"type": "tag", "values": RULES}
    found = page.evaluate("options => axe.run(document, options)", options)["violations"]
    said = [
        f"{v['id']}: {v['help']}\n    "
        + "\n    ".join(node["html"][:200] for node in v["nodes"][:5])
        for v in found
    ]
    assert not said, f"{page.url}:\n" + "\n".join(said)
