"""What a runbook tells a person on call to type works, from the first line to the last."""

from __future__ import annotations

import asyncio
import os
import re
import time

import pytest
from tests.cli.conftest import Headgate
from tests.cli.runbook import commands

import headgate as hg
from headgate.pg import Database
from headgate.runtime import inline
from headgate.runtime.tuning import Tuning


def up(headgate: Headgate) -> None:
    """Watch and work until nothing is left to do, in this process."""
    rain = hg.Pipeline(
        "rain",
        sources=[hg.Directory(headgate.folder / "incoming", settle=0, name="incoming")],
        store=str(headgate.folder / "lake"),
        event_time=hg.EventTime(lateness="1h", late="hold"),
    )

    async def go() -> None:
        async with await Database.open(headgate.env["HEADGATE_DATABASE_URL"]) as db:
            await inline.run(db, [rain], Tuning(), until_idle=True)

    asyncio.run(go())


@pytest.fixture
def late(headgate: Headgate) -> Headgate:
    """A pipeline that holds what is late, and holds three files of yesterday."""
    assert headgate("db", "migrate").code == 0
    assert headgate("init").code == 0
    incoming = headgate.folder / "incoming"
    for sample in incoming.iterdir():
        sample.unlink()
    (incoming / "today.csv").write_text("today")
    up(headgate)
    yesterday = time.time() - 86400
    for n in range(3):
        file = incoming / f"{n}.csv"
        file.write_text(f"late {n}")
        os.utime(file, (yesterday, yesterday))
    up(headgate)
    return headgate


def test_the_late_data_lane_can_be_walked(late: Headgate) -> None:
    """Every command of the page, in its order; at its end nothing is held."""
    entry = ""
    for words in commands("late-data-lane.md"):
        held = late("quarantine", "list", "--class", "late", "--json").json["entries"]
        # Whoever reads on goes on with what they decided about; else with the next that is held.
        if not (entry and words[0] == "explain"):
            entry = str(held[0]["entry"]) if held else entry
        said = late(*(entry if word == "ENTRY" else word for word in words))
        assert said.code == 0, f"headgate {' '.join(words)}: {said.err}"
    assert late("quarantine", "list", "--json").json["entries"] == []
    up(late)
    (rain,) = late("status", "--json").json["pipelines"]
    assert (rain["finalized"], rain["discarded"]) == (3, 1)


def test_late_events_are_shown_as_late(late: Headgate) -> None:
    """In `status`, `entry show`, `explain` and the quarantine, with what to do about them."""
    said = late("status", "--json").json
    (stream,) = said["streams"]
    assert (stream["stream"], stream["late"], stream["idle"]) == ("rain/incoming", 3, False)
    assert 3600 <= stream["lag_seconds"] < 3600 + 120
    assert said["watermarks"] == {"rain": stream["watermark"]}
    people = late("status")
    assert re.search(r"rain/incoming +\d{4}-\d\d-\d\d .* 1 h +3 ", people.out), people.out
    entry = str(late("quarantine", "list", "--json").json["entries"][0]["entry"])
    shown = late("entry", "show", entry)
    assert re.search(r"late +\d\d:\d\d:\d\d.* before the watermark, which stood at", shown.out)
    assert late("entry", "show", entry, "--json").json["late"]
    assert "It came late" in late("explain", entry).out
    assert "headgate quarantine release --all --class late" in late("quarantine", "show", entry).err
