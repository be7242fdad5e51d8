"""The ledger or the disk goes away and comes back: nothing is lost, nothing is done twice."""

from __future__ import annotations

import os
import random
import string
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from tests.pg.processes import eventually, kill, server_pid
from tests.promises.processes import Place, metric
from tests.promises.wire import wire
from tests.stores.disks import small_disk
from tests.world import World, change, until

import headgate as hg
from headgate.errors import LedgerUnavailable
from headgate.ledger import FUNCTIONS, MIGRATIONS, inbox
from headgate.pg import Database, embedded, migrate
from headgate.runtime import station

MANY = [f"slow-{n:02}" for n in range(40)]


def test_a_server_killed_again_and_again_under_load_loses_nothing(new_place: Path) -> None:
    """kill -9 of Postgres, three times in the middle of it. Workers go on by themselves."""
    with embedded.start(new_place / "home") as server:
        place = Place(new_place, server.url, own=True)
        place.put(*MANY[:10])
        up = place.up(until_idle=False, tuning={"workers": 2})
        for at in (10, 20, 30):
            eventually(lambda: _finalized(place) >= at - 5, seconds=30)  # noqa: B023
            place.put(*MANY[at : at + 10])
            kill(server_pid(place.home / "postgres" / "data"))
        eventually(lambda: _finalized(place) == 40, seconds=30)
        up.process.terminate()
        said = up.ends()
        assert metric(said, "headgate_ledger_outages_total") > 0
        place.is_exact(MANY)
        assert set(place.attempts().values()) == {1}, "an outage is nobody's fault"


async def test_a_receipt_outlives_the_server(new_place: Path) -> None:
    """kill -9 of Postgres right after a delivery was acknowledged: it is there when it is back."""
    with embedded.start(new_place / "home") as server:
        async with await Database.open(server.url) as db:
            await migrate.migrate(db, MIGRATIONS, FUNCTIONS)
            pipeline = hg.Pipeline("p", store=str(new_place / "lake"))
            at = await station.register(db, pipeline)
            began = await db.fetchval("SELECT pg_postmaster_start_time()")
            receipt = await inbox.receive(db, at, "test", [change("a", b"1")])
            kill(server_pid(new_place / "home" / "postgres" / "data"))
            assert receipt.admitted == 1
            await until(lambda: _is_back(db, began), seconds=30)
            assert await db.fetchval("SELECT count(*) FROM headgate.work") == 1


@pytest.mark.parametrize(("stranger", "waits"), [(0, "off"), (1, "on")])
async def test_no_commit_runs_ahead_behind_a_pooler(
    world: World, stranger: int, waits: str
) -> None:
    """A pooler could hide a crash: a session that did not greet us waits for the disk."""
    async with world.db.transaction() as link:
        greeted_by = link.raw.get_server_pid()
        await link.fetchval(f"SELECT 1 {inbox.AHEAD.format(1)}", greeted_by + stranger)
        assert await link.fetchval("SHOW synchronous_commit") == waits


def test_a_server_killed_under_a_running_apply_charges_nobody(new_place: Path) -> None:
    """The handler's own statement fails because Postgres is gone: that is no fault of the entry."""
    with embedded.start(new_place / "home") as server:
        place = Place(new_place, server.url, own=True)
        place.put("late_gate-1")
        up = place.up()
        eventually(lambda: place.noted("waiting"))
        kill(server_pid(place.home / "postgres" / "data"))
        place.open_gate()
        up.ends()
        place.is_exact(["late_gate-1"])
        assert place.outcomes("late_gate-1") == ["finalized"]


def test_a_lost_reply_to_commit_is_neither_repeated_nor_forgotten(place: Place) -> None:
    """The transaction is done, the answer never comes: its effects are there once."""
    place.put("gate-1", "gate-2", "plain-1")
    with wire(place.url) as between:
        up = place.up(url=between.url)
        eventually(lambda: len(place.noted("waiting")) == 2)
        between.lose = b"finalize"
        place.open_gate()
        up.ends()
        assert between.lost == 1
    place.is_exact(["gate-1", "gate-2", "plain-1"])
    assert place.outcomes("gate-1") == ["finalized"], "known to be done, so not tried again"
    assert place.outcomes("gate-2") == ["finalized"]


def test_a_lost_reply_to_a_claim_leaves_nothing_stuck(place: Place) -> None:
    """Entries are claimed and their worker does not know: it gives them back, uncharged."""
    with wire(place.url) as between:
        between.lose = b"headgate.claim("
        place.put(*MANY[:5])
        place.run(url=between.url)
        assert between.lost == 1
    place.is_exact(MANY[:5])
    assert set(place.attempts().values()) == {1}
    lost = "SELECT count(*) > 0 FROM headgate.journal WHERE reason = 'claim_unknown'"
    assert place.query(lost) == [(True,)]


def test_a_full_store_is_waited_out(place: Place) -> None:
    """No space left for bytes: the entries are tried again until there is, and none is given up."""
    with small_disk(place.lake, "4m"):
        ballast = _fill(place.lake)
        place.put("plain-1", "plain-2", "plain-3")
        up = place.up()
        eventually(lambda: "waiting" in place.outcomes("plain-1"), seconds=20)
        ballast.unlink()
        up.ends()
        place.is_exact(["plain-1", "plain-2", "plain-3"])
        assert place.query("SELECT * FROM headgate.quarantine") == []


def test_a_full_disk_under_the_ledger_is_waited_out(new_place: Path) -> None:
    """Postgres cannot write: whoever needs it waits. Space is freed, and everything goes on."""
    with small_disk(new_place / "home", "200m") as home:
        home.chmod(0o711)
        with embedded.start(home) as server:
            place = Place(new_place, server.url, own=True)
            place.put("plain-1")
            up = place.up(until_idle=False)
            eventually(lambda: _finalized(place) == 1)
            ballast = _fill(home)
            large = [f"large-{n}" for n in range(4)]
            noise = random.Random(1)
            for name in large:
                text = "".join(noise.choices(string.printable, k=300_000))
                place.put(name, text=text)
            eventually(lambda: "is away" in up.said())
            assert _finalized(place) < 5
            ballast.unlink()
            eventually(lambda: _finalized(place) == 5, seconds=40)
            up.process.terminate()
            said = up.ends()
            assert metric(said, "headgate_ledger_outages_total") > 0
            place.is_exact(["plain-1", *large])


def test_a_ledger_that_is_away_when_up_starts_is_named(new_place: Path) -> None:
    """Nothing is started against a database that is down; the message says where it was sought."""
    with embedded.start(new_place / "home") as server:
        place = Place(new_place, server.url)
        place.put("plain-1")
        said = place.up(url="postgresql://postgres@127.0.0.1:1/none").ends(2)
        assert said["error"] == "LedgerUnavailable"
        assert "127.0.0.1" in said["text"]
        assert "Bring the database back" in said["hint"]
        place.run()
        place.is_exact(["plain-1"])


async def _is_back(db: Database, began: datetime) -> bool:
    """Another server, that is: a backend may answer for a moment after its postmaster is dead."""
    with suppress(LedgerUnavailable):
        return await db.fetchval("SELECT pg_postmaster_start_time()") > began
    return False


def _finalized(place: Place) -> int:
    """Counted as soon as there is somebody to ask."""
    with suppress(OSError, Exception):
        return place.finalized()
    return 0


def _fill(disk: Path) -> Path:
    """Use up all space there is."""
    ballast = disk / "ballast"
    with ballast.open("wb") as file, suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(4096))
    return ballast


pytestmark = pytest.mark.timeout(100)
