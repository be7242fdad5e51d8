"""A Celery task that charges an order once, though Celery may deliver it twice.

    CREATE TABLE payments (order_id text PRIMARY KEY, cents bigint NOT NULL, receipt text NOT NULL);
    export HEADGATE_DATABASE_URL=postgresql://…    # where that table is; the same on every worker
    celery -A celery_task worker

`acks_late` makes Celery deliver a task again when its worker dies. `hg.once` makes that safe: the
payment and the record that it was made are one commit, and the bank is asked with one key.
"""

from __future__ import annotations

import os
from typing import Any

import headgate as hg


def ask_bank(key: str, order_id: str, cents: int) -> str:
    """Your payment provider. It takes an idempotency key, so asking twice charges once."""
    return f"receipt-{order_id}-{cents}-{key[:8]}"


@hg.once("charge", key="order_id")
def charge(order_id: str, cents: int, op: Any = None) -> dict[str, Any]:
    """Charge an order. `op` is given by `hg.once`; callers leave it out."""
    # Outside Postgres, so a step of its own: a retry after a crash asks with the same key.
    receipt = op.call("bank", lambda key: ask_bank(key, order_id, cents))
    op.tx.execute("INSERT INTO payments VALUES ($1, $2, $3)", order_id, cents, receipt)
    return {"order": order_id, "receipt": receipt}


try:
    from celery import Celery
except ImportError:  # without Celery it is a function like any other
    Celery = None

if Celery:
    app = Celery("shop", broker=os.environ.get("CELERY_BROKER_URL", "memory://"))

    @app.task(
        name="shop.charge",
        acks_late=True,
        reject_on_worker_lost=True,
        # Nothing was done: the ledger is away, or another worker is at it.
        autoretry_for=(hg.Retryable,),
        retry_backoff=True,
    )
    def charge_order(order_id: str, cents: int) -> dict[str, Any]:
        return charge(order_id, cents)
