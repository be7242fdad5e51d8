"""Other systems on the same server. Each runs in `.venv-bench`, in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .beside import Ran, Workload
from .job import Count
from .processes import Failed
from .server import Place

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-bench" / "bin" / "python"
TIMEOUT_SECONDS = 900.0


def _said(name: str, url: str, n: int) -> str:
    """What a peer prints at its end. Nothing that it started outlives it."""
    if not PYTHON.exists():
        raise Failed(f"{name} is not installed: `make bench` installs it")
    peer = subprocess.Popen(
        [PYTHON, "-m", "bench.peers", name, "--url", url, "--n", str(n)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, words = peer.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} did not finish within {TIMEOUT_SECONDS:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(peer.pid, signal.SIGKILL)
        peer.wait()
    if peer.returncode:
        raise Failed(f"{name} failed:\n{words[-3000:]}")
    return out


def _run(name: str) -> Callable[[Place, str, int], Ran]:
    def run(place: Place, url: str, n: int) -> Ran:
        said = json.loads(_said(name, url, n).splitlines()[-1])
        return Ran(n, said["seconds"], Count(said["lost"], said["double"]))

    return run


# Fewer events for the slower ones: a rate needs some ten seconds of work, not an hour of it.
PEERS = {
    w.system: w
    for w in (
        Workload(
            "pgqueuer", "job", "enqueued by 1000, batch_size=500, asyncpg, uvloop",
            _run("pgqueuer"), share=1 / 3,
        ),
        Workload(
            "procrastinate", "job", "deferred by 1000, concurrency=20, delete_jobs=successful",
            _run("procrastinate"), share=1 / 12,
        ),
        Workload(
            "dbos", "job", "enqueued by 1000 in a transaction, 16 threads, effect in a datasource",
            _run("dbos"), share=1 / 30,
        ),
    )
}  # fmt: skip
