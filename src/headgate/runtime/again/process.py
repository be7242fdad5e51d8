"""A process that runs handlers again, from outside: asked one input at a time."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from headgate.errors import UsageError

HASH_SEED = "0"
LINE_BYTES = 64 << 20


class Died(Exception):
    """The process ended in the middle of an input."""


class Process:
    """Starts when it is first asked. A handler that kills it costs its own input only."""

    def __init__(self, target: Path, pipeline: str, folder: Path) -> None:
        self._job = {"target": str(target), "pipeline": pipeline, "folder": str(folder)}
        self._folder = folder
        self._process: asyncio.subprocess.Process | None = None
        self._read = 0

    async def run(self, given: dict[str, Any]) -> dict[str, Any]:
        """What came of an input. Raises `Died`."""
        if self._process is None:
            await self._start()
        return await self._ask(given)

    def noted(self) -> list[dict[str, Any]]:
        """What the witness saw since it was last asked."""
        try:
            with (self._folder / "log").open("rb") as log:
                log.seek(self._read)
                lines = log.read()
        except FileNotFoundError:
            return []
        self._read += len(lines)
        return [orjson.loads(line) for line in lines.splitlines() if line]

    async def close(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _start(self) -> None:
        kept = {n: v for n, v in os.environ.items() if not n.startswith(("PG", "HEADGATE_"))}
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "headgate.runtime.again.rerun",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**kept, "PYTHONHASHSEED": HASH_SEED},
            limit=LINE_BYTES,
        )
        try:
            said = await self._ask(self._job)
        except Died as died:
            raise UsageError(
                f"{self._job['target']} cannot be run again: {died}",
                hint="Handlers belong into functions; nothing else should happen in the file.",
            ) from died
        if "wrong" in said:
            raise UsageError(said["wrong"], hint=said["hint"])

    async def _ask(self, given: dict[str, Any]) -> dict[str, Any]:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):
            process.stdin.write(orjson.dumps(given) + b"\n")
            await process.stdin.drain()
        if line := await process.stdout.readline():
            return orjson.loads(line)
        await self.close()
        said = (self._folder / "out").read_text(errors="replace").strip().splitlines()
        raise Died(said[-1] if said else "its process ended")
