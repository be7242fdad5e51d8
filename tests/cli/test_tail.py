"""Following changes in a terminal, and by a program."""

from __future__ import annotations

import json
import signal
from typing import Any

from tests.cli.conftest import Headgate, Said


def _lines(said: Said) -> list[Any]:
    assert said.code == 0, said.err
    return [json.loads(line) for line in said.out.splitlines()]


def test_each_change_is_a_line(world: Headgate) -> None:
    """For people what, whose and where; for programs everything, one document a line."""
    people = world("tail", "--no-follow")
    assert people.code == 0
    assert len(people.out.splitlines()) == 4
    assert "published v1" in people.out
    assert "quarantined" in people.out
    everything = _lines(world("tail", "--no-follow", "--json", "--since", "1d"))
    assert len(everything) == 4
    assert {c["outcome"] for c in everything} == {"finalized", "quarantined"}
    assert all(c["change_event_id"] == c["cursor"] for c in everything)


def test_it_goes_on_where_it_ended(world: Headgate) -> None:
    """A program that kept the cursor misses nothing and reads nothing twice."""
    everything = _lines(world("tail", "--no-follow", "--json", "--since", "1d"))
    second = everything[1]["cursor"]
    rest = _lines(world("tail", "--no-follow", "--json", "--after", second))
    assert rest == everything[2:]
    last = _lines(world("tail", "--no-follow", "--json", "--last", "1"))
    assert last == everything[3:]
    wrong = world("tail", "--no-follow", "--after", "yesterday")
    assert wrong.code == 2
    assert "no place in the change feed" in wrong.err


def test_it_can_be_narrowed(world: Headgate) -> None:
    """By outcome, pipeline and place."""
    bad = _lines(world("tail", "--no-follow", "--json", "--outcome", "quarantined"))
    assert len(bad) == 2
    assert _lines(world("tail", "--no-follow", "--json", "--pipeline", "snow")) == []
    one = _lines(world("tail", "--no-follow", "--json", "--uri", bad[0]["source_uri"]))
    assert one == bad[:1]


def test_it_follows_until_it_is_interrupted(copied: Headgate) -> None:
    """What ends later appears; Ctrl-C ends it well and says how to go on."""
    end = _lines(copied("tail", "--no-follow", "--json", "--last", "1"))[0]["cursor"]
    (bad, _) = _lines(copied("tail", "--no-follow", "--json", "--outcome", "quarantined"))
    following = copied.start("tail", "--json", "--after", end)
    assert following.stdout is not None
    try:
        entry = str(bad["entry"])
        assert copied("quarantine", "discard", entry, "--because", "a test").code == 0
        told = json.loads(following.stdout.readline())
        assert (told["entry"], told["outcome"]) == (bad["entry"], "rolled_back")
        following.send_signal(signal.SIGINT)
        _, err = following.communicate(timeout=20)
        assert following.returncode == 0
        assert f"headgate tail --after {told['cursor']}" in err
    finally:
        following.kill()
