"""The demo's world: a folder of rain gauges, and the scripts that take their files in.

The same files come out every time, so a second run has nothing new to tell.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from headgate.cli.starter import RAIN
from headgate.errors import UsageError

from .scripts import SCRIPTS

STATIONS = ("bergen-3", "lagos-7", "lima-2", "oslo-1", "pune-5", "quito-4", "riga-8", "suva-6")
FIRST_DAY = date(2026, 1, 1)
ROWS_PER_FILE = 4
FILES = 400
BROKEN = "broken.csv"
LIVELY = "live-"
BROKEN_TEXT = "station,at,mm\noslo-1,2026-02-30T06:00:00Z,a lot\n"

# The pipeline that `headgate init` writes, only more impatient.
PIPELINE = RAIN.replace(
    'rain = hg.Pipeline("rain", sources=[hg.Directory("incoming/")], store="lake/", version="1")\n',
    """\
again = hg.RetryPlan("upstream-event", 8, 3600, base_seconds=0.5, cap_seconds=2, jitter="full")
rain = hg.Pipeline(
    "rain", sources=[hg.Directory("incoming/")], store="lake/", version="1", retry=again
)
""",
)

SETTINGS = "headgate.toml"
_MARK = "# The world of `headgate demo`. Remove the folder when you are done with it.\n"
_SETTINGS = _MARK + 'home = ".headgate"\nworkers = 2\nlog_level = "warning"\n'
_OURS = SCRIPTS.keys() | {
    SETTINGS, "rain.py", "deliveries.txt", "sent", "incoming", "lake", "naive", "up.log",
    "serve.log",
    "__pycache__",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Truth:
    """What the files say, by the script that knows nothing of Headgate."""

    sums: dict[str, Decimal]
    rows: dict[str, int]

    @property
    def total(self) -> Decimal:
        return sum(self.sums.values(), Decimal(0))


class World:
    """A folder with senders' files, the place where they land, and three consumers."""

    def __init__(self, folder: Path, files: int | None) -> None:
        self.folder = folder.resolve()
        self.sent = self.folder / "sent"
        self.incoming = self.folder / "incoming"
        _refuse_foreign_files(folder)
        self.is_new = not (folder / "rain.py").exists()
        there = len(list(self.sent.glob("*.csv"))) if not self.is_new else 0
        if files is not None and there and there != files:
            raise UsageError(
                f"{folder} was made with {there} files, not with {files}",
                hint=f"Leave out --files, or choose another folder: {_elsewhere(folder)}",
            )
        self.files = [_name(n) for n in range(there or files or FILES)]
        self.touched, self.corrected = self.files[1], self.files[2]

    def build(self) -> None:
        """Write what is missing. A world that was built only in part is completed."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # First: it says whose folder this is.
        for name, text in {SETTINGS: _SETTINGS, **SCRIPTS}.items():
            (self.folder / name).write_text(text)
        for folder in (self.sent, self.incoming, self.folder / "naive"):
            folder.mkdir(exist_ok=True)
        for n, name in enumerate(self.files):
            if not (self.sent / name).exists():
                self._write(self.sent / name, _csv(n))
        # Last: a folder with a pipeline has all its files.
        if self.is_new:
            (self.folder / "rain.py").write_text(PIPELINE)

    def forget_the_naive(self) -> None:
        """They begin at nought in every run: a file corrected since would look like their error."""
        shutil.rmtree(self.folder / "naive", ignore_errors=True)
        (self.folder / "naive").mkdir()

    def truth(self, folder: Path) -> Truth:
        """What the files of a folder say, in a process of its own."""
        done = subprocess.run(
            [sys.executable, "truth.py", folder.name, "--each"],
            cwd=self.folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
        lines = [line.split() for line in done.stdout.splitlines()]
        return Truth(
            {name: Decimal(mm) for name, _, mm in lines},
            {name: int(rows) for name, rows, _ in lines},
        )

    def land(self, name: str) -> None:
        """The file as it was sent is in `incoming/`. One that is there already is left alone."""
        text, there = (self.sent / name).read_text(), self.incoming / name
        if not there.exists() or there.read_text() != text:
            self._write(there, text)

    def break_one(self) -> bool:
        """A file that is no rain gauge's lands; False when it is there since."""
        there = self.incoming / BROKEN
        if there.exists():
            return False
        self._write(there, BROKEN_TEXT)
        return True

    def put(self, name: str, text: str) -> None:
        """This file lands, in place of any of that name."""
        self._write(self.incoming / name, text)

    def touch(self) -> None:
        """A file has a new date and the same bytes."""
        os.utime(self.incoming / self.touched)

    def correct(self) -> bool:
        """A file is sent again without its last row; False when it was before."""
        text = "\n".join(_csv(self.files.index(self.corrected)).splitlines()[:-1]) + "\n"
        if (self.sent / self.corrected).read_text() == text:
            return False
        self._write(self.sent / self.corrected, text)
        self.land(self.corrected)
        return True

    def _write(self, path: Path, text: str) -> None:
        # As a careful sender does it: a half-written file is never seen under its name.
        part = self.folder / ".incoming.part"
        part.write_text(text)
        part.rename(path)


def _refuse_foreign_files(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file", hint=f"Name a folder: {_elsewhere(folder)}")
    if not folder.exists():
        return
    there, settings = {p.name for p in folder.iterdir()}, folder / SETTINGS
    marked = settings.is_file() and settings.read_text(errors="replace").startswith(_MARK)
    # Hidden names are ours too, or those of the user's tools.
    ours = _OURS | {name for name in there if name.startswith(".")} if marked else set[str]()
    foreign = sorted(there - ours)
    if marked and "incoming" in there:
        known = {BROKEN, *(p.name for p in (folder / "sent").glob("*.csv"))}
        names = {p.name for p in (folder / "incoming").iterdir()} - known
        names = {name for name in names if not name.startswith(LIVELY)}
        foreign += sorted(f"incoming/{name}" for name in names)
    if foreign:
        said = ", ".join(foreign[:3]) + (", …" if len(foreign) > 3 else "")
        raise UsageError(
            f"{folder} holds what is not this demo's: {said}; nothing was written",
            hint=f"Take that away, or choose another folder: {_elsewhere(folder)}",
        )


def _elsewhere(folder: Path) -> str:
    return f"headgate demo {shlex.quote(f'{folder}-2')}"


def _name(n: int) -> str:
    day = FIRST_DAY + timedelta(days=n // len(STATIONS))
    return f"{STATIONS[n % len(STATIONS)]}-{day}.csv"


def _csv(n: int) -> str:
    chance, station = random.Random(n), STATIONS[n % len(STATIONS)]
    day = datetime.combine(FIRST_DAY, datetime.min.time(), UTC)
    day += timedelta(days=n // len(STATIONS))
    lines = ["station,at,mm"]
    for k in range(ROWS_PER_FILE):
        mm = Decimal(chance.randrange(25, 2400)) / 100
        lines.append(f"{station},{day + timedelta(hours=6 * k):%Y-%m-%dT%H:%M:%SZ},{mm:.2f}")
    return "\n".join(lines) + "\n"
