"""A worker that slept through its lease wakes up, changes nothing, and says so."""

from __future__ import annotations

import os
import signal

from tests.pg.processes import eventually
from tests.promises.processes import Place, metric

SHORT = {"lease_seconds": 1.0, "heartbeat_seconds": 0.2}


def test_a_worker_stopped_past_its_lease_changes_nothing_when_it_wakes_up(place: Place) -> None:
    """Another one finished its entry meanwhile. It is recorded as fenced, and works on."""
    place.put("gate-1")
    up = place.up(until_idle=False, tuning={"workers": 2, **SHORT})
    eventually(lambda: place.noted("waiting"))
    sleeper = int(place.noted("waiting")[0])
    os.kill(sleeper, signal.SIGSTOP)
    eventually(lambda: len(place.noted("waiting")) == 2)
    assert int(place.noted("waiting")[1]) != sleeper
    place.open_gate()
    eventually(lambda: place.outcomes("gate-1") == ["waiting", "finalized"])
    os.kill(sleeper, signal.SIGCONT)
    eventually(lambda: place.outcomes("gate-1") == ["waiting", "finalized", "fenced"])
    registered = "SELECT buried_why FROM headgate.worker WHERE pid = $1 ORDER BY id"
    eventually(lambda: place.query(registered, sleeper) == [("lease expired",), (None,)])
    up.signal(signal.SIGTERM)
    said = up.ends()
    assert metric(said, "headgate_fenced_total") == 1
    assert place.query(registered, sleeper) == [("lease expired",), ("stopped",)]
    place.is_exact(["gate-1"])


def test_a_worker_that_wakes_up_while_another_has_its_entry_does_not_take_it(place: Place) -> None:
    """Both have the same entry in hand. The one with the older fence comes first and is refused."""
    place.put("gate-1")
    up = place.up(until_idle=False, tuning={"workers": 2, **SHORT, "lease_seconds": 2.0})
    eventually(lambda: place.noted("waiting"))
    os.kill(sleeper := int(place.noted("waiting")[0]), signal.SIGSTOP)
    eventually(lambda: len(place.noted("waiting")) == 2)
    os.kill(holder := int(place.noted("waiting")[1]), signal.SIGSTOP)
    place.open_gate()
    os.kill(sleeper, signal.SIGCONT)
    eventually(lambda: len(place.outcomes("gate-1")) > 1)
    os.kill(holder, signal.SIGCONT)
    eventually(lambda: "finalized" in place.outcomes("gate-1"))
    up.signal(signal.SIGTERM)
    up.ends()
    assert place.outcomes("gate-1")[:2] == ["waiting", "fenced"]
    place.is_exact(["gate-1"])


def test_a_worker_stopped_inside_its_commit_does_not_stop_the_others(place: Place) -> None:
    """It holds locks while it sleeps. The others get them after a while, and it is fenced."""
    place.put("late_gate-1")
    up = place.up(until_idle=False, tuning={"workers": 2, "apply_seconds": 3.0, **SHORT})
    eventually(lambda: place.noted("waiting"))
    sleeper = int(place.noted("waiting")[0])
    os.kill(sleeper, signal.SIGSTOP)
    place.put("plain-1")
    eventually(lambda: len(place.noted("waiting")) == 2, seconds=20)
    place.open_gate()
    eventually(lambda: place.finalized() == 2)
    os.kill(sleeper, signal.SIGCONT)
    eventually(lambda: place.outcomes("late_gate-1")[-1] == "fenced")
    up.signal(signal.SIGTERM)
    up.ends()
    place.is_exact(["late_gate-1", "plain-1"])
