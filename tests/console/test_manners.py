"""How the console behaves in a real browser: current, quick, by keyboard, and without a script."""

from __future__ import annotations

import re

from playwright.sync_api import Browser, expect
from playwright.sync_api import Response as Answer
from tests.console import look
from tests.console.look import Eyes
from tests.console.runtime import IMAGE, Runtime, csv_of
from tests.pg.processes import eventually

FIRST_PAGE_BYTES = 150_000


def test_a_page_stays_current_by_itself(eyes: Eyes) -> None:
    """A file lands, and the figures change before anybody reloads; paused, they rest."""
    page = eyes.go("/")
    page.evaluate("window.sameDocument = true")
    row = page.locator("#totals tr", has_text="rain").locator("[data-label=Received]")
    before, finalized = int(row.inner_text()), eyes.runtime.settled()["finalized"]
    expect(page.get_by_text("live", exact=True)).to_be_visible()
    eyes.runtime.put("incoming/new-1.csv", csv_of("new-1", 3))
    expect(row).to_have_text(f"{before + 1}")
    page.keyboard.press("p")
    expect(page.get_by_text("paused", exact=True)).to_be_visible()
    eyes.runtime.put("incoming/new-2.csv", csv_of("new-2", 3))
    eventually(lambda: eyes.runtime.settled()["finalized"] == finalized + 2, seconds=30)
    page.wait_for_timeout(2000)
    expect(row).to_have_text(f"{before + 1}")
    page.get_by_role("button", name="Go on").click()
    expect(row).to_have_text(f"{before + 2}")
    assert page.evaluate("window.sameDocument") is True
    assert eyes.complaints == []


def test_nobody_loses_what_they_are_typing(eyes: Eyes) -> None:
    """What has the focus is left alone when the page is brought up to date."""
    page = eyes.go("/activity")
    page.get_by_label("Who").fill("half a na")
    eyes.runtime.put("incoming/typing.csv", csv_of("typing", 3))
    page.wait_for_timeout(2500)
    assert page.get_by_label("Who").input_value() == "half a na"


def test_everything_is_there_without_a_script(
    runtime: Runtime, browser: Browser, eyes: Eyes
) -> None:
    """Reading needs no JavaScript: figures, charts, when it was made; no button is dead."""
    session = eyes.context.storage_state()
    context = browser.new_context(storage_state=session, java_script_enabled=False)
    page = context.new_page()
    page.goto(runtime.url)
    expect(page.get_by_role("heading", name="Flow")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("rain, the last hour"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"^Made 20\d\d-"))).to_be_visible()
    assert page.get_by_role("button", name="Copy").count() == 0
    assert page.get_by_role("button", name="Pause").count() == 0
    page.get_by_role("link", name="Dark").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.get_by_role("link", name="Pipelines").click()
    page.get_by_role("link", name="rain").click()
    expect(page.get_by_role("heading", name="Retry policy")).to_be_visible()
    context.close()


def test_hands_stay_on_the_keyboard(eyes: Eyes) -> None:
    """Tab begins with the way past the navigation; keys go to pages, rows and the search."""
    page = eyes.go("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("g")
    page.keyboard.press("p")
    page.wait_for_url("**/pipelines")
    page.keyboard.press("j")
    rows = page.locator("tbody th a")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("k")
    where = rows.nth(0).get_attribute("href")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{where}")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    look.assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("gp")
    assert page.url.endswith(f"{where}")


def test_the_first_page_is_light(eyes: Eyes) -> None:
    """All that the first page needs is under 150 KB, before anything is compressed."""
    answers: list[Answer] = []

    def keep(answer: Answer) -> None:
        answers.append(answer)

    eyes.page.on("response", keep)
    eyes.go("/")
    sizes = {a.url: len(a.body()) for a in answers if not a.url.endswith("/live")}
    assert {u.partition("?")[0].rpartition("/")[2] for u in sizes} >= {"console.css", "live.js"}
    assert sum(sizes.values()) < FIRST_PAGE_BYTES, sizes


def test_nothing_in_a_name_runs(eyes: Eyes) -> None:
    """A file whose name is markup is shown by its name on every page that tells of it."""
    for path in ("/", "/pipelines/rain", "/activity"):
        page = eyes.go(path)
        assert page.evaluate("window.stolen") is None, path
    assert IMAGE.startswith("<img")
    assert eyes.complaints == []


def test_no_page_is_shown_in_a_frame(eyes: Eyes) -> None:
    """A page that lays ours under its own buttons gets nothing to show."""
    page = eyes.page
    page.goto("about:blank")
    page.set_content(f'<iframe src="{eyes.runtime.url}/login"></iframe>')
    page.wait_for_timeout(500)
    assert page.frames[1].url.startswith("chrome-error:")
    assert page.frames[1].get_by_text("Sign in").count() == 0
