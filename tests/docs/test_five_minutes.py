"""The page that makes one function safe does what it says, word for word."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import asyncpg
from tests.world import World

PAGE = (Path(__file__).parents[2] / "docs/how-to/make-one-function-safe.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def told() -> list[tuple[str, str]]:
    """Each command that a reader types, and what the page says it prints."""
    text = "".join(block for kind, block in BLOCKS if kind == "console")
    pieces = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(command, said) for command, _, said in (piece.partition("\n") for piece in pieces)]


class Shell:
    """Where the reader types."""

    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEADGATE_", "PYTEST_"))}
        self._environ = {**kept, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    def type(self, command: str) -> str:
        """What it prints; the reader's own database is another than the page's."""
        if command.startswith("pip "):
            return ""  # it is installed
        if command.startswith("export HEADGATE_DATABASE_URL="):
            self._environ["HEADGATE_DATABASE_URL"] = self._url
            return ""
        # A second command, so that the shell lives to say that the first one was killed.
        done = subprocess.run(
            ["bash", "-c", f"{command}\n:"],
            cwd=self._folder,
            env=self._environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
        )
        return re.sub(r"^bash: line .* (Killed) .*$", r"\1", done.stdout, flags=re.MULTILINE)


async def test_the_five_minutes(world: World, tmp_path: Path) -> None:
    """Its file is saved, its commands are typed, and they print what is on the page."""
    await world.db.execute("CREATE DATABASE five_minutes")
    url = re.sub(r"world_\d+", "five_minutes", world.url)
    (code,) = [block for kind, block in BLOCKS if kind == "python"]
    (tmp_path / "pay.py").write_text(code)
    shell = Shell(tmp_path, url)
    typed = told()
    assert len(typed) > 8
    for command, said in typed:
        expected = ".*\n".join(re.escape(part) for part in said.split("…\n"))
        printed = shell.type(command)
        assert re.fullmatch(expected, printed, re.DOTALL), f"{command}\n{printed}"
    connection = await asyncpg.connect(url)
    paid = await connection.fetch("SELECT order_id, cents FROM payment ORDER BY order_id")
    await connection.close()
    assert [tuple(row) for row in paid] == [("A17", 500), ("B18", 700), ("C19", 100), ("D20", 50)]
