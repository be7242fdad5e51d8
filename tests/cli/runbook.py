"""What a runbook tells a person on call to type."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "runbooks" / "reliability"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)


def commands(page: str) -> list[list[str]]:
    """What a page calls `headgate` with, word by word, in its order."""
    text = "\n".join(BLOCK.findall((PAGES / page).read_text()))
    lines = (line.removeprefix("$ ") for line in text.splitlines())
    return [shlex.split(line)[1:] for line in lines if line.startswith("headgate ")]
