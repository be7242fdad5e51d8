"""A folder under a running `up`: files that grow, appear, change and vanish."""

from __future__ import annotations

import os
import signal
import time

from tests.pg.processes import eventually
from tests.promises.processes import Place


def test_a_file_that_is_still_being_written_is_not_picked_up(place: Place) -> None:
    """It grows for a while under a running `up`, and is taken once: whole."""
    place.declare(settle=0.6)
    place.put("first")
    up = place.up(until_idle=False)
    eventually(lambda: place.finalized() == 1)
    lines = [f"line {n}\n" for n in range(10)]
    with (place.incoming / "growing").open("w") as file:
        for line in lines:
            file.write(line)
            file.flush()
            time.sleep(0.1)  # slower than the scans, quicker than the file may settle
    eventually(lambda: place.finalized() == 2)
    up.signal(signal.SIGTERM)
    up.ends()
    grown = "SELECT text FROM reading WHERE name = 'growing'"
    assert place.query(grown) == [("".join(lines),)]
    place.is_exact(["first", "growing"])


def test_files_that_appear_change_and_vanish_are_followed(place: Place) -> None:
    """Each version has its effect once; a touched file has none; what vanishes leaves its rows."""
    place.put("a")
    up = place.up(until_idle=False)
    eventually(lambda: place.outcomes("a") == ["finalized"])
    place.put("b")
    eventually(lambda: place.outcomes("b") == ["finalized"])
    place.put("a", text="other text")
    eventually(lambda: place.outcomes("a") == ["finalized"] * 2)
    assert dict(place.query("SELECT name, text FROM reading")) == {
        "a": "other text of a",
        "b": "some text of b",
    }
    os.utime(place.incoming / "b")
    eventually(lambda: place.outcomes("b") == ["finalized", "skipped"])
    (place.incoming / "a").unlink()
    eventually(lambda: place.outcomes("a") == ["finalized", "finalized", "skipped"])
    place.put("a", text="third text")
    eventually(lambda: place.outcomes("a")[3:] == ["finalized"])
    up.signal(signal.SIGTERM)
    up.ends()
    reasons = "SELECT reason FROM headgate.journal WHERE outcome = 'skipped' ORDER BY batch"
    assert place.query(reasons) == [("unchanged",), ("kept",)]
    versions = "SELECT uri, version FROM headgate.publication WHERE successor IS NULL"
    heads = {uri.rpartition("/")[2]: version for uri, version in place.query(versions)}
    assert heads == {"a": 3, "b": 1}
    applied = place.query("SELECT name, count(*) FROM applied GROUP BY 1 ORDER BY 1")
    assert applied == [("a", 3), ("b", 1)]
    place.verifies()
    place.is_tidy()


def test_a_file_that_is_gone_before_it_is_read_ends_in_quarantine(place: Place) -> None:
    """It was there when it was noticed. After a few tries a person is told; the rest goes on."""
    place.put("gate-1", *(f"plain-{n}" for n in range(3)))
    up = place.up(until_idle=False, tuning={"concurrency": 1})
    eventually(lambda: place.noted("waiting"))
    place.put("missing-1")
    eventually(lambda: place.query("SELECT * FROM headgate.entry WHERE uri LIKE '%missing-1'"))
    (place.incoming / "missing-1").unlink()
    place.open_gate()
    eventually(lambda: place.finalized() == 4)
    eventually(lambda: place.query("SELECT * FROM headgate.quarantine"))
    up.signal(signal.SIGTERM)
    up.ends()
    found = place.query("SELECT class, reason FROM headgate.quarantine")
    assert found == [("missing", "missing_object")]
    place.verifies()
    place.is_tidy()
