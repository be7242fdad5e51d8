"""A pipeline in a process of its own, watched: the witness cannot be taken back from a process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import scratch

ROOT = Path(__file__).parents[3]
CLOCK = 1_781_697_600.0
BEGIN = """\
from typing import TypedDict
import headgate as hg
p = hg.Pipeline("p", retry=hg.RetryPlan("upstream-event", 2, 60, 0.01, 0.02, "full"))
class Fact(TypedDict):
    name: str
    value: str
"""


@dataclass(frozen=True)
class Seen:
    """What came out of a process, and what its witness saw."""

    facts: dict[str, str]
    artifacts: list[tuple[str, str]]
    outcomes: list[str]
    records: list[dict[str, Any]]
    folder: Path
    source: list[str]

    def of(self, what: str) -> list[dict[str, Any]]:
        """The records of one kind that a handler is behind."""
        return [r for r in self.records if r["what"] == what and r["handler"]]

    def line(self, code: str) -> int:
        """The number of the line with this code."""
        (found,) = [n for n, line in enumerate(self.source, 1) if code in line]
        return found


class Watched:
    """Plays a pipeline's source on samples."""

    def __init__(self, server: str, folder: Path, home: Path) -> None:
        self._server = server
        self._folder = folder
        self._numbers = itertools.count(1)
        self.home = home  # the user's own files

    def __call__(
        self,
        source: str,
        samples: Mapping[str, str] | None = None,
        *,
        after: Seen | None = None,
        clock: float | None = CLOCK,
        seed: int = 1,
        hash_seed: int = 0,
        listing: str = "sorted",
        concurrency: int = 4,
        trace: bool = False,
        witness: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Seen:
        """Play it in a world of its own, or in the one that was there `after` another play."""
        number = next(self._numbers)
        name = f"watched_{os.getpid()}_{id(self)}_{number}"
        url = scratch.create(self._server, name, "template_world")
        folder = after.folder if after is not None else self._folder / f"world-{number}"
        for part in ("work", "lake"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        text = BEGIN + textwrap.dedent(source).replace("HOME", str(self.home))
        (folder / "work" / "p.py").write_text(text)
        job = {
            "folder": str(folder), "home": str(self.home), "samples": samples or {"a": "a"},
            "url": url, "clock": clock, "seed": seed,
            "listing": listing, "trace": trace, "witness": witness, "concurrency": concurrency,
        }  # fmt: skip
        # As text: a file of ours would pass for the user's.
        child = Path(__file__).with_name("watched_child.py").read_text()
        ended = subprocess.run(
            [sys.executable, "-c", child, json.dumps(job)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": str(hash_seed)}
            | dict(env or {}),
            capture_output=True,
            text=True,
            timeout=100,
        )
        assert ended.returncode == 0, ended.stderr
        told = json.loads((folder / "told").read_text())
        log = folder / "log"
        records = [json.loads(r) for r in log.read_text().splitlines()] if witness else []
        artifacts = [tuple(a) for a in told["artifacts"]]
        lines = text.splitlines()
        scratch.drop(url)
        return Seen(told["facts"], artifacts, told["outcomes"], records, folder, lines)


@pytest.fixture
def watched(worlds_server: str, tmp_path: Path) -> Iterator[Watched]:
    """A way to play pipelines; its `home` is a folder of the user's that must stay as it is."""
    # On disk: the kernel's fence lets everybody write below /dev, where memory has its files.
    with tempfile.TemporaryDirectory(prefix="hg-home-", dir="/tmp") as home:
        yield Watched(worlds_server, tmp_path, Path(home))
