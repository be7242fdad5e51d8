"""A live runtime for browsers: `headgate up --serve` on pipelines in which everything happens.

Files that are good, broken, unchanged and told twice; names and errors that would be markup if
anybody let them; places on a map, in two versions; an upstream that is away; a gate that somebody
can shut, behind which nothing comes out twice the same.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
from tests.pg.processes import eventually

# What must show as text wherever it comes from: a name, an error, a payload.
SCRIPT = "<script>window.stolen=1</script>"
IMAGE = "<img src=x onerror=window.stolen=1>"

PIPELINES = """
import csv, json, time
from datetime import datetime
from pathlib import Path
from decimal import Decimal
from typing import TypedDict

import headgate as hg

later = hg.RetryPlan("upstream-event", 5, 7200, base_seconds=600, cap_seconds=600, jitter="full")
rain = hg.Pipeline(
    "rain", sources=[hg.Directory("incoming/", settle=0, every=0.2)], store="lake/", version="3",
    event_time=hg.EventTime(lateness="1h"), retry=later,
)


class Reading(TypedDict):
    station: str
    at: datetime
    mm: Decimal


@rain.validate
def has_rows(obj: hg.Object) -> None:
    text = obj.read().decode()
    if "away" in text:
        raise hg.Unavailable("the station registry does not answer", upstream="registry.example")
    if text.count("\\n") < 2:
        raise hg.Permanent(f"no readings in {text[:200]!r}")


@rain.rows("reading", key=("station", "at"), schema=Reading)
def readings(obj: hg.Object):
    yield from csv.DictReader(obj.lines())


soil = hg.Pipeline(
    "soil", sources=[hg.Directory("fields/", pattern="*.geojson", settle=0, every=0.2)],
    store="lake/", version="1",
    dataset=hg.Dataset("soil", title="Soil of some fields", license="CC-BY-4.0",
                       description="Samples of the upper 30 cm, by field"),
)


@soil.item
def describe(item, obj):
    said = json.loads(obj.read())["properties"]
    item["id"] = said["field"]
    item["properties"]["datetime"] = said["sampled"]


gauge = hg.Pipeline("gauge", sources=[hg.Directory("gauges/", settle=0, every=0.2)], store="lake/")


@gauge.validate
def opens(obj: hg.Object) -> None:
    if Path("shut").exists():
        raise hg.Permanent("the gate is shut")


@gauge.transform
def stamped(obj: hg.Object):
    return {"stamp.txt": str(time.time_ns()).encode()}
"""

HEADER = "station,at,mm\n"


def csv_of(station: str, hours: int, mm: str = "1.20") -> str:
    """A file of readings."""
    lines = [f"{station},2026-01-05T{hour:02}:00:00Z,{mm}" for hour in range(hours)]
    return HEADER + "\n".join(lines) + "\n"


def field_of(name: str, west: float, south: float, size: float, day: int = 1) -> str:
    """A square field on a map."""
    east, north = west + size, south + size
    ring = [[west, south], [east, south], [east, north], [west, north], [west, south]]
    return json.dumps(
        {
            "type": "Feature",
            "properties": {"field": name, "sampled": f"2026-03-{day:02}T09:30:00Z"},
            "geometry": {"type": "Polygon", "coordinates": [ring]},
        }
    )


FILES = {
    **{f"incoming/{s}.csv": csv_of(s, 6 + n) for n, s in enumerate(["oslo-1", "lima-2", "pune-5"])},
    "incoming/broken.csv": HEADER,
    f"incoming/{IMAGE.replace('/', '')}.csv": f"{SCRIPT}\n",
    "incoming/away.csv": "away\naway\naway\n",
    "fields/north.geojson": field_of("north", 7.44, 46.95, 0.02),
    "fields/south.geojson": field_of("south", 7.52, 46.90, 0.03, 2),
    "fields/hill.geojson": field_of("hill", 7.36, 46.99, 0.01, 3),
}


class Runtime:
    """A folder, a ledger, and the process that works and serves."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.database_url = database_url
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port: int = taken.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("HEADGATE_")},
            "HEADGATE_DATABASE_URL": database_url,
            "HEADGATE_SERVE_PORT": str(self.port),
            "HEADGATE_WORKERS": "1",
        }

    def put(self, name: str, content: str) -> None:
        """A file lands, whole."""
        part = self.folder / ".part"
        part.write_text(content)
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        part.rename(path)

    def run(self, *args: str) -> str:
        """One command of Headgate, to its end; what it said."""
        done = subprocess.run(
            [sys.executable, "-m", "headgate", *args],
            cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sql(self, query: str, *args: Any) -> list[tuple[Any, ...]]:
        """Ask the ledger itself."""
        # One link for all questions: most are asked again and again until the answer is yes.
        answer = self._link.execute(query, args)  # pyright: ignore[reportArgumentType]: a test's own
        return answer.fetchall() if answer.description else []

    @cached_property
    def _link(self) -> psycopg.Connection:
        return psycopg.connect(self.database_url, autocommit=True)

    def close(self) -> None:
        self._link.close()

    def settled(self) -> dict[str, int]:
        """How many entries there are of each outcome."""
        return dict(self.sql("SELECT status, count(*) FROM headgate.entry_state GROUP BY status"))


@contextmanager
def running(folder: Path, database_url: str) -> Iterator[Runtime]:
    """The runtime, once it serves and has worked off what lay there."""
    runtime = Runtime(folder, database_url)
    (folder / "pipelines.py").write_text(PIPELINES)
    (folder / "incoming").mkdir()
    (folder / "gauges").mkdir()
    for name, content in FILES.items():
        runtime.put(name, content)
    log = folder / "log"
    with log.open("w") as lines:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "headgate", "up", "pipelines.py", "--serve",
                "--log-format", "json",
            ],
            cwd=folder, env=runtime.env, stderr=lines, stdout=lines,
        )  # fmt: skip

    def first_settled() -> bool:
        assert process.poll() is None, log.read_text()
        return len(runtime.settled()) >= 3 and not {"received", "claimed"} & set(runtime.settled())

    try:
        eventually(lambda: '"serving"' in log.read_text(), seconds=60)
        eventually(first_settled, seconds=60)
        # The same again, a correction, and a touch: nothing, a second version, nothing.
        runtime.put("fields/north.geojson", field_of("north", 7.44, 46.95, 0.025, 4))
        runtime.put("incoming/oslo-1.csv", FILES["incoming/oslo-1.csv"])
        eventually(
            lambda: runtime.sql("SELECT 1 FROM headgate.publication WHERE version = 2") != [],
            seconds=60,
        )
        yield runtime
    finally:
        runtime.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
