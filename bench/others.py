"""Other systems on the same server. Each runs in `.venv-bench`, in processes of its own."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from .beside import Ran, Workload
from .job import Count
from .server import Place

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
TIMEOUT_SECONDS = 900.0


class PeerFailed(RuntimeError):
    """A peer did not finish the job."""


def _run(name: str) -> Callable[[Place, str, int], Ran]:
    def run(place: Place, url: str, n: int) -> Ran:
        if not PYTHON.exists():
            raise PeerFailed(f"{name} is not installed: `make bench` installs it")
        command = [PYTHON, "-m", "bench.peers", name, "--url", url, "--n", str(n)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        if done.returncode:
            raise PeerFailed(f"{name} failed:\n{done.stderr[-3000:]}")
        said = json.loads(done.stdout.splitlines()[-1])
        return Ran(n, said["seconds"], Count(said["lost"], said["double"]))

    return run


# Fewer events for the slower ones: a rate needs some ten seconds of work, not an hour of it.
PEERS = {
    w.system: w
    for w in (
        Workload(
            "pgqueuer", "job", "enqueued by 1000, batch_size=100, asyncpg, uvloop",
            _run("pgqueuer"), share=1 / 3,
        ),
        Workload(
            "procrastinate", "job", "deferred by 1000, concurrency=20, delete_jobs=successful",
            _run("procrastinate"), share=1 / 12,
        ),
        Workload(
            "dbos", "job", "enqueued by 1000 in a transaction, 16 workflows at a time, datasource",
            _run("dbos"), share=1 / 30,
        ),
    )
}  # fmt: skip
