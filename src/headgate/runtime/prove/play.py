"""Playing a world: scratch copies of everything, one process after the other, and what it came to.

The environment of the processes names nothing of the user's: database addresses in it lead to the
world's own database.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, urlsplit

import orjson

from headgate.errors import UsageError
from headgate.pg import Database
from headgate.sources.walk import uri_of

from .ground import SEED, Ground, TooLong
from .stage import WRONG
from .state import State, read
from .world import World

T = TypeVar("T")
_ADDRESS = re.compile(r"postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Script:
    """What all worlds of a proof have in common."""

    base: Path  # a copy of the folder the pipeline lives in
    root: Path  # that folder itself
    target: str  # the pipeline's file, from there
    pipeline: str
    samples: tuple[Mapping[str, Any], ...]
    template: str
    real: tuple[str, ...]
    network: bool
    patience_seconds: float


@dataclass(slots=True)
class Played:
    """How a world went. `killed` are the points at which a process really died."""

    world: World
    state: State
    points: Counter[str] = field(default_factory=Counter[str])
    killed: list[str] = field(default_factory=list[str])
    trouble: str = ""
    said: str = ""

    @property
    def reached(self) -> bool:
        """Did everything happen that this world is about?"""
        return len(self.killed) == len(self.world.crashes)


@asynccontextmanager
async def played(
    ground: Ground, script: Script, world: World, *, trace: bool = False
) -> AsyncGenerator[tuple[Played, Path]]:
    """Play a world. Its folder is there for the length of the block."""
    name = await ground.database(script.template)
    folder = ground.folder / name
    try:
        await asyncio.to_thread(_furnish, folder, script)
        url = ground.address(name)
        result = Played(world, State())
        for n, act in enumerate(_acts(world)):
            job = {
                **_job(script, world, folder, url),
                **act,
                "again": n > 0,
                "trace": str(folder / "trace") if trace else None,
            }
            if not result.trouble:
                await _act(ground, script, world, job, result, folder)
        async with await Database.open(url, max_size=1, allow_unsafe=True) as db:
            result.state = await read(
                db, folder / "work", folder / "shadow", folder / "log", str(folder / "work")
            )
        result.killed = [
            f"{r['point']}#{r['hit']}" for r in result.state.records if r["what"] == "crash"
        ]
        result.said = _said(folder)
        yield result, folder
    finally:
        await ground.drop(name)
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)


async def play(ground: Ground, script: Script, world: World) -> Played:
    """Play a world to its end, and leave nothing of it."""
    async with played(ground, script, world) as (result, _):
        return result


async def look(ground: Ground, script: Script) -> list[dict[str, Any]]:
    """The pipelines that the file declares, told by a process that may not touch anything."""
    folder = ground.folder / f"look_{ground.number()}"
    await asyncio.to_thread(_furnish, folder, script)
    # Nothing is played yet, so there is no database of its own to speak to.
    job = _job(script, World("reference", "look", ()), folder, ground.address(script.template))
    at_home, here = uri_of(str(script.root)), uri_of(str(folder / "work"))
    uris = [[s["uri"], s["uri"].replace(at_home, here, 1)] for s in script.samples]
    looking = {**job, "kind": "look", "uris": uris}
    code = await ground.run(looking, SEED, script.patience_seconds)
    if code not in (0, WRONG):
        raise UsageError(
            f"{script.target} cannot be imported: its process ended with code {code}\n"
            + _said(folder),
            hint="Handlers belong into functions; nothing else should happen in the file.",
        )
    return _told(folder / "told", script, folder)["pipelines"]


def _acts(world: World) -> list[dict[str, Any]]:
    """What each of the world's processes is told, one after the other."""
    if world.alone:
        return [{"deliver": [batch], "crash": ""} for batch in world.deliver]
    return [{"deliver": world.deliver, "crash": crash} for crash in (*world.crashes, "")]


async def _act(
    ground: Ground,
    script: Script,
    world: World,
    job: dict[str, Any],
    result: Played,
    folder: Path,
) -> None:
    async def one(n: int) -> None:
        told = folder / f"told-{n}"
        try:
            seed = world.weather.hash_seed
            code = await ground.run({**job, "told": str(told)}, seed, script.patience_seconds)
        except TooLong as error:
            result.trouble = str(error)
            return
        if code in (0, WRONG):
            result.points.update(_told(told, script, folder)["points"])
        elif not (code == -signal.SIGKILL and job["crash"]):
            said = _said(folder).strip().splitlines()
            result.trouble = f"a process ended with code {code}: {said[-1] if said else ''}"

    await together(one(n) for n in range(world.processes))


async def together(what: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """All at once. If one fails the others are stopped, and its error is the error."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in what]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return [task.result() for task in tasks]


def _told(told: Path, script: Script, folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = orjson.loads(told.read_bytes())
    told.unlink()
    if "wrong" in answer:
        # In the words of whoever asked: of the file, not of its copy.
        wrong = answer["wrong"].replace(str(folder / "work"), str(script.root))
        raise UsageError(wrong, hint=answer["hint"])
    return answer


def _said(folder: Path) -> str:
    try:
        return (folder / "out").read_text(encoding="utf-8", errors="replace")[-4000:]
    except FileNotFoundError:
        return ""


def _furnish(folder: Path, script: Script) -> None:
    folder.mkdir()
    for name in ("shadow", "marks", "temp"):
        (folder / name).mkdir()
    shutil.copytree(script.base, folder / "work", symlinks=True)


def _job(script: Script, world: World, folder: Path, url: str) -> dict[str, Any]:
    work = folder / "work"
    weather = world.weather
    return {
        "kind": "play",
        "env": _environment(url, folder / "temp"),
        "work": str(work),
        "out": str(folder / "out"),
        "told": str(folder / "told"),
        "log": str(folder / "log"),
        "trace": None,
        "shadow": str(folder / "shadow"),
        "marks": str(folder / "marks"),
        "free": [str(folder)],
        "real": list(script.real),
        "network": script.network,
        "store": str(folder / "lake"),
        "dsn": url,
        "target": str(work / script.target),
        "pipeline": script.pipeline,
        "samples": list(script.samples),
        "clock": weather.clock,
        "seed": weather.seed,
        "listing": weather.listing,
        "pace": world.pace,
        "failing": world.failing,
        "concurrency": 1 if world.processes == 1 else 4,
    }


def _environment(url: str, temp: Path) -> dict[str, str]:
    """The user's environment, with every address of a database replaced."""
    kept = {
        name: url if _ADDRESS.match(value) else value
        for name, value in os.environ.items()
        if not name.startswith(("PG", "HEADGATE_", "PYTHONHASHSEED"))
    }
    parts = urlsplit(url)
    (host,), (port,) = (parse_qs(parts.query)[name] for name in ("host", "port"))
    return {
        **kept,
        "HEADGATE_DATABASE_URL": url,
        "PGHOST": host,
        "PGPORT": port,
        "PGUSER": parts.username or "postgres",
        "PGDATABASE": parts.path.lstrip("/"),
        "TMPDIR": str(temp),
    }
