"""A process with a pipeline and its witness in it: `python -c THIS JOB`, JOB as JSON."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.world import TUNING, change

from headgate.ledger import inbox
from headgate.model.pipeline import Pipeline
from headgate.pg import Database
from headgate.runtime import inline, station
from headgate.runtime.load import load
from headgate.runtime.loop import run
from headgate.runtime.prove.witness import Conditions, Place, watch

ROWS = "SELECT name, value FROM fact ORDER BY name"
ARTIFACTS = (
    "SELECT a->>'name', a->>'digest' FROM headgate.publication,"
    " jsonb_array_elements(artifacts) AS a WHERE successor IS NULL ORDER BY 1, 2"
)
OUTCOMES = "SELECT concat_ws(': ', j.outcome, j.reason, q.error) FROM headgate.journal j LEFT JOIN"
OUTCOMES += " headgate.quarantine q ON q.entry = j.entry ORDER BY j.entry, j.fence"


def main(job: dict[str, Any], folder: Path) -> None:
    work = folder / "work"
    os.chdir(work)
    eye = None
    if job["witness"]:
        place = Place(
            file=work / "p.py",
            work=work,
            shadow=folder / "shadow",
            real=[Path(job["home"])],
            dsn=job["url"],
            log=folder / "log",
            trace=folder / "trace" if job["trace"] else None,
            free=[folder / "lake"],
        )
        eye = watch(place, Conditions(job["clock"], job["seed"], job["listing"]))
    (pipeline,) = load(str(work / "p.py"))
    if eye is not None:
        eye.attach(pipeline)
    pipeline.store = str(folder / "lake")
    told = run(lambda: play(pipeline, job))
    (folder / "told").write_text(json.dumps(told))


async def play(pipeline: Pipeline, job: dict[str, Any]) -> dict[str, Any]:
    async with await Database.open(job["url"], max_size=6) as db:
        at = await station.register(db, pipeline)
        for name, data in job["samples"].items():
            await inbox.receive(db, at, "test", [change(name, data, event=name)])
        tuning = replace(TUNING, concurrency=job["concurrency"])
        await inline.run(db, [pipeline], tuning, until_idle=True)
        there = await db.fetchval("SELECT to_regclass('fact') IS NOT NULL")
        return {
            "facts": dict([tuple(r) for r in await db.fetch(ROWS)] if there else []),
            "artifacts": [tuple(r) for r in await db.fetch(ARTIFACTS)],
            "outcomes": [r[0] for r in await db.fetch(OUTCOMES)],
        }


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    main(given, Path(given["folder"]))
