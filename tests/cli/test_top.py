"""`headgate top` and `headgate slo`: everything at one look."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest
from tests.cli.conftest import CLEAN, Headgate

from headgate.cli.scene import spark
from headgate.ledger.flow import Point


@dataclass
class Terminal:
    """A terminal with a person in front of it."""

    number: int
    process: subprocess.Popen[bytes]
    said: str = field(default="")

    def until(self, text: str) -> None:
        """Look at it until it shows something."""
        while text not in self.said:
            self.said += os.read(self.number, 65536).decode(errors="replace")

    def end(self) -> int:
        try:
            while more := os.read(self.number, 65536):
                self.said += more.decode(errors="replace")
        except OSError:  # the other end is closed
            pass
        return self.process.wait()


@contextmanager
def terminal(headgate: Headgate, *args: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", *args],
        cwd=headgate.folder,
        env={**CLEAN, **headgate.env, "TERM": "xterm-256color"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.mark.parametrize("key", [b"q", b"\x1b", None], ids=["q", "escape", "ctrl-c"])
def test_a_person_watches_and_leaves(world: Headgate, key: bytes | None) -> None:
    """It draws again by itself, ends at a key with exit 0, and leaves the terminal as it was."""
    with terminal(world, "top", "--every", "100ms") as shown:
        shown.until("rain")
        shown.until("in quarantine for")
        drawn = shown.said.count("q ends this")
        while shown.said.count("q ends this") < drawn + 3:
            shown.said += os.read(shown.number, 65536).decode(errors="replace")
        if key is None:
            shown.process.send_signal(signal.SIGINT)
        else:
            os.write(shown.number, key)
        assert shown.end() == 0
        assert "\x1b[?1049h" in shown.said  # a screen of its own
        assert shown.said.rstrip().endswith(("\x1b[?1049l", "\x1b[?25h"))  # and back


def test_one_look_says_what_is_wrong_first(world: Headgate) -> None:
    """What needs a person is above everything else, with what to type."""
    said = world("top", "--once")
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert "in quarantine for" in lines[0]
    assert "headgate quarantine list --pipeline rain" in said.out
    assert said.out.index("quarantine") < said.out.index("done/s")
    piped = world("top")  # without a terminal there is nobody to press q
    assert piped.code == 0
    assert "done/s" in piped.out


def test_programs_get_the_same_as_json(world: Headgate) -> None:
    """Streams, service levels, workers, what runs and what is wrong."""
    said = world("top", "--json")
    assert said.code == 0, said.err
    (stream,) = said.json["streams"]
    assert (stream["pipeline"], stream["finalized"], stream["quarantined"]) == ("rain", 2, 2)
    assert {w["kind"] for w in said.json["wrong"]} == {"aside"}
    assert {s["slo"] for s in said.json["slos"]} == {
        "duplicates", "double_applies", "latency", "dead_letters",
    }  # fmt: skip
    assert said.json["behind_commits"] == 0


def test_service_levels_are_shown_with_what_is_left_of_them(world: Headgate) -> None:
    """Each promise in words, how often it was broken, and whether that is too often."""
    said = world("slo")
    assert said.code == 0, said.err
    assert "nothing is applied twice" in said.out
    assert "kept" in said.out
    assert "95 % of entries end within 300 s" in said.out
    told = world("slo", "--pipeline", "rain", "--json").json
    aside = next(s for s in told["slos"] if s["slo"] == "dead_letters")
    assert (aside["total"], aside["bad"], aside["state"]) == (4, 2, "ok")  # too few to judge
    assert told["targets"]["latency_seconds"] == 300
    strict = world("slo", "--json", HEADGATE_SLO_LATENCY_SECONDS="10m").json
    assert strict["targets"]["latency_seconds"] == 600
    assert "No pipeline" in world("slo", "--pipeline", "snow").out


def test_a_row_of_bars_is_as_high_as_its_busiest_minute() -> None:
    """Nothing is a dot, and something is at least the lowest bar."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    points = [Point(at, finalized=n) for n in (0, 0, 1, 0, 700, 0)]
    assert spark(points) == "·▁█"
    assert spark([]) == ""
