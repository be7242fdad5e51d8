"""The supervisor: whatever a handler does, it is charged for it, and nobody else is."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.pg.processes import eventually, settled
from tests.promises.processes import Place
from tests.world import World

from headgate.pg import embedded
from headgate.runtime import nest
from headgate.runtime.job import Job
from headgate.runtime.ledger_home import Ledger
from headgate.runtime.nest import Nest
from headgate.runtime.tuning import Tuning

MANY = [f"slow-{n:02}" for n in range(30)]
STOPPING = """
import os, pathlib, signal
import headgate as hg

load = hg.Pipeline(
    "load",
    sources=[hg.Directory("incoming", settle=0, every=0.05)],
    store="lake",
    retry=hg.RetryPlan("upstream-event", 3, 3600, 0.01, 0.02, "full"),
)

@load.transform
def stop(obj):
    if os.path.exists("stopped"):
        return
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name, _, rest = (process / "stat").read_text(errors="replace").rpartition(")")
        except OSError:  # it has ended meanwhile
            continue
        if int(rest.split()[1]) == os.getppid() and name.endswith("(hg-nest"):
            os.kill(int(process.name), signal.SIGSTOP)
            pathlib.Path("stopped").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
ROWS = """
from typing import TypedDict
import headgate as hg

load = hg.Pipeline("load", sources=[hg.Directory("incoming", settle=0, every=0.05)], store="lake")

class Row(TypedDict):
    name: str

@load.rows("seen", key="name", schema=Row)
def rows(obj):
    yield {"name": obj.name}
"""
PLUGIN = """
with open("/proc/self/comm") as comm, open("loaded", "a") as loaded:
    loaded.write(comm.read())

class Plugin:
    def new_schema_validator(self, *args, **kwargs):
        return None, None, None

plugin = Plugin()
"""
PLAIN = """
import subprocess, sys
import headgate as hg

load = hg.Pipeline("load", sources=[hg.Directory("incoming", settle=0, every=0.05)], store="lake")

@load.transform
def look(obj):
    look = (
        "import os; print(*os.environ);"
        "[print(n, os.readlink('/proc/self/fd/' + n)) for n in os.listdir('/proc/self/fd')"
        " if os.path.exists('/proc/self/fd/' + n)]"
    )
    out = subprocess.run([sys.executable, "-c", look], capture_output=True, close_fds=False)
    with open("seen", "wb") as file:
        file.write(out.stdout)
"""


def written(world: World, monkeypatch: pytest.MonkeyPatch, pipeline: str) -> Path:
    """A file of this text in the folder where we are from now on, and something for it to do."""
    file = world.folder / "load.py"
    file.write_text(pipeline)
    (world.incoming / "a.txt").write_text("1")
    monkeypatch.chdir(world.folder)
    return file


@pytest.mark.parametrize("killer", ["kill-1", "late_kill-1"])
def test_a_handler_that_kills_its_process_is_quarantined_after_exactly_the_cap(
    place: Place, killer: str
) -> None:
    """It runs three times, as the plan says. Thirty neighbours in its processes pay nothing."""
    place.put(*MANY[:15], killer, *MANY[15:])
    place.run(tuning={"workers": 2, "concurrency": 4})
    begun = place.noted("begun").count(killer)
    assert begun == 3
    found = place.query("SELECT class, reason, attempts FROM headgate.quarantine")
    assert found == [("exhausted", "worker_lost", 3)]
    place.is_exact(MANY)
    assert set(place.attempts().values()) == {1}


def test_a_handler_past_its_deadline_is_killed_and_charged(place: Place) -> None:
    """Stuck in C code, where nothing else would stop it. Its neighbours run on, uncharged."""
    place.put("stuck-1", *MANY)
    place.run(tuning={"deadline_seconds": 0.4})
    place.is_exact(["stuck-1", *MANY])
    assert place.outcomes("stuck-1") == ["waiting", "finalized"]
    assert place.query("SELECT reason FROM headgate.journal WHERE outcome = 'waiting'") == [
        ("deadline_exceeded",)
    ]
    attempts = place.attempts()
    assert attempts.pop("stuck-1") == 2
    assert set(attempts.values()) == {1}


def test_a_handler_that_holds_the_gil_longer_than_the_lease_is_left_alone(place: Place) -> None:
    """Its process cannot say that it lives; the supervisor does, and nothing is buried."""
    place.put("hold-2500")
    place.run(tuning={"lease_seconds": 1.0, "heartbeat_seconds": 0.2})
    place.is_exact(["hold-2500"])
    assert place.outcomes("hold-2500") == ["finalized"]
    assert place.query("SELECT buried_why FROM headgate.worker") == [("stopped",)]


def test_sigterm_lets_handlers_finish_and_gives_back_the_rest(place: Place) -> None:
    """What runs is finished, what has not begun is given back uncharged, and nothing stays held."""
    place.put(*MANY[:20])
    up = place.up(until_idle=False, tuning={"concurrency": 2})
    eventually(lambda: place.finalized() == 20)
    gates, rest = ["gate-1", "gate-2"], MANY[20:]
    place.put(*gates)
    eventually(lambda: len(place.noted("waiting")) == 2)
    place.put(*rest)
    eventually(lambda: place.leased() == 12)
    up.signal(signal.SIGTERM)
    eventually(lambda: place.leased() == 2)
    place.open_gate()
    up.ends(0)
    assert not place.processes()
    assert place.finalized() == 22
    held = place.query("SELECT worker, attempts, count(*) FROM headgate.work GROUP BY 1, 2")
    assert held == [(None, 0, 10)]
    place.run()
    place.is_exact([*MANY, *gates])
    assert set(place.attempts().values()) == {1}


def test_a_second_sigterm_stops_at_once_and_charges_nobody(place: Place) -> None:
    """Who asks twice does not wait for a handler. Its entry is given back as it was."""
    place.put("gate-1")
    up = place.up(until_idle=False)
    eventually(lambda: place.noted("waiting"))
    up.signal(signal.SIGTERM)
    eventually(lambda: not place.processes("watch"))
    assert place.processes("work"), "it waits for the handler"
    asked_at = time.monotonic()
    up.signal(signal.SIGTERM)
    up.ends(0)
    assert time.monotonic() - asked_at < 5
    assert place.query("SELECT worker, attempts FROM headgate.work") == [(None, 0)]
    place.open_gate()
    place.run()
    place.is_exact(["gate-1"])
    assert place.attempts() == {"gate-1": 1}


def test_children_stop_by_themselves_after_kill_9_of_the_supervisor(place: Place) -> None:
    """They give back what they hold, uncharged: nobody waits for a lease of fifteen minutes."""
    place.put("gate-1", *MANY[:5])
    up = place.up(until_idle=False, tuning={"drain_seconds": 0.2, "concurrency": 1})
    eventually(lambda: place.noted("waiting"))
    up.process.kill()
    up.wait()
    eventually(lambda: not place.processes())
    assert place.leased() == 0
    place.open_gate()
    place.run()
    place.is_exact(["gate-1", *MANY[:5]])
    assert set(place.attempts().values()) == {1}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is forked")
def test_who_kills_what_children_are_forked_off_harms_nobody(place: Place) -> None:
    """Those that live go on, and a worker that dies afterwards is followed by another."""
    place.put("gate-1")
    up = place.up(until_idle=False)
    eventually(lambda: place.noted("waiting"))
    (forked_off,) = place.processes("nest")
    os.kill(forked_off, signal.SIGKILL)
    place.open_gate()
    eventually(lambda: place.finalized() == 1)
    place.put("kill_once-1", *MANY[:5])
    eventually(lambda: place.finalized() == 7)
    assert place.processes("nest") != [forked_off]
    up.signal(signal.SIGTERM)
    up.ends(0)
    assert not place.processes()
    place.is_exact(["gate-1", "kill_once-1", *MANY[:5]])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is forked")
async def test_what_children_are_forked_off_may_be_stopped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not answer any more: the next child comes out of another one, and soon."""
    monkeypatch.setattr(nest, "HATCH_SECONDS", 0.5)
    pipeline = written(world, monkeypatch, STOPPING)
    assert await world.up(pipeline) == []
    assert (world.folder / "stopped").exists()
    assert await world.outcomes() == {"waiting:worker_lost": 1, "finalized": 1}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is forked")
def test_a_child_that_is_asked_to_stop_before_it_has_begun_stops(
    ledger: str, tmp_path: Path
) -> None:
    """Also in the moment between its fork and its first line."""
    with Nest() as place_of_birth:
        for _ in range(10):
            control, control_end = os.pipe()
            life_end, life = os.pipe()
            job = Job("watch", (), Ledger(ledger, tmp_path), Tuning(), control_end, life_end)
            child = place_of_birth.start(job)
            child.signal(signal.SIGTERM)
            eventually(lambda child=child: os.waitpid(child.pid, os.WNOHANG)[0])
            for fd in (control, control_end, life, life_end):
                os.close(fd)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is forked")
def test_up_starts_where_the_end_of_children_is_ignored(place: Place) -> None:
    """Some launchers leave SIGCHLD ignored, and whoever they start inherits that."""
    place.put("a", "b")
    place.run(deaf=True)
    place.is_exact(["a", "b"])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody is forked")
@pytest.mark.parametrize("beside", [True, False])
async def test_plugins_of_pydantic_run_in_the_children_alone(
    world: World, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    """What children are forked off runs nobody else's code: it could start threads."""
    pipeline = written(world, monkeypatch, ROWS)
    folder = world.folder if beside else world.folder / "plugins"
    about = folder / "loud-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pydantic]\nloud = loud:plugin\n")
    (folder / "loud.py").write_text(PLUGIN)
    if not beside:
        monkeypatch.setenv("PYTHONPATH", str(folder))
    assert await world.up(pipeline) == []
    assert await world.outcomes() == {"finalized": 1}
    loaded = (world.folder / "loaded").read_text().split()
    assert sorted(loaded) == ["hg-check-1", "hg-watch-2", "hg-work-3"]


async def test_what_else_is_installed_cannot_keep_children_from_starting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that says nonsense about itself, a loop that cannot be loaded."""
    about = world.folder / "broken" / "loud-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: loud\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[console_scripts]\nloud\n")
    (about.parent / "uvloop.py").write_text("raise ImportError('wrong ABI')\n")
    monkeypatch.setenv("PYTHONPATH", str(about.parent))
    assert await world.up(written(world, monkeypatch, PLAIN)) == []
    assert await world.outcomes() == {"finalized": 1}


@pytest.mark.parametrize("known", [True, False])
async def test_children_that_are_not_forked_do_the_same(
    world: World, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Where a process cannot adopt others, each child is a Python of its own."""
    if known:
        monkeypatch.setattr(Nest, "forks", False)
    else:
        monkeypatch.setattr(nest, "_SET_ADOPTS", 9999)
    pipeline = written(world, monkeypatch, PLAIN)
    assert await world.up(pipeline) == []
    assert await world.outcomes() == {"finalized": 1}
    assert "HEADGATE_CHILD_JOB" not in (world.folder / "seen").read_text()


async def test_a_handler_sees_nothing_of_how_its_process_was_started(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its environment nor what it starts has the job, with the address of the database."""
    pipeline = written(world, monkeypatch, PLAIN)
    monkeypatch.setenv("SAID_BY_THE_USER", "yes")
    assert await world.up(pipeline) == []
    seen = (world.folder / "seen").read_text()
    assert "SAID_BY_THE_USER" in seen
    assert "HEADGATE_CHILD_JOB" not in seen
    assert "pipe:" not in seen.replace("1 pipe:", "").replace("2 pipe:", "")
    assert "socket:" not in seen
    assert "memfd" not in seen


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans by prctl")
def test_work_of_workers_killed_with_their_supervisor_is_freed_by_the_next_up(place: Place) -> None:
    """Nobody reaps them, so their numbers are still taken: they count as dead all the same."""
    place.put("gate-1")
    up = place.up(until_idle=False)
    eventually(lambda: place.noted("waiting"))
    (watcher,), (worker,) = place.processes("watch"), place.processes("work")
    with orphans_adopted():
        up.process.kill()
        os.kill(worker, signal.SIGKILL)
        up.wait()
        assert place.leased() == 1
        place.open_gate()
        place.run()
        os.kill(worker, 0)  # a zombie until here
        os.waitpid(worker, 0)
        os.waitpid(watcher, 0)
    place.is_exact(["gate-1"])
    buried = place.query("SELECT buried_why FROM headgate.worker ORDER BY id")
    assert buried == [("process gone",), ("stopped",)]


def test_the_server_stops_when_all_who_used_it_were_killed(new_place: Path) -> None:
    """`up` and its children die by kill -9. The server they had started does not stay behind."""
    with embedded.start(new_place / "home") as server:
        place = Place(new_place, server.url, own=True)
    place.put("gate-1")
    up = place.up(until_idle=False)
    eventually(lambda: place.noted("waiting"))
    for pid in place.processes():
        os.kill(pid, signal.SIGKILL)
    up.wait()
    settled(place.home)
    assert not place.processes()


def test_a_child_that_a_stranger_kills_while_it_stops_is_told(place: Place) -> None:
    """All is done and `up` has asked it to stop: a death of another cause is said all the same."""
    pipeline = place.folder / "load.py"
    dying = "os._exit = lambda code: os.kill(os.getpid(), signal.SIGKILL)\n"
    pipeline.write_text(pipeline.read_text() + dying)
    place.put("a")
    up = place.up()
    up.ends()
    assert "work" in up.died_children()
    place.is_exact(["a"])


@contextmanager
def orphans_adopted() -> Iterator[None]:
    """Processes whose parent dies become children of this one, which reaps none by itself."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1)
    try:
        yield
    finally:
        ctypes.CDLL(None).prctl(set_child_subreaper, 0)
