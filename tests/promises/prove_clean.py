"""`headgate prove` has nothing to say about handlers that are right.

More than twenty of them, several in each pipeline, in the worlds that repeat and reorder.
"""

from __future__ import annotations

import csv
import http.server
import json
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headgate.testing import Prover

pytest_plugins = ["headgate.testing.prove"]

SAMPLES = {
    "oslo.csv": "station,mm\noslo-1,1.2\noslo-2,0.4\noslo-3,7\n",
    "bergen.csv": "station,mm\nbergen-3,14.8\nbergen-1,2\n",
    "odd.csv": "",
}
# What repeats a handler, what reorders it, and another weather of each kind.
WORLDS = (
    "crash:handled#2", "crash:called#1", "fails", "raced", "order", "clock:1", "random:1", "hash:1",
    "listing",
)  # fmt: skip

BEGIN = """\
import asyncio, csv, dataclasses, functools, gzip, io, json, logging, os, pathlib, pickle, random
import re, sqlite3, subprocess, tempfile, time, urllib.request, uuid, zipfile
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TypedDict

import headgate as hg

p = hg.Pipeline("p", sources=[hg.Directory("incoming/")], store="lake/")


class Reading(TypedDict):
    station: str
    mm: Decimal


"""

# Each is a pipeline; each function in it is a handler that is right.
RIGHT = {
    "rows": (
        """
        @p.validate
        def has_rows(obj):
            if obj.size == 0:
                raise hg.Permanent("empty file")

        p.validate(hg.JsonSchema({"required": ["station", "mm"]}, each="line"))

        @p.validate
        def numbers(obj):
            for line in obj.lines():
                yield hg.Check("numbers", json.loads(line)["mm"] >= "0", examined=1)

        @p.rows("reading", key="station", schema=Reading)
        def readings(obj, run):
            yield from map(json.loads, obj.lines())

        class Total(TypedDict):
            name: str
            total: Decimal
            made_for: int
            key: str
            day: date

        @p.rows("total", key="name", schema=Total)
        async def totals(obj, run):
            await asyncio.sleep(0)
            amounts = [Decimal(json.loads(line)["mm"]) for line in obj.lines()]
            yield {"name": obj.name, "total": sum(amounts), "made_for": run.entry, "key": run.key,
                   "day": obj.event_time.date()}
        """,
        None,
    ),
    "artifacts": (
        """
        words = re.compile(r"[a-z]+")

        @p.transform
        def packed(obj, run):
            return {"packed.gz": gzip.compress(obj.read(), mtime=0)}

        @p.transform
        def archive(obj, run):
            made = io.BytesIO()
            with zipfile.ZipFile(made, "w") as archive:
                archive.writestr(zipfile.ZipInfo(obj.name, (2026, 1, 1, 0, 0, 0)), obj.read())
            yield hg.Artifact("archive.zip", made.getvalue(), "application/zip")

        @p.transform
        def vocabulary(obj, run):
            return {"words.txt": " ".join(sorted(set(words.findall(obj.text()))))}

        @p.transform
        def neighbours(obj, run):
            return {"names.txt": " ".join(sorted(os.listdir("incoming")))}

        @p.transform
        def spooled(obj, run):
            with tempfile.NamedTemporaryFile("w+") as draft:
                draft.write(obj.text().upper())
                draft.seek(0)
                return {"loud.txt": draft.read()}

        @p.transform
        def chosen(obj, run):
            chance = random.Random(obj.digest)
            return {"chosen.txt": f"{chance.random()} {uuid.uuid5(uuid.NAMESPACE_URL, run.key)}"}
        """,
        None,
    ),
    "sql": (
        """
        @p.apply
        def tally(tx, obj, run):
            tx.execute("INSERT INTO tally VALUES (1, 1) ON CONFLICT (id)"
                       " DO UPDATE SET n = tally.n + 1")

        @p.apply
        def arrival(tx, obj, run):
            tx.execute("INSERT INTO arrival (name, seen) VALUES ($1, clock_timestamp())", obj.name)

        @p.apply(independent=True)
        async def audit(tx, obj, run):
            known = await tx.fetchval("SELECT count(*) FROM audit WHERE name = $1", obj.name)
            tx.later("INSERT INTO audit (name, n) VALUES ($1, $2)", obj.name, known)
        """,
        "CREATE TABLE tally (id int PRIMARY KEY, n int);"
        "CREATE TABLE arrival (id serial, at timestamptz DEFAULT now(), name text,"
        " seen timestamptz);"
        "CREATE TABLE audit (id uuid DEFAULT gen_random_uuid(), name text, n bigint)",
    ),
    "calls": (
        """
        @p.transform
        def post(obj, run):
            def send(key):
                asked = urllib.request.Request(
                    os.environ["SINK"], data=obj.read(), method="POST",
                    headers={"Idempotency-Key": key})
                with urllib.request.urlopen(asked) as answer:
                    return answer.status
            return {"answer.txt": str(run.call("post", send))}

        @p.transform
        async def book(obj, run):
            async def place(key):
                await asyncio.sleep(0)
                return "booked"
            return {"booked.txt": await run.call("book", place, undo=lambda key: None)}

        @p.transform
        def note(obj, run):
            def write(key):
                with open("notes.log", "a") as notes:
                    notes.write(key)
            run.call("note", write)
            return {"noted.txt": "yes"}
        """,
        None,
    ),
    "looking around": (
        """
        import psycopg

        limits = json.loads(pathlib.Path("limits.json").read_text())
        log = logging.getLogger("rain")

        @functools.cache
        def limit(station):
            with psycopg.connect(os.environ["DATABASE_URL"]) as mine:
                found = mine.execute("SELECT most FROM limits WHERE name = 'all'").fetchone()
            return found[0] + limits.get(station, 0)

        @p.rows("reading", key="station", schema=Reading)
        def bounded(obj, run):
            for row in csv.DictReader(obj.lines()):
                yield {"station": row["station"], "mm": limit(row["station"])}

        @p.transform
        def timed(obj, run):
            began, wall = time.perf_counter(), datetime.now(UTC)
            length = len(obj.text())
            log.warning("took %s, at %s", time.perf_counter() - began, wall)
            print("by", os.getpid(), wall)
            return {"length.txt": str(length)}

        @p.transform
        def by_program(obj, run):
            made = subprocess.run(["sort"], input=obj.read(), capture_output=True, check=True)
            return {"sorted.txt": made.stdout}
        """,
        "CREATE TABLE limits (name text, most int); INSERT INTO limits VALUES ('all', 5)",
    ),
    "tools": (
        """
        @dataclasses.dataclass(frozen=True)
        class Row:
            station: str
            mm: Decimal
            at: datetime

        def parse(row):
            return Row(row["station"], Decimal(row["mm"]), datetime(2026, 1, 5, tzinfo=UTC))

        @p.transform
        def aggregated(obj, run):
            with sqlite3.connect(":memory:") as db:
                db.execute("CREATE TABLE r (station text, mm text)")
                rows = [(r["station"], r["mm"]) for r in csv.DictReader(obj.lines())]
                db.executemany("INSERT INTO r VALUES (?, ?)", rows)
                (total,) = db.execute("SELECT count(*) FROM r").fetchone()
            return {"total.json": json.dumps({"total": total})}

        @p.transform
        def pickled(obj, run):
            rows = [parse(row) for row in csv.DictReader(obj.lines())]
            again = pickle.loads(pickle.dumps(rows))
            assert again == rows and all(isinstance(r.at, datetime) for r in again)
            return {"rows.txt": repr(again)}

        @p.transform
        def in_threads(obj, run):
            with ThreadPoolExecutor(4) as pool:
                loud = list(pool.map(str.upper, obj.text().splitlines()))
            return {"loud.txt": "\\n".join(loud)}

        @p.transform
        def cached(obj, run):
            cache = pathlib.Path("cache")
            cache.mkdir(exist_ok=True)
            known = cache / obj.digest
            if not known.exists():
                draft = known.with_suffix(".draft")
                draft.write_text(obj.text().upper())
                draft.replace(known)
            return {"cached.txt": known.read_text()}

        @p.transform
        def deadline(obj, run):
            due = obj.event_time + timedelta(days=3)
            kept = run.params.get("days", 3)
            return {"due.txt": f"{due:%Y-%m-%d} {kept} {run.version} {run.pipeline}"}
        """,
        None,
    ),
}


@pytest.fixture(scope="module")
def sink() -> Iterator[str]:
    """The address of somebody who takes what is posted."""

    class Taker(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Taker) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.mark.parametrize("name", RIGHT)
def test_handlers_that_are_right_are_proved(
    prove: Prover, sink: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No false alarm, and nothing in the user's folder has changed."""
    source, setup = RIGHT[name]
    (tmp_path / "incoming").mkdir()
    for sample, text in SAMPLES.items():
        as_json = "".join(f"{json.dumps(row)}\n" for row in csv.DictReader(text.splitlines()))
        (tmp_path / "incoming" / sample).write_text(as_json if name == "rows" else text)
    (tmp_path / "p.py").write_text(BEGIN + textwrap.dedent(source))
    (tmp_path / "limits.json").write_text('{"oslo-1": 3}')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SINK", sink)
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@db.example.org/production")
    samples = [tmp_path / "incoming" / sample for sample in SAMPLES]
    proof = prove(tmp_path / "p.py", *samples, setup=setup, only=WORLDS)
    endings = [ending.outcome for ending in proof.reference.state.endings.values()]
    empty = "quarantined" if name == "rows" else "finalized"
    assert endings == ["finalized", "finalized", empty], "it did something at all"
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before
