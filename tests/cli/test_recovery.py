"""Working off a quarantine and recovering, as it is typed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Headgate, Zygote, new_database, new_folder, populate

from headgate.pg import Database, Server

BECAUSE = ("--because", "the gauge was repaired")


@pytest.fixture(scope="module")
def lived(zygote: Zygote, open_folder: Path, server: Server) -> Headgate:
    """A world of its own for these tests: work goes on in it."""
    folder = new_folder(open_folder, "lived")
    headgate = Headgate(zygote, folder, {"HEADGATE_DATABASE_URL": new_database(server)})
    populate(headgate)
    return headgate


def _entry(world: Headgate, name: str) -> dict[str, Any]:
    (found,) = world("entry", "list", "--uri", name, "--json").json["entries"]
    return found


def _sql(world: Headgate, sql: str) -> Any:
    async def go() -> Any:
        async with await Database.open(world.env["HEADGATE_DATABASE_URL"]) as db:
            return await db.fetch(sql) if sql.startswith("SELECT") else await db.execute(sql)

    return asyncio.run(go())


def _up(world: Headgate) -> None:
    said = world("up", "rain.py", "--until-idle", "--workers", "1", HEADGATE_SWEEP_SECONDS="0.1")
    assert said.code == 0, said.err


def test_the_quarantine_is_counted_by_class_and_reason(world: Headgate) -> None:
    """How many of what, since when, and by which code; narrowed like a list."""
    said = world("quarantine", "summary", "--json").json
    assert said["entries"] == 2
    assert {(r["class"], r["reason"], r["entries"]) for r in said["reasons"]} == {
        ("schema", "schema", 1),
        ("schema", "validation", 1),
    }
    assert all(r["first_at"] <= r["last_at"] and r["other_code"] == 0 for r in said["reasons"])
    people = world("quarantine", "summary", "--reason", "validation")
    assert "validation" in people.out
    assert "as now" in people.out
    assert "quarantine redrive --reason validation" in people.err
    assert world("quarantine", "summary", "--since", "1h", "--json").json["entries"] == 2
    assert world("quarantine", "list", "--since", "2100-01-01", "--json").json["entries"] == []
    wrong = world("quarantine", "summary", "--since", "soon")
    assert wrong.code == 2
    assert "30m, 2h, 3d" in wrong.err


def test_one_entry_says_which_code_gave_it_up(world: Headgate) -> None:
    """Its code digest and the masked beginning of its data are there to decide by."""
    entry = str(_entry(world, "bad")["entry"])
    shown = world("quarantine", "show", entry, "--json").json
    people = world("quarantine", "show", entry)
    assert shown["code"][:12] in people.out
    assert "its data begins with" in people.out


def test_a_redrive_is_rehearsed_planned_followed_and_done(lived: Headgate) -> None:
    """A dry run changes nothing; the plan runs with `up`; what fails again is told why."""
    dry = lived("quarantine", "redrive", "--dry-run", "--json").json
    assert (dry["redrive"], dry["entries"], len(dry["first"])) == (None, 2, 2)
    assert "Nothing was changed" in lived("quarantine", "redrive", "--dry-run").err
    missing = lived("quarantine", "redrive")
    assert missing.code == 2
    assert "--because is missing" in missing.err

    made = lived("quarantine", "redrive", "--rate", "max", *BECAUSE)
    assert made.code == 0
    assert "redrive 1 is planned" in made.out
    again = lived("quarantine", "redrive", *BECAUSE)
    assert again.code == 2
    assert "is part of redrive 1 already" in again.err
    assert lived("quarantine", "redrive", "pause", "1", *BECAUSE).out == "redrive 1 is paused\n"
    assert lived("quarantine", "redrive", "resume", "1", *BECAUSE).out == "redrive 1 is planned\n"
    _up(lived)
    followed = lived("quarantine", "redrive", "show", "1", "--follow", "--json")
    assert followed.code == 1, "nothing was repaired, so it stopped by itself"
    assert followed.json["redrive"]["state"] == "stopped"
    assert {b["reason"] for b in followed.json["back"]} == {"schema", "validation"}
    assert [a["verb"].split()[0] for a in followed.json["actions"]] == ["plan", "pause", "resume"]
    people = lived("quarantine", "redrive", "show", "1")
    assert "2 of 2 that went first failed" in people.out
    assert "failed again" in people.out
    assert "1" in lived("quarantine", "redrive", "list").out
    shown = lived("quarantine", "show", str(_entry(lived, "bad")["entry"]), "--json").json
    assert (shown["released"], shown["redrives"], len(shown["failures"])) == (1, [1], 2)
    assert lived("verify").code == 0


@pytest.mark.parametrize(
    "args",
    [["--rate", "fast"], ["--stop-at", "2"], ["--batch", "0"], ["show", "9"], ["stop", "9"]],
)
def test_a_redrive_that_is_asked_for_wrongly_is_refused(world: Headgate, args: list[str]) -> None:
    """Exit 2, and nothing is planned."""
    more = BECAUSE if args[0] != "show" else ()
    assert world("quarantine", "redrive", *args, *more).code == 2
    assert world("quarantine", "redrive", "list", "--json").json["redrives"] == []


def test_a_discard_is_taken_back(copied: Headgate) -> None:
    """It is listed while it can come back, and is in quarantine again afterwards."""
    entry = str(_entry(copied, "empty")["entry"])
    assert copied("quarantine", "discard", entry, *BECAUSE).code == 0
    (gone,) = copied("quarantine", "list", "--discarded", "--json").json["entries"]
    assert (gone["entry"], gone["because"]) == (int(entry), BECAUSE[1])
    assert BECAUSE[1] in copied("quarantine", "list", "--discarded").out
    assert copied("quarantine", "undiscard", entry, "--dry-run", *BECAUSE).code == 0
    assert _entry(copied, "empty")["status"] == "rolled_back"
    assert copied("quarantine", "undiscard", "--all", *BECAUSE).code == 0
    assert _entry(copied, "empty")["status"] == "quarantined"
    again = copied("quarantine", "undiscard", entry, *BECAUSE)
    assert again.code == 2
    assert f"not discarded: {entry}" in again.err


def test_a_key_is_reset_by_somebody_who_says_why(lived: Headgate) -> None:
    """What it means is said first; the change of a finalized key runs as an entry of its own."""
    done = lived("entry", "list", "--status", "finalized", "--json").json["entries"][0]
    dry = lived("entry", "reset", done["key"][:12], "--dry-run")
    assert "takes the place of what readers see now" in dry.out
    assert lived("entry", "reset", done["key"]).code == 2
    said = lived("entry", "reset", done["key"], *BECAUSE, "--json").json
    assert (said["entry"], said["how"]) == (done["entry"], "run again")
    _up(lived)
    (publication,) = lived("publication", "list", "--uri", done["uri"], "--json").json[
        "publications"
    ]
    assert (publication["entry"], publication["version"]) == (said["runs"], 2)
    aside = str(_entry(lived, "bad")["entry"])
    refused = lived("entry", "reset", aside, *BECAUSE)
    assert refused.code == 2
    assert f"headgate quarantine release {aside}" in refused.err
    assert lived("verify").code == 0


def test_a_publication_is_reverted_by_its_line_in_the_journal(copied: Headgate) -> None:
    """The pointer of the registry is enough; the line of a failed attempt is refused."""
    rows = _sql(copied, "SELECT entry, wal_pointer, status FROM headgate.idempotency_log")
    good = next(r for r in rows if r["status"] == "success")
    dry = copied("publication", "revert", good["wal_pointer"], "--dry-run", "--json").json
    assert dry["reverts"] == good["entry"]
    bad = next(r for r in rows if r["status"] == "failure")
    refused = copied("publication", "revert", bad["wal_pointer"], "--dry-run")
    assert refused.code == 2
    assert "ended quarantined: it published nothing" in refused.err
    assert copied("explain", bad["wal_pointer"], "--json").json["entry"]["entry"] == bad["entry"]


def test_the_ledger_is_in_good_health(world: Headgate) -> None:
    """For CI: keys, indexes, dead rows, numbers, transactions and standbys are looked at."""
    said = world("doctor", "ledger", "--json")
    assert said.code == 0, said.out
    states = {c["name"]: c["state"] for c in said.json["checks"]}
    assert states.items() >= {
        "database": "ok", "schema": "ok", "tables": "ok", "indexes": "ok", "vacuum": "ok",
        "wraparound": "ok", "numbers": "ok", "transactions": "ok", "standby": "warn",
    }.items()  # fmt: skip
    assert "python" not in states


@pytest.mark.parametrize(
    ("sql", "name", "says"),
    [
        ("DROP INDEX headgate.publication_head", "indexes", "publication has lost its index"),
        ("DROP INDEX headgate.work_subject", "indexes", "work has lost its index work_subject"),
        (
            "ALTER TABLE headgate.entry DROP CONSTRAINT entry_pipeline_key_key",
            "indexes",
            "nothing keeps entry (pipeline, key) unique",
        ),
        (
            "UPDATE pg_index SET indisvalid = false"
            " WHERE indexrelid = 'headgate.journal_entry'::regclass",
            "indexes",
            "journal_entry of journal is invalid",
        ),
        (
            "ALTER TABLE headgate.call DROP CONSTRAINT call_pkey",
            "tables",
            "call has no primary key",
        ),
        ("ALTER TABLE headgate.tally SET UNLOGGED", "tables", "tally is UNLOGGED"),
        (
            "SELECT setval('headgate.worker_id_seq', 2000000000)",
            "numbers",
            "worker_id_seq has used 93.1% of its numbers",
        ),
    ],
)
def test_a_ledger_in_bad_health_fails_the_build(
    copied: Headgate, sql: str, name: str, says: str
) -> None:
    """Exit 1, with the table or the index by name and the way out."""
    _sql(copied, sql)
    said = copied("doctor", "ledger", "--json")
    assert said.code == 1
    found = [c for c in said.json["checks"] if c["state"] == "fail"]
    assert any(c["name"] == name and says in c["text"] and c["hint"] for c in found), found


def test_no_ledger_is_no_health(headgate: Headgate, bare: Headgate) -> None:
    """A build that looks at the wrong database does not pass."""
    for command in (headgate, bare):
        said: Callable[..., Any] = command
        assert said("doctor", "ledger").code == 1
