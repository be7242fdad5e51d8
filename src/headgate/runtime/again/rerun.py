"""The process that runs handlers again: no ledger, no store, nobody to speak to.

    python -m headgate.runtime.again.rerun

It reads a job and then inputs, one JSON document per line, and answers each with what came of it.
The witness of `headgate prove` is beside the handlers: files they write are shadowed, doors are
shut, and whoever reads the clock or draws a number is noted, with the line. Nothing is settled:
what handlers give back goes to scratch files and is told.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path as FilePath
from typing import Any, BinaryIO, cast

import orjson

from headgate.errors import EffectRefused, HeadgateError
from headgate.ledger.attempt import Attempt
from headgate.ledger.gate import Claim
from headgate.ledger.inbox import Registered
from headgate.ledger.run import Around, RunNow
from headgate.model.lookup import Lookup
from headgate.model.pipeline import Pipeline
from headgate.model.ports import Chunks
from headgate.model.verdict import Finalized, Quarantine, Release, Retry, Skipped, Verdict
from headgate.pg import Database
from headgate.pg.instant import as_sent
from headgate.pipeline import COPY_BYTES, Path
from headgate.runtime.load import load
from headgate.runtime.prove.witness import Conditions, Place, watch
from headgate.stores import FileStore

DEADLINE_SECONDS = 3600.0
Given = dict[str, Any]


class _Run(RunNow):
    """A run whose foreign calls are answered as they were then, and never made."""

    def __init__(self, claim: Claim, around: Around, calls: Mapping[str, str]) -> None:
        super().__init__(claim, around)
        self._calls = calls

    def call(
        self, name: str, fn: Callable[..., Any], *, undo: Callable[..., Any] | None = None
    ) -> Any:
        if name not in self._calls:
            raise EffectRefused(
                f"run.call({name!r}): it was not called then, and a verification calls nobody",
                hint="see what changed in the handler since",
            )
        answer = orjson.loads(self._calls[name])
        return _answered(answer) if self.is_async else answer


async def _answered(answer: Any) -> Any:
    return answer


class _Rerun(Path):
    """The path up to the effects, on bytes that are at hand, whatever readers see by now."""

    given: Given

    def begin(self, claim: Claim) -> Attempt:
        found = {
            name: Lookup(name, digest, size, lambda at=path: FilePath(at))
            for name, (digest, size, path) in self.given["lookups"].items()
        }
        around = replace(self._around, lookups=found)
        return Attempt(claim, _Run(claim, around, self.given["calls"]))

    def _gate(self, claim: Claim) -> Verdict | None:
        return None

    def _digest(self, attempt: Attempt) -> Verdict | None:
        return None  # whoever asked compares

    def _bytes(self, claim: Claim) -> Iterator[bytes]:
        with open(self.given["path"], "rb") as kept:
            while chunk := kept.read(COPY_BYTES):
                yield chunk


class Rerunner:
    """One process, one pipeline."""

    def __init__(self, job: Given, out: BinaryIO) -> None:
        self._out = out
        self._folder = FilePath(job["folder"])
        for name in ("work", "shadow", "rows"):
            (self._folder / name).mkdir(exist_ok=True)
        target = FilePath(job["target"])
        eye = watch(
            Place(
                file=target,
                work=self._folder / "work",
                shadow=self._folder / "shadow",
                real=[target.parent],
                dsn=f"postgresql://nobody@/nothing?host={self._folder}&port=5432",
                log=self._folder / "log",
                free=[self._folder],
            ),
            Conditions(),
        )
        self._pipeline = next(p for p in load(job["target"]) if p.name == job["pipeline"])
        eye.attach(self._pipeline)

    async def main(self, inputs: BinaryIO) -> None:
        """Run every input that comes, until there are no more."""
        declared: Pipeline = self._pipeline
        nobody = cast("Database", None)  # nothing on the way to the effects asks the ledger
        store = FileStore(self._folder / "lake")
        path = _Rerun(declared, nobody, Registered(0, 0, 0), store, apply_seconds=1.0)
        while line := await asyncio.to_thread(inputs.readline):
            given: Given = orjson.loads(line)
            path.given = given
            attempt = path.begin(_claim(given))
            try:
                await _prepare(path, attempt)
                self._tell(self._about(given, attempt))
            finally:
                path.finish([attempt])

    def _about(self, given: Given, attempt: Attempt) -> Given:
        verdict, error = _said(attempt.verdict)
        return {
            "n": given["n"],
            "verdict": verdict,
            "error": error,
            "content": None if attempt.content is None else attempt.content.hex(),
            "artifacts": {a["name"]: a["digest"] for a in attempt.artifacts or ()},
            "item": None if attempt.item is None else attempt.item.document(),
            "seed": attempt.run.seed if attempt.run.seeded else None,
            "rows": {
                label: {
                    "rows": count,
                    "added": sorted((attempt.added or {}).get(label, ())),
                    "file": self._write(given["n"], k, (attempt.rows or {}).get(label, [])),
                }
                for k, (label, count) in enumerate((attempt.counts or {}).items())
            },
        }

    def _write(self, n: int, k: int, chunks: Chunks) -> str:
        """The rows of a table as one JSON array, in a file."""
        path = self._folder / "rows" / f"{n}-{k}"
        with path.open("wb") as file:
            file.write(b"[")
            for c in range(len(chunks)):
                file.write(b"," * (c > 0) + chunks[c][1:-1])
            file.write(b"]")
        return str(path)

    def _tell(self, said: Given) -> None:
        self._out.write(orjson.dumps(said, default=str) + b"\n")
        self._out.flush()


def _claim(given: Given) -> Claim:
    """The claim of that time: the same entry, fence, attempt and key."""
    data = given["data"]
    return Claim(
        pipeline=0,
        worker=0,
        head=None,
        id=given["entry"],
        fence=given["fence"],
        attempts=given["attempt"],
        deaths=0,
        alone=False,
        subject=0,
        begun=None,
        claimed=0.0,
        waited=False,
        upstream=None,
        key=bytes.fromhex(given["key"]),
        uri=given["uri"],
        event_at=as_sent(datetime.fromisoformat(given["event_time"])),
        received=as_sent(datetime.fromisoformat(given["received_at"])),
        removed=False,
        sequence=given["sequence"],
        document=given["document"].encode(),
        data=None if data is None else base64.b64decode(data),
        reverts=None,
        replays=None,
        part=None,
        superseded=False,
    )


async def _prepare(path: _Rerun, attempt: Attempt) -> None:
    if path.declared.is_async:
        deadline = path.declared.deadline_seconds or DEADLINE_SECONDS
        await path.prepare_async(attempt, deadline)
    else:
        await asyncio.to_thread(path.prepare, attempt)


def _said(verdict: Verdict) -> tuple[str, str]:
    match verdict:
        case Finalized():
            return "finalized", ""
        case Skipped(reason):
            return f"skipped ({reason})", ""
        case Retry(_, reason, error, _):
            return f"failed ({reason}), to be tried again", error
        case Quarantine(classed, reason, error):
            return f"quarantined as {classed} ({reason})", error
        case Release(reason):
            return f"given back ({reason})", ""


def main() -> int:
    """Answer inputs until there are no more; what handlers print goes to a file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us decides
    job: Given = orjson.loads(sys.stdin.buffer.readline())
    out = os.fdopen(os.dup(1), "wb")
    said = os.open(f"{job['folder']}/out", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(said, number)
    try:
        rerunner = Rerunner(job, out)
        out.write(b'{"ready":true}\n')
        out.flush()
        asyncio.run(rerunner.main(sys.stdin.buffer))
    except HeadgateError as error:
        out.write(orjson.dumps({"wrong": str(error), "hint": error.hint}) + b"\n")
        out.flush()
        return 2
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # handlers may have left threads behind
