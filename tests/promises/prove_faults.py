"""`headgate prove` finds what would happen twice, and names the line.

Each pipeline here has one fault, on the line that says so. It is played in a few worlds, those in
which the fault shows; one pipeline with several faults is played in all of them.
"""

from __future__ import annotations

import contextlib
import re
import socketserver
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headgate.errors import UsageError
from headgate.runtime.prove.proof import Proof
from headgate.testing import Prover, Unproved

pytest_plugins = ["headgate.testing.prove"]

BEGIN = """\
import asyncio, csv, glob, os, pathlib, random, smtplib, time, uuid
from datetime import UTC, date, datetime
from typing import TypedDict

import headgate as hg

rain = hg.Pipeline("rain", sources=[hg.Directory("incoming/")], store="lake/")


class Reading(TypedDict):
    station: str
    mm: str


"""
SAMPLES = {
    "oslo.csv": "station,mm\noslo-1,1.2\noslo-2,0.4\n",
    "bergen.csv": "station,mm\nbergen-3,14.8\n",
}
REPEATED = ("crash:handled#1",)


@dataclass(frozen=True)
class Fault:
    """What a handler does wrong: the body, the cause to be found, where it shows."""

    cause: str
    source: str
    only: tuple[str, ...] = REPEATED
    says: str = ""
    setup: str | None = None

    @property
    def text(self) -> str:
        return BEGIN + textwrap.dedent(self.source).lstrip("\n")

    @property
    def line(self) -> int:
        (number,) = (n for n, line in enumerate(self.text.splitlines(), 1) if "# fault" in line)
        return number


ROWS = '@rain.rows("reading", key="station", schema=Reading)\ndef readings(obj, run):\n'

FAULTS = {
    "a file that is appended to": Fault(
        "file",
        ROWS
        + """\
    with open("audit.log", "a") as audit:  # fault
        for row in csv.DictReader(obj.lines()):
            audit.write(f"{row['station']}\\n")
            yield row
""",
        says="audit.log: 5 lines, 3 expected",
    ),
    "a file of somebody else's": Fault(
        "file",
        ROWS
        + """\
    for row in csv.DictReader(obj.lines()):
        with pathlib.Path(os.environ["ELSEWHERE"], "audit.log").open("a") as audit:  # fault
            audit.write(f"{row['station']}\\n")
        yield row
""",
        says="lines, 3 expected",
    ),
    "a counter in a file": Fault(
        "file",
        ROWS
        + """\
    count = pathlib.Path("count.txt")
    so_far = int(count.read_text()) if count.exists() else 0
    count.write_text(str(so_far + 1))  # fault
    yield from csv.DictReader(obj.lines())
""",
        says="count.txt: says 3, 2 expected",
    ),
    "an e-mail": Fault(
        "mail",
        """
@rain.transform
def tell(obj, run):
    with smtplib.SMTP("127.0.0.1", int(os.environ["SINK"])) as post:
        post.sendmail("a@example.org", ["b@example.org"], f"Subject: {obj.name}\\n\\n")  # fault
    return {"told.txt": obj.name}
""",
        says="an e-mail was sent",
    ),
    "a row by psycopg, address from the environment": Fault(
        "database",
        """
import psycopg

@rain.transform
def save(obj, run):
    with psycopg.connect(os.environ["DATABASE_URL"]) as mine:  # fault
        mine.execute("INSERT INTO audit VALUES (%s)", (obj.name,))
    return {"saved.txt": obj.name}
""",
        setup="CREATE TABLE audit (name text)",
        says="table audit: 3 rows, 2 expected",
    ),
    "a row by asyncpg, address in the file": Fault(
        "database",
        """
import asyncpg

@rain.transform
async def save(obj, run):
    mine = await asyncpg.connect("postgresql://me:secret@db.example.org/production")  # fault
    await mine.execute("INSERT INTO audit VALUES ($1)", obj.name)
    await mine.close()
    return {"saved.txt": obj.name}
""",
        setup="CREATE TABLE audit (name text)",
        says="table audit: 3 rows, 2 expected",
    ),
    "the clock": Fault(
        "clock",
        ROWS
        + """\
    for row in csv.DictReader(obj.lines()):
        today = f"{datetime.now(UTC):%Y-%m-%d}"  # fault
        yield {"station": row["station"], "mm": today}
""",
        only=("clock:1",),
        says="table reading: 3 rows with other values in mm",
    ),
    "chance": Fault(
        "random",
        """
@rain.transform
def shuffle(obj, run):
    lines = obj.text().splitlines()
    name = uuid.uuid4().hex  # fault
    return {"lines.txt": name + lines[0]}
""",
        only=("random:1",),
        says="artifact lines.txt",
    ),
    "the order of a set": Fault(
        "hash",
        """
@rain.transform
def words(obj, run):
    seen = {word for word in obj.text().replace(",", " ").split()}
    listed = " ".join(seen)  # fault
    return {"words.txt": listed}
""",
        only=("hash:1",),
        says="artifact words.txt",
    ),
    "the order of a listing": Fault(
        "listing",
        """
@rain.transform
def neighbours(obj, run):
    names = os.listdir("incoming")  # fault
    return {"first.txt": names[0]}
""",
        only=("listing",),
        says="artifact first.txt",
    ),
    "what came earlier": Fault(
        "earlier",
        """
seen = []

@rain.transform
def number(obj, run):
    seen.append(obj.name)  # fault
    place = len(seen)
    return {"place.txt": str(place)}
""",
        only=("alone",),
        says="artifact place.txt",
    ),
    "who comes last": Fault(
        "order",
        """
@rain.apply
def latest(tx, obj, run):
    sql = "INSERT INTO latest VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET name = excluded.name"
    tx.execute(sql, obj.name)  # fault
""",
        only=("order",),
        setup="CREATE TABLE latest (id int PRIMARY KEY, name text)",
        says="table latest: 1 row with other values in name",
    ),
    "which attempt it is": Fault(
        "attempt",
        """
@rain.transform
def attempt(obj, run):
    made = f"attempt {run.attempt}"  # fault
    return {"attempt.txt": made}
""",
        says="artifact attempt.txt",
    ),
    "a call under another name each time": Fault(
        "call",
        """
@rain.transform
def ring(obj, run):
    run.call(f"ring-{run.attempt}", lambda: None)  # fault
    return {"rung.txt": "yes"}
""",
        says="made once for one sample, never expected",
    ),
}


@pytest.fixture(scope="module")
def sink() -> Iterator[int]:
    """The port of somebody who takes every e-mail and forgets it."""

    class Post(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(b"220 here\r\n")
            reading = False
            with contextlib.suppress(OSError):
                for line in self.rfile:
                    if reading:
                        reading = line != b".\r\n"
                        answer = b"" if reading else b"250 ok\r\n"
                    elif line.upper().startswith(b"DATA"):
                        reading, answer = True, b"354 go on\r\n"
                    else:
                        answer = (
                            b"221 bye\r\n" if line.upper().startswith(b"QUIT") else b"250 ok\r\n"
                        )
                    self.wfile.write(answer)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Post) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


@pytest.fixture
def place(tmp_path: Path, sink: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with samples, in an environment that names things which are not to be touched."""
    (tmp_path / "incoming").mkdir()
    for name, text in SAMPLES.items():
        (tmp_path / "incoming" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path.parent / f"{tmp_path.name}-elsewhere"
    elsewhere.mkdir()
    monkeypatch.setenv("ELSEWHERE", str(elsewhere))
    monkeypatch.setenv("SINK", str(sink))
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:secret@db.example.org/production")
    return tmp_path


def faults_of(prove: Prover, place: Path, fault: Fault) -> Proof:
    (place / "rain.py").write_text(fault.text)
    samples = [place / "incoming" / name for name in SAMPLES]
    return prove.proof(place / "rain.py", *samples, only=fault.only, setup=fault.setup)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_its_line_is_named(prove: Prover, place: Path, name: str) -> None:
    """What a handler does twice, or otherwise the second time, is found with its line."""
    fault = FAULTS[name]
    proof = faults_of(prove, place, fault)
    assert [(f.cause, f.at and f.at.line) for f in proof.findings] == [(fault.cause, fault.line)]
    assert fault.says in proof.findings[0].said


def test_another_machine_is_not_reached(prove: Prover, place: Path) -> None:
    """What a handler would send is not sent; it is said who wanted to, and how to allow it."""
    fault = Fault(
        "",
        """
import socket

@rain.transform
def send(obj, run):
    with socket.create_connection(("192.0.2.1", 25)) as far:
        far.sendall(obj.read())
    return {"sent.txt": "yes"}
""",
    )
    with pytest.raises(UsageError, match=r"rain.py:\d+ wants to reach 192.0.2.1:25") as error:
        faults_of(prove, place, fault)
    assert "--network" in error.value.hint


SEVERAL = Fault(
    "",
    """
import smtplib

seen = []

@rain.rows("reading", key="station", schema=Reading)
def readings(obj, run):
    with open("audit.log", "a") as audit:
        audit.write(f"{obj.name}\\n")
    seen.append(obj.name)
    for row in csv.DictReader(obj.lines()):
        yield {"station": row["station"], "mm": f"{len(seen)}"}

@rain.transform
def summary(obj, run):
    made = date.today()
    names = os.listdir("incoming")
    words = {word for word in obj.text().split()}
    chosen = random.choice(obj.text())
    first = [word for word in words]
    return {"day.txt": str(made), "names.txt": names[0], "chosen.txt": chosen, "w.txt": first[0]}
""",
)


@pytest.mark.timeout(400)  # some seventy worlds, on whatever machine
def test_many_faults_are_told_apart(prove: Prover, place: Path) -> None:
    """In all worlds, six causes are six findings, each with its line, and each with a fix."""
    (place / "rain.py").write_text(SEVERAL.text)
    samples = [place / "incoming" / name for name in SAMPLES]
    with pytest.raises(Unproved) as error:
        prove(place / "rain.py", *samples)
    said = str(error.value)
    found = dict(re.findall(r"^  \d  rain.py:(\d+)  (.*)$", said, re.MULTILINE))
    lines = SEVERAL.text.splitlines()
    told = {lines[int(line) - 1].strip(): title for line, title in found.items()}
    assert told == {
        'with open("audit.log", "a") as audit:': "appends to audit.log each time it runs",
        "seen.append(obj.name)": "makes table reading depend on what was delivered earlier",
        "made = date.today()": "makes day.txt depend on the clock",
        'names = os.listdir("incoming")': "makes names.txt depend on how a folder is listed",
        "chosen = random.choice(obj.text())": "makes chosen.txt depend on chance",
        "first = [word for word in words]": "makes w.txt depend on the order of a set",
    }
    assert said.count("Fix: ") == 6
    assert "Not proved: 6 faults." in said
