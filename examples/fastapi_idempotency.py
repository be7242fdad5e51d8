"""A FastAPI app whose orders count once per Idempotency-Key.

    CREATE TABLE orders (id serial PRIMARY KEY, item text NOT NULL, pieces int NOT NULL);
    export HEADGATE_DATABASE_URL=postgresql://…    # where that table is; the same for every server
    uvicorn fastapi_idempotency:app

    curl -i localhost:8000/orders -H 'Idempotency-Key: 8e03978e' \\
         -H 'Content-Type: application/json' -d '{"item": "book", "pieces": 1}'

Send it twice: the second answer is the first one's, with `Idempotent-Replayed: true`, and there is
one order.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, HTTPException, Request
from pydantic import BaseModel

import headgate as hg

app = FastAPI()
app.add_middleware(hg.IdempotencyMiddleware, name="shop", required=True)


class Order(BaseModel):
    item: str
    pieces: int


@app.post("/orders", status_code=201)
async def order(request: Request, wanted: Order) -> dict[str, Any]:
    """The order and its answer are one commit: a server that dies leaves neither or both."""
    tx = request.state.operation.tx
    number = await tx.fetchval(
        "INSERT INTO orders (item, pieces) VALUES ($1, $2) RETURNING id", wanted.item, wanted.pieces
    )
    return {"order": number, "item": wanted.item}


@app.post("/orders/{number}/cancel")
def cancel(request: Request, number: int) -> dict[str, Any]:
    """A plain `def` works too: it runs in a thread, and there `tx` is not awaited."""
    tx = request.state.operation.tx
    if tx.execute("DELETE FROM orders WHERE id = $1", number) == "DELETE 0":
        raise HTTPException(404, "no such order")
    return {"cancelled": number}
