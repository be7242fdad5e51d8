"""What people do in the console, end to end: pressed in a browser, seen on the page, and done in
the ledger of a live runtime.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from tests.console import look
from tests.console.look import Eyes
from tests.console.runtime import HEADER, IMAGE, SCRIPT, Runtime, csv_of
from tests.pg.processes import eventually

from headgate.model.role import Role

SignIn = Callable[[Role], look.Session]
BECAUSE = f"repaired & checked {SCRIPT}"


def give(page: Page, button: str, because: str = BECAUSE, *, within: str = "main") -> None:
    """Say why, and press the button of the same form."""
    form = page.locator(f"{within} form", has=page.get_by_role("button", name=button, exact=True))
    form.get_by_label("Why").fill(because)
    form.get_by_role("button", name=button, exact=True).click()


def entry_of(runtime: Runtime, name: str) -> int:
    """The newest entry of a file."""
    found = runtime.sql(
        "SELECT max(entry) FROM headgate.entry_state WHERE uri LIKE %s", f"%/{name}"
    )
    return found[0][0]


def status(runtime: Runtime, entry: int) -> str:
    return runtime.sql("SELECT status FROM headgate.entry_state WHERE entry = %s", entry)[0][0]


def decided(runtime: Runtime, verb: str) -> list[tuple[str, str]]:
    """Who decided this, and why."""
    return runtime.sql("SELECT actor, because FROM headgate.action WHERE verb = %s", verb)


def broken(runtime: Runtime, name: str) -> int:
    """A file that its pipeline refuses; its entry, in quarantine."""
    runtime.put(f"incoming/{name}", HEADER)
    eventually(lambda: runtime.sql(
        "SELECT 1 FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry"
        " WHERE e.uri LIKE %s", f"%/{name}"
    ) != [])  # fmt: skip
    return entry_of(runtime, name)


def test_an_entry_is_discarded_taken_back_and_released(hands: Eyes) -> None:
    """Each decision says what it did on the page, and is in the ledger with its reason."""
    runtime, entry = hands.runtime, broken(hands.runtime, f"decided-{hands.look}.csv")
    page = hands.go(f"/quarantine/{entry}")
    expect(page.locator("pre")).to_contain_text("station,at,mm")
    give(page, "Discard")
    expect(page.get_by_role("status")).to_contain_text(f"Entry {entry} discarded")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Entry {entry}, discarded")
    assert status(runtime, entry) == "rolled_back"
    assert decided(runtime, "discard")[-1][1] == BECAUSE

    give(page, "Put it back")
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Entry {entry} in quarantine")
    assert status(runtime, entry) == "quarantined"

    give(page, "Release")
    expect(page).to_have_url(re.compile(f"/entries/{entry}$"))
    expect(page.get_by_role("status")).to_contain_text("released")
    eventually(lambda: len(runtime.sql(
        "SELECT 1 FROM headgate.journal WHERE entry = %s AND outcome = 'quarantined'"
        " AND attempt > 0", entry
    )) == 2)  # fmt: skip
    page.reload()
    life = page.get_by_role("list").filter(has_text="Received").first
    for step in ("Discard", "Undiscard", "Release", "Attempt 1: quarantined (validation)"):
        expect(life).to_contain_text(step)
    expect(page.locator("#why-section")).to_contain_text(f"because: {BECAUSE}")
    assert page.evaluate("window.stolen") is None


LOOKED_AT = {
    "changes": "/changes",
    "change": "SELECT '/changes/' || max(entry) FROM headgate.publication WHERE version = 2",
    "entry": "SELECT '/entries/' || max(entry) FROM headgate.entry_state WHERE status = 'waiting'",
    "quarantine": "/quarantine",
    "case": "SELECT '/quarantine/' || min(entry) FROM headgate.quarantine",
    "redrives": "/redrives",
    "redrive-new": "/redrives/new",
    "find": "/find?q=oslo",
    "discarded": "/quarantine?discarded=true",
    "replays": "/replays",
}


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_page_is_fit_for_everybody(eyes: Eyes, name: str) -> None:
    """On a phone and a desk, in the light and in the dark: WCAG 2.1 AA, nothing cut off."""
    path = LOOKED_AT[name]
    eyes.inspect(eyes.runtime.sql(path)[0][0] if path.startswith("SELECT") else path, name)


def test_without_a_reason_nothing_is_done(eyes: Eyes) -> None:
    """The browser asks for it; a form that was tampered with is told so, and changes nothing."""
    entry = broken(eyes.runtime, "unreasoned.csv")
    page = eyes.go(f"/quarantine/{entry}")
    page.locator("form.danger input[name=because]").evaluate("e => e.removeAttribute('required')")
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was done")
    assert status(eyes.runtime, entry) == "quarantined"


def test_several_are_decided_at_once(hands: Eyes) -> None:
    """Whoever has looked at a list decides about those that are chosen."""
    chosen = [broken(hands.runtime, f"many-{hands.look}-{n}.csv") for n in range(2)]
    page = hands.go("/quarantine?pipeline=rain")
    for entry in chosen:
        page.get_by_label(f"Choose entry {entry}", exact=True).check()
    give(page, "Discard")
    expect(page.get_by_role("status")).to_contain_text(f"Entries {chosen[0]}, {chosen[1]}")
    assert [status(hands.runtime, entry) for entry in chosen] == ["rolled_back"] * 2
    page.get_by_role("link", name="Discarded").click()
    expect(page.get_by_role("link", name=f"{chosen[0]}", exact=True)).to_be_visible()


def test_a_publication_is_reverted_as_its_preview_said(hands: Eyes) -> None:
    """The preview names the version that comes back; then readers see it, as a new version."""
    runtime, name = hands.runtime, f"undo-{hands.look}"
    rows = "SELECT 1 FROM reading WHERE station = %s"
    runtime.put(f"incoming/{name}.csv", csv_of(name, 2))
    eventually(lambda: runtime.sql(rows, name) != [])
    runtime.put(f"incoming/{name}.csv", csv_of(name, 5))
    second = eventually_version(runtime, f"{name}.csv", 2)
    page = hands.go(f"/changes/{second}")
    expect(page.locator("#preview")).to_contain_text("replaced")
    expect(page.locator("#preview")).to_contain_text("-3")
    give(page, "Revert")
    expect(page.get_by_role("status")).to_contain_text(f"takes publication {second} back")
    third = eventually_version(runtime, f"{name}.csv", 3)
    expect(page).to_have_url(re.compile(f"/entries/{third}$"))
    assert len(runtime.sql(rows, name)) == 2
    page = hands.go(f"/changes/{third}")
    expect(page.locator(".tags")).to_contain_text("reverted")
    expect(page.locator(".said")).to_contain_text(BECAUSE)
    expect(page.locator("svg.lineage")).to_contain_text("was taken back by")

    page = hands.go(f"/changes/{second}")
    expect(page.locator(".undo")).to_contain_text("Not from here")
    page.get_by_role("link", name="Go to what readers see now").click()
    expect(page).to_have_url(re.compile(f"/changes/{third}\\?to=2"))
    expect(page.locator("#preview")).to_contain_text("+3")


def eventually_version(runtime: Runtime, name: str, version: int) -> int:
    """The entry that published this version of a file, once it has."""
    asked = "SELECT entry FROM headgate.publication WHERE uri LIKE %s AND version = %s"
    eventually(lambda: runtime.sql(asked, f"%/{name}", version) != [])
    return runtime.sql(asked, f"%/{name}", version)[0][0]


def test_a_waiting_entry_is_reset_and_tried_at_once(hands: Eyes) -> None:
    """Its next attempt was minutes away; somebody knows better."""
    runtime, entry = hands.runtime, entry_of(hands.runtime, "away.csv")
    eventually(lambda: status(runtime, entry) == "waiting")
    tried = "SELECT 1 FROM headgate.journal WHERE entry = %s AND attempt > 0"
    before = len(runtime.sql(tried, entry))
    page = hands.go(f"/entries/{entry}")
    expect(page.locator("#preview")).to_contain_text("its attempts begin anew, and it is due now")
    give(page, "Reset")
    expect(page.get_by_role("status")).to_contain_text(f"Entry {entry} runs")
    eventually(lambda: len(runtime.sql(tried, entry)) > before)
    assert decided(runtime, "reset")[-1][1] == BECAUSE


def test_a_published_entry_is_reset_and_published_anew(eyes: Eyes) -> None:
    """From the bytes that were kept, through the same gates: readers see a version more."""
    runtime = eyes.runtime
    runtime.put("incoming/anew.csv", csv_of("anew", 2))
    first = eventually_version(runtime, "anew.csv", 1)
    page = eyes.go(f"/entries/{first}")
    give(page, "Reset")
    expect(page.get_by_role("status")).to_contain_text("a worker takes it now")
    eventually_version(runtime, "anew.csv", 2)


def test_names_errors_and_payloads_are_text(eyes: Eyes) -> None:
    """A file that is called like markup, and says a script, runs nothing on any page."""
    found = "SELECT q.entry FROM headgate.quarantine q WHERE q.error LIKE '%%script%%'"
    (entry,) = eyes.runtime.sql(found)[0]
    for path in ("/changes", "/quarantine", f"/quarantine/{entry}", f"/entries/{entry}"):
        page = eyes.go(path)
        expect(page.locator("main")).to_contain_text(SCRIPT)
        assert page.locator("main img, main script").count() == 0
        assert page.evaluate("window.stolen") is None
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Entry {entry}")
    eyes.go("/quarantine")
    expect(eyes.page.locator("main")).to_contain_text(IMAGE.replace("/", ""))


@pytest.fixture
def viewer(runtime: Runtime, browser: Browser, signed_in: SignIn) -> Iterator[Eyes]:
    """Somebody who may only look."""
    with look.seat(browser, signed_in("viewer")) as seat, look.eyes(runtime, seat) as opened:
        yield opened


def test_who_may_not_decide_is_told_which_role_it_takes(viewer: Eyes) -> None:
    """No button that would be refused, and no guessing why there is none."""
    entry = broken(viewer.runtime, "looked-at.csv")
    seen = "SELECT max(entry) FROM headgate.publication WHERE successor IS NULL AND version = 1"
    (head,) = viewer.runtime.sql(seen)[0]
    for path, role in ((f"/quarantine/{entry}", "operator"), (f"/changes/{head}", "steward")):
        page = viewer.go(path)
        assert page.locator("main form[method=post]").count() == 0
        expect(page.locator("main")).to_contain_text(f"takes the role {role}")


def test_reading_takes_no_script(runtime: Runtime, browser: Browser, signed_in: SignIn) -> None:
    """Without JavaScript every page is complete, and every form works."""
    entry = broken(runtime, "plain.csv")
    context = browser.new_context(storage_state=signed_in("steward"), java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{runtime.url}/quarantine/{entry}")
    give(page, "Discard")
    expect(page.get_by_role("status")).to_contain_text("discarded")
    context.close()
    assert status(runtime, entry) == "rolled_back"
