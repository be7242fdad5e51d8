"""in_progress="escalate": a person is told that an operation is held, without a supervisor."""

from __future__ import annotations

import asyncio
import contextvars
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.world import World

import headgate as hg
from headgate.errors import Escalated

# Appends what it is told to a file; fails while there is a file beside it that says so.
HOOK = """
import pathlib, sys
told = pathlib.Path(sys.argv[1])
if told.with_suffix(".fails").exists():
    sys.exit(1)
with told.open("a") as file:
    file.write(sys.stdin.read() + "\\n")
"""


@pytest.fixture
def told(world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the incident hook was told, a document per line."""
    (script := tmp_path / "hook.py").write_text(HOOK)
    (file := tmp_path / "told").touch()
    monkeypatch.setenv("HEADGATE_DATABASE_URL", world.url)
    monkeypatch.setenv("HEADGATE_INCIDENT_HOOK", f"{sys.executable} {script} {file}")
    return file


def documents(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()]


async def escalate(name: str, **how: Any) -> str:
    """Call what is held by somebody else; the key."""
    async with hg.operation(name, **how):
        call = hg.operation(name, in_progress="escalate", **how)
        other = asyncio.get_running_loop().create_task(
            call.__aenter__(), context=contextvars.Context()
        )
        with pytest.raises(Escalated):
            await other
        return call.key


async def test_the_hook_is_told_once_in_a_while_for_each_operation(
    world: World, told: Path
) -> None:
    """A storm of callers is one incident; another operation is another one."""
    key = await escalate("load", key=1, dataset="sales")
    for n in range(3):
        await escalate("load", key=n)
    await escalate("pay", key=1)
    first, second = documents(told)
    assert (first["incident"], first["pipeline"], first["task"]) == ("escalated", "load", "load")
    assert (first["dataset"], first["operation"], first["times"]) == ("sales", "run", 1)
    assert first["key"] == key
    assert first["look"] == f"headgate operation show {key}"
    assert 0 < first["lease_seconds_left"] <= 60
    assert (second["task"], second["times"]) == ("pay", 1)
    await world.db.execute(
        "UPDATE headgate.operation_escalation SET told_at = now() - interval '15m'"
    )
    await escalate("load", key=3)
    assert [(d["task"], d["times"]) for d in documents(told)[2:]] == [("load", 5)]


async def test_a_hook_that_fails_is_told_by_the_next_caller(world: World, told: Path) -> None:
    """What the hook does or fails to do changes nothing for the caller: it is escalated."""
    told.with_suffix(".fails").touch()
    await escalate("load", key=1)
    assert documents(told) == []
    told.with_suffix(".fails").unlink()
    await escalate("load", key=2)
    assert [d["times"] for d in documents(told)] == [2]


async def test_the_hook_is_told_no_secret(world: World, told: Path) -> None:
    """The key's parts are not told, and names go through the masker."""
    await escalate("load", key="hunter1", dataset="postgres://me:hunter2@db/sales")
    assert len(documents(told)) == 1
    assert "hunter" not in told.read_text()


async def test_without_a_hook_nothing_is_told(
    world: World, told: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is written for it: the journal says who was escalated."""
    monkeypatch.delenv("HEADGATE_INCIDENT_HOOK")
    await escalate("load", key=1)
    assert await world.count("headgate.operation_escalation") == 0
    assert await world.rows(
        "SELECT event FROM headgate.operation_journal ORDER BY operation, n"
    ) == [("escalated",), ("done",)]
