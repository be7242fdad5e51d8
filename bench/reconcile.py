"""How long `headgate reconcile` takes for a million keys, and how much memory.

The ledger is written by SQL, as the path would have left it: entries, publications, and what the
source has shown so far. The source is a manifest of the same objects in another order, of which one
in a thousand is new, one has changed, and one is gone. The command runs as a process of its own.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import headgate as hg
from headgate.model.envelope import Envelope
from headgate.pg import Database
from headgate.runtime import loop, station
from headgate.runtime.ledger_home import Ledger, connected

from . import processes
from .gate import TIMEOUT_SECONDS
from .processes import Failed, Report, Together
from .result import Figure
from .server import Place

KEYS = 1_000_000
BORN = datetime(2026, 1, 1, tzinfo=UTC)
PIPELINE = """
import headgate as hg

keys = hg.Pipeline("keys", sources=[hg.Manifest("list.csv", name="list")], store="lake")
"""
FILL = """
    WITH told AS MATERIALIZED (
        SELECT n, $1 || lpad(n::text, 8, '0') || '.csv' AS uri
        FROM generate_series($2::int, $3::int) AS n),
    entries AS (
        INSERT INTO headgate.entry
            (id, pipeline, key, uri, event_time, received_at, fingerprint, removed, envelope)
            OVERRIDING SYSTEM VALUE
        SELECT n, $4, sha256(n::text::bytea), uri, $5, $5, n, false, $6 FROM told),
    listed AS (
        INSERT INTO headgate.listing (pipeline, uri, source, hint, generation, removed)
        SELECT $4, uri, 'list', 'etag:' || md5(n::text) || ' ' || n, 1, false FROM told)
    INSERT INTO headgate.publication (entry, pipeline, version, deployment, content, effect, uri)
    SELECT n, $4, 1, $7, sha256(n::text::bytea), sha256(n::text::bytea), uri FROM told
"""


def lines(keys: int) -> Iterator[str]:
    """The manifest. Its last object is gone, the one before it has changed, some are new."""
    from hashlib import md5

    order = list(range(1, keys))
    random.Random(1).shuffle(order)
    yield "path,etag,size\n"
    for n in order:
        tag = md5(str(n).encode(), usedforsecurity=False).hexdigest()
        yield f"raw/2026/part-{n:08d}.csv,{'other' if n == keys - 1 else tag},{n}\n"
        if n % 1000 == 0:
            yield f"raw/2026/new-{n:08d}.csv,{tag},{n}\n"


async def fill(db: Database, folder: Path, keys: int) -> None:
    """A ledger in which so many objects are published."""
    at = await station.register(
        db, hg.Pipeline("keys", store=str(folder / "lake"), sources=[hg.Manifest(folder / "list")])
    )
    envelope = Envelope(
        event_id="e",
        source="bench",
        provider="file",
        detector="manifest",
        uri="file:///0",
        event_time=BORN,
        received_at=BORN,
        generation=1,
    ).document()
    prefix = f"{folder.as_uri()}/raw/2026/part-"
    for first in range(1, keys + 1, 50_000):
        last = min(first + 49_999, keys)
        known = (at.pipeline, BORN, envelope, at.deployment)
        await db.execute(FILL, prefix, first, last, *known)
    await db.execute("VACUUM ANALYZE")


def figures(place: Place, keys: int = KEYS) -> list[Figure]:
    """Seconds and megabytes of one go, which has to find what differs and nothing else."""
    url = loop.run(place.fresh)
    folder = place.folder / "reconcile"
    folder.mkdir(exist_ok=True)
    (folder / "keys.py").write_text(PIPELINE)
    with (folder / "list.csv").open("w") as file:
        file.writelines(lines(keys))

    async def prepare() -> None:
        async with connected(Ledger(url, folder)) as db:
            await fill(db, folder, keys)

    loop.run(prepare)
    # From a small process: what a child uses at its peak is told with what it was forked off.
    took = processes.run({"reconcile": (command, (url, folder, keys))}, TIMEOUT_SECONDS)[
        "reconcile"
    ]
    how = f"a manifest of {keys} objects against a ledger in which they are published"
    return [
        Figure("reconcile_seconds", round(took["seconds"], 1), "s", how),
        Figure("reconcile_peak", round(took["peak_mb"]), "MB", how),
    ]


def command(together: Together, url: str, folder: Path, keys: int) -> Report:
    """The command, and what it found and took."""
    together.begin()
    began = perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "headgate", "reconcile", "keys.py", "--json"],
        cwd=folder,
        env={**os.environ, "HEADGATE_DATABASE_URL": url},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    said = process.stdout.read().splitlines()
    _, status, used = os.wait4(process.pid, 0)
    seconds = perf_counter() - began
    wanted = {"missing": (keys - 1) // 1000, "drifted": 1, "phantom": 1, "orphan": 0}
    found = json.loads(said[-1])["counts"] if said else {}
    if os.waitstatus_to_exitcode(status) != 1 or found | wanted != found:
        raise Failed(f"reconcile found {found}, not {wanted}")
    return {"seconds": seconds, "peak_mb": used.ru_maxrss / 1024}
