"""`/v1/runs`: the records of one attempt, rendered from the ledger each time."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import Path, Request, Response

from headgate.catalog import run as records
from headgate.ledger import facts
from headgate.server.problem import Refusal

from .answers import JSON, body, problems
from .asked import ENTRY_MOST, new_router
from .reader import Reading

router = new_router("runs")
_RUN = r"^[1-9]\d{0,18}-[1-9]\d{0,9}$"
_TYPES = {
    "json": JSON,
    "jsonld": "application/ld+json",
    "ndjson": "application/x-ndjson",
    "md": "text/markdown",
}
Run = Annotated[str, Path(pattern=_RUN, description="The run's name.", examples=["12-1"])]
Name = Literal[
    "detector.json", "wal.json", "manifest.json", "delta_manifest.json",
    "provenance.prov.jsonld", "openlineage.ndjson", "run_manifest.json", "qa.json", "summary.md",
]  # fmt: skip


@router.get(
    "/runs/{run}/{name}",
    summary="A record of one run",
    responses={
        200: {
            "description": "It",
            "content": {kind.partition(";")[0]: {} for kind in _TYPES.values()},
        },
        304: {"description": "The caller has it already."},
        **problems("unknown_run", "restricted"),
    },
)
async def record(request: Request, by: Reading, run: Run, name: Name) -> Response:
    """Where the references of a change lead: provenance, lineage, what it changed, what checked it.

    The same bytes as the file beside the data.
    """
    entry = int(run.partition("-")[0])
    async with by.look() as seen:
        told = await facts.of_entry(seen.db, entry) if entry <= ENTRY_MOST else []
        found = next((f for f in told if f.run == run and by.sees(f.pipeline)), None)
        if found is None:
            raise Refusal("unknown_run", f"there is no run {run}")
        if seen.eyes.hides(found.pipeline):
            raise Refusal("restricted", f"what run {run} made is restricted")
    made = await asyncio.to_thread(records.files, found)
    if name not in made:
        raise Refusal("unknown_run", f"run {run} has no {name}")
    return body(request, made[name], _TYPES[name.rpartition(".")[2]])
