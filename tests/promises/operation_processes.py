"""Operations across processes: many callers, kills, stopped callers, forks, poolers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.world import World

from headgate.model.operation import Moment

# More rounds by `make test-operations`.
ROUNDS = int(os.environ.get("HEADGATE_TEST_ROUNDS", "8"))
CALLERS = 16

PLAY = '''
import json, multiprocessing, os, signal, sys, time
from pathlib import Path

import headgate as hg
import headgate.library.operation  # before any fork: children are quick then
import headgate.runtime.ledger_home, headgate.settings.load
from headgate.model import crash
from headgate.model.operation import Moment

here = Path(sys.argv[2])


def note(what):
    """Durable before the next line runs: appended in one write."""
    fd = os.open(here / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{what}\\n".encode())
    os.close(fd)


def in_child(work):
    """Run it in a fork; how the fork ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            note(f"error {type(error).__name__}: {error}")
            os._exit(1)
    return pid


def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def load(key, large=False):
    with hg.operation("load", key=key, store=str(here / "lake"), result_bytes=100) as op:
        if op.done:
            return op.result
        op.call("ring", lambda k: note(f"ring {key} {k}"))
        op.tx.execute("INSERT INTO effect VALUES ($1, $2)", key, os.getpid())
        op.result = {"by": key, "much": "x" * (200 if large else 1)}
    return op.result


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def kills():
    """Die at every moment; then once more, alive."""
    for moment in Moment:
        def first(moment=moment):
            crash.arm(moment, die)
            if "give_back" in moment:
                with hg.operation("load", key=moment) as op:
                    op.tx.execute("INSERT INTO effect VALUES ($1, 0)", moment)
                    raise ZeroDivisionError
            load(moment, large=moment == Moment.KEPT)
        killed = ended(in_child(first))
        def again(moment=moment):
            note(f"result {moment} {load(moment)['by']}")
        assert ended(in_child(again)) == 0, moment
        print(json.dumps([moment, killed]))


def race(callers, rounds):
    """All call the same key at once, round after round."""
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(callers)
    def caller():
        for n in range(rounds):
            barrier.wait()
            with hg.operation("race", key=n) as op:
                if not op.done:
                    op.tx.execute("INSERT INTO effect VALUES ($1, $2)", f"round {n}", os.getpid())
                    op.result = os.getpid()
            note(f"round {n} {op.result}")
    assert {ended(pid) for pid in [in_child(caller) for _ in range(callers)]} == {0}


def stopped(kind):
    """A caller is stopped past its lease, another one does the work, the first one wakes up."""
    reading, writing = os.pipe()
    def sleeper():
        try:
            with hg.operation("sleep", key=kind, lease_seconds=0.4) as op:
                if kind == "in_tx":
                    op.tx.execute("INSERT INTO effect VALUES ('sleep', 1)")
                os.write(writing, b"!")
                os.kill(os.getpid(), signal.SIGSTOP)
                if kind == "call":
                    op.call("ring", lambda: note("rung by the sleeper"))
                op.tx.execute("INSERT INTO effect VALUES ('sleep', 2)")
                op.result = "sleeper"
        except Exception as error:
            note(f"sleeper {type(error).__name__}")
    pid = in_child(sleeper)
    os.read(reading, 1)
    os.waitpid(pid, os.WUNTRACED)
    with hg.operation("sleep", key=kind, lease_seconds=5) as op:
        assert not op.done
        op.tx.execute("INSERT INTO effect VALUES ('sleep', 3)")
        op.result = "other"
    os.kill(pid, signal.SIGCONT)
    assert ended(pid) == 0
    with hg.operation("sleep", key=kind) as op:
        note(f"result {op.result}")


def forks():
    """A fork inside a block leaves its parent's operation alone, and begins its own."""
    with hg.operation("parent", key=1) as op:
        op.tx.execute("INSERT INTO effect VALUES ('parent', 1)")
        def child():
            try:
                op.tx.execute("INSERT INTO effect VALUES ('parent', 2)")
            except hg.HeadgateError as error:
                note(f"child {error.reason}")
            with hg.operation("child", key=1) as own:
                own.tx.execute("INSERT INTO effect VALUES ('child', 1)")
            with op_exits(op):
                pass
        assert ended(in_child(child)) == 0
        op.result = "parent"


class op_exits:
    """What a fork that leaves the block does."""
    def __init__(self, op): self.op = op
    def __enter__(self): return None
    def __exit__(self, *_): self.op.__exit__(None, None, None)


eval(sys.argv[3])
'''


class Stage:
    """A folder, a ledger, and a process that plays in them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.folder = world.folder
        (self.folder / "play.py").write_text(PLAY)

    def play(self, what: str, **environ: str) -> list[Any]:
        done = subprocess.run(
            [sys.executable, "play.py", "x", str(self.folder), what],
            cwd=self.folder,
            env={**os.environ, "HEADGATE_DATABASE_URL": self.world.url, **environ},
            capture_output=True,
            text=True,
            timeout=100 if ROUNDS < 100 else None,
        )
        assert done.returncode == 0, done.stderr[-3000:] + "\n".join(self.notes())
        return [json.loads(line) for line in done.stdout.splitlines()]

    def notes(self) -> list[str]:
        path = self.folder / "notes"
        return path.read_text().splitlines() if path.exists() else []

    async def at_rest(self) -> None:
        """Nothing is held, and no lock is left behind."""
        val = self.world.val
        assert await val("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == 0
        assert await val("SELECT count(*) FROM headgate.operation_lock") == 0
        assert await val("SELECT count(*) FROM headgate.operation WHERE status = 'running'") == 0


@pytest.fixture
def stage(world: World) -> Stage:
    return Stage(world)


async def effects(world: World) -> None:
    await world.db.execute("CREATE TABLE effect (what text, n int)")


async def test_a_kill_at_any_moment_leaves_one_effect(world: World, stage: Stage) -> None:
    """Its process dies right there. The next call finishes, and nobody can tell."""
    await effects(world)
    died = dict(stage.play("kills()"))
    assert died == dict.fromkeys(Moment, -9)
    found = await world.rows("SELECT what, count(*) FROM effect GROUP BY 1")
    assert dict(found) == dict.fromkeys(Moment, 1)
    rings = [line.split()[1:] for line in stage.notes() if line.startswith("ring")]
    for moment in Moment:
        keys = [key for what, key in rings if what == moment]
        # Made and not yet recorded: it is made again, and the other side sees the same key.
        assert len(keys) == (2 if moment == Moment.MADE else 1), moment
        assert len(set(keys)) == 1
    assert not [line for line in stage.notes() if line.startswith("error")]
    await stage.at_rest()


@pytest.mark.timeout(7200 if ROUNDS > 100 else 120)  # a thousand rounds take their time
async def test_many_processes_share_one_execution(world: World, stage: Stage) -> None:
    """Sixteen processes call the same key at once: one executes, all have the same result."""
    await effects(world)
    stage.play(f"race({CALLERS}, {ROUNDS})")
    assert await world.count("effect") == ROUNDS
    assert await world.val("SELECT count(DISTINCT what) FROM effect") == ROUNDS
    results = [line for line in stage.notes() if line.startswith("round")]
    assert len(results) == CALLERS * ROUNDS
    assert len(set(results)) == ROUNDS
    await stage.at_rest()


@pytest.mark.parametrize("kind", ["before_tx", "in_tx", "call"])
async def test_who_sleeps_through_its_lease_is_fenced(
    world: World, stage: Stage, kind: str
) -> None:
    """A caller is stopped past its lease and resumed: nothing of it is kept."""
    await effects(world)
    stage.play(f"stopped({kind!r})")
    assert await world.rows("SELECT n FROM effect") == [(3,)]
    assert stage.notes()[-1] == "result other"
    said = stage.notes()[0]
    # In an open transaction the connection is gone as well: Postgres ended it for the others.
    assert said in ("sleeper Fenced",) if kind != "in_tx" else said.startswith("sleeper ")
    assert "rung by the sleeper" not in stage.notes()
    await stage.at_rest()


async def test_a_fork_leaves_its_parents_operation_alone(world: World, stage: Stage) -> None:
    """A child that was forked inside a block cannot touch or end it, and works on its own."""
    await effects(world)
    stage.play("forks()")
    assert sorted(await world.rows("SELECT what, n FROM effect")) == [("child", 1), ("parent", 1)]
    assert stage.notes() == ["child usage"]
    await stage.at_rest()


async def test_operations_work_behind_a_transaction_pooler(world: World, stage: Stage) -> None:
    """No session state is used: the same promises with HEADGATE_POOLER."""
    await effects(world)
    stage.play("race(4, 3)", HEADGATE_POOLER="true")
    assert await world.count("effect") == 3
    await stage.at_rest()


def test_without_a_shared_database_it_is_refused(stage: Stage) -> None:
    """A private server on each machine would let work run twice: an operation says so."""
    done = subprocess.run(
        [sys.executable, "-c", "import headgate as hg\nhg.operation('x')"],
        cwd=stage.folder,
        env={
            k: v for k, v in os.environ.items() if not k.startswith(("HEADGATE_", "PG", "PYTEST_"))
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert "needs a database that all its callers share" in done.stderr
    assert not (stage.folder / ".headgate").exists()
