"""The commands of a runbook, run as they stand on its page, where they are meant for."""

from __future__ import annotations

import asyncio
import re

import pytest
from tests.cli.conftest import Headgate, populate
from tests.cli.runbook import commands
from tests.world import change

from headgate.ledger import inbox
from headgate.ledger.inbox import Registered
from headgate.pg import Database

CHECK = "if obj.size == 0:"


def meant(headgate: Headgate, words: list[str]) -> list[str]:
    """The same with the numbers that the page leaves open."""
    if "ENTRY" in words:
        among = ["--discarded"] if "undiscard" in words else []
        found = headgate("quarantine", "list", *among, "--json").json["entries"]
        found = found or headgate("entry", "list", "--json").json["entries"]
        words = [str(found[0]["entry"]) if word == "ENTRY" else word for word in words]
    if "REDRIVE" in words:
        (last, *_) = headgate("quarantine", "redrive", "list", "--json").json["redrives"]
        words = [str(last["id"]) if word == "REDRIVE" else word for word in words]
    return words


def up(headgate: Headgate) -> None:
    said = headgate("up", "rain.py", "--until-idle", "--workers", "1", HEADGATE_SWEEP_SECONDS="0.1")
    assert said.code == 0, said.err


def test_a_quarantine_is_redriven_by_the_book(headgate: Headgate) -> None:
    """A handler refused everything and is repaired: page down, what is good has passed."""
    assert headgate("init").code == 0
    rain = headgate.folder / "rain.py"
    rain.write_text(rain.read_text().replace('"incoming/")', '"incoming/", settle=0)'))
    for n in range(8):
        name = headgate.folder / "incoming" / f"{n}.csv"
        name.write_text(f"station,at,mm\noslo-{n},2026-01-05T06:00:00Z,1\n")
    (headgate.folder / "incoming" / "empty.csv").write_text("")
    repaired = rain.read_text()
    rain.write_text(repaired.replace(CHECK, "if obj.size < 1000:"))
    up(headgate)
    assert headgate("quarantine", "summary", "--json").json["entries"] == 11
    rain.write_text(repaired)
    for words in commands("dlq-redrive.md"):
        if "--follow" in words:
            up(headgate)  # where it runs, it runs all the time
        said = headgate(*meant(headgate, words))
        assert said.code == 0, f"headgate {' '.join(words)}\n{said.out}{said.err}"
    (done,) = headgate("quarantine", "redrive", "list", "--json").json["redrives"]
    assert (done["state"], done["progress"]["passed"], done["progress"]["failed"]) == (
        "done",
        10,
        1,
    )
    assert len(headgate("publication", "list", "--json").json["publications"]) == 10
    (left,) = headgate("quarantine", "list", "--json").json["entries"]
    assert left["uri"].endswith("empty.csv")


def test_a_spike_of_duplicates_is_looked_into_by_the_book(headgate: Headgate) -> None:
    """Told three times, contradicted once: every look is answered, and nothing happened twice."""
    populate(headgate)

    async def tell() -> None:
        async with await Database.open(headgate.env["HEADGATE_DATABASE_URL"]) as db:
            for text in ("same", "same", "same", "other"):
                await inbox.receive(
                    db, Registered(1, 1, 1), "queue", [change("a", text, event="one")]
                )

    asyncio.run(tell())
    told = {" ".join(words[:2]): [] for words in commands("duplicate-spike.md")}
    for words in commands("duplicate-spike.md"):
        said = headgate(*meant(headgate, words))
        assert said.code == 0, f"headgate {' '.join(words)}\n{said.out}{said.err}"
        told[" ".join(words[:2])].append(said.out)
    counted, again, contradicted = told["db psql"]
    assert re.search(r"queue *\| *4 *\| *2 *\| *1", counted), counted
    assert re.search(r"test://a *\| *3 *\| *1", again), again
    assert "test://a" in contradicted


@pytest.mark.parametrize("page", ["double-apply.md", "no-workers.md", "error-budget.md"])
def test_what_an_alert_tells_to_look_at_can_be_looked_at(copied: Headgate, page: str) -> None:
    """Woken at night, one types what the page says, and each line is answered."""
    asked = commands(page)
    assert asked
    for words in asked:
        said = copied(*meant(copied, words))
        assert said.code == 0, f"headgate {' '.join(words)}\n{said.out}{said.err}"
        assert said.out.strip() or said.err.strip()


def test_a_catalog_that_is_behind_is_written_by_the_book(headgate: Headgate) -> None:
    """A file of it vanished: the page finds out, and brings it back."""
    assert headgate("init").code == 0
    rain = headgate.folder / "rain.py"
    declared = rain.read_text().replace('"incoming/")', '"incoming/", settle=0)')
    rain.write_text(declared.replace('version="1"', 'version="1", dataset="rain"'))
    up(headgate)
    lost = headgate.folder / "lake" / "stac" / "catalog.json"
    assert lost.exists()
    lost.unlink()
    codes: list[int] = []
    for words in commands("catalog-behind.md"):
        said = headgate(*words)
        codes.append(said.code)
        assert said.out.strip(), f"headgate {' '.join(words)}\n{said.err}"
    assert codes == [0, 0, 1, 0]  # the dry run says that there is something to do
    assert lost.exists()
    assert headgate("catalog", "rebuild", "--dry-run").code == 0
