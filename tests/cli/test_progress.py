"""Long commands say how far they are."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from headgate.cli import progress as module
from headgate.cli.progress import progress

SOME = """
from headgate.cli.progress import progress
with progress("Verifying") as told:
    for n in range(0, 1001, 100):
        told(n, 1000, "Verifying entries")
        import time; time.sleep(0.03)
"""


def test_a_terminal_shows_how_far_it_is_and_how_long_it_takes() -> None:
    """A bar with a count and an estimate, gone when the command is done."""
    ours, theirs = pty.openpty()
    child = subprocess.Popen([sys.executable, "-c", SOME], stderr=theirs, env={"TERM": "xterm"})
    os.close(theirs)
    said = b""
    try:
        while more := os.read(ours, 65536):
            said += more
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait() == 0
    text = said.decode()
    assert "Verifying entries" in text
    assert "of 1,000" in text
    assert "left" in text


def test_a_log_shows_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing for a short command; for a long one how far it is and how long it will take."""
    with progress("Verifying") as told:
        told(1, 10)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(module, "SAY_SECONDS", 0.0)
    with progress("Verifying") as told:
        told(0, 4)
        told(2, 4)
        told(7, None, "Listing")
    first, second, third = capsys.readouterr().err.splitlines()
    assert first == "Verifying: 0 of 4"
    assert second.startswith("Verifying: 2 of 4, about ")
    assert third == "Listing: 7"
