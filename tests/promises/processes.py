"""`up` as it is run: processes of their own on a folder of their own, watched from outside.

A `Place` is a folder with `incoming/`, `lake/` and a pipeline whose handlers do what the name of
a file says. What the handlers did leaves a line in `notes/`, however their process ended.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from tests.pg.processes import eventually
from tests.promises import warm

from headgate.pg import Database
from headgate.runtime.sweep import Sweeper
from headgate.runtime.tuning import Tuning
from headgate.runtime.verify import verify

PIPELINE = '''
import ctypes, os, signal, time
from typing import TypedDict

import headgate as hg

load = hg.Pipeline(
    "load",
    sources=[hg.Directory("incoming", settle=SETTLE, every=0.05)],
    store="lake",
    dataset=DATASET,
    retry=hg.RetryPlan("upstream-event", 3, 3600, 0.01, 0.02, "full"),
)


class Reading(TypedDict):
    name: str
    text: str


def name_of(obj):
    return obj.uri.rpartition("/")[2]


def note(what, text):
    """Durable before the next line runs: appended in one write."""
    fd = os.open(f"notes/{what}", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{text}\\n".encode())
    os.close(fd)


def first_time(what):
    try:
        os.close(os.open(f"notes/once-{what}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def wait_for(what):
    note("waiting", os.getpid())
    while not os.path.exists(f"notes/{what}"):
        time.sleep(0.01)


@load.validate
def is_text(obj):
    if obj.read().startswith(b"poison"):
        raise hg.Permanent("poison")


@load.rows("reading", key="name", schema=Reading)
def readings(obj, run):
    name = name_of(obj)
    if not name.startswith("late_kill"):
        note("begun", name)
    word, _, rest = name.partition("-")
    match word:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "kill_once" if first_time(name):
            os.kill(os.getpid(), signal.SIGKILL)
        case "fail_once" if first_time(name):
            raise hg.Retryable("not yet")
        case "hold":
            ctypes.PyDLL(None).usleep(int(rest) * 1000)  # keeps the GIL all the while
        case "stuck" if first_time(name):
            ctypes.CDLL(None).sleep(600)
        case "gate":
            wait_for("open")
        case "slow":
            time.sleep(0.02)
    if word == "call":
        run.call("ring", lambda key: note("rung", f"{name} {key}"))
    note("ended", name)
    yield {"name": name, "text": obj.text()}


@load.transform
def shout(obj, run):
    return {"shout.txt": obj.text().upper().encode()}


@load.apply
def tally(tx, obj, run):
    if name_of(obj).startswith("late_kill"):
        note("begun", name_of(obj))
        os.kill(os.getpid(), signal.SIGKILL)
    if name_of(obj).startswith("late_gate"):
        wait_for("open")
    tx.execute("INSERT INTO applied VALUES ($1)", name_of(obj))
'''


class Up:
    """A running `up`."""

    def __init__(self, place: Place, **told: Any) -> None:
        self._place = place
        self.log = place.folder / f"up-{len(list(place.folder.glob('up-*.log')))}.log"
        self._out = self.log.with_suffix(".out")
        tuning = {"poll_seconds": 0.02, "sweep_seconds": 0.2, "max_wait_seconds": 10.0}
        settings = {
            "url": None if place.own else place.url,
            "home": str(place.home),
            "targets": ["load.py"],
            "until_idle": True,
            "crash_at": "",
            "die_at": "",
            "release": False,
            "deaf": False,
        }
        settings |= told | {"tuning": tuning | told.get("tuning", {})}
        with self.log.open("wb") as log, self._out.open("wb") as out:
            self.process = warm.start(settings, place.folder, out.fileno(), log.fileno())

    def wait(self, seconds: float = 40.0) -> dict[str, Any]:
        """What it said when it ended by itself."""
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            picture = self._place.picture()
            raise AssertionError(f"up did not end:\n{self.said()}\n{picture}") from None
        out = self._out.read_text()
        return json.loads(out) if out else {}

    def ends(self, code: int = 0) -> dict[str, Any]:
        said = self.wait()
        assert self.process.returncode == code, f"{said}\n{self.said()}"
        return said

    def said(self) -> str:
        return self.log.read_text()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def died_children(self) -> list[str]:
        """The kinds of children that were killed with -9."""
        lines = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return [x["kind"] for x in lines if x["event"] == "child ended" and x["code"] == -9]


class Place:
    """A folder, a ledger, and the files that go in."""

    def __init__(self, folder: Path, url: str, *, own: bool = False) -> None:
        """`url` is where the ledger is; with `own` it is the embedded one in `home`."""
        self.folder = folder
        self.home = folder / "home"
        self.url = url
        self.own = own
        self._loop: asyncio.AbstractEventLoop | None = None
        self._link: asyncpg.Connection | None = None
        self.incoming = folder / "incoming"
        self.lake = folder / "lake"
        self.notes = folder / "notes"
        for made in (self.incoming, self.notes):
            made.mkdir()
        self.declare()
        self.query("CREATE TABLE applied (name text)")

    def declare(self, *, settle: float = 0, dataset: str | None = None) -> None:
        """Write the pipeline's file. With a dataset it is catalogued: that is a process more."""
        self.catalogued = dataset is not None
        text = PIPELINE.replace("SETTLE", str(settle)).replace("DATASET", repr(dataset))
        (self.folder / "load.py").write_text(text)

    def put(self, *names: str, text: str = "some text") -> None:
        """Files appear, whole."""
        for name in names:
            draft = self.folder / f"draft-{name}"
            draft.write_text(f"{text} of {name}")
            draft.rename(self.incoming / name)

    def up(self, **told: Any) -> Up:
        return Up(self, **told)

    def run(self, **told: Any) -> dict[str, Any]:
        """`up --until-idle`, which has to succeed."""
        return self.up(**told).ends()

    def noted(self, what: str) -> list[str]:
        try:
            return (self.notes / what).read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []

    def open_gate(self) -> None:
        (self.notes / "open").touch()

    def query(self, sql: str, *args: Any) -> list[tuple[Any, ...]]:
        """Ask the ledger, over a connection of its own."""
        if self._loop is None:
            rows = asyncio.run(self._query(sql, *args))
        else:
            rows = self._loop.run_until_complete(self._query(sql, *args))
        return [tuple(row) for row in rows]

    async def _query(self, sql: str, *args: Any) -> list[asyncpg.Record]:
        link = self._link or await asyncpg.connect(self.url)
        try:
            return await link.fetch(sql, *args)
        finally:
            if self._loop is None:
                await link.close()
            else:
                self._link = link

    @contextmanager
    def kept_link(self) -> Iterator[Place]:
        """One connection for all questions, where nobody stops the server."""
        self._loop = asyncio.new_event_loop()
        try:
            yield self
        finally:
            if self._link is not None:
                self._loop.run_until_complete(self._link.close())
            self._loop.close()

    def attempts(self) -> dict[str, int]:
        """What each finalized file was charged."""
        return {
            uri.rpartition("/")[2]: attempt
            for uri, attempt in self.query(
                "SELECT e.uri, j.attempt FROM headgate.journal j"
                " JOIN headgate.entry e ON e.id = j.entry WHERE j.outcome = 'finalized'"
            )
        }

    def finalized(self) -> int:
        ((count,),) = self.query(
            "SELECT count(*) FROM headgate.journal WHERE outcome = 'finalized'"
        )
        return count

    def leased(self) -> int:
        ((count,),) = self.query("SELECT count(*) FROM headgate.work WHERE worker IS NOT NULL")
        return count

    def outcomes(self, name: str) -> list[str]:
        """How a file's attempts ended, in order."""
        rows = self.query(
            "SELECT j.outcome::text FROM headgate.journal j JOIN headgate.entry e ON e.id = j.entry"
            " WHERE e.uri LIKE '%/' || $1 ORDER BY j.batch, j.n",
            name,
        )
        return [outcome for (outcome,) in rows]

    def is_exact(self, names: list[str]) -> None:
        """Each of these files has one effect of each kind, no other has any, and it verifies."""
        wanted = dict.fromkeys(names, 1)
        assert Counter(n for (n,) in self.query("SELECT name FROM reading")) == wanted
        assert Counter(n for (n,) in self.query("SELECT name FROM applied")) == wanted
        counted = [("publication", "true"), ("journal", "outcome = 'finalized'")]
        for table, of in [*counted, *([("item", "true")] if self.catalogued else [])]:
            entry = "SELECT e.uri FROM headgate.entry e JOIN headgate." + table
            rows = self.query(f"{entry} t ON t.entry = e.id WHERE {of}")
            assert Counter(uri.rpartition("/")[2] for (uri,) in rows) == wanted, table
        assert self.query("SELECT * FROM headgate.work") == []
        self.verifies()
        self.is_tidy()

    def verifies(self) -> None:
        """`headgate verify` finds nothing."""

        async def audit() -> None:
            async with await Database.open(self.url) as db:
                report = await verify(db, deep=True)
            assert report.ok, report.violations

        asyncio.run(audit())

    def sweep(self) -> None:
        """One round of sweeping, for which everything is old enough."""

        async def sweep() -> None:
            async with await Database.open(self.url) as db:
                await Sweeper(db, Tuning(grace_seconds=0)).sweep()

        asyncio.run(sweep())

    def is_tidy(self) -> None:
        """Nothing is left behind: no process, and no bytes that the ledger does not know of."""
        eventually(lambda: not self.processes())
        kept = {bytes(d).hex() for (d,) in self.query("SELECT digest FROM headgate.object")}
        staging = self.lake / "staging" / "sha256"
        assert {file.name for file in staging.glob("*/*")} <= kept

    def picture(self) -> str:
        """What is going on, for whoever has to find out why nothing does."""
        asked = (
            "SELECT * FROM headgate.work",
            "SELECT * FROM headgate.worker",
            "SELECT entry, fence, outcome, reason FROM headgate.journal ORDER BY batch, n",
            "SELECT pid, state, wait_event, query FROM pg_stat_activity"
            " WHERE datname = current_database()",
        )
        found = [f"{sql}\n{self.query(sql)}" for sql in asked]
        return "\n".join([*found, f"processes {self.processes()}", f"begun {self.noted('begun')}"])

    def spools(self) -> list[str]:
        return os.listdir(self.lake / "staging" / "tmp")

    def processes(self, kind: str = "") -> list[int]:
        """Processes that work in this folder; of one kind of child if asked for."""
        found: list[int] = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(folder / "cwd") != str(self.folder):
                    continue
                if kind and not is_called(folder, kind):
                    continue
            except OSError:
                continue
            found.append(int(folder.name))
        return sorted(found)


def is_called(process: Path, kind: str) -> bool:
    """Is this process, a folder of /proc, a child of a supervisor for such a job?"""
    return (process / "comm").read_text().startswith(f"hg-{kind}")


def metric(said: dict[str, Any], name: str) -> float:
    """The sum over a metric's series."""
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", said["metrics"], re.MULTILINE)
    return sum(float(value) for value in found)
