"""Redrives and replays in the console: planned with a preview, watched, steered, read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect
from tests.console.look import Eyes
from tests.console.runtime import Runtime
from tests.console.test_actions import BECAUSE, decided, give
from tests.pg.processes import eventually

_LOTS = itertools.count(1)


@pytest.fixture
def shut(runtime: Runtime) -> Iterator[list[int]]:
    """Six entries that were refused at the gate, which is still shut."""
    gate = runtime.folder / "shut"
    gate.touch()
    lot = f"lot-{next(_LOTS)}-"
    for n in range(6):
        runtime.put(f"gauges/{lot}{n}.txt", f"level {n}")
    asked = "SELECT q.entry FROM headgate.quarantine q JOIN headgate.entry e ON e.id = q.entry"
    asked += " WHERE e.uri LIKE %s ORDER BY 1"
    eventually(lambda: len(runtime.sql(asked, f"%/{lot}%")) == 6)
    yield [entry for (entry,) in runtime.sql(asked, f"%/{lot}%")]
    gate.unlink(missing_ok=True)
    runtime.run("quarantine", "discard", "--all", "--pipeline", "gauge", "--because", "tidied up")


def redrive(runtime: Runtime, column: str) -> object:
    """Of the latest redrive."""
    return runtime.sql(f"SELECT {column} FROM headgate.redrive ORDER BY id DESC LIMIT 1")[0][0]


def test_a_redrive_stops_by_itself_when_its_first_fail(eyes: Eyes, shut: list[int]) -> None:
    """The gate is still shut: two are tried, the other four stay where they are."""
    page = eyes.go("/quarantine?pipeline=gauge")
    page.get_by_role("link", name="Plan a redrive").first.click()
    page.get_by_label("First").fill("2")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("6 run again")
    give(page, "Start the redrive")
    expect(page).to_have_url(re.compile(r"/redrives/\d+$"))
    expect(page.get_by_role("status")).to_contain_text("6 entries")
    eventually(lambda: redrive(eyes.runtime, "state") == "stopped")
    expect(page.locator("#far")).to_contain_text("2 of 2 that went first failed", timeout=20_000)
    assert (redrive(eyes.runtime, "released"), redrive(eyes.runtime, "failed")) == (2, 2)
    expect(page.locator("#back")).to_contain_text("validation")
    page.set_viewport_size({"width": 1280, "height": 860})
    eyes.inspect(page.url.removeprefix(eyes.runtime.url), "redrive-stopped")


def test_a_redrive_is_watched_paused_resumed_and_stopped(hands: Eyes, shut: list[int]) -> None:
    """The gate is open: the first pass; then it is one an hour, until somebody stops it."""
    runtime = hands.runtime
    (runtime.folder / "shut").unlink()
    page = hands.go("/redrives/new?pipeline=gauge&canary=2&rate=1%2Fh")
    give(page, "Start the redrive")
    eventually(lambda: redrive(runtime, "state") == "running")
    expect(page.locator("#top")).to_contain_text("running", timeout=20_000)
    expect(page.locator("#far")).to_contain_text("at most 1 an hour")
    assert redrive(runtime, "passed") == 2
    hands.inspect(page.url.removeprefix(runtime.url), "redrive-running")
    for button, said in (("Pause", "is paused"), ("Resume", "goes on"), ("Stop", "is stopped")):
        give(page, button)
        expect(page.get_by_role("status")).to_contain_text(said)
    assert redrive(runtime, "state") == "stopped"
    expect(page.locator("#top .badge")).to_have_text("stopped")
    expect(page.locator("#decisions")).to_contain_text(BECAUSE)
    expect(page.locator("#steer")).to_contain_text("4 entries are still in quarantine")
    finished = runtime.sql("SELECT count(*) FROM headgate.quarantine WHERE entry = ANY(%s)", shut)
    assert finished[0][0] == 4


def test_a_verification_proves_that_all_comes_out_the_same(hands: Eyes) -> None:
    """Asked in the browser, done beside the data; the page says so, and the ledger."""
    page = hands.go("/replays")
    page.get_by_label("Pipeline").select_option("soil")
    page.get_by_label("Why").fill(BECAUSE)
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("status")).to_contain_text("3 inputs would be run again and compared")
    give(page, "Start")
    expect(page).to_have_url(re.compile(r"/replays/\d+$"))
    eventually(lambda: replay(hands.runtime, "state") == "done", seconds=60)
    expect(page.locator("#report")).to_contain_text("All came out the same", timeout=20_000)
    assert replay(hands.runtime, "report ->> 'same'") == "3"


def test_a_verification_says_what_diverged_and_why(eyes: Eyes) -> None:
    """A handler that reads the clock makes another output, and is named."""
    runtime = eyes.runtime
    runtime.put("gauges/once.txt", "level 9")
    eventually(lambda: runtime.sql(
        "SELECT 1 FROM headgate.publication WHERE uri LIKE '%%/gauges/once.txt'"
    ) != [])  # fmt: skip
    page = eyes.go("/replays?pipeline=gauge")
    give(page, "Start")
    eventually(lambda: replay(runtime, "state") == "done", seconds=60)
    expect(page.locator("#report")).to_contain_text("did not come out the same", timeout=20_000)
    expect(page.locator("#report")).to_contain_text("stamp.txt")
    expect(page.locator("#report")).to_contain_text("pipelines.py")
    eyes.inspect(page.url.removeprefix(runtime.url), "replay-diverged")


def test_a_replay_publishes_anew(hands: Eyes) -> None:
    """What it makes takes the place of what readers saw, as a version of its own."""
    runtime = hands.runtime
    before = runtime.sql("SELECT max(version) FROM headgate.publication WHERE uri LIKE '%%hill%%'")
    page = hands.go("/replays?pipeline=soil&mode=publish")
    give(page, "Start")
    eventually(lambda: replay(runtime, "state") == "done", seconds=60)
    expect(page.locator("#top")).to_contain_text("done", timeout=20_000)
    expect(page.locator("#report")).to_contain_text("finalized")
    after = runtime.sql("SELECT max(version) FROM headgate.publication WHERE uri LIKE '%%hill%%'")
    assert after[0][0] == before[0][0] + 1
    assert decided(runtime, "replay")[-1][1] == BECAUSE


def test_a_replay_is_stopped(eyes: Eyes) -> None:
    """One an hour is too slow; what it did until then stays, the rest is not begun."""
    runtime = eyes.runtime
    asked = ("replay", "pipelines.py", "soil", "--publish", "--rate", "1/h")
    runtime.run(*asked, "--because", "a slow one")
    page = eyes.go(f"/replays/{replay(runtime, 'id')}")
    give(page, "Stop")
    expect(page.get_by_role("status")).to_contain_text("stopped")
    assert replay(runtime, "state") == "stopped"
    expect(page.locator("#top")).to_contain_text("stopped")


def replay(runtime: Runtime, column: str) -> object:
    """Of the latest replay."""
    return runtime.sql(f"SELECT {column} FROM headgate.replay ORDER BY id DESC LIMIT 1")[0][0]
