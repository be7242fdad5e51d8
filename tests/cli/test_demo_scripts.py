"""The demo's naive scripts are fair, and each is wrong in its own way."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest

from headgate.cli.demo.post import Plan
from headgate.cli.demo.stage import WIDTH, Race, picture
from headgate.cli.demo.standing import Standing
from headgate.cli.demo.world import BROKEN_TEXT, PIPELINE, World
from headgate.cli.starter import RAIN

FILE = "bergen-3-2026-01-01.csv"


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path / "world", 20)
    made.build()
    made.land(FILE)
    return made


def _start(world: World, stem: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, f"naive_{stem}.py"], cwd=world.folder, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip


def _rows(database: Path, table: str) -> int:
    try:
        with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as db:
            return db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
    except sqlite3.OperationalError:  # not there yet
        return 0


@pytest.mark.parametrize("stem", ["act_then_mark", "mark_then_act"])
def test_left_alone_a_naive_script_is_exact(world: World, stem: str) -> None:
    """Told three times and never killed, it takes the file in once: it is no straw man."""
    with _start(world, stem) as script:
        out, _ = script.communicate(f"{FILE}\n" * 3)
    assert out.splitlines() == [FILE] * 3
    assert _rows(world.folder / "naive" / f"{stem}.db", "reading") == 4


@pytest.mark.parametrize(
    ("stem", "first", "table", "second", "rows"),
    [
        ("act_then_mark", ".db", "reading", ".done.db", 8),
        ("mark_then_act", ".done.db", "done", ".db", 0),
    ],
)
def test_killed_between_its_two_commits_it_is_wrong_for_ever(
    world: World, stem: str, first: str, table: str, second: str, rows: int
) -> None:
    """One counts the file twice, the other never, however often it is told again."""
    naive = world.folder / "naive"
    with _start(world, stem) as script:  # makes both databases
        script.communicate("")
    # While we hold the second database, the script waits between its two commits.
    with closing(sqlite3.connect(naive / f"{stem}{second}", isolation_level=None)) as held:
        held.execute("BEGIN IMMEDIATE")
        with _start(world, stem) as script:
            assert script.stdin is not None
            script.stdin.write(f"{FILE}\n")
            script.stdin.flush()
            deadline = time.monotonic() + 60
            while not _rows(naive / f"{stem}{first}", table):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            script.kill()
        held.execute("ROLLBACK")
    with _start(world, stem) as script:
        script.communicate(f"{FILE}\n" * 2)
    assert _rows(naive / f"{stem}.db", "reading") == rows


def test_the_truth_knows_nothing_of_headgate(world: World) -> None:
    """It runs where Headgate cannot be imported, and a broken file counts for nothing."""
    (world.incoming / "broken.csv").write_text(BROKEN_TEXT)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "truth.py", "incoming"],
        cwd=world.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Decimal(done.stdout) == world.truth(world.sent).sums[FILE]
    assert "headgate" not in (world.folder / "truth.py").read_text().split('"""')[2]


def test_the_pipeline_is_the_one_that_init_writes() -> None:
    """Only more impatient: one line more says how soon to try again."""
    more = set(PIPELINE.splitlines()) - set(RAIN.splitlines())
    assert any("RetryPlan" in line for line in more)
    assert len(more) <= 4
    compile(PIPELINE, "rain.py", "exec")


def test_everybody_is_told_of_every_file_and_killed_at_new_ones() -> None:
    """The plan is the same every time; each kill is at a delivery that brings a new file."""
    files = [f"{n}.csv" for n in range(400)]
    plan = Plan.make(files, 12)
    assert plan == Plan.make(files, 12)
    assert set(plan.deliveries) == set(files)
    assert len(plan.deliveries) == 1000
    assert len(plan.kills) == 12
    for n in plan.kills:
        assert plan.deliveries[n] not in plan.deliveries[:n]
    assert max(plan.kills) < plan.turn <= min(plan.reserve)


@pytest.mark.parametrize("columns", [80, WIDTH])
@pytest.mark.parametrize("error", ["0", "0.01", "-0.01", "310.55", "-9999999.99"])
def test_the_picture_fits_the_screen(error: str, columns: int) -> None:
    """However wrong a consumer is, its line fits, and its bar is on the right side."""
    runner = Standing("act, then mark", sum=Decimal(20000) + Decimal(error), truth=Decimal(20000))
    runner.rows, runner.kills = 16, 12
    race = Race([runner] * 3, Decimal(20000), 1000, lambda: 1000)
    lines = [t.plain for t in picture(race, columns)]
    left, _, right = lines[2].partition("│")
    assert all(len(line) <= columns for line in lines)
    assert lines[0].endswith("1,000 of 1,000, kill -9: 12, 12, 12")
    assert lines[2].endswith("16 rows too many")
    assert any(c in right for c in "▏▎▍▌▋▊▉█") == (Decimal(error) > 0)
    assert any(c in left for c in "▐█") == (Decimal(error) < 0)
