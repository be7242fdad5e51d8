"""DBOS: the event's id is the workflow's, so it dedupes by itself; the effect is a transaction.

A thousand enqueues share one transaction, sixteen threads run the workflows, and the effect commits
together with the checkpoint of its step.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, SQLAlchemyDatasource

from bench.job import Event, batches

THREADS = 16
POLL_SECONDS = 0.01
EFFECT = (
    "INSERT INTO effects (key, count, etype, t_enq) VALUES (:key, 1, :etype, :t)"
    " ON CONFLICT (key) DO UPDATE SET count = effects.count + 1"
)


def _config(url: str) -> DBOSConfig:
    return {
        "name": "bench",
        "system_database_url": url,
        "sys_db_pool_size": 20,
        "log_level": "ERROR",
        "application_version": "1",
        "max_executor_threads": THREADS,
    }


def _driven(url: str) -> str:
    return url.replace("postgresql://", "postgresql+psycopg://")


class Dbos:
    PENDING = "SELECT FROM dbos.workflow_status WHERE status IN ('ENQUEUED', 'PENDING')"

    def install(self, url: str) -> None:
        DBOS(config=_config(url))
        DBOS.launch()
        DBOS.destroy()

    def tell(self, url: str, deliveries: Sequence[Event]) -> None:
        engine = sa.create_engine(_driven(url), pool_size=4)
        client = DBOSClient(system_database_url=url, system_database_engine=engine)
        for batch in batches(deliveries):
            with engine.begin() as link:
                for event in batch:
                    client.enqueue_in_transaction(
                        link,
                        {
                            "workflow_name": "handle",
                            "queue_name": "events",
                            "workflow_id": event.id,
                            "app_version": "1",
                        },
                        event.body(time.time()),
                    )
        client.destroy()
        engine.dispose()

    def work(self, url: str) -> None:
        DBOS(config=_config(url))
        pool: dict[str, Any] = {"pool_size": THREADS, "max_overflow": 5}
        source = SQLAlchemyDatasource.create(url, engine_kwargs=pool)
        statement = sa.text(EFFECT)

        @source.transaction(isolation_level="READ COMMITTED")
        def effect(key: str, etype: str, t: float) -> None:
            source.sql_session().execute(statement, {"key": key, "etype": etype, "t": t})

        @DBOS.workflow(name="handle")
        def handle(told: dict[str, Any]) -> None:
            effect(told["id"], told["type"], told["t"])

        DBOS.launch()
        # Without a limit of its own the queue hands out more at a time; the threads are the limit.
        DBOS.register_queue("events", polling_interval_sec=POLL_SECONDS)
        threading.Event().wait()


PEER = Dbos()
