"""The demo's world: a folder of rain gauges, and a source that misbehaves in every usual way.

The same files come out every time, so a second run has nothing new to tell. The true sum is
computed from the files by code that knows nothing of Headgate.
"""

from __future__ import annotations

import csv
import os
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from urllib.parse import unquote

from headgate.model.envelope import Envelope, ordinal

from .starter import RAIN

STATIONS = ("bergen-3", "lagos-7", "lima-2", "oslo-1", "pune-5", "quito-4")
FIRST = date(2026, 1, 1)
DAYS = 10
CORRECTED = ("oslo-1", "lima-2")
TOUCHED = ("bergen-3", "pune-5", "quito-4")

# The pipeline that `headgate init` writes, only more impatient.
PIPELINE = RAIN.replace(
    'hg.Directory("incoming/")', 'hg.Directory("incoming/", settle="300ms", every="200ms")'
)


class World:
    """A folder with a pipeline and its files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.incoming = folder / "incoming"
        self.pipeline = folder / "rain.py"

    @property
    def is_new(self) -> bool:
        return not self.pipeline.exists()

    def build(self) -> int:
        """The pipeline and its files, as far as they are not there; how many files arrived."""
        self.incoming.mkdir(parents=True, exist_ok=True)
        (self.folder / "headgate.toml").write_text('home = ".headgate"\n')
        if self.is_new:
            self.pipeline.write_text(PIPELINE)
        arrived = 0
        for station in STATIONS:
            for n in range(DAYS):
                arrived += self._write(self._file(station, n), _rows(station, n))
        return arrived

    def misbehave(self) -> None:
        """Touch files, correct files, drop broken ones: what sources do all day."""
        now = time.time()
        for station in TOUCHED:
            os.utime(self._file(station, 0), (now, now))
        for station in CORRECTED:
            file = self._file(station, 1)
            corrected = _rows(station, 1)[:-1]
            corrected[0] = (corrected[0][0], corrected[0][1] + Decimal("10.0"))
            if file.read_text() != _csv(station, corrected):
                self._replace(file, _csv(station, corrected))
        self._write_text(self.incoming / "empty.csv", "")
        self._write_text(
            self.incoming / "broken.csv", "station,at,mm\noslo-1,yesterday at noon,a lot\n"
        )

    def late(self) -> Envelope:
        """The first version of a corrected file, delivered once more, long after its correction."""
        station = CORRECTED[0]
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return Envelope(
            event_id=f"late-{station}",
            source="file:created",
            provider="file",
            detector="event",
            uri=self._file(station, 1).resolve().as_uri(),
            event_time=at,
            received_at=at,
            sequence=ordinal(0),
            data=_csv(station, _rows(station, 1)).encode(),
        )

    def size(self, uri: str) -> int:
        """How large the file behind a uri is."""
        return Path(unquote(uri.removeprefix("file://"))).stat().st_size

    def truth(self) -> Decimal:
        """The sum of all readings, from the files that can be read."""
        total = Decimal(0)
        for file in sorted(self.incoming.glob("*-*.csv")):
            with file.open(newline="") as lines:
                total += sum((Decimal(row["mm"]) for row in csv.DictReader(lines)), Decimal(0))
        return total

    def _file(self, station: str, n: int) -> Path:
        return self.incoming / f"{station}-{FIRST + timedelta(days=n)}.csv"

    def _write(self, file: Path, rows: Sequence[tuple[datetime, Decimal]]) -> int:
        if file.exists():
            return 0
        station = file.name[: -len("-2026-01-01.csv")]
        return self._write_text(file, _csv(station, rows))

    def _write_text(self, file: Path, text: str) -> int:
        if file.exists():
            return 0
        self._replace(file, text)
        return 1

    def _replace(self, file: Path, text: str) -> None:
        # As a careful sender does it: a half-written file is never seen under its name.
        part = file.with_suffix(".part")
        part.write_text(text)
        part.rename(file)


def _rows(station: str, n: int) -> list[tuple[datetime, Decimal]]:
    start = datetime.combine(FIRST, datetime.min.time(), UTC) + timedelta(days=n)
    seed = sum(station.encode()) + 31 * n
    return [
        (start + timedelta(hours=6 * k), Decimal((seed * (k + 3) * 37) % 240) / 10)
        for k in range(4)
    ]


def _csv(station: str, rows: Sequence[tuple[datetime, Decimal]]) -> str:
    lines = [f"{station},{at.isoformat()},{mm}" for at, mm in rows]
    return "\n".join(["station,at,mm", *lines]) + "\n"
