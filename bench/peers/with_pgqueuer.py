"""pgqueuer on asyncpg: lists of a thousand in, batches of five hundred out, uvloop.

Its `dedupe_key` covers jobs that are still there, so a lasting gate stands before the effect.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.job import Event, batches

from .contest import GATED

EFFECT = GATED.format("$1", "$2::text", "$3::float8")
CONCURRENCY = 500


class Pgqueuer:
    PENDING = "SELECT FROM pgqueuer"

    def install(self, url: str) -> None:
        async def go() -> None:
            link = await asyncpg.connect(url)
            await Queries(AsyncpgDriver(link)).install()
            await link.close()

        uvloop.run(go())

    def tell(self, url: str, deliveries: Sequence[Event]) -> None:
        async def go() -> None:
            link = await asyncpg.connect(url)
            queries = Queries(AsyncpgDriver(link))
            for batch in batches(deliveries):
                told: list[bytes | None] = [json.dumps(e.body(time.time())).encode() for e in batch]
                await queries.enqueue(["handle"] * len(told), told, [0] * len(told))
            await link.close()

        uvloop.run(go())

    def work(self, url: str) -> None:
        async def go() -> None:
            jobs = await asyncpg.create_pool(url, min_size=10, max_size=20)
            effects = await asyncpg.create_pool(url, min_size=20, max_size=20)
            queue = PgQueuer(AsyncpgPoolDriver(jobs))

            @queue.entrypoint("handle")
            async def handle(job: Job) -> None:
                told = json.loads(job.payload or b"{}")
                await effects.execute(EFFECT, told["id"], told["type"], told["t"])

            await queue.run(batch_size=CONCURRENCY)

        uvloop.run(go())


PEER = Pgqueuer()
