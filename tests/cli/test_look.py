"""Looking at a ledger: status, entries, explanations, quarantine, audit."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.conftest import Headgate

from headgate.pg import Database


def _entry(world: Headgate, name: str) -> dict[str, object]:
    (found,) = world("entry", "list", "--uri", name, "--json").json["entries"]
    return found


def test_status_in_figures(world: Headgate) -> None:
    """What arrived and what became of it, for programs and for people."""
    said = world("status", "--json")
    assert said.code == 0
    (rain,) = said.json["pipelines"]
    assert (rain["received"], rain["entries"], rain["finalized"]) == (4, 4, 2)
    assert {(q["class"], q["reason"]): q["entries"] for q in said.json["quarantine"]} == {
        ("schema", "schema"): 1,
        ("schema", "validation"): 1,
    }
    people = world("status")
    assert people.code == 0
    assert "rain" in people.out
    assert "2 entries in quarantine" in people.out


def test_entries_can_be_narrowed_and_paged(world: Headgate) -> None:
    """By status, by pipeline, by a part of the uri; page by page."""
    everything = world("entry", "list", "--json").json
    assert len(everything["entries"]) == 4
    assert everything["more"] is False
    done = world("entry", "list", "--status", "finalized", "--json").json["entries"]
    assert {e["status"] for e in done} == {"finalized"}
    assert len(done) == 2
    assert world("entry", "list", "--pipeline", "snow", "--json").json["entries"] == []
    first = world("entry", "list", "--limit", "3", "--json").json
    assert first["more"] is True
    last = str(first["entries"][-1]["entry"])
    rest = world("entry", "list", "--before", last, "--json").json["entries"]
    assert len(rest) == 1
    # A percent sign is a percent sign.
    assert world("entry", "list", "--uri", "%", "--json").json["entries"] == []
    assert world("entry", "list", "--status", "lost").code == 2


def test_one_entry_by_number_key_uri_or_path(world: Headgate) -> None:
    """However one names it, it is the same entry."""
    entry = _entry(world, "2026-01-05")
    names = [str(entry["entry"]), str(entry["key"]), str(entry["key"])[:12], str(entry["uri"])]
    names.append("incoming/2026-01-05.csv")
    for name in names:
        said = world("entry", "show", name, "--json")
        assert said.code == 0, said.err
        assert said.json["entry"] == entry["entry"]
        assert said.json["publication"]["version"] == 1
        assert said.json["lines"][-1]["outcome"] == "finalized"
    people = world("entry", "show", names[0])
    assert "finalized" in people.out
    assert str(entry["key"]) in people.out


def test_an_entry_that_is_not_there_is_exit_2(world: Headgate) -> None:
    """An unknown number, key or path is named, with ways to find the right one."""
    for which in ("4711", "deadbeefdeadbeef", "incoming/nowhere.csv"):
        for command in (["entry", "show"], ["explain"], ["entry", "explain"]):
            said = world(*command, which)
            assert said.code == 2
            assert which in said.err
            assert "hint: " in said.err


def test_an_explanation_proves_what_it_says(world: Headgate) -> None:
    """Every sentence comes with the rows it stands on; `explain` and `entry explain` are one."""
    said = world("explain", "incoming/empty.csv", "--json")
    assert said.code == 0
    assert said.json["entry"]["status"] == "quarantined"
    assert said.json["statements"]
    assert all(s["text"] and s["proof"] for s in said.json["statements"])
    assert any("empty file" in s["text"] for s in said.json["statements"])
    assert world("entry", "explain", "incoming/empty.csv", "--json").out == said.out
    assert "[entry " in world("explain", "incoming/empty.csv").out


def test_what_is_in_quarantine_can_be_seen(world: Headgate) -> None:
    """The list by filter, and one entry with its error, for people and for programs."""
    assert len(world("quarantine", "list", "--json").json["entries"]) == 2
    (one,) = world("quarantine", "list", "--reason", "validation", "--json").json["entries"]
    assert one["uri"].endswith("empty.csv")
    assert world("quarantine", "list", "--class", "late", "--json").json["entries"] == []
    shown = world("quarantine", "show", str(one["entry"]))
    assert shown.code == 0
    assert "empty file" in shown.out
    assert "quarantine release" in shown.err
    exact = world("quarantine", "show", str(one["entry"]), "--json").json
    assert (exact["class"], exact["reason"], exact["attempts"]) == ("schema", "validation", 1)
    assert len(exact["failures"]) == 1


def test_a_sound_ledger_is_found_sound(world: Headgate) -> None:
    """Exit 0, and how much was looked at."""
    said = world("verify", "--json")
    assert said.code == 0, said.out
    assert said.json["ok"] is True
    assert said.json["violations"] == []
    assert said.json["checked"]["entries"] == 4
    deep = world("verify", "--deep")
    assert deep.code == 0
    assert "Nothing is wrong" in deep.out


def test_damage_is_named_by_entry(copied: Headgate) -> None:
    """A publication that vanished behind our back: exit 1, a stable code, the entry."""
    entry = _entry(copied, "2026-01-05")["entry"]

    async def damage() -> None:
        async with await Database.open(copied.env["HEADGATE_DATABASE_URL"]) as db:
            await db.execute("DELETE FROM headgate.publication WHERE entry = $1", entry)

    asyncio.run(damage())
    said = copied("verify", "--json")
    assert said.code == 1
    assert said.json["ok"] is False
    assert entry in {v["entry"] for v in said.json["violations"]}
    people = copied("verify")
    assert people.code == 1
    assert f"entry {entry}" in people.out
    assert "hint: " in people.out


def test_a_decision_is_rehearsed_made_and_remembered(copied: Headgate) -> None:
    """A dry run changes nothing; release runs it again; discard ends it; both keep the reason."""
    empty = str(_entry(copied, "empty")["entry"])
    late = str(_entry(copied, "bad")["entry"])
    because = ["--because", "the gauge was repaired"]

    dry = copied("quarantine", "release", "--all", "--dry-run", *because, "--json").json
    assert (len(dry["entries"]), dry["dry_run"]) == (2, True)
    assert len(copied("quarantine", "list", "--json").json["entries"]) == 2

    assert copied("quarantine", "discard", empty, *because).code == 0
    assert copied("quarantine", "release", "--all", "--reason", "schema", *because).code == 0
    assert copied("quarantine", "list", "--json").json["entries"] == []
    assert _entry(copied, "empty")["status"] == "rolled_back"
    assert _entry(copied, "bad")["status"] == "received"
    life = copied("entry", "show", late, "--json").json
    assert [a["because"] for a in life["actions"]] == ["the gauge was repaired"]

    again = copied("quarantine", "discard", empty, late, *because)
    assert again.code == 2
    assert "nothing was changed" in again.err


@pytest.mark.parametrize(
    "args",
    [["1"], ["--because", "x"], ["1", "--all", "--because", "x"], ["1", "--because", " "]],
)
def test_a_decision_needs_entries_and_a_reason(bare: Headgate, args: list[str]) -> None:
    """No reason, nothing named, or both ways of naming: exit 2 before anything is opened."""
    for verb in ("release", "discard"):
        assert bare("quarantine", verb, *args).code == 2
