"""How a peer is run: a worker in a process of its own, warm, then the whole job at full speed.

The clock runs from before the first event is told until nothing is pending.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Protocol

import psycopg

from bench.job import EFFECTS, Event, count, events, ids, warm_up

TIMEOUT_SECONDS = 600.0
LOOK_SECONDS = 0.02

# For a queue that keeps no memory of what it was told: the gate and the effect in one statement.
SEEN = "CREATE TABLE seen (id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now())"
GATED = (
    "WITH c AS (INSERT INTO seen (id) VALUES ({0}) ON CONFLICT DO NOTHING RETURNING id)"
    " INSERT INTO effects (key, count, etype, t_enq) SELECT c.id, 1, {1}, {2} FROM c"
    " ON CONFLICT (key) DO UPDATE SET count = effects.count + 1"
)


class Peer(Protocol):
    """One system: its tables, its producer, its worker, and how to see that nothing is left."""

    PENDING: str

    def install(self, url: str) -> None: ...
    def tell(self, url: str, deliveries: Sequence[Event]) -> None: ...
    def work(self, url: str) -> None: ...


class Stopped(RuntimeError):
    """The worker ended, or did not finish."""


def run(peer: Peer, name: str, url: str, n: int) -> dict[str, float]:
    """Seconds of the job, and what became of it."""
    with psycopg.connect(url, autocommit=True) as link:
        link.execute(EFFECTS)
        link.execute(SEEN)
        peer.install(url)
        link.execute("CHECKPOINT")
        worker = subprocess.Popen(
            [sys.executable, "-m", "bench.peers", name, "--url", url, "--work"],
            stdout=subprocess.DEVNULL,
        )
        try:
            warm = warm_up()
            peer.tell(url, warm)
            _until_done(link, peer.PENDING, worker)
            deliveries = events(n)
            began = time.time()
            peer.tell(url, deliveries)
            _until_done(link, peer.PENDING, worker)
            seconds = time.time() - began
        finally:
            _end(worker)
        found = link.execute("SELECT key, count FROM effects").fetchall()
    counted = count(ids([*warm, *deliveries]), found)
    return {"seconds": seconds, "lost": counted.lost, "double": counted.double}


def _until_done(link: psycopg.Connection, pending: str, worker: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < until:
        row = link.execute(f"SELECT EXISTS ({pending})").fetchone()  # pyright: ignore
        if row == (False,):
            return
        if worker.poll() is not None:
            raise Stopped(f"the worker ended with {worker.returncode}")
        time.sleep(LOOK_SECONDS)
    raise Stopped(f"not done within {TIMEOUT_SECONDS:g} s")


def _end(worker: subprocess.Popen[bytes]) -> None:
    worker.terminate()
    try:
        worker.wait(5)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()
