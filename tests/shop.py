"""A shop on FastAPI whose orders count once per Idempotency-Key.

Tests run it in their own process (`serving`), or in others that they kill
(`python -m uvicorn tests.shop:app`).
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import BackgroundTasks, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

import headgate as hg
from headgate.model import crash
from headgate.model.operation import Moment

ORDER = "INSERT INTO orders (item) VALUES ($1)"


class Gate:
    """Where a handler waits until the test lets it go on."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.opened = asyncio.Event()

    async def pass_through(self) -> None:
        self.entered.set()
        await self.opened.wait()


def make(gate: Gate | None = None, *, between: bool = False, **how: Any) -> FastAPI:
    """The shop. `how` is what its middleware is told, which may be `between` others."""
    shop = FastAPI()
    if between:
        shop.middleware("http")(_pass_on)
    shop.add_middleware(hg.IdempotencyMiddleware, name="shop", **how)
    if between:
        shop.middleware("http")(_pass_on)
    shop.state.told = []

    @shop.post("/orders", status_code=201)
    async def order(request: Request, response: Response) -> dict[str, Any]:
        item = (await request.json())["item"]
        if moment := request.headers.get("x-die"):
            crash.arm(Moment(moment), lambda: os.kill(os.getpid(), signal.SIGKILL))
        op = request.state.operation
        await op.tx.execute(ORDER, item)
        if "wait" in request.query_params:
            assert gate is not None
            await gate.pass_through()
        response.headers["x-shop"] = "ours"
        response.set_cookie("basket", "1")
        return {"item": item, "by": os.getpid(), "attempt": op.attempt}

    @shop.post("/plain", status_code=201)
    def plain(request: Request) -> dict[str, Any]:
        op = request.state.operation
        op.tx.execute(ORDER, "plain")
        rung = op.call("ring", lambda: "rung")
        return {"orders": op.tx.fetchval("SELECT count(*) FROM orders"), "rung": rung}

    @shop.post("/answer/{status}")
    async def answer(request: Request, status: int) -> Response:
        await request.state.operation.tx.execute(ORDER, str(status))
        if status == 204:
            return Response(status_code=204)
        return JSONResponse({"attempt": request.state.operation.attempt}, status)

    @shop.post("/raise/{what}")
    async def raises(request: Request, what: str) -> Response:
        await request.state.operation.tx.execute(ORDER, what)
        if request.state.operation.attempt > 1:
            return Response("served")
        if what == "http":
            raise HTTPException(503, "away")
        raise ZeroDivisionError

    @shop.post("/late")
    async def late(request: Request) -> Response:
        """Its SQL fails when it is committed, after the answer is made."""
        request.state.operation.tx.later("INSERT INTO orders (item) VALUES (NULL)")
        return Response("made")

    @shop.post("/stream")
    async def stream(request: Request) -> StreamingResponse:
        await request.state.operation.tx.execute(ORDER, "stream")

        async def pieces() -> AsyncIterator[bytes]:
            yield b"first "
            assert gate is not None
            await gate.pass_through()
            yield b"last"

        return StreamingResponse(pieces())

    @shop.post("/large/{size}")
    async def large(request: Request, size: int) -> Response:
        await request.state.operation.tx.execute(ORDER, "large")
        return Response(b"x" * size)

    @shop.post("/after")
    async def after(request: Request, tasks: BackgroundTasks) -> str:
        await request.state.operation.tx.execute(ORDER, "after")
        tasks.add_task(lambda: shop.state.told.append("after"))
        return "soon"

    @shop.api_route("/free", methods=["GET", "POST", "PUT"])
    async def free(request: Request) -> str:
        shop.state.told.append(request.method)
        return "with" if request.state.operation else "without"

    return shop


async def _pass_on(request: Request, call_next: Any) -> Response:
    """The framework's own middleware: it makes a stream of every answer."""
    return await call_next(request)


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """A real server for it on this event loop: its address."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        running = asyncio.create_task(server.serve([listening]))
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


app = make()
