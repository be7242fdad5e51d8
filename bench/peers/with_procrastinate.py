"""procrastinate on psycopg: a thousand jobs per defer, twenty at a time, finished ones deleted.

Its `queueing_lock` covers jobs that still wait, so a lasting gate stands before the effect.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

import procrastinate
import psycopg_pool

from bench.job import Event, batches

from .contest import GATED

EFFECT = GATED.format("%s", "%s::text", "%s::float8")
CONCURRENCY = 20


def _app(url: str) -> procrastinate.App:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=CONCURRENCY)
    return procrastinate.App(connector=connector)


class Procrastinate:
    PENDING = "SELECT FROM procrastinate_jobs WHERE status IN ('todo', 'doing')"

    def install(self, url: str) -> None:
        async def go() -> None:
            async with _app(url).open_async() as app:
                await app.schema_manager.apply_schema_async()

        asyncio.run(go())

    def tell(self, url: str, deliveries: Sequence[Event]) -> None:
        async def go() -> None:
            async with _app(url).open_async() as app:
                task = app.configure_task("handle", queue="default", allow_unknown=True)
                for batch in batches(deliveries):
                    await task.batch_defer_async(*(e.body(time.time()) for e in batch))

        asyncio.run(go())

    def work(self, url: str) -> None:
        logging.disable(logging.INFO)
        app = _app(url)

        async def go() -> None:
            pool = psycopg_pool.AsyncConnectionPool(
                url,
                min_size=CONCURRENCY,
                max_size=CONCURRENCY,
                kwargs={"autocommit": True},
                open=False,
            )

            @app.task(name="handle", queue="default")
            async def handle(id: str, type: str, payload: dict[str, Any], t: float) -> None:
                async with pool.connection() as link:
                    await link.execute(EFFECT, (id, type, t), prepare=True)

            async with pool, app.open_async():
                await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful")

        asyncio.run(go())


PEER = Procrastinate()
